# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The fused loss: the same numbers and gradients as from logits, and where it steps aside."""

import pytest
import torch
from operations import Operations
from tiny import make_model
from torch import nn

from vaswani_transformer import loss_vaswani_transformer as losses
from vaswani_transformer.loss_vaswani_transformer import (
    can_fuse,
    fused_translation_loss,
    translation_loss,
)

V, D = 11, 6


@pytest.fixture
def drawn():
    """States (3, 5, D), weight (V, D) and labels with places to ignore, in float64."""
    torch.manual_seed(0)
    labels = torch.randint(0, V, (3, 5))
    labels[0, 3:] = labels[2, 4:] = losses.IGNORE_INDEX
    return torch.randn(3, 5, D, dtype=torch.float64), torch.randn(V, D, dtype=torch.float64), labels


def with_gradients(loss_of, states, weight):
    states, weight = states.clone().requires_grad_(), weight.clone().requires_grad_()
    loss, nll = loss_of(states, weight)
    (2.5 * loss).backward()
    return loss, nll, states.grad, weight.grad


@pytest.mark.filterwarnings("error")
# 1, 2, 5 rows a chunk, and all of them
@pytest.mark.parametrize("chunk_logits", [1, 2 * V, 5 * V + 3, 10_000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("num_items", [None, 7, torch.tensor(29)])
# padding is kept where a graph is compiled, and on GPUs
@pytest.mark.parametrize("compiled", [False, True])
def test_fused_loss_and_gradients_equal_those_from_logits(
    drawn, monkeypatch, chunk_logits, smoothing, num_items, compiled
):
    monkeypatch.setattr(losses, "_CHUNK_LOGITS", chunk_logits)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiled)
    states, weight, labels = drawn
    expected = with_gradients(
        lambda h, w: translation_loss(h @ w.T, labels, smoothing, num_items), states, weight
    )
    got = with_gradients(
        lambda h, w: fused_translation_loss(h, w, labels, smoothing, num_items), states, weight
    )
    for own, other in zip(got, expected, strict=True):
        assert own is other is None or torch.allclose(own, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("needs_grad", [(True, True), (True, False), (False, True)])
def test_a_graph_knows_the_shapes_of_the_operator_beforehand(drawn, needs_grad):
    states, weight, labels = drawn
    arguments = states[0].float(), weight.float(), labels[0], 0.1, list(needs_grad)
    torch.library.opcheck(losses._opaque_loss_and_gradients, arguments)


def largest(operations):
    return max(result.numel() for *_, result in operations.calls if torch.is_tensor(result))


def num_products(operations):
    names = [function.overloadpacket.__name__ for function, *_ in operations.calls]
    return sum(name in ("mm", "addmm", "addmm_") for name in names)


@pytest.mark.parametrize("chunk_logits", [1, 2 * V, 5 * V + 3, 10_000])
def test_fused_loss_holds_the_logits_of_one_chunk_at_a_time(drawn, monkeypatch, chunk_logits):
    monkeypatch.setattr(losses, "_CHUNK_LOGITS", chunk_logits)
    states, weight, labels = drawn
    with Operations() as operations:
        fused_translation_loss(states.requires_grad_(), weight.requires_grad_(), labels, 0.1)
    num_tokens = int((labels != losses.IGNORE_INDEX).sum())
    rows = min(max(1, chunk_logits // V), num_tokens)
    # logits of a chunk, or gradients of the states
    assert largest(operations) == max(rows * V, num_tokens * D)
    assert num_products(operations) == 3 * -(-num_tokens // rows)


@pytest.mark.parametrize("frozen", ["states", "weight"])
def test_fused_loss_computes_no_gradient_of_what_is_frozen(drawn, frozen):
    states, weight, labels = drawn
    frozen, learning = (states, weight) if frozen == "states" else (weight, states)
    learning.requires_grad_()
    expected = torch.autograd.grad(translation_loss(states @ weight.T, labels, 0.1)[0], learning)[0]
    with Operations() as operations:
        loss, _ = fused_translation_loss(states, weight, labels, 0.1)
    loss.backward()
    assert num_products(operations) == 2  # the logits, one gradient
    assert frozen.grad is None
    assert torch.allclose(learning.grad, expected, rtol=1e-12, atol=1e-14)


def test_a_negative_label_that_is_not_the_ignored_one_is_refused(drawn):
    states, weight, labels = drawn
    labels[0, 0] = -1
    with pytest.raises(RuntimeError, match="out of bounds"):
        fused_translation_loss(states, weight, labels, 0.1)


def test_fused_loss_refuses_second_derivatives(drawn):
    states, weight, labels = drawn
    loss, _ = fused_translation_loss(states.requires_grad_(), weight, labels, 0.1)
    with pytest.raises(RuntimeError, match="has no second derivatives"):
        torch.autograd.grad(loss, states, create_graph=True)


@pytest.mark.parametrize("is_frozen", [True, False])
def test_fused_loss_computes_no_gradient_when_nothing_learns(drawn, is_frozen):
    drawn[1].requires_grad_(not is_frozen)
    with Operations() as operations, torch.set_grad_enabled(is_frozen):
        fused_translation_loss(*drawn, 0.1)
    assert num_products(operations) == 1
    # which turns probabilities into a gradient
    assert not any("scatter_add_" in name for name in operations.names())


@pytest.mark.parametrize("fused", [False, True])
def test_only_the_smoothed_loss_carries_gradients(drawn, fused):
    states, weight, labels = drawn
    weight.requires_grad_()
    arguments = (states, weight, labels) if fused else (states @ weight.T, labels)
    loss, nll = (fused_translation_loss if fused else translation_loss)(*arguments, 0.1)
    assert loss.requires_grad and not nll.requires_grad


def test_nothing_is_smoothed_unless_asked_for(drawn):
    states, weight, labels = drawn
    for loss, nll in (
        translation_loss(states @ weight.T, labels),
        fused_translation_loss(states, weight, labels),
    ):
        expected = nn.functional.cross_entropy((states @ weight.T).flatten(0, 1), labels.flatten())
        assert torch.allclose(loss, expected, rtol=1e-12) and nll is None


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("infinity", [torch.inf, -torch.inf])
def test_infinite_logits_of_ignored_positions_change_the_loss_no_more_than_torchs(
    drawn, infinity, smoothing
):
    """Gradients, too: of a row with +inf torch makes NaN itself."""
    states, weight, labels = drawn
    logits = states @ weight.T
    logits[labels == losses.IGNORE_INDEX, 3] = infinity
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss, _ = translation_loss(ours, labels, smoothing)
    expected = nn.functional.cross_entropy(
        theirs.flatten(0, 1), labels.flatten(), label_smoothing=smoothing
    )
    loss.backward()
    expected.backward()
    assert loss.isfinite()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.grad, theirs.grad, equal_nan=True)


@pytest.fixture
def memory_begins_as_nan():
    """Lets torch fill new memory with NaN, so that nothing stays unwritten unseen."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("memory_begins_as_nan")
@pytest.mark.parametrize("fused", [False, True])
def test_loss_of_nothing_is_zero(drawn, fused):
    states, weight, labels = drawn
    nothing = torch.full_like(labels, losses.IGNORE_INDEX)
    inputs = states.requires_grad_(), weight.requires_grad_()
    if fused:
        loss, _ = fused_translation_loss(*inputs, nothing, 0.1)
    else:
        loss, _ = translation_loss(states @ weight.T, nothing, 0.1)
    loss.backward()
    assert loss.item() == 0.0
    assert not states.grad.any()
    assert not weight.grad.any()


@pytest.mark.parametrize("autocast", [False, True])
def test_fused_loss_in_bf16_is_near_that_in_fp32(drawn, autocast):
    states, weight, labels = drawn
    dtype = torch.float32 if autocast else torch.bfloat16
    expected = with_gradients(
        lambda h, w: translation_loss(h @ w.T, labels, 0.1), states.float(), weight.float()
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got = with_gradients(
            lambda h, w: fused_translation_loss(h, w, labels, 0.1),
            states.to(dtype),
            weight.to(dtype),
        )
    assert got[0].dtype == torch.float32
    assert (got[2].dtype, got[3].dtype) == (dtype, dtype)
    for own, other in zip(got, expected, strict=True):
        assert torch.allclose(own.float(), other, rtol=0.05, atol=0.02)


def test_fused_gradients_of_many_chunks_in_bf16_are_summed_in_fp32(monkeypatch):
    torch.manual_seed(0)
    states, weight, labels = torch.randn(1, 400, D), torch.randn(V, D), torch.randint(V, (1, 400))
    states, weight = states.bfloat16(), weight.bfloat16()
    expected = with_gradients(
        lambda h, w: translation_loss(h @ w.T, labels, 0.1), states.double(), weight.double()
    )
    monkeypatch.setattr(losses, "_CHUNK_LOGITS", 2 * V)
    got = with_gradients(lambda h, w: fused_translation_loss(h, w, labels, 0.1), states, weight)
    error = (got[3].double() - expected[3]).norm() / expected[3].norm()
    # of one rounding; every chunk's rounded sum would make it several times as large
    assert error < 0.005


# ---- in the model ----


def model_gradients(model, batch, **options):
    model.zero_grad()
    out = model(**batch, label_smoothing_factor=0.1, num_items_in_batch=5, **options)
    out.loss.backward()
    return out, [parameter.grad.clone() for parameter in model.parameters()]


def test_model_without_logits_learns_the_same(tiny_batch):
    model = make_model().double()
    expected, expected_grads = model_gradients(model, tiny_batch)
    got, got_grads = model_gradients(model, tiny_batch, return_logits=False)
    assert got.logits is None and expected.logits is not None
    torch.testing.assert_close(
        [got.loss, got.nll], [expected.loss, expected.nll], rtol=1e-12, atol=0
    )
    torch.testing.assert_close(got_grads, expected_grads, rtol=1e-9, atol=1e-13)


def test_model_returns_logits_unless_it_has_labels(tiny_batch):
    labels = tiny_batch.pop("labels").clamp(min=0)
    assert (
        make_model()(**tiny_batch, decoder_input_ids=labels, return_logits=False).logits is not None
    )


class Scaled(nn.Module):
    def forward(self, weight):
        return 2 * weight


class OtherLinear(nn.Linear):
    pass


def hooked(head):
    head.register_forward_hook(lambda module, args, output: output * 2)


def parametrised(head):
    nn.utils.parametrize.register_parametrization(head, "weight", Scaled())


def patched(head):
    head.forward = lambda states: states


def of_another_class(head):
    head.__class__ = OtherLinear


def biased(head):
    head.bias = nn.Parameter(torch.zeros(V))


@pytest.mark.parametrize("change", [hooked, parametrised, patched, of_another_class, biased])
def test_heads_that_are_more_than_a_matrix_are_called(change):
    head = nn.Linear(D, V, bias=False)
    assert can_fuse(head)
    change(head)
    assert not can_fuse(head)


def test_model_with_an_adapted_head_gives_its_loss_without_fusing(tiny_batch):
    model = make_model()
    plain = model(**tiny_batch, return_logits=False).loss
    model.lm_head.register_forward_hook(lambda module, args, output: output * 2)
    adapted = model(**tiny_batch, return_logits=False)
    assert adapted.logits is not None
    assert not torch.allclose(adapted.loss, plain)
