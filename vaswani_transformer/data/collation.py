# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Tokenised pairs straight from Arrow memory, and their padding into batches.

Shapes: B batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from ..loss_vaswani_transformer import IGNORE_INDEX
from .preparation import are_outside, check_row


@dataclass
class TranslationCollator:
    """Makes one batch of tokenised pairs: `input_ids` and `attention_mask` (B, S) and `labels` (B, T).

    Sources are padded with the tokenizer's padding token and labels with -100, both at the end; `attention_mask` is 1
    where to attend. Other columns are left out. Rows without `labels` make a batch without them. An empty list, which
    `TokenBatchSampler` deals to processes without a pair, makes one row of `</s>` whose label is -100: it counts
    nowhere.

    Args:
        tokenizer: Gives the padding token and `</s>`.
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Batch of int64 tensors."""
        if len(rows) == 0:
            rows = [{"input_ids": [self.tokenizer.eos_token_id], "labels": [IGNORE_INDEX]}]
        source, attended = self._pad([row["input_ids"] for row in rows], self.tokenizer.pad_token_id)
        batch = {"input_ids": source, "attention_mask": attended.long()}
        if rows[0].get("labels") is not None:
            batch["labels"], _ = self._pad([row["labels"] for row in rows], IGNORE_INDEX)
        return batch

    def _pad(self, rows: list[Sequence[int]], value: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows filled up with `value` at the end, (B, longest row), and where they are not filled up."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        real = np.arange(lengths.max()) < lengths[:, None]
        padded = np.full(real.shape, value, dtype=np.int64)
        padded[real] = np.concatenate(rows)
        return torch.from_numpy(padded), torch.from_numpy(real)


class ArrowPairs(Dataset[dict[str, np.ndarray]]):
    """Tokenised pairs for a `DataLoader`, read as numpy arrays from the memory-mapped Arrow file.

    Args:
        dataset: Tokenised pairs with the column `input_ids`, and `labels` unless they are not known.

    Example:
        >>> loader = DataLoader(ArrowPairs(pairs), batch_sampler=sampler, collate_fn=TranslationCollator(tokenizer))
    """

    def __init__(self, dataset: datasets.Dataset):
        self._names = [name for name in ("input_ids", "labels") if name in dataset.column_names]
        self._dataset = dataset.with_format("arrow")

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
        """All rows of a batch at once, as `DataLoader` asks for them."""
        table, columns = self._dataset[list(rows)], []
        for name in self._names:
            lists = table.column(name).combine_chunks()
            ids, ends = lists.flatten().to_numpy(), np.cumsum(lists.value_lengths().to_numpy()).tolist()
            columns.append([ids[start:end] for start, end in zip([0, *ends], ends, strict=False)])
        return [dict(zip(self._names, row, strict=True)) for row in zip(*columns, strict=True)]


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
    if ArrowPairs.fits(dataset) and not any(
        are_outside(chunk.flatten().to_numpy(), name, vocab_size).any()
        for name in {"input_ids", "labels"} & set(dataset.column_names)
        for chunk in dataset.data.column(name).chunks
    ):
        return
    for number, row in enumerate(dataset):
        check_row(row, vocab_size, number)


def _is_ragged(column: pa.ChunkedArray) -> bool:
    """Whether a column holds lists of whole numbers, none of them missing."""
    if not pa.types.is_list(column.type) or not pa.types.is_integer(column.type.value_type):
        return False
    return all(chunk.null_count == 0 and chunk.values.null_count == 0 for chunk in column.chunks)
