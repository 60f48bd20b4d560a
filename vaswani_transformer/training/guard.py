# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Stops a training that has diverged, with the reason and the last good checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .checkpoints import checkpoint_step, list_checkpoints

_MIN_WINDOW, _MIN_PATIENCE = 100, 1000  # updates
_TOLERANCE = 1.05  # a loss that has come to rest moves by far less, one that has diverged by more
_MAX_OVERFLOWS = 50  # halvings that take any loss scale below every gradient
_ADVICE = "Train with a longer `warmup_steps`, a lower `learning_rate` or larger batches, and not in fp16."


@dataclass(frozen=True)
class LossRise:
    """A loss that stays above its value at the end of warm-up.

    Attributes:
        loss: Mean over the last updates.
        end_of_warmup: The same mean at the end of warm-up.
        last_good_step: Last logged update at which the mean was not above that value.
    """

    loss: float
    end_of_warmup: float
    last_good_step: int


class DivergenceGuard(TrainerCallback):
    """Raises ValueError when a loss or gradient norm is no finite number, or when the loss has risen for long.

    On CPUs every update is looked at before it changes the weights. Other devices are not made to wait: sums are kept
    there and read at each log and before each validation, checkpoint and snapshot, so that none of these comes from
    diverged weights. In fp16 the loss scaler skips updates whose gradients overflow, as it should; 50 in a row stop.

    For the other sign see `find_rise`. It needs the log alone, which every checkpoint holds.

    `logging_nan_inf_filter` of the arguments turns the search for non-finite numbers off, and
    `trainer.remove_callback(DivergenceGuard)` all of it.
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
        if args.fp16 or grad_norm is None:
            grad_norm = 0.0
        elif hasattr(grad_norm, "full_tensor"):  # of a model that FSDP shards
            grad_norm = grad_norm.full_tensor()
        norm = torch.as_tensor(grad_norm, dtype=torch.float32, device=loss.device).detach()
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

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Looks at the loss over time, and once more when the last update is made."""
        self.check(args, state)
        if "loss" not in (logs or {}):
            return
        if rise := find_rise(state.log_history, args.get_warmup_steps(state.max_steps)):
            raise _diverged(
                args,
                state,
                "`loss`",
                f"{rise.loss:.3f} by update {state.global_step} after {rise.end_of_warmup:.3f} then",
                rule="must not stay above its value at the end of warm-up",
                last_good_step=rise.last_good_step,
            )

    def _raise_if_not_finite(self, args: TrainingArguments, state: TrainerState, when: str) -> None:
        """Raises ValueError on sums that are not finite, and begins new ones."""
        sums, self._sums = self._sums, None
        if sums is None or args.logging_nan_inf_filter:
            return
        for name, value in zip(("loss", "grad_norm"), sums.tolist(), strict=True):
            if not np.isfinite(value):
                raise _diverged(args, state, f"`{name}`", f"{value} {when}")


def find_rise(log: Sequence[Mapping[str, Any]], warmup_steps: int) -> LossRise | None:
    """Whether a training's loss has been above its value at the end of warm-up for long, as it is after divergence.

    The loss is the mean over the last tenth of a warm-up, at least 100 updates. It counts as risen when it is more
    than 5 % above that at the end of warm-up in every line of the log for as many updates as the warm-up has, at
    least 1,000.

    Args:
        log: `log_history` of a trainer's state.
        warmup_steps: Updates of the warm-up.

    Returns:
        None if it has not.
    """
    points = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    patience, window = max(_MIN_PATIENCE, warmup_steps), max(_MIN_WINDOW, warmup_steps // 10)
    if not points or points[-1][0] <= warmup_steps:
        return None
    steps, losses = np.array([step for step, _ in points]), np.array([loss for _, loss in points])
    end_of_warmup = int(np.searchsorted(steps, warmup_steps, side="right")) - 1
    if end_of_warmup < 0:
        return None
    ends, starts = np.arange(1, len(steps) + 1), np.searchsorted(steps, steps - window, side="right")
    sums = np.concatenate([[0.0], losses.cumsum()])
    means = (sums[ends] - sums[starts]) / (ends - starts)
    reference = means[end_of_warmup]
    good = np.flatnonzero(means[end_of_warmup:] <= max(reference, reference * _TOLERANCE)) + end_of_warmup
    last_good_step = int(steps[good[-1]])
    if steps[-1] - last_good_step < patience:
        return None
    return LossRise(float(means[-1]), float(reference), last_good_step)


def _diverged(
    args: TrainingArguments,
    state: TrainerState,
    name: str,
    value: str,
    *,
    rule: str = "must stay a finite number",
    last_good_step: int | None = None,
) -> ValueError:
    """The error, with the newest checkpoint of an update that was good."""
    last_good_step = state.global_step if last_good_step is None else last_good_step
    good = [path for path in list_checkpoints(str(args.output_dir)) if checkpoint_step(path) <= last_good_step]
    place = f"The last good checkpoint is {good[-1]}." if good else f"{args.output_dir} holds no good checkpoint yet."
    return ValueError(f"{name} {rule}, got {value}. {_ADVICE} {place}")
