# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Stops a training that has diverged, with the reason and the last good checkpoint."""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .checkpoints import checkpoint_step, list_checkpoints

_MAX_OVERFLOWS = 50  # halvings that take any loss scale below every gradient
_ADVICE = "Train with a longer `warmup_steps`, a lower `learning_rate` or larger batches, and not in fp16."


class DivergenceGuard(TrainerCallback):
    """Raises ValueError when a loss or gradient norm is no finite number.

    On CPUs every update is looked at before it changes the weights. Other devices are not made to wait: sums are kept
    there and read at each log and before each validation, checkpoint and snapshot, so that none of these comes from
    diverged weights. In fp16 the loss scaler skips updates whose gradients overflow, as it should; 50 in a row stop.

    `logging_nan_inf_filter` of the arguments turns the search for non-finite numbers off, and
    `trainer.remove_callback(DivergenceGuard)` that for skipped updates, too.
    """

    def __init__(self) -> None:
        self._sums: torch.Tensor | None = None
        self._overflows = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Forgets an earlier training."""
        self._sums, self._overflows = None, 0

    def watch(
        self, args: TrainingArguments, state: TrainerState, loss: torch.Tensor, grad_norm: Any, was_skipped: bool
    ) -> None:
        """Notes an update before it is made, without waiting for a device.

        Args:
            args: Arguments of the training.
            state: Its state, which counts the finished updates.
            loss: Loss of the update, or a sum with those before it.
            grad_norm: Norm of its gradients, a tensor or a number; None if it is not known.
            was_skipped: Whether the loss scaler skipped the update before this one.

        Raises:
            ValueError: On a CPU if one of them is not finite; on any device after too many skipped updates.
        """
        self._overflows = self._overflows + 1 if was_skipped else 0
        if self._overflows >= _MAX_OVERFLOWS:
            raise _diverged(args, state, "`grad_norm`", f"overflows in {self._overflows} updates in a row")
        norm = torch.as_tensor(
            0.0 if args.fp16 or grad_norm is None else grad_norm, dtype=torch.float32, device=loss.device
        ).detach()
        sums = torch.stack([loss.detach().float(), norm])
        self._sums = sums if self._sums is None else self._sums + sums
        if loss.device.type == "cpu":
            self._raise_if_not_finite(args, state, f"at update {state.global_step + 1}")

    def check(self, args: TrainingArguments, state: TrainerState) -> None:
        """Looks at what was noted since the last time; every process calls it.

        Raises:
            ValueError: If a loss or a gradient norm of any process was not finite.
        """
        if self._sums is not None and self._sums.device.type != "cpu" and torch.distributed.is_initialized():
            torch.distributed.all_reduce(self._sums)
        self._raise_if_not_finite(args, state, f"by update {state.global_step}")

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Looks before anything is written or measured."""
        num_snapshots, every = getattr(args, "num_averaged_snapshots", 0), getattr(args, "snapshot_steps", 1)
        writes_snapshot = num_snapshots > 0 and state.global_step % every == 0
        if control.should_log or control.should_evaluate or control.should_save or writes_snapshot:
            self.check(args, state)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Looks once more when the last update is made."""
        self.check(args, state)

    def _raise_if_not_finite(self, args: TrainingArguments, state: TrainerState, when: str) -> None:
        """Raises ValueError on sums that are not finite, and begins new ones."""
        sums, self._sums = self._sums, None
        if sums is None or args.logging_nan_inf_filter:
            return
        for name, value in zip(("loss", "grad_norm"), sums.tolist(), strict=True):
            if not math.isfinite(value):
                raise _diverged(args, state, f"`{name}`", f"{value} {when}")


def _diverged(args: TrainingArguments, state: TrainerState, name: str, value: str) -> ValueError:
    """The error, with the newest checkpoint of an update that was good."""
    good = [path for path in list_checkpoints(str(args.output_dir)) if checkpoint_step(path) <= state.global_step]
    place = f"The last good checkpoint is {good[-1]}." if good else f"{args.output_dir} holds no good checkpoint yet."
    return ValueError(f"{name} must stay a finite number, got {value}. {_ADVICE} {place}")
