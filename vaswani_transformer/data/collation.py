# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Padding of tokenised pairs into batches.

Shapes: B batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ..loss_vaswani_transformer import IGNORE_INDEX


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
