# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a model takes besides the usual: ids of int32, masks over caches; nothing asks the device for values."""

import pytest
import torch
from operations import READ, Operations
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

SOURCE = torch.randint(3, 300, (3, 7), generator=torch.Generator().manual_seed(0))
TARGET = SOURCE[:, :6].flip(1)
ONES = torch.ones(3, 9, dtype=torch.long)


def good_inputs(**changes):
    return {"input_ids": SOURCE, "attention_mask": ONES[:, :7], "decoder_input_ids": TARGET, **changes}


def test_ids_and_labels_of_int32_give_what_int64_gives(tiny_model):
    expected = tiny_model(**good_inputs(labels=TARGET))
    ids = {"input_ids": SOURCE.int(), "decoder_input_ids": TARGET.int(), "labels": TARGET.int()}
    got = tiny_model(**good_inputs(**ids))
    assert torch.equal(got.logits, expected.logits) and torch.equal(got.loss, expected.loss)


@pytest.mark.parametrize("inputs", [{}, {"input_ids": SOURCE, "inputs_embeds": torch.zeros(3, 7, 16)}], ids=len)
def test_ids_and_their_embeddings_are_refused_together_and_apart(inputs, tiny_model):
    with pytest.raises(ValueError, match="VaswaniTransformerEncoder needs either ids or embeddings"):
        tiny_model.get_encoder()(**inputs)


def filled_cache(model, batch):
    cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    model(SOURCE[:batch], decoder_input_ids=TARGET[:batch, :3], past_key_values=cache, use_cache=True)
    return cache


def test_mask_over_cached_tokens_is_taken(tiny_model):
    inputs = good_inputs(decoder_input_ids=TARGET[:, 3:4], past_key_values=filled_cache(tiny_model, 3))
    expected = tiny_model(**good_inputs(decoder_input_ids=TARGET[:, :4])).logits[:, 3:]
    got = tiny_model(**inputs, decoder_attention_mask=ONES[:, :4]).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_decoding_step_does_not_wait_for_the_device(tiny_model, monkeypatch, static):
    cache = filled_cache(tiny_model, 3)
    if static:
        cache = EncoderDecoderCache(*(StaticCache(tiny_model.config, max_cache_len=length) for length in (6, 7)))
        tiny_model(**good_inputs(decoder_input_ids=TARGET[:, :3], past_key_values=cache))
    inputs = good_inputs(decoder_input_ids=TARGET[:, 3:4], past_key_values=cache)
    del inputs["attention_mask"]  # the library reads masks to see whether anything is padded
    inputs["encoder_outputs"] = tiny_model.get_encoder()(inputs.pop("input_ids"))
    monkeypatch.setattr(torch.Tensor, "tolist", None)
    with Operations() as operations:
        tiny_model(**inputs)
    assert READ not in operations.names()


@pytest.mark.parametrize("grad", [False, True])
def test_forward_does_not_wait_for_the_device(tiny_model, grad):
    inputs = good_inputs(labels=TARGET)
    del inputs["attention_mask"], inputs["decoder_input_ids"]
    with Operations() as operations, torch.set_grad_enabled(grad):
        tiny_model(**inputs, smoothing=0.1)
    assert READ not in operations.names()


def test_smoothing_by_its_other_name_is_refused_by_forward(tiny_model):
    ids = torch.tensor([[5, 6, 2]])
    with pytest.raises(TypeError, match="`label_smoothing` must"):
        tiny_model(input_ids=ids, labels=ids, label_smoothing=0.1)
