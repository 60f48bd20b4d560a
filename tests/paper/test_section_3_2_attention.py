# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 3.2: numbers worked out by hand, masks and heads, through the real attention.

The paper writes x W, torch's linear layers hold W transposed. Expected numbers are those of the
notes, rounded there to two digits.
"""

import pytest
import torch
from tiny import make_config, make_model
from torch.utils.flop_counter import FlopCounterMode

from vaswani_transformer import VaswaniTransformerConfig
from vaswani_transformer.modeling_vaswani_transformer import (
    MultiHeadAttention,
    scaled_dot_product_attention,
)

PRINTED = {"rtol": 0, "atol": 0.005}
BACKENDS = ["eager", "sdpa"]


def make_attention(w_q, w_k, w_v, w_o, num_heads=1, backend="eager"):
    """A real attention layer in float64 that holds the paper's four matrices."""
    w_q, w_k, w_v, w_o = (torch.tensor(w, dtype=torch.float64) for w in (w_q, w_k, w_v, w_o))
    sizes = {
        "d_model": w_q.shape[0],
        "d_k": w_q.shape[1] // num_heads,
        "d_v": w_v.shape[1] // num_heads,
    }
    layer = MultiHeadAttention(
        make_config(num_heads=num_heads, attn_implementation=backend, **sizes)
    ).double()
    with torch.no_grad():
        layer.q_proj.weight.copy_(w_q.T)
        layer.k_proj.weight.copy_(w_k.T)
        layer.v_proj.weight.copy_(w_v.T)
        layer.out_proj.weight.copy_(w_o.T)
    return layer


def scaled_scores(layer, q, k):
    """The real function's scores, read off its weights: a further key of zeros has the score 0."""
    k = torch.nn.functional.pad(k, (0, 0, 1, 0))
    _, weights = scaled_dot_product_attention(layer, q, k, k, None, scaling=layer.scaling)
    return (weights[..., 1:] / weights[..., :1]).log()


# ------------------------------------------------------------------------- one head (section 3.2.1)

X = torch.tensor([[[1.0, 1.0], [1.0, 0.0]]]).double()
W_Q = [[1.0, 1.0], [0.0, 1.0]]
X_INVERSE = [[0.0, 1.0], [1.0, -1.0]]  # makes K and V the identity
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
SOFTMAX = torch.tensor([[0.33, 0.67], [0.50, 0.50]]).double()


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_head_has_the_notes_numbers(backend):
    layer = make_attention(W_Q, X_INVERSE, X_INVERSE, IDENTITY, backend=backend)
    q, k = layer.q_proj(X), layer.k_proj(X)
    assert q.tolist() == [[[1, 2], [1, 1]]]
    assert k.tolist() == layer.v_proj(X).tolist() == [IDENTITY]
    scores = scaled_scores(layer, q[:, None], k[:, None])[0, 0]
    expected = torch.tensor([[0.71, 1.41], [0.71, 0.71]]).double()
    torch.testing.assert_close(scores, expected, **PRINTED)
    output, weights = layer(X)
    torch.testing.assert_close(output[0], SOFTMAX, **PRINTED)  # of values that are the identity
    if backend == "eager":
        torch.testing.assert_close(weights[0, 0], SOFTMAX, **PRINTED)


def test_scores_112_and_96_become_14_and_12_and_the_weights_of_the_notes_in_the_base_model():
    layer, q = MultiHeadAttention(VaswaniTransformerConfig()), torch.ones(1, 1, 1, 64).double()
    k = torch.tensor([112 / 64, 96 / 64]).double().view(1, 1, 2, 1).expand(1, 1, 2, 64)
    scores = scaled_scores(layer, q, k)[0, 0, 0]
    torch.testing.assert_close(scores, torch.tensor([14.0, 12.0]).double(), rtol=0, atol=1e-9)
    _, weights = scaled_dot_product_attention(layer, q, k, k, None, scaling=layer.scaling)
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor([0.88, 0.12]).double(), **PRINTED)


# ---------------------------------------------------------------------------- heads (section 3.2.2)

