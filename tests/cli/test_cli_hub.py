# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command push, as far as it goes without a Hub (tests/test_hub.py has the rest), and
scripts/train_uv.py.
"""

import json
import re
import runpy
import sys

import pytest
from cli_runs import refused
from huggingface_hub import RepoUrl
from processes import ROOT


def test_push_asks_for_a_license_in_one_line(model_folder, capsys):
    (model_folder / "README.md").write_text("# A model\n")
    error = refused(capsys, f"push --model {model_folder} --repo-id me/model".split())
    assert "`--license` must be given" in error


def train_by_uv(words, monkeypatch, failed=0):
    """The code at which scripts/train_uv.py ends, and what it has called."""
    called, url = [], RepoUrl("https://huggingface.co/me/model")
    monkeypatch.setattr(
        "huggingface_hub.create_repo", lambda name, exist_ok: called.append(name) or url
    )
    monkeypatch.setattr("subprocess.call", lambda words: called.append(words) or failed)
    monkeypatch.setattr(sys, "argv", ["train_uv.py", *words])
    monkeypatch.setenv("UV", "/bin/uv")
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "scripts" / "train_uv.py"), run_name="__main__")
    return end.value.code, called


@pytest.mark.parametrize(("failed", "expected"), [(0, ["train", "push"]), (2, ["train"])])
@pytest.mark.parametrize("package", ["git+ssh://git@host/it@1a2b", "/mnt/it-1-any.whl"])
def test_train_uv_pushes_what_was_trained(package, failed, expected, monkeypatch):
    words = ["me/model", "--package", package, *"--license mit --recipe quickstart".split()]
    code, called = train_by_uv(words, monkeypatch, failed)
    assert code == failed
    source = f"vaswani-transformer[train,eval] @ {package}"
    run = [*"/bin/uv tool run --from".split(), source, "vaswani-transformer"]
    commands = {
        "train": [*run, *"train --recipe quickstart --output-dir model".split()],
        "push": [*run, *"push --model model --repo-id me/model --license mit".split()],
    }
    # The repo comes first, because a token may not be allowed to write there.
    assert called == ["me/model", *(commands[name] for name in expected)]


@pytest.mark.parametrize(
    "package",
    [
        None,
        "vaswani-transformer",
        "git+https://host/me/it",
        "git+ssh://git@host/it",
        "git+https://me@host/it",
    ],
)
def test_train_uv_installs_nothing_without_a_source_that_is_fixed(package, monkeypatch, capsys):
    words = "me/model --license mit --recipe quickstart".split()
    if package is not None:
        words += ["--package", package]
    assert train_by_uv(words, monkeypatch) == (2, [])
    assert "--package" in capsys.readouterr().err


def test_train_uv_asks_no_index_for_the_package():
    text = (ROOT / "scripts" / "train_uv.py").read_text(encoding="utf-8")
    (dependencies,) = re.findall(r"^# dependencies = (.*)$", text, re.MULTILINE)
    assert json.loads(dependencies) == ["huggingface_hub>=1.31"]
