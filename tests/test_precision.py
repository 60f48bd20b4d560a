# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Low precision: softmax, LayerNorm statistics and loss are computed in fp32, with autocast and
without it.
"""

import pytest
import torch
from operations import Operations
from tiny import make_model

from vaswani_transformer.loss_vaswani_transformer import fused_translation_loss, translation_loss
from vaswani_transformer.modeling_vaswani_transformer import scaled_dot_product_attention

SENSITIVE = ("._softmax", "log_softmax", "aten.exp_", "aten.log.", "layer_norm", "nll_loss")
each_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
each_loss = pytest.mark.parametrize("return_logits", [True, False], ids=["logits", "fused"])


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    source, labels = (torch.randint(3, 300, (4, length), generator=generator) for length in (9, 7))
    mask = torch.ones_like(source)
    mask[0, 6:], labels[1, 4:] = 0, -100
    return {
        "input_ids": source,
        "attention_mask": mask,
        "labels": labels,
        "label_smoothing_factor": 0.1,
        "use_cache": False,
    }


def loss_and_gradients(model, batch, dtype):
    """Loss and gradients of a training step, under autocast of a dtype, or without it for None."""
    model.train().zero_grad()
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        loss = model(**batch).loss
    loss.backward()
    return loss.detach(), {
        name: parameter.grad.clone() for name, parameter in model.named_parameters()
    }


@each_dtype
@each_loss
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_softmax_norms_and_loss_see_only_fp32_under_autocast(
    batch, dtype, return_logits, attention
):
    model = make_model()
    model.set_attn_implementation(attention)
    with Operations() as operations:
        loss, _ = loss_and_gradients(model, {**batch, "return_logits": return_logits}, dtype)
    used = {"layer_norm"} | ({"._softmax"} if attention == "eager" else set())
    used |= {"log_softmax", "nll_loss"} if return_logits else {"aten.exp_", "aten.log."}
    seen = set()
    for function, args, *_ in operations.calls:
        dtypes = {arg.dtype for arg in args if torch.is_tensor(arg) and arg.is_floating_point()}
        seen |= {(name, dtype) for name in SENSITIVE if name in str(function) for dtype in dtypes}
    assert seen == {(name, torch.float32) for name in used}
    assert loss.dtype == torch.float32


@each_dtype
def test_sdpa_under_autocast_weighs_in_fp32(dtype):
    """Scores of 100 to 107 in steps of 0.25, where bf16 knows only steps of 0.5, and 1,000 keys,
    which fp16 cannot sum beyond 2,048 nor bf16 beyond 256. The first head reads keys in the first
    eight features, values in the others."""
    layer = make_model(attn_implementation="sdpa").model.encoder.layers[0].self_attn
    layer.scaling = 1.0
    with torch.no_grad():
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
            projection.weight.copy_(torch.eye(16))
        layer.v_proj.weight.copy_(torch.eye(16).roll(8, dims=0))
    steps = 100 + torch.arange(1000).remainder(29) * 0.25
    states, query = torch.zeros(1, 1000, 16), torch.zeros(1, 1, 16)
    states[..., 0], states[..., 1] = steps.floor(), steps.remainder(1)  # both exact in bf16
    states[..., 8:], query[..., :2] = torch.randn(1, 1000, 8), 1.0
    with torch.autocast("cpu", dtype=dtype):
        found, _ = layer(query, key_value_states=states)
    expected = steps.double().softmax(dim=0) @ states[0, :, 8:].to(dtype).double()
    assert found.dtype == dtype
    torch.testing.assert_close(found[0, 0, :8].double(), expected, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("fused", [True, False])
def test_loss_of_large_logits_is_that_of_float64_under_autocast(fused):
    """Logits of hundreds, of which a bf16 log-softmax keeps less than one decimal."""
    generator = torch.Generator().manual_seed(0)
    states, weight = (
        torch.randn(2, 9, 16, generator=generator),
        40 * torch.randn(50, 16, generator=generator),
    )
    labels = torch.randint(0, 50, (2, 9), generator=generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = states @ weight.T
        arguments = (states, weight) if fused else (logits,)
        loss, nll = (fused_translation_loss if fused else translation_loss)(*arguments, labels, 0.1)
    exact = logits.double().log_softmax(dim=-1)
    right = -exact.gather(2, labels.unsqueeze(2)).mean()
    rough = -logits.log_softmax(dim=-1).bfloat16().double().gather(2, labels.unsqueeze(2)).mean()
    assert logits.dtype == torch.bfloat16 and logits.abs().max() > 200
    assert nll.item() == pytest.approx(right.item(), rel=1e-5)
    assert loss.item() == pytest.approx(0.9 * right.item() - 0.1 * exact.mean().item(), rel=1e-5)
    assert rough.item() != pytest.approx(right.item(), rel=1e-5)


@each_dtype
@each_loss
def test_autocast_gives_the_loss_and_gradients_of_fp32_within_its_error(
    batch, dtype, return_logits
):
    model, batch = make_model(scale=2.0), {**batch, "return_logits": return_logits}
    loss, gradients = loss_and_gradients(model, batch, dtype)
    expected_loss, expected = loss_and_gradients(model, batch, None)
    error = 0.1 if dtype == torch.bfloat16 else 0.02
    assert loss.item() == pytest.approx(expected_loss.item(), rel=2**-7)
    for name, gradient in gradients.items():
        assert gradient.dtype == torch.float32
        assert (gradient - expected[name]).norm() <= error * expected[name].norm(), name


@each_dtype
def test_eager_softmax_of_a_model_in_low_precision_sums_in_fp32(dtype):
    model = make_model().to(dtype)
    attention = model.model.encoder.layers[0].self_attn
    q, k = torch.zeros(1, 1, 1, 8, dtype=dtype), torch.zeros(1, 1, 5000, 8, dtype=dtype)
    _, weights = scaled_dot_product_attention(attention, q, k, k, None, 1.0)
    assert weights.unique().tolist() == [torch.tensor(1 / 5000).to(dtype).item()]


@each_dtype
def test_layer_norm_of_a_model_in_low_precision_has_fp32_statistics(dtype):
    norm = make_model().to(dtype).model.encoder.layers[0].final_layer_norm
    states = (200 + torch.randn(5, 16, generator=torch.Generator().manual_seed(0))).to(dtype)
    centred = states.double() - states.double().mean(dim=1, keepdim=True)
    expected = centred / (centred.square().mean(dim=1, keepdim=True) + norm.eps).sqrt()
    torch.testing.assert_close(norm(states).double(), expected, rtol=0.01, atol=0.01)


@each_dtype
@each_loss
def test_loss_of_a_model_in_low_precision_is_fp32(batch, dtype, return_logits):
    output = make_model().to(dtype)(**batch, return_logits=return_logits)
    assert output.loss.dtype == output.nll.dtype == torch.float32


@each_dtype
@pytest.mark.parametrize("autocast", [False, True])
def test_search_sums_log_probabilities_of_low_precision_in_fp32(dtype, autocast):
    """Sums of 10 to 20, which bf16 would round to multiples of 0.06 or 0.13, fp16 of 0.008 or
    0.016.
    """
    model = make_model(scale=3.0) if autocast else make_model(scale=3.0).to(dtype)
    source = torch.randint(3, 300, (3, 7), generator=torch.Generator().manual_seed(0))
    options = {"max_new_tokens": 12, "min_new_tokens": 12, "length_penalty": 0.0, "num_beams": 4}
    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        found = model.generate(
            source, **options, return_dict_in_generate=True, output_scores=True, output_logits=True
        )
    rows = found.beam_indices
    expected = [
        sum(
            found.logits[step][rows[index, step]].double().log_softmax(0)[token]
            for step, token in enumerate(tokens)
        )
        for index, tokens in enumerate(found.sequences[:, 1:])
    ]
    assert found.sequences_scores.dtype == torch.float32
    torch.testing.assert_close(
        found.sequences_scores.double(), torch.stack(expected), rtol=1e-6, atol=0
    )
