# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention maps: the weights are softmax(q k^T / sqrt(d_k)), and tokens are what a reader sees of them."""

import math

import pytest
import torch
from tiny import SENTENCES, make_model

from vaswani_transformer import VaswaniTransformerTokenizer
from vaswani_transformer.analysis.attention import attention_maps, readable_tokens

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
            powers = [math.exp(float(q[row, part] @ k[column, part]) / math.sqrt(d_k)) for column in allowed]
            weights[head, row, : len(powers)] = torch.tensor(powers, dtype=torch.float64) / sum(powers)
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
    into_decoder = decoder(fed, encoder_hidden_states=encoded, output_hidden_states=True).hidden_states[layer]
    decoder_layer, causal = decoder.layers[layer], torch.ones(1, 1, len(labels), len(labels)).tril().bool()
    attended = decoder_layer.self_attn(into_decoder, attention_mask=causal)[0]
    between = decoder_layer.self_attn_layer_norm(into_decoder + attended)[0]
    return {
        "encoder": naive_weights(encoder.layers[layer].self_attn, into_encoder, into_encoder),
        "decoder": naive_weights(decoder_layer.self_attn, into_decoder[0], into_decoder[0], is_causal=True),
        "cross": naive_weights(decoder_layer.encoder_attn, between, encoded[0]),
    }


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("layer", [0, 1])
def test_weights_equal_a_naive_computation_from_the_projections(tiny_tokenizer, layer, kind):
    model = make_model(d_k=6, d_v=4).double()
    maps = attention_maps(model, tiny_tokenizer, SOURCE, TARGET)
    expected = naive_maps(model, tiny_tokenizer, layer)[kind]
    torch.testing.assert_close(torch.tensor(getattr(maps, kind)[layer]), expected, **EXACT)


def test_maps_of_a_model_in_half_precision_are_numbers_of_double_precision(tiny_model, tiny_tokenizer):
    assert attention_maps(tiny_model.bfloat16(), tiny_tokenizer, SOURCE, TARGET).cross.dtype == "float64"


# --------------------------------------------------------------------------------------- the model stays as it was


def settings(model):
    return model.config._attn_implementation, model.config.output_attentions, [m.training for m in model.modules()]


def test_model_is_left_as_it_was_after_an_error(tiny_tokenizer, monkeypatch):
    model = make_half_frozen_model()
    before = settings(model)
    monkeypatch.setattr(model.model.decoder, "forward", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        attention_maps(model, tiny_tokenizer, SOURCE, TARGET)
    assert settings(model) == before


def make_half_frozen_model():
    """In train mode, its encoder in eval mode; every kind of dropout would be seen."""
    rates = {"dropout": 0.5, "attention_dropout": 0.5, "activation_dropout": 0.5}
    model = make_model(**rates, attn_implementation="sdpa").train()
    model.model.encoder.eval()
    return model


def test_dropout_is_never_active_and_model_and_random_state_are_left_as_they_were(tiny_tokenizer):
    expected = attention_maps(make_model(), tiny_tokenizer, SOURCE, TARGET)
    model = make_half_frozen_model()
    before, random_state = settings(model), torch.random.get_rng_state()
    got = attention_maps(model, tiny_tokenizer, SOURCE, TARGET)
    assert (got.cross == expected.cross).all()
    assert settings(model) == before
    assert torch.equal(torch.random.get_rng_state(), random_state)


@pytest.mark.parametrize("blank", ["", " \n"])
@pytest.mark.parametrize("name", ["source", "target"])
def test_blank_sentence_is_refused(tiny_model, tiny_tokenizer, name, blank):
    sentences = {"source": SOURCE, "target": TARGET, name: blank}
    with pytest.raises(ValueError, match=f"`{name}` must be a sentence, got '"):
        attention_maps(tiny_model, tiny_tokenizer, **sentences)


# --------------------------------------------------------------------------------------------------------- tokens


def train(texts, **options):
    tokenizer = VaswaniTransformerTokenizer(**options)
    return tokenizer.train_new_from_iterator(texts, vocab_size=300, show_progress=False)


def test_steps_are_fed_the_start_and_predict_the_end(tiny_model, tiny_tokenizer):
    maps = attention_maps(tiny_model, tiny_tokenizer, SOURCE, TARGET)
    assert maps.fed_tokens[0] == "<s>" and maps.predicted_tokens[-1] == "</s>"
    assert maps.fed_tokens[1:] == maps.predicted_tokens[:-1]


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_tokens_show_where_words_begin(add_prefix_space):
    tokenizer = train(["a dog runs", "a dog runs", "xyz"] * 9, add_prefix_space=add_prefix_space)
    shown = readable_tokens(tokenizer, "a dog runsa.")[1]
    assert shown == ["a", "dog", "runs", "##a", "##.", "</s>"]


def test_bytes_of_one_character_carry_its_number(tiny_tokenizer):
    ids, shown = readable_tokens(tiny_tokenizer, "日é")
    assert ids == tiny_tokenizer("日é")["input_ids"]
    assert shown == ["日₁", "##日₂", "##日₃", "##é₁", "##é₂", "</s>"]


def test_white_space_of_its_own_is_visible():
    assert readable_tokens(train(SENTENCES), "x  \n.")[1] == ["x", "␣", "␣", "\\n", ".", "</s>"]


def test_special_token_in_a_text_is_shown_as_the_text_it_is():
    *shown, end = readable_tokens(train(SENTENCES), "<pad>")[1]
    assert ("".join(shown).replace("##", ""), end) == ("<pad>", "</s>") and len(shown) > 1


@pytest.mark.parametrize("add_prefix_space", [False, True])
@pytest.mark.parametrize("text", ["A dog  runs", " A dog ", "é日 dogé", "a\tb\u3000c", "😀😀 e\u0301", "\n"])
def test_tokens_never_show_the_tokenizers_own_alphabet(add_prefix_space, text):
    shown = "".join(readable_tokens(train(SENTENCES, add_prefix_space=add_prefix_space), text)[1])
    assert not set(shown) & set("ĠĊĉÃæð\ufffd \t\n")


def test_draw_attention_says_what_to_do():
    with pytest.raises(ImportError, match=r"scripts/paper/draw_attention\.py"):
        from vaswani_transformer.analysis.attention import draw_attention  # noqa: F401
