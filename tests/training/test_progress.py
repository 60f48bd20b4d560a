# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a training: the figures of the log, as lines or behind a bar."""

import math
import re
from types import SimpleNamespace

import pytest
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainerState

from vaswani_transformer.training import progress
from vaswani_transformer.training.progress import ProgressReport, best_validation, format_duration, training_line


def number(text):
    return float(text.replace(",", ""))


@pytest.fixture
def reported(make_trainer, dataset, capsys):
    """Trainer of a run with validations, and what it wrote to stderr and stdout."""
    options = {"eval_dataset": dataset.select(range(4)), "eval_strategy": "steps", "eval_steps": 3}
    trainer = make_trainer(max_steps=6, logging_steps=2, generation_num_beams=1, **options)
    trainer.train()
    return trainer, *capsys.readouterr()[::-1]


def test_lines_hold_the_figures_of_the_log(reported):
    trainer, error, output = reported
    pattern = (
        r" *(\S+) of 6  epoch +(\S+)  loss +(\S+)  nll +(\S+)  ppl +(\S+)  lr (\S+)  grad norm +(\S+) +(\S+) tokens/s"
        r"  ETA (\d+:\d\d min)"
    )
    lines = [match for line in error.splitlines() if (match := re.fullmatch(pattern, line))]
    names = ("step", "epoch", "loss", "nll", "perplexity", "learning_rate", "grad_norm", "tokens_per_second")
    entries = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(lines) == len(entries) == 3
    for match, entry in zip(lines, entries, strict=True):
        shown = [number(match[group]) for group in range(1, 9)]
        assert shown == pytest.approx([entry[name] for name in names], rel=5e-3, abs=0.5e-2)
    assert lines[-1][9] == "0:00 min"
    assert len({len(match[0]) for match in lines}) == 1  # columns are aligned
    assert output == ""


def test_validations_are_lines_with_the_best_so_far(reported):
    trainer, error, _ = reported
    entries = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    lines = [line for line in error.splitlines() if line.startswith("validation")]
    best = None
    for line, entry in zip(lines, entries, strict=True):
        best = entry if best is None or entry["eval_sacrebleu"] > best["eval_sacrebleu"] else best
        assert line == (
            f"validation after {entry['step']} updates: loss {entry['eval_loss']:.4f}, nll {entry['eval_nll']:.4f}, "
            f"ppl {entry['eval_perplexity']:.2f}, BLEU {entry['eval_sacrebleu']:.2f}; best BLEU "
            f"{best['eval_sacrebleu']:.2f} after {best['step']}"
        )


def test_logged_perplexity_is_that_of_the_exact_nll(reported):
    for entry in reported[0].state.log_history:
        if "loss" in entry:
            assert entry["perplexity"] == math.exp(entry["nll"])


def test_librarys_own_report_is_replaced(make_trainer):
    for disable_tqdm in (True, False):
        callbacks = make_trainer(disable_tqdm=disable_tqdm).callback_handler.callbacks
        assert not any(isinstance(callback, (PrinterCallback, ProgressCallback)) for callback in callbacks)


def test_users_own_report_is_kept(make_trainer):
    class Mine(ProgressCallback):
        pass

    mine = Mine()
    assert mine in make_trainer(extra={"callbacks": [mine]}).callback_handler.callbacks


def test_report_is_removed_by_the_librarys_means(make_trainer, capsys):
    trainer = make_trainer(max_steps=2)
    trainer.remove_callback(ProgressReport)
    trainer.train()
    assert "loss" not in capsys.readouterr().err


