# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Lengths and ids of tokenised rows, however the data set stores them."""

import datasets
import pytest

from vaswani_transformer.data.preparation import check_token_ids, pair_lengths

ROWS = [
    {
        "input_ids": list(range(1, n + 1)),
        "labels": list(range(5, 8 + n % 3)),
        "source_length": n,
        "target_length": 3 + n % 3,
    }
    for n in range(1, 30)
]


def make_chunked():
    """Several tables behind one another, as those that several processes have written."""
    return datasets.concatenate_datasets(
        [datasets.Dataset.from_list(ROWS[start : start + 7]) for start in (0, 7, 14)]
    )


DATASETS = {
    "one table": lambda: datasets.Dataset.from_list(ROWS),
    "several tables": make_chunked,
    "selected rows": lambda: make_chunked().select([20, 3, 3, 11, 0]),
    "slice": lambda: make_chunked().select(range(5, 18)),
    "shuffled": lambda: make_chunked().shuffle(seed=0),
    "list": lambda: [dict(row) for row in ROWS],
    "transformed": lambda: datasets.Dataset.from_list(ROWS).with_transform(lambda rows: rows),
}


@pytest.mark.parametrize("kind", DATASETS)
def test_lengths_are_those_of_the_rows(kind):
    dataset = DATASETS[kind]()
    expected = [[len(row[name]) for row in dataset] for name in ("input_ids", "labels")]
    assert [lengths.tolist() for lengths in pair_lengths(dataset)] == expected


def test_rows_of_text_are_refused():
    with pytest.raises(ValueError, match="must have `input_ids` and `labels`"):
        pair_lengths(datasets.Dataset.from_list([{"translation": {"en": "a", "de": "b"}}]))


@pytest.mark.parametrize("make", [datasets.Dataset.from_list, list], ids=["Arrow", "list"])
@pytest.mark.parametrize("name", ["input_ids", "labels"])
@pytest.mark.parametrize("ids", [[5, 2, 0, 0], [0, 0, 5, 2]], ids=["right", "left"])
def test_padding_is_refused_by_the_name_of_its_column(make, name, ids):
    rows = [
        {"input_ids": [5, 2], "labels": [6, 2]},
        {"input_ids": [5, 2], "labels": [6, 2], name: ids},
    ]
    with pytest.raises(
        ValueError, match=f"`{name}` must hold no padding, got the id 0. Tokenize without `padding`"
    ):
        check_token_ids(make(rows), 10, 0)
    check_token_ids(make(rows), 10, 9)  # of a vocabulary with other padding


@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize("vocab_size", [8, 10, 12, 20, 30])
def test_id_outside_the_vocabulary_is_named(kind, vocab_size):
    dataset = DATASETS[kind]()
    found = [
        (name, ids[0])
        for row in dataset
        for name in ("input_ids", "labels")
        if (ids := [each for each in row[name] if each >= vocab_size])
    ]
    if not found:
        check_token_ids(dataset, vocab_size, 0)
        return
    name, wrong = found[0]
    with pytest.raises(
        ValueError, match=rf"`{name}` must .* \[0, {vocab_size}\), got {wrong} in \["
    ):
        check_token_ids(dataset, vocab_size, 0)


@pytest.mark.parametrize("make", [datasets.Dataset.from_list, list], ids=["Arrow", "list"])
def test_label_that_is_ignored_is_no_id_outside_the_vocabulary(make):
    check_token_ids(
        make([{"input_ids": [3], "labels": [-100, 4]}, {"input_ids": [], "labels": []}]), 5, 0
    )
    for name, wrong in (("input_ids", -100), ("labels", -99)):
        rows = [
            {"input_ids": [], "labels": []},
            {"input_ids": [3], "labels": [4], name: [4, wrong]},
        ]
        with pytest.raises(ValueError, match=rf"`{name}` .* got {wrong} in \[4, {wrong}\]"):
            check_token_ids(make(rows), 5, 0)


def test_rows_without_labels_are_checked():
    with pytest.raises(ValueError, match=r"`input_ids` .* got 28 in \["):
        check_token_ids(datasets.Dataset.from_list(ROWS).remove_columns("labels"), 28, 0)
