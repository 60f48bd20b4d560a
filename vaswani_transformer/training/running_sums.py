# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What each process of a training has summed up when a checkpoint is saved, beside the library's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from ..files import PROGRESS_FILES, read_json, write_json


@dataclass(frozen=True, kw_only=True)
class RunningSums:
    """Sums of one process, as they lie in a checkpoint.

    Attributes:
        loss_since_log: Loss of the updates since the last line of the log.
        nll_since_log: The same unsmoothed.
        step_of_last_log: Update of that line.
        logged_loss: Loss of all updates before it.
        first_step: Update before the first that `logged_loss` counts.
        data: Place of a stream that is read; None for other data.
        pairs_and_tokens: Pairs, source and target tokens of the training set; None of a stream.
        plan_version: `PLAN_VERSION` of the batches; release 0.1.0 did not write it.
        skipped_updates: Updates of an epoch that were left out because the plan had changed.
    """

    loss_since_log: float
    nll_since_log: float
    step_of_last_log: int
    logged_loss: float
    first_step: int
    data: dict[str, Any] | None
    pairs_and_tokens: list[int] | None
    plan_version: int = 1
    skipped_updates: int = 0

    def save(self, checkpoint: Path, process_index: int) -> None:
        """Writes them into a checkpoint."""
        write_json(checkpoint / PROGRESS_FILES.replace("*", str(process_index)), asdict(self))

    @classmethod
    def load(cls, checkpoint: Path, args: TrainingArguments) -> RunningSums | None:
        """Those of this process, or its share of those of another number; None if the library's trainer saved.

        Raises:
            ValueError: If a stream was read by another number of processes.
        """
        paths = sorted(checkpoint.glob(PROGRESS_FILES))
        own = checkpoint / PROGRESS_FILES.replace("*", str(args.process_index))
        if not paths:
            return None
        if len(paths) == args.world_size and own in paths:
            return _read(own)
        saved = [_read(path) for path in paths]
        if saved[0].data is not None:
            raise ValueError(
                f"A training on a stream must be resumed with as many processes as it had, {len(paths)}, got "
                f"{args.world_size}. Start {len(paths)}."
            )
        # the loss is averaged over processes, nll is summed
        nll_share = 1 / args.world_size if args.average_tokens_across_devices else 1 / len(saved)
        shared = {
            "loss_since_log": sum(sums.loss_since_log for sums in saved) * (1 / len(saved)),
            "nll_since_log": sum(sums.nll_since_log for sums in saved) * nll_share,
        }
        return RunningSums(**asdict(saved[0]) | shared)


def holds_sums(content: Mapping[str, Any]) -> bool:
    """Whether a file's content is that of `RunningSums`."""
    required = {field.name for field in fields(RunningSums) if field.default is MISSING}
    return required <= set(content) <= {field.name for field in fields(RunningSums)}


def _read(path: Path) -> RunningSums:
    return RunningSums(**read_json(path))
