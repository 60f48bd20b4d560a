# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a model takes besides the usual: ids of int32, masks over caches; and what it refuses."""

import pytest
import torch

ONES = torch.ones(3, 7, dtype=torch.long)


def test_ids_and_labels_of_int32_give_what_int64_gives(tiny_model, inputs):
    inputs["labels"] = inputs["decoder_input_ids"]
    expected = tiny_model(**inputs)
    got = tiny_model(**{name: each.int() for name, each in inputs.items()})
    assert torch.equal(got.logits, expected.logits) and torch.equal(got.loss, expected.loss)


@pytest.mark.parametrize(
    "inputs", [{}, {"input_ids": ONES, "inputs_embeds": torch.zeros(3, 7, 16)}], ids=len
)
def test_ids_and_their_embeddings_are_refused_together_and_apart(inputs, tiny_model):
    with pytest.raises(
        ValueError, match="VaswaniTransformerEncoder needs either ids or embeddings"
    ):
        tiny_model.get_encoder()(**inputs)


def test_mask_over_cached_tokens_is_taken(tiny_model, inputs):
    target = inputs.pop("decoder_input_ids")
    expected = tiny_model(**inputs, decoder_input_ids=target[:, :4]).logits[:, 3:]
    cache = tiny_model(**inputs, decoder_input_ids=target[:, :3]).past_key_values
    inputs |= {"decoder_input_ids": target[:, 3:4], "decoder_attention_mask": ONES[:, :4]}
    got = tiny_model(**inputs, past_key_values=cache).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("old_name", ["smoothing", "label_smoothing"])
def test_old_names_of_the_label_smoothing_factor_are_refused(tiny_model, batch, old_name):
    with pytest.raises(TypeError, match=f"`{old_name}` .* `label_smoothing_factor`"):
        tiny_model(**batch, **{old_name: 0.1})
