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

SOURCE, TARGET = SENTENCES[0], SENTENCES[1]
EXACT = {"rtol": 0, "atol": 1e-12}


ATTENTIONS = {
    "encoder": ("encoder", "self_attn"),
    "decoder": ("decoder", "self_attn"),
    "cross": ("decoder", "encoder_attn"),
}


@torch.no_grad()
def naive_weights(attention, queries_from, keys_from, is_causal):
    """softmax(q k^T / sqrt(d_k)) as (B, H, L, S), from states (B, L, D) and (B, S, D)."""
    heads = attention.config.num_heads, attention.config.d_k
    q = attention.q_proj(queries_from).unflatten(-1, heads).transpose(1, 2)
    k = attention.k_proj(keys_from).unflatten(-1, heads).transpose(1, 2)
    scores = q @ k.mT / math.sqrt(attention.config.d_k)
    if is_causal:
        scores += torch.full_like(scores, -torch.inf).triu(1)
    return scores.softmax(dim=-1)


@pytest.mark.parametrize("kind", ATTENTIONS)
@pytest.mark.parametrize("layer", [0, 1])
def test_weights_equal_a_naive_computation_from_the_projections(tiny_tokenizer, layer, kind):
    model, entered = make_model(d_k=6, d_v=4).double(), []
    stack, name = ATTENTIONS[kind]
    attention = getattr(getattr(model.model, stack).layers[layer], name)
    attention.register_forward_pre_hook(lambda module, args: entered.append(args[:2]))
    weights, _, _ = attention_maps(model, tiny_tokenizer, SOURCE, TARGET)[kind]
    (states,) = entered  # of queries, and of keys where they are others
    expected = naive_weights(attention, states[0], states[-1], is_causal=kind == "decoder")
    torch.testing.assert_close(torch.tensor(weights[layer]), expected[0], **EXACT)


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
