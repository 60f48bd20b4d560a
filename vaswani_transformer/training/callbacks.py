# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trainer callbacks: print the progress, time the updates, and count tokens and seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
from transformers import (
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import ExportableState
from transformers.utils import logging

from ..loss_vaswani_transformer import IGNORE_INDEX
from ..version import __version__

logger = logging.get_logger(__name__)

_SECONDS_BETWEEN_LINES = 60  # if stderr is not a terminal
# Metrics of a validation that are not printed.
_HIDDEN = {
    "eval_loss",
    "eval_nll",
    "eval_runtime",
    "eval_samples_per_second",
    "eval_steps_per_second",
    "epoch",
}


class LogLines(PrinterCallback):
    """Print the progress of a training on stderr.

    On a terminal, one line is updated in place. If stderr is not a terminal, a line is printed
    about once a minute. Each validation gets a line of its own. `trainer_state.json` and experiment
    trackers get all metrics, also those that are not printed.
    """

    _start: tuple[float, int]
    _last_print = -math.inf

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock and explain the printed metrics."""
        self._start = time.perf_counter(), state.global_step
        if state.is_world_process_zero:
            print(
                "Perplexity is exp(nll). nll is the mean negative log-likelihood per target "
                "token, that is, the loss without label smoothing.",
                file=sys.stderr,
            )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Print the progress from a training log entry, or the metrics from a validation entry."""
        if not state.is_world_process_zero or not logs:
            return
        if "loss" in logs:
            self._print_progress(state, logs)
        elif any(name.startswith("eval_") for name in logs):
            figures = "  ".join(
                f"{name.removeprefix('eval_')} {_figure(value)}"
                for name, value in logs.items()
                if name not in _HIDDEN
            )
            print(
                f"\nvalidation after {state.global_step:,} updates: {figures}",
                file=sys.stderr,
                flush=True,
            )

    def _print_progress(self, state: TrainerState, logs: dict[str, Any]) -> None:
        """Print the number of updates, the metrics, and the remaining time at the mean speed."""
        now = time.perf_counter()
        is_terminal = sys.stderr.isatty()
        is_last = state.global_step >= state.max_steps
        is_due = now - self._last_print >= _SECONDS_BETWEEN_LINES
        if not (is_terminal or is_last or is_due):
            return
        self._last_print = now
        parts = [f"update {state.global_step:,} of {state.max_steps:,}"]
        for name in ("perplexity", "tokens_per_second"):
            if logs.get(name) is not None:
                parts.append(f"{name.replace('_', ' ')} {_figure(logs[name])}")
        start, first_step = self._start
        pace = (now - start) / max(state.global_step - first_step, 1)
        seconds_left = pace * (state.max_steps - state.global_step)
        parts.append(f"{timedelta(seconds=round(seconds_left))} left")
        line = "  ".join(parts)
        if is_terminal:
            print(f"\r{line:<79}", end="\n" if is_last else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _figure(value: Any) -> str:
    """Format a number with four significant digits, or as an integer if it is at least 1,000.

    Return any other value as text.
    """
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


class PaceCallback(TrainerCallback):
    """Measure the mean time of an update, and stop the training after a time limit.

    The mean leaves out the first two updates, because they are slower.

    Attributes:
        limit: Time limit in seconds, counted from the end of the first update. The training stops
            after the first update that ends past the limit, but not before the fourth update.
        seconds: Mean time in seconds of the updates from the third one on. `seconds` is NaN until
            the third update ends.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.seconds = math.nan
        self._times: list[float] = []

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Record the end of an update, and stop the training once the time limit is exceeded."""
        if args.device.type != "cpu":
            torch.accelerator.synchronize(args.device)
        self._times.append(time.perf_counter())
        count = len(self._times)
        if count > 2:
            self.seconds = (self._times[-1] - self._times[1]) / (count - 2)
        control.should_training_stop |= count > 3 and self._times[-1] - self._times[0] > self.limit


class CostCallback(TrainerCallback, ExportableState):
    """Count the tokens and the seconds of a training, including those before a resume.

    The counts stay on the device until the trainer calls `settle`. The trainer does so when it must
    wait for the device anyway. `trainer_state.json` contains the counts, and a resumed training
    continues from them. If a training is resumed from a checkpoint, the updates after that
    checkpoint are lost, so they do not count. The time is wall time: it includes validations,
    saving and waiting for data. Each process has one device: an accelerator or the CPU.

    Attributes:
        source_tokens: Number of source tokens of all processes up to the last call of `settle`,
            without padding and with `</s>`.
        target_tokens: Number of target tokens, counted in the same way.
        seconds: Wall time of all runs before the last resume. `stop` adds the time of the current
            run.
        device_seconds: The same times, each multiplied by the number of devices of its run.
        code_versions: Versions of this package that ran the training, in order, each once.
        bpe_dropout: [update, rate] of each change of the BPE-dropout rate.
    """

    def __init__(self) -> None:
        self.source_tokens = self.target_tokens = 0
        self.seconds = self.device_seconds = 0.0
        self.code_versions: list[str] = []
        self.bpe_dropout: list[list[float]] = []
        self._unsettled: torch.Tensor | None = None
        self._start: float | None = None
        self._num_devices = 1
        self._lap_start = 0.0
        self._lap_tokens = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock.

        A resumed training keeps the counts of its checkpoint. A new training resets the counts.
        """
        if state.global_step == 0:
            vars(self).update(CostCallback().state()["attributes"])
        self.code_versions = [*dict.fromkeys([*self.code_versions, __version__])]
        earlier_rate = self.bpe_dropout[-1][1] if self.bpe_dropout else 0.0
        if args.bpe_dropout != earlier_rate:  # type: ignore[attr-defined]
            self.bpe_dropout.append([state.global_step, args.bpe_dropout])  # type: ignore[attr-defined]
        self._unsettled = torch.zeros(2, dtype=torch.int64, device=args.device)
        self._num_devices = args.world_size
        self._start = self._lap_start = time.perf_counter()
        self._lap_tokens = self.source_tokens + self.target_tokens

    def lap(self) -> float | None:
        """Return the tokens per second since the last call, or None if there were no tokens.

        The source and target tokens of all processes are counted together. Call `settle` first to
        add up these tokens.
        """
        now = time.perf_counter()
        num_tokens = self.source_tokens + self.target_tokens
        counted, seconds = num_tokens - self._lap_tokens, now - self._lap_start
        self._lap_tokens, self._lap_start = num_tokens, now
        return counted / seconds if counted else None

    def count(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Count the tokens of a micro-batch, without waiting for the device.

        Args:
            inputs: Batch of a collator. If all labels of a row are -100, the row is there only to
                fill up the batch, so its tokens do not count.
        """
        if self._unsettled is None or "input_ids" not in inputs or "labels" not in inputs:
            return
        attended = inputs.get("attention_mask")
        attended = torch.ones_like(inputs["input_ids"]) if attended is None else attended
        learned = inputs["labels"].ne(IGNORE_INDEX)
        tokens = torch.stack(
            [(attended.ne(0) & learned.any(dim=1, keepdim=True)).sum(), learned.sum()]
        )
        self._unsettled = self._unsettled.to(tokens.device, non_blocking=True) + tokens

    def fetch(self) -> None:
        """Start copying the counts to the CPU.

        If something else waits for the device after this, then `settle` need not wait again.
        """
        if self._unsettled is not None:
            self._unsettled = self._unsettled.to("cpu", non_blocking=True)

    def settle(self, accelerator: Any) -> None:
        """Add to the totals what all processes have counted since the last call.

        Every process must call this method.
        """
        if self._unsettled is not None:
            source, target = accelerator.reduce(self._unsettled, "sum").tolist()
            self.source_tokens += source
            self.target_tokens += target
            self._unsettled = torch.zeros_like(self._unsettled, device=accelerator.device)

    def stop(self) -> None:
        """Stop the clock, and add the time of the current run to the totals."""
        vars(self).update(self.state()["attributes"])  # `seconds` with those of the current run
        self._start = None

    def state(self) -> dict[str, Any]:
        """Return the current counts, in the format in which `Trainer` saves callbacks."""
        elapsed = 0.0 if self._start is None else time.perf_counter() - self._start
        attributes = {
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "seconds": self.seconds + elapsed,
            "device_seconds": self.device_seconds + elapsed * self._num_devices,
            "code_versions": list(self.code_versions),
            "bpe_dropout": list(self.bpe_dropout),
        }
        return {"args": {}, "attributes": attributes}

    def metrics(self) -> dict[str, Any]:
        """Return the counts as metrics, with the keys of `train_results.json`.

        The metrics include the runs before a resume. The result is empty if no tokens were counted.
        """
        figures = self.state()["attributes"]
        num_tokens = figures["source_tokens"] + figures["target_tokens"]
        if num_tokens == 0:
            return {}
        return {
            "train_source_tokens": figures["source_tokens"],
            "train_target_tokens": figures["target_tokens"],
            "train_runtime": figures["seconds"],
            "train_tokens_per_second": num_tokens / figures["seconds"],
            "train_device_seconds": figures["device_seconds"],
            "train_bpe_dropout": figures["bpe_dropout"],
        }
