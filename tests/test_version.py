# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import subprocess

import pytest

from vaswani_transformer import __version__, version
from vaswani_transformer.version import code_version


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout of a package that `code_version` takes for its own."""
    package = tmp_path / "vaswani_transformer"
    package.mkdir()
    (package / "version.py").write_text("old")
    monkeypatch.setattr(version, "__file__", str(package / "version.py"))
    return tmp_path


def git(folder, *arguments):
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_code_version_is_the_commit_of_a_checkout(checkout):
    git(checkout, "init")
    git(checkout, "add", ".")
    git(checkout, "commit", "-m", "first")
    commit = git(checkout, "rev-parse", "HEAD")[:12]
    (checkout / "new.txt").touch()
    assert code_version() == f"{__version__} ({commit})"
    (checkout / "vaswani_transformer" / "version.py").write_text("new")
    assert code_version() == f"{__version__} ({commit} with changes)"


def test_code_version_is_the_version_alone_where_there_is_no_commit(checkout):
    assert code_version() == __version__
    (checkout / ".git").mkdir()  # none that git would take
    assert code_version() == __version__
