# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""scripts/model_card.py: the curves show the log, and card and picture lie side by side."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from curve_logs import make_log, write_state
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


@pytest.fixture
def run(tmp_path):
    """The folder of a finished run of 30 updates."""
    folder = tmp_path / "my-run"
    write_state(folder, make_log(30))
    get_recipe("quickstart").save(folder)
    make_config().save_pretrained(folder)
    (folder / "train_results.json").write_text(json.dumps(RESULTS), encoding="utf-8")
    return folder


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


@pytest.mark.parametrize(("text", "fault"), [("[]", "hold a JSON object"), ("{}", "be the state of a trainer")])
def test_broken_log_is_named(run, capsys, text, fault):
    (run / "trainer_state.json").write_text(text, encoding="utf-8")
    assert f"trainer_state.json` must {fault}" in refused([str(run)], capsys)


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
