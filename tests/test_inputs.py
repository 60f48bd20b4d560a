# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a model takes besides the usual: ids of int32, masks over caches; and what it refuses."""

import pytest
import torch

SOURCE = torch.randint(3, 300, (3, 7), generator=torch.Generator().manual_seed(0))
TARGET = SOURCE[:, :6].flip(1)
ONES = torch.ones(3, 9, dtype=torch.long)


def good_inputs(**changes):
    return {
        "input_ids": SOURCE,
        "attention_mask": ONES[:, :7],
        "decoder_input_ids": TARGET,
        **changes,
    }


def test_ids_and_labels_of_int32_give_what_int64_gives(tiny_model):
    expected = tiny_model(**good_inputs(labels=TARGET))
    ids = {"input_ids": SOURCE.int(), "decoder_input_ids": TARGET.int(), "labels": TARGET.int()}
    got = tiny_model(**good_inputs(**ids))
    assert torch.equal(got.logits, expected.logits) and torch.equal(got.loss, expected.loss)


@pytest.mark.parametrize(
    "inputs", [{}, {"input_ids": SOURCE, "inputs_embeds": torch.zeros(3, 7, 16)}], ids=len
)
def test_ids_and_their_embeddings_are_refused_together_and_apart(inputs, tiny_model):
    with pytest.raises(
        ValueError, match="VaswaniTransformerEncoder needs either ids or embeddings"
    ):
        tiny_model.get_encoder()(**inputs)


def test_mask_over_cached_tokens_is_taken(tiny_model):
    expected = tiny_model(**good_inputs(decoder_input_ids=TARGET[:, :4])).logits[:, 3:]
    cache = tiny_model(**good_inputs(decoder_input_ids=TARGET[:, :3])).past_key_values
    inputs = good_inputs(decoder_input_ids=TARGET[:, 3:4], decoder_attention_mask=ONES[:, :4])
    got = tiny_model(**inputs, past_key_values=cache).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("old_name", ["smoothing", "label_smoothing"])
def test_old_names_of_the_label_smoothing_factor_are_refused(tiny_model, old_name):
    with pytest.raises(TypeError, match=f"`{old_name}` .* `label_smoothing_factor`"):
        tiny_model(**good_inputs(labels=TARGET), **{old_name: 0.1})
