# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command push, as far as it goes without a Hub; tests/test_hub.py has the rest."""

import pytest
from cli_runs import refused

from vaswani_transformer.training.hub import push_model


def test_push_refuses_a_folder_that_does_not_exist(capsys):
    error = refused(capsys, ["push", "--model", "nowhere", "--repo-id", "me/model"])
    assert "`--model` must be the folder of a model, got nowhere" in error


def test_push_refuses_a_folder_without_a_card(model_folder, capsys):
    error = refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/model"])
    assert "`--model` must have a model card" in error


def test_push_refuses_a_repo_of_no_valid_name(model_folder, capsys):
    (model_folder / "README.md").write_text("# A model\n")
    assert "'me/my/model'" in refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/my/model"])


def test_push_says_that_offline_mode_is_on(model_folder, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (model_folder / "README.md").write_text("# A model\n")
    error = refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/model"])
    assert "unset the `HF_HUB_OFFLINE` environment variable" in error


def test_push_model_in_python_raises_what_the_command_prints(model_folder):
    with pytest.raises(FileNotFoundError, match="`model` must have a model card"):
        push_model(model_folder, "me/model")
