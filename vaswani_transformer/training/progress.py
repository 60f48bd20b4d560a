# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a training runs: a bar on a terminal, else a line for each entry of the log."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import has_length

_BLEU = "sacrebleu"
_NAMES = {"perplexity": "ppl", _BLEU: "BLEU"}  # others are called as in the log


class ProgressReport(TrainerCallback):
    """Reports on stderr: progress, loss, nll, perplexity, rate, gradient norm, tokens a second, time to go.

    It takes the place of the library's two callbacks for this. With `disable_tqdm` each log is a line, else the
    figures stand behind a bar. Validations are lines in both.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._evaluation_bar: Any = None
        self._start = time.perf_counter(), 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts the clock, and the bar at the update from which the training goes on."""
        self._start = time.perf_counter(), state.global_step
        if state.is_world_process_zero and not args.disable_tqdm:
            self._bar = tqdm(total=state.max_steps, initial=state.global_step, unit=" updates", dynamic_ncols=True)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Reports one entry of the log."""
        if not state.is_world_process_zero or not logs:
            return
        if "loss" not in logs:
            write(evaluation_line(logs, args, state) or other_line(logs, state))
        elif self._bar is not None:
            self._bar.set_postfix_str("  ".join(training_figures(logs)))
        else:
            write(training_line(logs, state, self._seconds_left(state)))

    def on_prediction_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        eval_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        """Moves the bar of an evaluation."""
        if not state.is_world_process_zero or args.disable_tqdm or not has_length(eval_dataloader):
            return
        if self._evaluation_bar is None:
            self._evaluation_bar = tqdm(total=len(eval_dataloader), unit=" batches", leave=False, dynamic_ncols=True)
        self._evaluation_bar.update()

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Removes the bar of an evaluation."""
        if self._evaluation_bar is not None:
            self._evaluation_bar.close()
        self._evaluation_bar = None

    def on_predict(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Any, **kwargs: Any
    ) -> None:
        """Removes the bar of a prediction."""
        self.on_evaluate(args, state, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Closes the bar."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    def _seconds_left(self, state: TrainerState) -> float | None:
        """Seconds to the last update, at the mean pace of this leg with its validations."""
        start, first_step = self._start
        updates = state.global_step - first_step
        return (time.perf_counter() - start) / updates * (state.max_steps - state.global_step) if updates else None


def write(line: str) -> None:
    """Writes a line above any bar."""
    tqdm.write(line, file=sys.stderr)


def training_line(logs: Mapping[str, Any], state: TrainerState, seconds_left: float | None) -> str:
    """One line of fixed columns for an entry of the log."""
    total = f"{state.max_steps:,}"
    figures = [f"{state.global_step:>{len(total)},} of {total}", *training_figures(logs)]
    if "epoch" in logs:
        figures.insert(1, f"epoch {logs['epoch']:6.2f}")
    if seconds_left is not None:
        figures.append(f"ETA {format_duration(seconds_left)}")
    return "  ".join(figures)


_COLUMNS = (
    ("loss", "loss {:7.4f}"),
    ("nll", "nll {:7.4f}"),
    ("perplexity", "ppl {:9,.2f}"),
    ("learning_rate", "lr {:.2e}"),
    ("grad_norm", "grad norm {:7.3f}"),
    ("tokens_per_second", "{:9,.0f} tokens/s"),
)


def training_figures(logs: Mapping[str, Any]) -> list[str]:
    """The figures of an entry of the log, in the order of the columns."""
    return [form.format(logs[name]) for name, form in _COLUMNS if name in logs]


def evaluation_line(logs: Mapping[str, Any], args: TrainingArguments, state: TrainerState) -> str:
    """One line for an evaluation, with the best so far; empty for other entries of the log."""
    prefix = next((name.removesuffix("loss") for name in logs if name.endswith("_loss")), None)
    if prefix is None or prefix == "train_":
        return ""
    names = ("loss", "nll", "perplexity", _BLEU)
    figures = [_named(name, logs[prefix + name]) for name in names if prefix + name in logs]
    title = "validation" if prefix == "eval_" else prefix.strip("_")
    line = f"{title} after {state.global_step:,} updates: {', '.join(figures)}"
    best = best_validation(state.log_history, args) if prefix == "eval_" else None
    if best is None:
        return line
    metric, entry = best
    return f"{line}; best {_named(metric.removeprefix('eval_'), entry[metric])} after {entry['step']:,}"


def _named(name: str, value: float) -> str:
    """A figure of an evaluation with its name."""
    return f"{_NAMES.get(name, name)} {value:,.{2 if name in _NAMES else 4}f}"


def other_line(logs: Mapping[str, Any], state: TrainerState) -> str:
    """One line for any other entry of the log, such as the last."""
    if "train_runtime" in logs:
        return f"{state.global_step:,} updates in {format_duration(logs['train_runtime'])}"
    texts = {name: f"{value:,.6g}" if isinstance(value, float) else str(value) for name, value in logs.items()}
    return f"after {state.global_step:,} updates: {', '.join(f'{name} {text}' for name, text in texts.items())}"


def best_validation(log: Sequence[Mapping[str, Any]], args: TrainingArguments) -> tuple[str, Mapping[str, Any]] | None:
    """The best validation of a log, the earliest if several are.

    It is the best by `metric_for_best_model`, else by BLEU, else by nll.

    Args:
        log: `log_history` of a trainer's state.
        args: Arguments of the training.

    Returns:
        The figure that decided and the log's entry; None if the log has no validation with it.
    """
    chosen = args.metric_for_best_model
    metric = next(
        (name for name in (chosen, _BLEU, "nll") if name and any(_key(name) in entry for entry in log)), None
    )
    if metric is None:
        return None
    key = _key(metric)
    entries = [entry for entry in log if key in entry]
    is_greater_better = args.greater_is_better if metric == chosen else metric == _BLEU
    return key, (max if is_greater_better else min)(entries, key=lambda entry: entry[key])


def _key(metric: str) -> str:
    return metric if metric.startswith("eval_") else f"eval_{metric}"


def format_duration(seconds: float) -> str:
    """Hours and minutes, or minutes and seconds, rounded."""
    if seconds < 3600:
        return f"{round(seconds) // 60}:{round(seconds) % 60:02d} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"
