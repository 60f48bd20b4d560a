# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Order of evaluation: lengths of tokenised pairs, and a view of them sorted by length."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
from torch.utils.data import Dataset

from ..data.collation import IGNORED
from ..data.rows import number_column


class SortedByLength(Dataset):
    """View of a tokenised data set from the longest source to the shortest, filled up to a multiple of rows.

    The fill rows carry no label, so they count nowhere; `restore_order` drops them.

    Args:
        dataset: Rows with `input_ids` and, if known, `labels`.
        multiple: The number of rows is rounded up to a multiple of this: processes need the same number.
    """

    def __init__(self, dataset: Any, multiple: int):
        self.dataset = dataset
        self.order = np.argsort(-pair_lengths(dataset)[0], kind="stable")
        self._num_rows = -(-len(self.order) // multiple) * multiple

    def __len__(self) -> int:
        return self._num_rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index < len(self.order):
            return self.dataset[int(self.order[index])]
        row = dict(self.dataset[int(self.order[-1])])
        return {**row, "labels": [IGNORED]} if "labels" in row else row

    def restore_order(self, rows: Any) -> Any:
        """Array of one row per sentence, or a tuple of such arrays, in the data set's own order."""
        if isinstance(rows, tuple):
            return tuple(self.restore_order(part) for part in rows)
        return rows[np.argsort(self.order, kind="stable")] if isinstance(rows, np.ndarray) else rows


def pair_lengths(dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Source and target lengths in tokens, with `</s>`, of every row: from their columns, else counted.

    Args:
        dataset: Rows with `input_ids` and `labels`; the columns `source_length` and `target_length` save counting.

    Returns:
        Two int64 arrays of one entry a row; a row without `labels` has target length 0.

    Raises:
        ValueError: Of a data set that is not tokenised.
    """
    names = ("source_length", "target_length")
    if isinstance(dataset, datasets.Dataset) and set(names) <= set(dataset.column_names):
        return number_column(dataset, names[0]), number_column(dataset, names[1])
    columns = getattr(dataset, "column_names", None)
    if isinstance(columns, list) and "input_ids" not in columns:
        raise ValueError(
            f"`dataset` must have the columns input_ids and labels, got {', '.join(columns)}. Tokenise it: "
            "tokenize_corpus(dataset, tokenizer) of vaswani_transformer.data."
        )
    rows = [(len(row["input_ids"]), len(row.get("labels", ()))) for row in dataset]
    lengths = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return lengths[:, 0], lengths[:, 1]
