# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command push, as far as it goes without a Hub (tests/test_hub.py has the rest), and scripts/train_uv.py."""

import runpy
import sys
from pathlib import Path

import pytest
from cli_runs import refused
from huggingface_hub import RepoUrl

from vaswani_transformer.cli import main

ROOT = Path(__file__).resolve().parents[2]


def test_push_refuses_a_folder_without_a_card(model_folder, capsys):
    error = refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/model"])
    assert "`--model` must be the folder of a whole model with its card" in error and "without README.md" in error


def test_push_asks_for_a_license_in_one_line(model_folder, capsys):
    (model_folder / "README.md").write_text("# A model\n")
    error = refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/model"])
    assert "`--license` must be given" in error and "such as cc-by-4.0" in error


def test_push_says_that_offline_mode_is_on(model_folder, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (model_folder / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    error = refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/model"])
    assert "unset the `HF_HUB_OFFLINE` environment variable" in error


@pytest.mark.parametrize("option", ["--stock", "--stock-repo-id"])
def test_push_of_a_marian_export_says_what_to_do(option, capsys):
    with pytest.raises(SystemExit):
        main(["push", "--model", "run", "--repo-id", "me/model", option, "me/marian"])
    assert f"{option} was removed in 0.3.0. Export --to marian, then `hf upload" in capsys.readouterr().err


@pytest.mark.parametrize(("failed", "expected"), [(0, ["train", "push"]), (2, ["train"])])
def test_train_uv_pushes_what_was_trained(failed, expected, monkeypatch):
    called, url = [], RepoUrl("https://huggingface.co/me/model")
    monkeypatch.setattr("huggingface_hub.create_repo", lambda name, exist_ok: called.append(name) or url)
    monkeypatch.setattr("vaswani_transformer.cli.main", lambda words: called.append(words) or failed)
    monkeypatch.setattr(sys, "argv", ["train_uv.py", "me/model", "--recipe", "quickstart"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "scripts" / "train_uv.py"), run_name="__main__")
    assert end.value.code == failed
    words = {
        "train": ["train", "--output-dir", "model", "--recipe", "quickstart"],
        "push": ["push", "--model", "model", "--repo-id", "me/model"],
    }
    assert called == ["me/model", *(words[name] for name in expected)]  # the repo first: a token may not write there