W_O = [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0]]
OUTPUT = [[1, 3, 0, 1], [1, 1, 1, 2]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_heads_that_look_at_different_tokens_give_the_notes_output(backend):
    """Head 1 sees the token itself, head 2 the other one. The values give heads worked by hand."""
    far = 100.0  # scores so far apart that the softmax is exactly 1 and 0
    to_itself_and_to_the_other = [[far, 0, 0, far], [0, far, far, 0], [0] * 4, [0] * 4]
    keys = [[far, 0, far, 0], [0, far, 0, far], [0] * 4, [0] * 4]
    values = [[1, 1, 1, 0], [0, 1, 0, 1], [0] * 4, [0] * 4]
    layer = make_attention(
        to_itself_and_to_the_other, keys, values, W_O, num_heads=2, backend=backend
    )
    two_tokens = torch.eye(2, 4).double()[None]
    assert layer(two_tokens)[0].tolist() == [OUTPUT]


@pytest.mark.parametrize("num_heads", [2, 8, 16])
def test_many_heads_cost_as_much_as_one_of_full_width(num_heads):
    """The same parameters, 4 d_model^2, and the same multiplications."""

    def cost(num_heads):
        layer = MultiHeadAttention(
            make_config(d_model=64, num_heads=num_heads, attn_implementation="eager")
        )
        with FlopCounterMode(display=False) as counter:
            layer(torch.zeros(1, 10, 64))
        return sum(p.numel() for p in layer.parameters()), counter.get_total_flops()

    assert cost(num_heads) == cost(1)
    assert cost(1)[0] == 4 * 64**2


# ---------------------------------------------------------------------------- masks (section 3.2.3)

HUGE = torch.finfo(torch.float64).min  # what the model adds in place of -inf


@pytest.mark.parametrize("masked", [-torch.inf, HUGE], ids=["-inf", "lowest number"])
def test_masked_keys_get_weight_zero_exactly(masked):
    """The others share the weight as if those keys did not exist."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 5, 8, dtype=torch.float64)
    mask = torch.tensor([0, 0, masked, 0, masked], dtype=torch.float64)
    _, weights = scaled_dot_product_attention(torch.nn.Identity(), q, k, k, mask, scaling=1.0)
    seen = k[:, :, [0, 1, 3]]
    _, expected = scaled_dot_product_attention(
        torch.nn.Identity(), q, seen, seen, None, scaling=1.0
    )
    assert not weights[..., [2, 4]].any()
    torch.testing.assert_close(weights[..., [0, 1, 3]], expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_causal_attention_without_a_mask_attends_to_the_past(length):
    """The queries are the newest of four tokens: each attends to the keys up to its own."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(make_config(attn_implementation="eager"), is_causal=True)
    q, k = torch.randn(1, 2, length, 8), torch.randn(1, 2, 4, 8)
    _, weights = scaled_dot_product_attention(layer, q, k, k, None, scaling=1.0)
    assert ((weights > 0) == CAUSAL[-length:].bool()).all()


CAUSAL = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mask", [None, torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])], ids=type)
def test_i_have_a_dream_has_a_causal_map_also_beside_a_padded_target(backend, mask):
    """Row t of four tokens attends to every token up to t, in all layers and heads, and to none
    after it. Nothing attends to the padding of the second target, which has two tokens.
    """
    ids = torch.tensor([[11, 12, 13, 14]]).expand(2, 4)
    out = make_model(attn_implementation=backend)(
        ids, decoder_input_ids=ids, decoder_attention_mask=mask, output_attentions=True
    )
    weights = torch.stack(out.decoder_attentions)  # (layers, B, H, T, T)
    expected = CAUSAL.expand(2, 4, 4).clone()
    if mask is not None:
        expected[1, :, 2:] = 0
    assert ((weights > 0).int() == expected[:, None]).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 2, 4))


def test_encoder_and_cross_attention_reach_every_source_token_but_padding():
    model, source = (
        make_model(attn_implementation="eager"),
        torch.tensor([[11, 12, 13, 0, 0], [11, 12, 13, 14, 15]]),
    )
    out = model(
        source, (source != 0).long(), decoder_input_ids=source[:, :4], output_attentions=True
    )
    for weights in (*out.encoder_attentions, *out.cross_attentions):
        assert ((weights > 0) == (source != 0)[:, None, None]).all()


@pytest.mark.parametrize("layer", [0, 1])
def test_cross_attention_takes_keys_and_values_from_the_encoders_output(layer):
    """In every decoder layer from the top of the encoder; queries come from the decoder."""
    model, seen = make_model(), {}
    attention = model.model.decoder.layers[layer].encoder_attn
    for name in ("q_proj", "k_proj", "v_proj"):
        getattr(attention, name).register_forward_pre_hook(
            lambda m, args, name=name: seen.update({name: args[0]})
        )
    ids = torch.randint(3, 300, (1, 4))
    encoded = model(ids, decoder_input_ids=ids).encoder_last_hidden_state
    # a view of the very states
    assert seen["k_proj"].data_ptr() == seen["v_proj"].data_ptr() == encoded.data_ptr()
    assert not torch.allclose(seen["q_proj"], encoded)


# --------------------------------------------------------------------------- dropout on the weights


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_are_dropped_in_training_alone(backend):
    """One key has the weight 1: what is left of its value is none or, divided by 1 - 0.75, four
    times as much.
    """
    torch.manual_seed(0)
    layer = MultiHeadAttention(
        make_config(attention_dropout=0.75, attn_implementation=backend)
    ).double()
    with torch.no_grad():
        layer.out_proj.weight.copy_(torch.eye(16))
    queries, key = torch.randn(1, 50, 16).double(), torch.randn(1, 1, 16).double()
    value = layer.v_proj(key)
    shares = (layer.train()(queries, key_value_states=key)[0] / value).detach()
    assert sorted(shares.round(decimals=9).abs().unique().tolist()) == [0.0, 4.0]
    torch.testing.assert_close(
        layer.eval()(queries, key_value_states=key)[0], value.expand(1, 50, 16)
    )
