# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The package's version and the commit it runs from, readable without importing torch."""

import subprocess
from pathlib import Path

__version__ = "0.1.0"


def code_version() -> str:
    """Version of this package, with the commit where it runs from a git checkout of its own.

    "0.1.0 (6ff7b8d0c1e2)"; "with changes" follows the commit where tracked files of the package differ from it.
    """
    package = Path(__file__).resolve().parent
    if not (package.parent / ".git").exists():
        return __version__
    try:
        commit = _git(package, "rev-parse", "--short=12", "HEAD")
        changes = _git(package, "status", "--porcelain", "--untracked-files=no", ".")
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"{__version__} ({commit}{' with changes' if changes else ''})"


def _git(folder: Path, *arguments: str) -> str:
    """Output of a git command in a folder."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
