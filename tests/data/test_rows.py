# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Rows and columns from Arrow memory against the library's own access."""

import pickle

import datasets
import pytest

from vaswani_transformer.data import ArrowPairs
from vaswani_transformer.data.rows import number_column

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
