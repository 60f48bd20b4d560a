# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Stopping on SIGINT and SIGTERM at the end of an update, where a checkpoint can be resumed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging

logger = logging.get_logger(__name__)

_UPDATES_BETWEEN_AGREEMENTS = 10


class TrainingInterrupted(KeyboardInterrupt):
    """Raised between two updates after a stop signal; the trainer's state is whole."""


class StopCallback(TrainerCallback):
    """Raises `TrainingInterrupted` after the update, or in the evaluation, during which a stop was requested.

    With several processes all of them stop after the same update; they agree on it every 10 updates.

    Attributes:
        requested: Whether this process was asked to stop.
    """

    def __init__(self) -> None:
        self.requested = False

    def stop_if_requested(self, args: TrainingArguments, state: TrainerState) -> None:
        """Stops after an update that is logged, evaluated and saved where that was due."""
        if args.world_size == 1:
            stop = self.requested
        elif state.global_step % _UPDATES_BETWEEN_AGREEMENTS == 0:
            stop = _any_process(self.requested, args.device)
        else:
            stop = False
        if stop:
            raise TrainingInterrupted

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stops inside an evaluation, which is made anew at the resume; several processes wait for its end instead."""
        if self.requested and args.world_size == 1:
            raise TrainingInterrupted


@contextlib.contextmanager
def stop_signals(callback: StopCallback, world_size: int) -> Iterator[None]:
    """Turns SIGINT and SIGTERM into requests to `callback`; a second one stops a single process at once.

    Args:
        callback: Receives the request.
        world_size: Number of processes. Launchers repeat a signal to each of many processes, so there a repeated one
            changes nothing.
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


def ignore_interrupts(worker: int) -> None:
    """Initialises a data loader's worker: signals are the main process's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _any_process(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set in any process."""
    flags = torch.tensor(int(flag), device=device)
    torch.distributed.all_reduce(flags, op=torch.distributed.ReduceOp.MAX)
    return bool(flags.item())
