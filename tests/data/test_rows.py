# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Rows and columns from Arrow memory against the library's own access."""

import pickle

import datasets
import pytest

from vaswani_transformer.data import ArrowPairs
from vaswani_transformer.data.collation import check_token_ids
from vaswani_transformer.data.preparation import number_column

ROWS = [{"input_ids": list(range(n)), "labels": list(range(5, 8 + n % 3)), "source_length": n} for n in range(1, 30)]


def make_chunked():
    """Several tables behind one another, as those that several processes have written."""
    return datasets.concatenate_datasets([datasets.Dataset.from_list(ROWS[start : start + 7]) for start in (0, 7, 14)])


DATASETS = {
    "one table": lambda: datasets.Dataset.from_list(ROWS),
    "several tables": make_chunked,
    "selected rows": lambda: make_chunked().select([20, 3, 3, 11, 0]),
    "slice": lambda: make_chunked().select(range(5, 18)),
    "shuffled": lambda: make_chunked().shuffle(seed=0),
}


@pytest.mark.parametrize("kind", DATASETS)
def test_rows_are_those_of_the_data_set(kind):
    dataset = DATASETS[kind]()
    wanted = [4, 0, len(dataset) - 1, 1]
    rows = ArrowPairs(dataset).__getitems__(wanted)
    got = [{name: ids.tolist() for name, ids in row.items()} for row in rows]
    assert got == [{name: dataset[row][name] for name in ("input_ids", "labels")} for row in wanted]


@pytest.mark.parametrize("kind", DATASETS)
def test_column_is_that_of_the_data_set(kind):
    dataset = DATASETS[kind]()
    assert number_column(dataset, "source_length").tolist() == dataset["source_length"][:]


STORED_OTHERWISE = {
    "list": lambda: [dict(row) for row in ROWS],
    "transformed": lambda: datasets.Dataset.from_list(ROWS).with_transform(lambda rows: rows),
}


@pytest.mark.parametrize("kind", [*DATASETS, *STORED_OTHERWISE])
@pytest.mark.parametrize("vocab_size", [8, 10, 12, 20, 30])
def test_id_outside_the_vocabulary_is_named_with_its_first_row(kind, vocab_size):
    dataset = {**DATASETS, **STORED_OTHERWISE}[kind]()
    found = [
        (row, name, ids[0])
        for row in range(len(dataset))
        for name in ("input_ids", "labels")
        if (ids := [each for each in dataset[row][name] if each >= vocab_size])
    ]
    if not found:
        check_token_ids(dataset, vocab_size)
        return
    row, name, wrong = found[0]
    with pytest.raises(ValueError, match=rf"`{name}` must .* \[0, {vocab_size}\), got {wrong} in row {row}\."):
        check_token_ids(dataset, vocab_size)


@pytest.mark.parametrize("make", [datasets.Dataset.from_list, list], ids=["Arrow", "list"])
def test_label_that_is_ignored_is_no_id_outside_the_vocabulary(make):
    check_token_ids(make([{"input_ids": [3], "labels": [-100, 4]}, {"input_ids": [], "labels": []}]), 5)
    for name, wrong in (("input_ids", -100), ("labels", -99)):
        rows = [{"input_ids": [], "labels": []}, {"input_ids": [3], "labels": [4], name: [4, wrong]}]
        with pytest.raises(ValueError, match=rf"`{name}` .* got {wrong} in row 1\."):
            check_token_ids(make(rows), 5)


def test_rows_without_labels_are_checked():
    with pytest.raises(ValueError, match=r"`input_ids` .* got 28 in row 28\."):
        check_token_ids(datasets.Dataset.from_list(ROWS).remove_columns("labels"), 28)


def test_empty_batch_has_no_rows():
    assert ArrowPairs(make_chunked()).__getitems__([]) == []


def test_rows_are_the_same_in_another_process(tmp_path):
    make_chunked().save_to_disk(tmp_path)
    pairs = ArrowPairs(datasets.load_from_disk(tmp_path))
    content = pickle.dumps(pairs)
    assert pickle.loads(content)[9]["input_ids"].tolist() == ROWS[9]["input_ids"]


@pytest.mark.parametrize(
    ("dataset", "fits"),
    [
        (datasets.Dataset.from_list(ROWS), True),
        (datasets.Dataset.from_list(ROWS).remove_columns("labels"), True),
        (datasets.Dataset.from_dict({"input_ids": [[1, None], [2]]}), False),
        (datasets.Dataset.from_dict({"input_ids": [[1], None]}), False),
        (datasets.Dataset.from_dict({"input_ids": [[1.5], [2.0]]}), False),
        (datasets.Dataset.from_list(ROWS).with_transform(lambda rows: rows), False),
        (ROWS, False),
    ],
)
def test_data_sets_that_are_stored_otherwise_do_not_fit(dataset, fits):
    assert ArrowPairs.fits(dataset) is fits
