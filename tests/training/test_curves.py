# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training curves: the points drawn are the figures of the log."""

import math
import sys

import pytest
from curve_logs import make_log, write_state
from transformers.utils import logging

from vaswani_transformer.training.curves import draw_curves, draw_run, read_log

pytest.importorskip("matplotlib", reason="needs the extra [viz]")


def lines(figure):
    """Points of all lines of a figure by the label of their vertical axis and their own."""
    return {
        (axes.get_ylabel(), line.get_label() if axes.get_legend() else ""): list(map(tuple, line.get_xydata()))
        for axes in figure.axes
        for line in axes.get_lines()
    }


def test_curves_are_the_figures_of_the_log():
    found = lines(draw_curves(make_log(30)))
    assert found == {
        ("perplexity per target token", ""): [(10, math.exp(2)), (20, math.exp(1)), (30, math.exp(20 / 30))],
        ("nll, nats per token", ""): [(step, 1 / step) for step in range(1, 31)],
        ("learning rate", ""): [(step, step * 1e-4) for step in range(1, 31)],
    }


def test_bleu_is_drawn_where_validations_translate():
    log = make_log(30)
    for entry in log:
        if "eval_loss" in entry:
            entry["eval_sacrebleu"] = entry["step"] / 2
    assert lines(draw_curves(log))["sacreBLEU", ""] == [(10, 5.0), (20, 10.0), (30, 15.0)]


def test_validation_has_a_logarithmic_axis():
    assert draw_curves(make_log(30)).axes[0].get_yscale() == "log"


def test_other_runs_are_drawn_as_far_as_they_went():
    found = lines(draw_curves(make_log(30), {"short": make_log(20, 2.0)}, label="own"))
    assert found["perplexity per target token", "short"] == [(10, math.exp(4)), (20, math.exp(2))]
    assert len(found["perplexity per target token", "own"]) == 3
    assert len(found) == 4  # training and learning rate are the own run's only


def test_log_without_validations_is_refused_by_the_runs_label():
    with pytest.raises(ValueError, match="`short` must have validations"):
        draw_curves(make_log(30), {"short": make_log(9)})


def test_log_is_the_newest_checkpoints_where_the_run_has_none(tmp_path):
    write_state(tmp_path / "checkpoint-20", make_log(20))
    write_state(tmp_path / "checkpoint-100", make_log(100))
    assert read_log(tmp_path) == make_log(100)
    write_state(tmp_path, make_log(30))
    assert read_log(tmp_path) == make_log(30)


def test_run_is_drawn_into_its_folder(tmp_path):
    write_state(tmp_path, make_log(30))
    assert draw_run(tmp_path).read_bytes().startswith(b"\x89PNG")


def test_run_without_validations_is_not_drawn(tmp_path):
    write_state(tmp_path, make_log(9))
    assert (draw_run(tmp_path), list(tmp_path.glob("*.png"))) == (None, [])


def test_run_is_not_drawn_without_matplotlib(tmp_path, monkeypatch):
    write_state(tmp_path, make_log(30))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert (draw_run(tmp_path), list(tmp_path.glob("*.png"))) == (None, [])


def test_broken_log_is_a_warning_after_work_that_is_done(tmp_path, caplog):
    (tmp_path / "trainer_state.json").write_text("{")
    logger = logging.get_logger("vaswani_transformer.training.curves")
    logger.addHandler(caplog.handler)
    assert draw_run(tmp_path) is None
    logger.removeHandler(caplog.handler)
    assert "No curves were drawn" in caplog.text
