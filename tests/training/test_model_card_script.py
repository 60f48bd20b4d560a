# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""scripts/model_card.py: the curves show the log, and card and picture lie side by side."""

import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest
from tiny import make_config

from vaswani_transformer.training.recipes import get_recipe

pytest.importorskip("matplotlib", reason="needs the extra [viz]")

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "model_card.py"
spec = importlib.util.spec_from_file_location("model_card", SCRIPT)
model_card = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_card)

RESULTS = {
    "train_pairs": 9,
    "train_dropped_pairs": {},
    "train_steps": 30,
    "num_parameters": 5,
    "num_averaged_snapshots": 0,
    "best_checkpoint": None,
}


def make_log(steps, scale=1.0):
    """A log with a training entry every update and a validation every ten."""
    log = []
    for step in range(1, steps + 1):
        log.append({"step": step, "loss": 9.0, "nll": scale / step, "learning_rate": step * 1e-4})
        if step % 10 == 0:
            log.append({"step": step, "eval_loss": 9.0, "eval_perplexity": math.exp(scale * 20 / step)})
    return [*log, {"step": steps, "train_runtime": 1.0}]


def write_state(folder, log):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 30, "log_history": log}), encoding="utf-8")


@pytest.fixture
def run(tmp_path):
    """The folder of a finished run of 30 updates."""
    folder = tmp_path / "my-run"
    write_state(folder, make_log(30))
    get_recipe("quickstart").save(folder)
    make_config().save_pretrained(folder)
    (folder / "train_results.json").write_text(json.dumps(RESULTS), encoding="utf-8")
    return folder


def lines(figure):
    """Points of all lines of a figure by the label of their vertical axis and their own."""
    return {
        (axes.get_ylabel(), line.get_label() if axes.get_legend() else ""): list(map(tuple, line.get_xydata()))
        for axes in figure.axes
        for line in axes.get_lines()
    }


def test_curves_are_the_figures_of_the_log():
    found = lines(model_card.draw_curves(make_log(30)))
    assert found == {
        ("perplexity per target token", ""): [(10, math.exp(2)), (20, math.exp(1)), (30, math.exp(20 / 30))],
        ("nll, nats per token", ""): [(step, 1 / step) for step in range(1, 31)],
        ("learning rate", ""): [(step, step * 1e-4) for step in range(1, 31)],
    }


def test_validation_has_a_logarithmic_axis():
    assert model_card.draw_curves(make_log(30)).axes[0].get_yscale() == "log"


def test_other_runs_are_drawn_as_far_as_they_went():
    found = lines(model_card.draw_curves(make_log(30), {"short": make_log(20, 2.0)}, label="own"))
    assert found["perplexity per target token", "short"] == [(10, math.exp(4)), (20, math.exp(2))]
    assert len(found["perplexity per target token", "own"]) == 3
    assert len(found) == 4  # training and learning rate are the own run's only


def test_log_without_validations_is_refused_by_the_runs_label():
    with pytest.raises(ValueError, match="`short` must have validations"):
        model_card.draw_curves(make_log(30), {"short": make_log(9)})


def test_log_is_the_newest_checkpoints_where_the_run_has_none(tmp_path):
    write_state(tmp_path / "checkpoint-20", make_log(20))
    write_state(tmp_path / "checkpoint-100", make_log(100))
    assert model_card.read_log(tmp_path) == make_log(100)
    write_state(tmp_path, make_log(30))
    assert model_card.read_log(tmp_path) == make_log(30)


def test_card_and_picture_are_written_into_the_runs_folder(run, capsys):
    assert model_card.main([str(run)]) == 0
    assert capsys.readouterr().out == f"written: {run / 'README.md'} {run / 'training_curves.png'}\n"
    assert "![Training curves](training_curves.png)" in (run / "README.md").read_text(encoding="utf-8")
    assert (run / "training_curves.png").read_bytes().startswith(b"\x89PNG")


def test_card_and_picture_are_written_beside_each_other_under_one_stem(run, tmp_path):
    write_state(tmp_path / "other", make_log(10))
    before = sorted(run.iterdir())
    (tmp_path / "cards").mkdir()
    output = tmp_path / "cards" / "en-de.tiny.md"
    arguments = ["--output", str(output), "--name", "en-de-tiny", "--compare", f"my-run={tmp_path / 'other'}"]
    assert model_card.main([str(run), *arguments]) == 0
    assert sorted(path.name for path in output.parent.iterdir()) == ["en-de.tiny.md", "en-de.tiny.png"]
    text = output.read_text(encoding="utf-8")
    assert "# en-de-tiny\n" in text and "![Training curves](en-de.tiny.png)" in text
    assert sorted(run.iterdir()) == before


def refused(arguments, capsys):
    assert model_card.main(arguments) == 2
    return capsys.readouterr().err


def test_missing_log_is_named_and_nothing_written(run, capsys):
    (run / "trainer_state.json").unlink()
    assert f"must hold trainer_state.json, itself or in a checkpoint, got {run}" in refused([str(run)], capsys)
    assert not (run / "README.md").exists()


def test_broken_log_is_named(run, capsys):
    (run / "trainer_state.json").write_text("[]", encoding="utf-8")
    assert "trainer_state.json` must be the state of a trainer" in refused([str(run)], capsys)


@pytest.mark.parametrize("text", ["nothing", "=folder", "label=", "my-run=folder"])
def test_comparison_without_a_label_of_its_own_is_refused(run, text, capsys):
    assert "`compare` must be LABEL=FOLDER" in refused([str(run), "--compare", text], capsys)


def test_card_of_other_origin_stays(run, capsys):
    (run / "README.md").write_text("# Mine\n", encoding="utf-8")
    assert "of other origin" in refused([str(run)], capsys)
    assert (run / "README.md").read_text(encoding="utf-8") == "# Mine\n"
    assert not (run / "training_curves.png").exists()


def test_missing_matplotlib_names_the_extra(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'vaswani-transformer[viz]'" in refused([str(run)], capsys)
    assert not (run / "README.md").exists()
