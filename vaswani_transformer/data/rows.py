# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Rows and columns of tokenised data sets straight from their Arrow memory, without a Python object per token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from torch.utils.data import Dataset

from ..loss_vaswani_transformer import IGNORE_INDEX


def number_column(dataset: datasets.Dataset, name: str) -> np.ndarray:
    """A column of whole numbers, (N,) int64.

    Args:
        dataset: The data set, perhaps a selection of rows of another.
        name: The column.
    """
    values = dataset.data.column(name).to_numpy()
    rows = _selected_rows(dataset)
    return np.asarray(values if rows is None else values[rows], dtype=np.int64)


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


def check_token_ids(dataset: Any, vocab_size: int) -> None:
    """Refuses tokenised pairs with an id outside the vocabulary.

    Every process that shares a data set checks it before the batches are dealt out. Only one process would meet the id
    in a batch and end there; the others would wait for it.

    Args:
        dataset: Rows with `input_ids` and, if known, `labels`.
        vocab_size: Size of the model's vocabulary.

    Raises:
        ValueError: Names the column, the row and the id.
    """
    numbers = _rows_outside(dataset, vocab_size) if ArrowPairs.fits(dataset) else range(len(dataset))
    for number in numbers:
        check_row(dataset[int(number)], vocab_size, int(number))


def check_row(row: Mapping[str, Any], vocab_size: int, number: int | None = None) -> None:
    """Refuses one pair with an id outside the vocabulary.

    Args:
        row: `input_ids` and, if known, `labels`.
        vocab_size: Size of the model's vocabulary.
        number: Of the row, for the message; None shows the row's ids instead.

    Raises:
        ValueError: Names the column, the row and the id.
    """
    for name in ("input_ids", "labels"):
        ids = np.asarray(() if row.get(name) is None else row[name])
        if (wrong := ids[_is_outside(ids, name, vocab_size)]).size:
            where = f"the row {ids.tolist()!s:.100}" if number is None else f"row {number}"
            raise ValueError(
                f"`{name}` must hold token ids in [0, {vocab_size}), got {wrong[0]} in {where}. Use the tokenizer "
                "that was saved with this model, or make room for a larger one: "
                "model.resize_token_embeddings(len(tokenizer))."
            )


def _is_outside(ids: np.ndarray, column: str, vocab_size: int) -> np.ndarray:
    """Which ids are outside the vocabulary; -100 is not, as a label."""
    outside: np.ndarray = (ids < 0) | (ids >= vocab_size)
    return outside & (ids != IGNORE_INDEX) if column == "labels" else outside


def _rows_outside(dataset: datasets.Dataset, vocab_size: int) -> np.ndarray:
    """Rows of a data set with an id outside the vocabulary."""
    stored = [np.empty(0, dtype=np.int64)]
    for name in {"input_ids", "labels"} & set(dataset.column_names):
        num_rows = 0
        for chunk in dataset.data.column(name).chunks:
            offsets, values = _views(chunk)
            places = np.flatnonzero(_is_outside(values[offsets[0] : offsets[-1]], name, vocab_size)) + offsets[0]
            stored.append(np.searchsorted(offsets, places, side="right") - 1 + num_rows)
            num_rows += len(chunk)
    found, selected = np.unique(np.concatenate(stored)), _selected_rows(dataset)
    return found if selected is None else np.flatnonzero(np.isin(selected, found))


class ArrowPairs(Dataset[dict[str, np.ndarray]]):
    """Tokenised pairs for a `DataLoader`, whose rows are numpy views of the memory-mapped Arrow file.

    Args:
        dataset: Tokenised pairs with the column `input_ids`, and `labels` unless they are not known.

    Example:
        >>> loader = DataLoader(ArrowPairs(pairs), batch_sampler=sampler, collate_fn=TranslationCollator(tokenizer))
    """

    def __init__(self, dataset: datasets.Dataset):
        self._dataset = dataset
        names = [name for name in ("input_ids", "labels") if name in dataset.column_names]
        self._columns = {name: [_views(chunk) for chunk in dataset.data.column(name).chunks] for name in names}
        self._ends = np.cumsum([len(chunk) for chunk in dataset.data.column(names[0]).chunks])
        self._rows = _selected_rows(dataset)

    @staticmethod
    def fits(dataset: object) -> bool:
        """Whether a data set is stored as lists of whole numbers and has no format of its own to keep to."""
        if not isinstance(dataset, datasets.Dataset) or dataset.format["type"] == "custom":
            return False
        columns = [dataset.data.column(name) for name in ("input_ids", "labels") if name in dataset.column_names]
        return "input_ids" in dataset.column_names and len(dataset) > 0 and all(map(_is_ragged, columns))

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, np.ndarray]]:
        """What `DataLoader` asks for: all rows of a batch at once."""
        stored = np.asarray(rows, dtype=np.int64)
        stored = stored if self._rows is None else self._rows[stored]
        chunks = np.searchsorted(self._ends, stored, side="right")
        starts = np.concatenate([[0], self._ends])[chunks]
        places = list(zip(chunks.tolist(), (stored - starts).tolist(), strict=True))
        return [{name: _row(views[chunk], place) for name, views in self._columns.items()} for chunk, place in places]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._dataset,)  # views would be copied into each worker that is not forked


def _selected_rows(dataset: datasets.Dataset) -> np.ndarray | None:
    """Rows of the stored table that a data set shows, in its order; None if it shows all in theirs."""
    return None if dataset._indices is None else dataset._indices.column(0).to_numpy().astype(np.int64)


def _is_ragged(column: pa.ChunkedArray) -> bool:
    """Whether a column holds lists of whole numbers, none of them missing."""
    if not pa.types.is_list(column.type) or not pa.types.is_integer(column.type.value_type):
        return False
    return all(chunk.null_count == 0 and chunk.values.null_count == 0 for chunk in column.chunks)


def _views(chunk: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Where each list of a chunk starts and ends among its values, and the values."""
    return chunk.offsets.to_numpy(), chunk.values.to_numpy()


def _row(views: tuple[np.ndarray, np.ndarray], place: int) -> np.ndarray:
    offsets, values = views
    return values[offsets[place] : offsets[place + 1]]
