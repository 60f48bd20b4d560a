# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The log of a training as lines."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import Any

from transformers import PrinterCallback, TrainerControl, TrainerState, TrainingArguments


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