def test_bar_shows_the_figures_and_goes_on_where_a_training_is_resumed(make_trainer, dataset, capsys):
    options = {"eval_dataset": dataset.select(range(4)), "eval_strategy": "steps", "eval_steps": 2}
    options |= {"save_strategy": "steps", "save_steps": 2, "predict_with_generate": False}
    make_trainer(max_steps=2, **options).train()
    capsys.readouterr()
    trainer = make_trainer(max_steps=4, disable_tqdm=False, **options)
    trainer.train(resume_from_checkpoint=True)
    error = capsys.readouterr().err.replace("\r", "\n")
    last = [entry for entry in trainer.state.log_history if "loss" in entry][-1]
    assert "| 2/4 " in error and "| 0/4 " not in error
    bar = [line for line in error.splitlines() if "| 4/4 " in line][-1]
    assert f"loss {last['loss']:7.4f}  nll {last['nll']:7.4f}" in bar
    assert "tokens/s" in bar
    assert f"validation after 4 updates: loss {trainer.state.log_history[-2]['eval_loss']:.4f}" in error


def test_time_to_go_is_that_of_the_mean_pace_of_this_leg(monkeypatch):
    clock = iter([100.0, 700.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    report, written = ProgressReport.__new__(ProgressReport), []
    monkeypatch.setattr(progress, "write", written.append)
    report._bar, state = None, TrainerState(global_step=1000, max_steps=5000)
    args = SimpleNamespace(disable_tqdm=True)
    report.on_train_begin(args, state, None)
    state.global_step = 1500  # 500 updates in 600 seconds: 3,500 more need 4,200
    report.on_log(args, state, None, logs={"loss": 1.0})
    assert written == ["1,500 of 5,000  loss  1.0000  ETA 1:10 h"]


def test_columns_stay_aligned_from_the_first_update_to_the_last():
    logs = {"loss": 9.5, "nll": 9.1, "perplexity": 8955.29, "learning_rate": 1e-7, "grad_norm": 0.5}
    late = {"loss": 10.5, "nll": 0.01, "perplexity": 1.01, "learning_rate": 7e-4, "grad_norm": 11.25}
    lines = [
        training_line({**logs, "epoch": 0.01, "tokens_per_second": 90.0}, TrainerState(max_steps=99_999), 60.0),
        training_line(
            {**late, "epoch": 100.5, "tokens_per_second": 123_456.7},
            TrainerState(global_step=99_999, max_steps=99_999),
            60.0,
        ),
    ]
    assert len(lines[0]) == len(lines[1])


def test_other_processes_say_nothing(make_trainer, capsys):
    class Second(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            state.is_world_process_zero = False

    make_trainer(max_steps=2, extra={"callbacks": [Second()]}).train()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0:00 min"), (89.6, "1:30 min"), (3599, "59:59 min"), (3600, "1:00 h"), (360_000, "100:00 h")],
)
def test_durations_are_hours_and_minutes_or_minutes_and_seconds(seconds, text):
    assert format_duration(seconds) == text


LOG = [
    {"step": 1, "eval_sacrebleu": 5.0, "eval_nll": 1.0, "eval_loss": 1.5},
    {"step": 2, "eval_sacrebleu": 7.0, "eval_nll": 2.0, "eval_loss": 1.2},
    {"step": 3, "eval_sacrebleu": 7.0, "eval_nll": 3.0, "eval_loss": 1.3},
]


@pytest.mark.parametrize(
    ("metric", "names", "step"),
    [(None, ("sacrebleu", "nll"), 2), (None, ("nll",), 1), ("loss", ("sacrebleu", "loss"), 2), ("nll", ("nll",), 1)],
)
def test_best_validation_is_that_of_the_metric_that_decides_else_bleu_else_nll(metric, names, step):
    log = [{"step": entry["step"], **{f"eval_{name}": entry[f"eval_{name}"] for name in names}} for entry in LOG]
    args = SimpleNamespace(metric_for_best_model=metric, greater_is_better=False if metric else None)
    assert best_validation(log, args)[1]["step"] == step


def test_log_without_validations_has_no_best():
    assert best_validation([{"step": 1, "loss": 2.0}], SimpleNamespace(metric_for_best_model=None)) is None
