# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Padding, masks and the dummy row of the collator."""

import pytest
import torch

from vaswani_transformer.data import TranslationCollator

ROWS = [
    {"input_ids": [7, 8, 2], "labels": [9, 2], "source_length": 3, "target_length": 2},
    {"input_ids": [7, 2], "labels": [9, 10, 11, 2], "source_length": 2, "target_length": 4},
]


@pytest.fixture
def collator(tiny_tokenizer):
    return TranslationCollator(tiny_tokenizer)


def test_collator_pads_both_sides_and_masks_padding(collator):
    batch = collator(ROWS)
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}
    assert {name: tensor.tolist() for name, tensor in batch.items()} == {
        "input_ids": [[7, 8, 2], [7, 2, 0]],
        "attention_mask": [[1, 1, 1], [1, 1, 0]],
        "labels": [[9, 2, -100, -100], [9, 10, 11, 2]],
    }


def test_collator_makes_no_labels_when_rows_have_none(collator):
    assert set(collator([{"input_ids": [7, 2]}])) == {"input_ids", "attention_mask"}


def test_collator_accepts_rows_of_tensors(collator):
    rows = [{name: torch.tensor(row[name]) for name in ("input_ids", "labels")} for row in ROWS]
    assert collator(rows)["labels"].equal(collator(ROWS)["labels"])


@pytest.mark.parametrize("name", ["input_ids", "labels"])
@pytest.mark.parametrize("ids", [[0, 7, 2], [7, 2, 0]], ids=["left", "right"])
def test_rows_that_a_map_has_padded_are_refused(collator, name, ids):
    with pytest.raises(ValueError, match="Rows must hold no padding"):
        collator([ROWS[0], {**ROWS[1], name: ids}])


def test_mask_that_hides_a_token_is_refused(collator):
    rows = [{"input_ids": [7, 8, 9, 2], "attention_mask": [1, 0, 1, 1]}, {"input_ids": [7, 2]}]
    with pytest.raises(ValueError, match="`attention_mask`"):
        collator(rows)


def test_label_that_is_ignored_inside_a_sentence_keeps_its_position(collator):
    assert collator([{"input_ids": [7, 2], "labels": [-100, 9, -100, 2]}])["labels"].tolist() == [
        [-100, 9, -100, 2]
    ]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_row_without_a_label_has_no_gradient(collator, tiny_model, smoothing):
    output = tiny_model(
        **collator([{"input_ids": [2], "labels": [-100]}]),
        label_smoothing_factor=smoothing,
        num_items_in_batch=torch.tensor(7),
    )
    output.loss.backward()
    gradients = [parameter.grad for parameter in tiny_model.parameters()]
    assert output.loss.item() == 0.0
    assert all(gradient is not None and not gradient.any() for gradient in gradients)
