# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from vaswani_transformer.cpu_kernels_vaswani_transformer import Dropout


@pytest.fixture
def ones():
    torch.manual_seed(0)
    return torch.ones(401, 1001, dtype=torch.float64)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
def test_dropout_zeroes_a_share_of_elements_at_every_place_of_a_random_word(ones, rate):
    dropped = Dropout(rate)(ones).flatten().eq(0).double()
    shares = torch.stack([dropped[place::4].mean() for place in range(4)])
    deviation = (rate * (1 - rate) / (len(dropped) / 4)) ** 0.5
    assert (shares - rate).abs().max() < 5 * deviation


def test_dropout_is_independent_between_neighbours(ones):
    dropped = Dropout(0.3)(ones).flatten().eq(0).double()
    pairs = torch.stack(
        [(dropped[:-shift] * dropped[shift:]).mean() for shift in (1, 2, 3, 4, 8, 1001)]
    )
    assert (pairs - 0.09).abs().max() < 5 * (0.09 * 0.91 / len(dropped)) ** 0.5


def test_dropout_scales_what_it_keeps_by_the_rounded_rate(ones):
    kept = round(0.9 * 65536) / 65536
    assert sorted(Dropout(0.1)(ones).unique().tolist()) == [0.0, pytest.approx(1 / kept, rel=1e-15)]


def test_dropouts_gradient_is_its_mask_times_the_scale(ones):
    states = (ones * 3).requires_grad_()
    out = Dropout(0.2)(states)
    (out * 5).sum().backward()
    torch.testing.assert_close(states.grad, out.detach() / 3 * 5)


@pytest.mark.parametrize("rate", [0.0, 0.2])
@pytest.mark.parametrize("training", [True, False])
def test_dropout_adds_a_residual_to_what_it_gives_without_one(ones, rate, training):
    layer = Dropout(rate).train(training)
    states, residual = (ones * 3).requires_grad_(), (ones * 7).requires_grad_()
    torch.manual_seed(5)
    expected = residual + layer(states)
    expected_grads = torch.autograd.grad((expected * 5).sum(), (states, residual))
    torch.manual_seed(5)
    out = layer(states, residual=residual)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(
        torch.autograd.grad((out * 5).sum(), (states, residual)), expected_grads
    )


def test_dropout_works_where_its_input_is_whatever_the_default_device(ones):
    torch.manual_seed(5)
    expected = Dropout(0.2)(ones)
    torch.manual_seed(5)
    with torch.device("meta"):
        assert torch.equal(Dropout(0.2)(ones), expected)


def test_dropout_adds_in_the_wider_type_and_gives_each_input_a_gradient_of_its_own(ones):
    states, residual = ones.bfloat16().requires_grad_(), ones.float().requires_grad_()
    out = Dropout(0.2)(states, residual=residual)
    assert out.dtype == torch.float32
    assert sorted(out.unique().tolist()) == pytest.approx([1.0, 2.25], rel=1e-4)
    out.sum().backward()
    assert (states.grad.dtype, residual.grad.dtype) == (torch.bfloat16, torch.float32)
    assert residual.grad.eq(1).all()


def test_dropout_repeats_with_its_seed(ones):
    torch.manual_seed(3)
    first = Dropout(0.5)(ones)
    torch.manual_seed(3)
    assert torch.equal(Dropout(0.5)(ones), first)
    assert not torch.equal(Dropout(0.5)(ones), first)


def test_dropout_takes_tensors_that_are_not_contiguous(ones):
    dropped = Dropout(0.5)(ones.T)
    assert dropped.shape == ones.T.shape
    assert dropped.unique().tolist() == [0.0, 2.0]


@pytest.mark.parametrize("rate", [0.0, 1e-7])
def test_dropout_keeps_all_at_a_rate_that_is_next_to_nothing(ones, rate):
    assert (Dropout(rate)(ones) - ones).abs().max() < 1e-6


def test_dropout_changes_nothing_outside_training(ones):
    assert Dropout(0.5).eval()(ones) is ones


def test_dropout_keeps_one_byte_an_element_for_the_backward_pass(ones):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor
    ):
        Dropout(0.1)(ones.requires_grad_())
    assert [tensor.dtype for tensor in saved] == [torch.bool]
