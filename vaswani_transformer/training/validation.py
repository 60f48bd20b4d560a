# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Evaluation inside the trainer: sentences sorted by length, and figures per target token over all processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch.utils.data import Dataset
from transformers import EvalPrediction, PreTrainedTokenizerBase

from ..data.rows import pair_lengths
from ..loss_vaswani_transformer import IGNORE_INDEX


class SortedByLength(Dataset[dict[str, Any]]):
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
        row: dict[str, Any] = self.dataset[int(self.order[min(index, len(self.order) - 1)])]
        is_fill = index >= len(self.order) and "labels" in row
        return {**row, "labels": [IGNORE_INDEX]} if is_fill else row

    def restore_order(self, rows: Any) -> Any:
        """Array of one row per sentence, or a tuple of such arrays, in the data set's own order."""
        if isinstance(rows, tuple):
            return tuple(self.restore_order(part) for part in rows)
        return rows[np.argsort(self.order, kind="stable")] if isinstance(rows, np.ndarray) else rows


def in_data_order(dataset: Any, rows: Any, pad_id: int | None = None) -> Any:
    """What an evaluation gathered, one row per sentence, in the order of its data.

    Args:
        dataset: What was evaluated.
        rows: An array, or a tuple of arrays.
        pad_id: Given for generated ids: takes the place of the -100 that joins batches of different lengths.
    """
    if pad_id is not None and isinstance(rows, np.ndarray):
        rows = np.where(rows == IGNORE_INDEX, pad_id, rows)
    return dataset.restore_order(rows) if isinstance(dataset, SortedByLength) else rows


def translation_scorer(
    tokenizer: PreTrainedTokenizerBase, target_language: str | None, *, at_once: bool
) -> Callable[[EvalPrediction], dict[str, float]]:
    """What `compute_metrics` is if nobody gives one: all scores of a translated set.

    It alone needs the extra [eval], which training does not.

    Args:
        tokenizer: Decodes predictions and labels.
        target_language: As for `score_translations`.
        at_once: Whether an extra that is missing is named now, and not when there is something to score.
    """

    def score(prediction: EvalPrediction) -> dict[str, float]:
        from ..evaluation.metrics import make_compute_metrics

        return make_compute_metrics(tokenizer, target_language)(prediction)

    if at_once:
        from ..evaluation.metrics import make_compute_metrics  # noqa: F401
    return score


def compute_in_order(
    compute_metrics: Callable[[EvalPrediction], dict[str, float]], dataset: Any, pad_id: int | None
) -> Callable[[EvalPrediction], dict[str, float]]:
    """The same metrics of what `in_data_order` makes of a prediction."""

    def compute(prediction: EvalPrediction) -> dict[str, float]:
        predictions = in_data_order(dataset, prediction.predictions, pad_id)
        labels, inputs = (in_data_order(dataset, each) for each in (prediction.label_ids, prediction.inputs))
        return compute_metrics(EvalPrediction(predictions, labels, inputs, prediction.losses))

    return compute


class TokenSums:
    """Loss, unsmoothed loss and target tokens of an evaluation, summed over its batches.

    Paper: section 5 and Table 3, perplexity per token of the unsmoothed likelihood.
    """

    def __init__(self) -> None:
        self._sums = torch.zeros(3, dtype=torch.float64)

    def add(self, outputs: Mapping[str, Any], labels: torch.Tensor) -> torch.Tensor:
        """Adds the summed losses of a batch; returns its loss per target token.

        Args:
            outputs: Of a forward pass with `num_items_in_batch=1`.
            labels: Target tokens, (B, T), -100 where nothing is to be predicted.
        """
        loss: torch.Tensor = outputs["loss"].sum()
        num_tokens = labels.ne(IGNORE_INDEX).sum()
        self._sums += torch.stack([loss, unsmoothed_loss(outputs).sum(), num_tokens.to(loss.dtype)]).cpu().double()
        return loss / num_tokens.clamp(min=1)

    def metrics(self, accelerator: Accelerator) -> dict[str, float]:
        """`loss`, `nll` and `perplexity` per target token, over all processes; empty without labels."""
        sums = self._sums
        if accelerator.num_processes > 1:
            sums = accelerator.reduce(sums.to(accelerator.device))
        loss, nll, num_tokens = sums.tolist()
        if num_tokens == 0:
            return {}
        nll /= num_tokens
        return {"loss": loss / num_tokens, "nll": nll, "perplexity": perplexity(nll)}


def unsmoothed_loss(outputs: Mapping[str, Any]) -> torch.Tensor:
    """Unsmoothed loss of a forward pass; without smoothing the model reports it as the loss."""
    loss: torch.Tensor = outputs["loss"] if outputs.get("nll") is None else outputs["nll"]
    return loss


def perplexity(nll: float) -> float:
    """exp(nll), infinite where that is no number."""
    return math.exp(nll) if nll < 700 else math.inf
