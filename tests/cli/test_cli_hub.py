# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command push, as far as it goes without a Hub; tests/test_hub.py has the rest."""

from cli_runs import refused


def test_push_refuses_a_folder_without_a_card(model_folder, capsys):
    error = refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/model"])
    assert "`--model` must be the folder of a whole model with its card" in error and "without README.md" in error


def test_push_refuses_a_repo_of_no_valid_name(model_folder, capsys):
    (model_folder / "README.md").write_text("# A model\n")
    assert "'me/my/model'" in refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/my/model"])


def test_push_says_that_offline_mode_is_on(model_folder, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (model_folder / "README.md").write_text("# A model\n")
    error = refused(capsys, ["push", "--model", str(model_folder), "--repo-id", "me/model"])
    assert "unset the `HF_HUB_OFFLINE` environment variable" in error
