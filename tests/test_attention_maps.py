# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention maps of page and pictures: weights are softmax(q k^T / sqrt(d_k)), tokens are parts of
a text.
"""

import math

import pytest
import torch
from maps import attention_maps, shown_tokens
from tiny import SENTENCES, make_model

from vaswani_transformer.analysis import attention

SOURCE, TARGET = SENTENCES[0], SENTENCES[1]
EXACT = {"rtol": 0, "atol": 1e-12}


def naive_weights(attention, queries_from, keys_from, is_causal=False):
    """(H, L, S) by loops over heads, queries and keys, from states (L, D) and (S, D)."""
    d_k, num_heads = attention.config.d_k, attention.config.num_heads
    q, k = attention.q_proj(queries_from), attention.k_proj(keys_from)
    weights = torch.zeros(num_heads, len(q), len(k), dtype=torch.float64)
    for head in range(num_heads):
        part = slice(head * d_k, (head + 1) * d_k)
        for row in range(len(q)):
            allowed = range(row + 1) if is_causal else range(len(k))
            powers = [
                math.exp(float(q[row, part] @ k[column, part]) / math.sqrt(d_k))
                for column in allowed
            ]
            weights[head, row, : len(powers)] = torch.tensor(powers, dtype=torch.float64) / sum(
                powers
            )
    return weights


@torch.no_grad()
def naive_maps(model, tokenizer, layer):
    """Weights of one layer of both stacks, from the states that enter its attentions."""
    encoder, decoder = model.model.encoder, model.model.decoder
    source = tokenizer(SOURCE, return_tensors="pt")["input_ids"]
    labels = tokenizer(TARGET)["input_ids"]
    fed = torch.tensor([[1, *labels[:-1]]])
    into_encoder = encoder(source, output_hidden_states=True).hidden_states[layer][0]
    encoded = encoder(source).last_hidden_state
    into_decoder = decoder(
        fed, encoder_hidden_states=encoded, output_hidden_states=True
    ).hidden_states[layer]
    decoder_layer, causal = (
        decoder.layers[layer],
        torch.ones(1, 1, len(labels), len(labels)).tril().bool(),
    )
    attended = decoder_layer.self_attn(into_decoder, attention_mask=causal)[0]
    between = decoder_layer.self_attn_layer_norm(into_decoder + attended)[0]
    return {
        "encoder": naive_weights(encoder.layers[layer].self_attn, into_encoder, into_encoder),
        "decoder": naive_weights(
            decoder_layer.self_attn, into_decoder[0], into_decoder[0], is_causal=True
        ),
        "cross": naive_weights(decoder_layer.encoder_attn, between, encoded[0]),
    }


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("layer", [0, 1])
def test_weights_equal_a_naive_computation_from_the_projections(tiny_tokenizer, layer, kind):
    model = make_model(d_k=6, d_v=4).double()
    weights, _, _ = attention_maps(model, tiny_tokenizer, SOURCE, TARGET)[kind]
    expected = naive_maps(model, tiny_tokenizer, layer)[kind]
    torch.testing.assert_close(torch.tensor(weights[layer]), expected, **EXACT)


def test_maps_of_a_model_in_half_precision_are_numbers_of_double_precision(
    tiny_model, tiny_tokenizer
):
    maps = attention_maps(tiny_model.bfloat16(), tiny_tokenizer, SOURCE, TARGET)
    assert {weights.dtype.name for weights, _, _ in maps.values()} == {"float64"}


def test_steps_are_fed_the_start_and_predict_the_end(tiny_model, tiny_tokenizer):
    maps = attention_maps(tiny_model, tiny_tokenizer, SOURCE, TARGET)
    source, fed, predicted = maps["encoder"][1], maps["decoder"][1], maps["cross"][1]
    assert fed[0] == "<s>" and predicted[-1] == "</s>"
    assert fed[1:] == predicted[:-1]
    assert [maps[kind][2] for kind in ("encoder", "decoder", "cross")] == [source, fed, source]


def test_tokens_are_the_parts_of_the_text(tiny_tokenizer):
    text = "A dog  é runs"
    shown = shown_tokens(tiny_tokenizer, text)
    assert len(shown) == len(tiny_tokenizer(text)["input_ids"])
    assert [token for token in shown[:-1] if token != "␣" and token not in text] == []
    assert shown.count("é") == len("é".encode()) and shown[-1] == "</s>"


@pytest.mark.parametrize(
    "name", ["AttentionMaps", "attention_maps", "draw_attention", "readable_tokens"]
)
def test_names_that_are_gone_say_what_to_do(name):
    with pytest.raises(ImportError, match=rf"`{name}` is gone .*scripts/paper/draw_attention\.py"):
        getattr(attention, name)
