# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training curves: the points drawn are the figures of the log."""

import json
import math

import pytest

pytest.importorskip("matplotlib", reason="needs the extra [viz]")

import training_curves


def write_log(folder, steps, **figures):
    """Writes the log of a run with a training entry every update and a validation every ten."""
    log = []
    for step in range(1, steps + 1):
        log.append({"step": step, "loss": 9.0, "nll": 1 / step, "learning_rate": step * 1e-4})
        if step % 10 == 0:
            log.append(
                {"step": step, "eval_loss": 9.0, "eval_perplexity": math.exp(20 / step), **figures}
            )
    folder.mkdir()
    (folder / "trainer_state.json").write_text(
        json.dumps({"global_step": steps, "log_history": log})
    )
    return folder


def curves(figure):
    """Points of all lines of a figure by the title of their panel and the name of their run."""
    return {
        (axes.get_title(), line.get_label()): list(map(tuple, line.get_xydata()))
        for axes in figure.axes
        for line in axes.get_lines()
    }


def test_curves_are_the_figures_of_the_logs_as_far_as_each_run_went(tmp_path):
    steps = {"run": 30, "short": 20}
    runs = [write_log(tmp_path / name, steps[name], eval_sacrebleu=20.0) for name in steps]
    found = curves(training_curves.draw(runs))
    for name, end in steps.items():
        validated = range(10, end + 1, 10)
        expected = [(step, math.exp(20 / step)) for step in validated]
        assert found["validation perplexity", name] == expected
        assert found["validation sacreBLEU", name] == [(step, 20.0) for step in validated]
        expected = [(step, 1 / step) for step in range(1, end + 1)]
        assert found["training nll, nats per token", name] == expected
    # Runs with the same name have a curve each.
    assert len(training_curves.draw([runs[0], runs[0]]).axes[0].get_lines()) == 2
    training_curves.main([*map(str, runs)])
    assert (tmp_path / "run" / "training_curves.png").read_bytes().startswith(b"\x89PNG")
