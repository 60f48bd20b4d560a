# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Removal of pairs that are empty, too long, unlike in length or larger than a batch, counted by reason."""

from __future__ import annotations

from dataclasses import dataclass, fields

import datasets
import numpy as np

from .rows import number_column


@dataclass(frozen=True, kw_only=True)
class CleaningRules:
    """What a tokenised pair must satisfy; None does not ask. Empty sentences are never kept.

    Lengths are tokens with `</s>`.

    Args:
        max_source_tokens: Longest source sentence.
        max_target_tokens: Longest target sentence.
        max_length_ratio: Longer side / shorter side of a pair, at least 1.
        max_source_tokens_per_batch: Token budget of an effective batch: a longer source fits no batch.
        max_target_tokens_per_batch: The same for the target.
        max_padded_tokens: Token budget of a device: a pair with more source and target tokens fits no micro-batch.

    Raises:
        ValueError: If a limit is below its smallest sensible value.
    """

    max_source_tokens: int | None = None
    max_target_tokens: int | None = None
    max_length_ratio: float | None = None
    max_source_tokens_per_batch: int | None = None
    max_target_tokens_per_batch: int | None = None
    max_padded_tokens: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            minimum = 1 if field.name == "max_length_ratio" else 2  # a token and </s>
            if value is not None and value < minimum:
                raise ValueError(f"`{field.name}` must be at least {minimum}, got {value}. Pass None for no limit.")


@dataclass(frozen=True)
class CleaningReport:
    """How many pairs were kept, and how many dropped for which reason; `str` is one readable line.

    Args:
        num_kept: Pairs kept.
        dropped: Pairs dropped by reason; a pair counts under the first reason that applies, in this order.
    """

    num_kept: int
    dropped: dict[str, int]

    @property
    def num_dropped(self) -> int:
        """Pairs dropped for any reason."""
        return sum(self.dropped.values())

    def __add__(self, other: CleaningReport) -> CleaningReport:
        names = {**self.dropped, **other.dropped}
        dropped = {name: self.dropped.get(name, 0) + other.dropped.get(name, 0) for name in names}
        return CleaningReport(self.num_kept + other.num_kept, dropped)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {name}" for name, count in self.dropped.items() if count)
        total = self.num_kept + self.num_dropped
        return f"kept {self.num_kept:,} of {total:,} pairs" + (f"; dropped {reasons}" if reasons else "")


def clean_corpus(dataset: datasets.Dataset, rules: CleaningRules) -> tuple[datasets.Dataset, CleaningReport]:
    """The pairs that satisfy the rules, in their order, and a report of the others.

    Args:
        dataset: Tokenised pairs with the columns `source_length` and `target_length`, as of `tokenize_corpus`.
        rules: What to ask of each pair.

    Raises:
        ValueError: If no pair is left.
    """
    source, target = (number_column(dataset, f"{side}_length") for side in ("source", "target"))
    violated, report = check_pairs(source, target, rules)
    if report.num_kept == 0:
        raise ValueError(f"`dataset` must keep at least one pair under {rules}, got none: {report}. Relax the rules.")
    return (dataset if report.num_dropped == 0 else dataset.select(np.flatnonzero(~violated))), report


def check_pairs(source: np.ndarray, target: np.ndarray, rules: CleaningRules) -> tuple[np.ndarray, CleaningReport]:
    """Which pairs the rules drop, (N,) bool, and the count of them by reason.

    Args:
        source: Tokens of each source sentence, (N,).
        target: Tokens of each target sentence, (N,).
        rules: What to ask of each pair.
    """
    violations = _violations(source, target, rules)
    reasons = np.select(list(violations.values()), np.arange(1, 1 + len(violations)), default=0)
    num_kept, *counts = np.bincount(reasons, minlength=1 + len(violations)).tolist()
    return reasons > 0, CleaningReport(num_kept, dict(zip(violations, counts, strict=True)))


def _violations(source: np.ndarray, target: np.ndarray, rules: CleaningRules) -> dict[str, np.ndarray]:
    """For each reason, in the order in which it counts, which pairs it drops, (N,) bool."""

    def exceeds(values: np.ndarray, limit: float | None) -> np.ndarray:
        return values > limit if limit is not None else np.zeros(len(values), dtype=bool)

    longer, shorter = np.maximum(source, target), np.maximum(np.minimum(source, target), 1)
    return {
        "empty_source": source <= 1,
        "empty_target": target <= 1,
        "source_too_long": exceeds(source, rules.max_source_tokens),
        "target_too_long": exceeds(target, rules.max_target_tokens),
        "length_ratio": exceeds(longer / shorter, rules.max_length_ratio),
        "over_token_budget": exceeds(source, rules.max_source_tokens_per_batch)
        | exceeds(target, rules.max_target_tokens_per_batch)
        | exceeds(source + target, rules.max_padded_tokens),
    }
