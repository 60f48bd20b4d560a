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


def test_collator_pads_sources_with_the_padding_token(collator):
    assert collator(ROWS)["input_ids"].tolist() == [[7, 8, 2], [7, 2, 0]]


def test_collator_masks_padding(collator):
    assert collator(ROWS)["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


def test_collator_pads_labels_with_ignored(collator):
    assert collator(ROWS)["labels"].tolist() == [[9, 2, -100, -100], [9, 10, 11, 2]]


def test_collator_makes_int64_tensors(collator):
    assert {tensor.dtype for tensor in collator(ROWS).values()} == {torch.int64}


def test_collator_leaves_other_columns_out(collator):
    assert set(collator(ROWS)) == {"input_ids", "attention_mask", "labels"}


def test_collator_makes_no_labels_when_rows_have_none(collator):
    assert set(collator([{"input_ids": [7, 2]}])) == {"input_ids", "attention_mask"}


def test_collator_accepts_rows_of_tensors(collator):
    rows = [{name: torch.tensor(row[name]) for name in ("input_ids", "labels")} for row in ROWS]
    assert collator(rows)["labels"].equal(collator(ROWS)["labels"])


TEXTS = [
    ("A dog reads.", "Ein Hund liest ein Buch."),
    ("Собака читает книгу.", "狗在看书。"),
    ("الكلب يقرأ", "कुत्ता किताब पढ़ता है।"),
]


@pytest.mark.parametrize("kept", ["input_ids", "labels", "both"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_that_a_map_has_padded_are_refused(collator, tiny_tokenizer, side, kept):
    sources, targets = map(list, zip(*TEXTS, strict=True))
    options = {"padding": "max_length", "max_length": 90, "padding_side": side}
    plain, padded = (tiny_tokenizer(sources, text_target=targets, **each) for each in ({}, options))
    collator([{name: plain[name][row] for name in plain} for row in range(3)])
    columns = {name: plain[name] if name == kept else padded[name] for name in ("input_ids", "labels")}
    with pytest.raises(ValueError, match="Rows must hold no padding, got the id 0. Tokenize without `padding`"):
        collator([{name: columns[name][row] for name in columns} for row in range(3)])


def test_mask_that_hides_a_token_is_refused(collator):
    rows = [{"input_ids": [7, 8, 9, 2], "attention_mask": [1, 0, 1, 1]}, {"input_ids": [7, 2]}]
    with pytest.raises(ValueError, match="`attention_mask` must be 1 everywhere, got 0"):
        collator(rows)


def test_label_that_is_ignored_inside_a_sentence_keeps_its_position(collator):
    assert collator([{"input_ids": [7, 2], "labels": [-100, 9, -100, 2]}])["labels"].tolist() == [[-100, 9, -100, 2]]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_row_without_a_label_has_no_gradient(collator, tiny_model, smoothing):
    output = tiny_model(
        **collator([{"input_ids": [2], "labels": [-100]}]), smoothing=smoothing, num_items_in_batch=torch.tensor(7)
    )
    output.loss.backward()
    gradients = [parameter.grad for parameter in tiny_model.parameters()]
    assert output.loss.item() == 0.0
    assert all(gradient is not None and not gradient.any() for gradient in gradients)
