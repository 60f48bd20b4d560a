# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training curves: the points drawn are the figures of the log."""

import json
import math
import sys

import pytest
from transformers.utils import logging

from vaswani_transformer.training.curves import curve, draw_run, read_log

pytest.importorskip("matplotlib", reason="needs the extra [viz]")


@pytest.fixture
def write_log(tmp_path):
    """Writes the log of a run with a training entry every update and a validation every ten."""

    def write(steps, **figures):
        log = []
        for step in range(1, steps + 1):
            log.append({"step": step, "loss": 9.0, "nll": 1 / step, "learning_rate": step * 1e-4})
            if step % 10 == 0:
                log.append({"step": step, "eval_loss": 9.0, "eval_perplexity": math.exp(20 / step), **figures})
        (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": steps, "log_history": log}))

    return write


@pytest.mark.parametrize("figures", [{}, {"eval_sacrebleu": 20.0}])
def test_run_is_drawn_into_its_folder_with_a_panel_for_each_figure(figures, write_log, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, *args, **kwargs: drawn.append(self))
    monkeypatch.setattr("os.replace", lambda *paths: None)
    write_log(30, **figures)
    draw_run(tmp_path)
    lines = {axes.get_title(): list(map(tuple, axes.get_lines()[0].get_xydata())) for axes in drawn[0].axes}
    assert lines == {
        "validation perplexity": [(10, math.exp(2)), (20, math.exp(1)), (30, math.exp(20 / 30))],
        **({"validation sacreBLEU": [(step, 20.0) for step in (10, 20, 30)]} if figures else {}),
        "training nll, nats per token": [(step, 1 / step) for step in range(1, 31)],
        "learning rate": [(step, step * 1e-4) for step in range(1, 31)],
    }


def test_picture_is_a_png(write_log, tmp_path):
    write_log(30)
    assert draw_run(tmp_path).read_bytes().startswith(b"\x89PNG")
    assert curve(read_log(tmp_path), "eval_loss") == ([10, 20, 30], [9.0, 9.0, 9.0])


def test_run_without_validations_is_not_drawn(write_log, tmp_path):
    write_log(9)
    assert (draw_run(tmp_path), list(tmp_path.glob("*.png"))) == (None, [])


def test_run_is_not_drawn_without_matplotlib(write_log, tmp_path, monkeypatch):
    write_log(30)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert (draw_run(tmp_path), list(tmp_path.glob("*.png"))) == (None, [])


def test_broken_log_is_a_warning_after_work_that_is_done(tmp_path, caplog):
    (tmp_path / "trainer_state.json").write_text("{")
    logger = logging.get_logger("vaswani_transformer.training.curves")
    logger.addHandler(caplog.handler)
    assert draw_run(tmp_path) is None
    logger.removeHandler(caplog.handler)
    assert "No curves were drawn" in caplog.text
