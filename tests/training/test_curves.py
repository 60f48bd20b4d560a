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


@pytest.mark.parametrize("figures", [{}, {"eval_sacrebleu": 20.0}])
def test_curves_are_the_figures_of_the_log(figures, tmp_path):
    assert curves(training_curves.draw([write_log(tmp_path / "run", 30, **figures)])) == {
        ("validation perplexity", "run"): [
            (10, math.exp(2)),
            (20, math.exp(1)),
            (30, math.exp(20 / 30)),
        ],
        **(
            {("validation sacreBLEU", "run"): [(step, 20.0) for step in (10, 20, 30)]}
            if figures
            else {}
        ),
        ("training nll, nats per token", "run"): [(step, 1 / step) for step in range(1, 31)],
        ("learning rate", "run"): [(step, step * 1e-4) for step in range(1, 31)],
    }


def test_other_runs_are_drawn_as_far_as_they_went_in_the_first_runs_folder(tmp_path):
    runs = [write_log(tmp_path / name, steps) for name, steps in (("run", 30), ("short", 20))]
    found = curves(training_curves.draw(runs))
    assert found["validation perplexity", "short"] == [(10, math.exp(2)), (20, math.exp(1))]
    assert len(found["validation perplexity", "run"]) == 3
    training_curves.main([*map(str, runs)])
    assert (tmp_path / "run" / "training_curves.png").read_bytes().startswith(b"\x89PNG")
