# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Callbacks of a training: the log as lines, the end at NaN, and stop signals."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging

from .checkpoints import checkpoint_step, list_checkpoints

logger = logging.get_logger(__name__)

_UPDATES_BETWEEN_AGREEMENTS = 10
_MAX_OVERFLOWS = 50  # halvings that take any loss scale below every gradient


class LogLines(PrinterCallback):
    """Prints each entry of the log as one line on stderr, with the time to go at the mean pace so far."""

    _start: tuple[float, int] | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts the clock."""
        self._start = time.perf_counter(), state.global_step

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Prints an entry."""
        if not state.is_world_process_zero or not logs:
            return
        figures = [f"{state.global_step:,} of {state.max_steps:,}"]
        for name, value in logs.items():
            if name != "total_flos":
                figures.append(f"{name} {value:,.0f}" if value >= 1000 else f"{name} {value:.4g}")
        if "loss" in logs and self._start is not None:
            start, first_step = self._start
            pace = (time.perf_counter() - start) / max(state.global_step - first_step, 1)
            figures.append(f"ETA {timedelta(seconds=round(pace * (state.max_steps - state.global_step)))}")
        print("  ".join(figures), file=sys.stderr, flush=True)


class DivergenceGuard(TrainerCallback):
    """Raises ValueError when a loss or gradient norm is no finite number.

    On CPUs every update is checked before it changes the weights. On other devices, which are not made to wait, sums
    are checked at each log and before each validation, checkpoint and snapshot, so that none of these comes from
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
            was_skipped: True if the loss scaler skipped the update before this one.

        Raises:
            ValueError: On a CPU if one of them is not finite; on any device after too many skipped updates.
        """
        self._overflows = self._overflows + 1 if was_skipped else 0
        if self._overflows >= _MAX_OVERFLOWS:
            raise _diverged(args, state, "`grad_norm`", f"overflows in {self._overflows} updates in a row")
        known_norm = 0.0 if args.fp16 or grad_norm is None else grad_norm
        norm = torch.as_tensor(known_norm, dtype=torch.float32, device=loss.device).detach()
        sums = torch.stack([loss.detach().float(), norm])
        self._sums = sums if self._sums is None else self._sums + sums
        if loss.device.type == "cpu":
            self._raise_if_not_finite(args, state, f"at update {state.global_step + 1}")

    def check(self, args: TrainingArguments, state: TrainerState) -> None:
        """Checks what was noted since the last time; every process calls it.

        Raises:
            ValueError: If a loss or a gradient norm of any process was not finite.
        """
        if self._sums is not None and self._sums.device.type != "cpu" and torch.distributed.is_initialized():
            torch.distributed.all_reduce(self._sums)
        self._raise_if_not_finite(args, state, f"by update {state.global_step}")

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Checks before anything is written or measured."""
        num_snapshots, every = getattr(args, "num_averaged_snapshots", 0), getattr(args, "snapshot_steps", 1)
        writes_snapshot = num_snapshots > 0 and state.global_step % every == 0
        if control.should_log or control.should_evaluate or control.should_save or writes_snapshot:
            self.check(args, state)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Checks once more when the last update is made."""
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
    """Error that names the newest checkpoint before the divergence."""
    good = [path for path in list_checkpoints(str(args.output_dir)) if checkpoint_step(path) <= state.global_step]
    place = f"The last good checkpoint is {good[-1]}." if good else f"{args.output_dir} holds no good checkpoint yet."
    return ValueError(
        f"{name} must stay a finite number, got {value}. Train with a longer `warmup_steps`, a lower `learning_rate` "
        f"or larger batches, and not in fp16. {place}"
    )


class TrainingInterrupted(KeyboardInterrupt):
    """Raised between two updates after a stop signal; the trainer's state can be saved."""


class StopCallback(TrainerCallback):
    """Raises `TrainingInterrupted` after the update, or in the evaluation, during which a stop was requested.

    Several processes all stop after the same update; they agree on it every 10 updates.

    Attributes:
        requested: True once this process was asked to stop.
    """

    def __init__(self) -> None:
        self.requested = False

    def stop_if_requested(self, args: TrainingArguments, state: TrainerState) -> None:
        """Stops after an update that is logged, evaluated and saved where that was due."""
        stop = self.requested
        if args.world_size > 1:
            if state.global_step % _UPDATES_BETWEEN_AGREEMENTS != 0:
                return
            requests = torch.tensor(int(stop), device=args.device)
            torch.distributed.all_reduce(requests, op=torch.distributed.ReduceOp.MAX)
            stop = bool(requests.item())
        if stop:
            raise TrainingInterrupted

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stops inside an evaluation, which a resume repeats; several processes wait for its end instead."""
        if self.requested and args.world_size == 1:
            raise TrainingInterrupted


@contextlib.contextmanager
def stop_signals(callback: StopCallback, world_size: int) -> Iterator[None]:
    """Turns SIGINT and SIGTERM into requests to `callback`; a second one stops a single process at once.

    Launchers repeat a signal to each of several processes, so there a repeated one changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def request_stop(number: int, frame: FrameType | None) -> None:
        if callback.requested and world_size == 1:
            raise KeyboardInterrupt
        if not callback.requested:
            again = " A second signal stops at once, unsaved." if world_size == 1 else ""
            logger.warning(f"Stopping: the running update is finished and a checkpoint saved first.{again}")
        callback.requested = True

    previous = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        callback.requested = False
