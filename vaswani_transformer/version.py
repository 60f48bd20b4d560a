# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The package's version and the commit it runs from, readable without importing torch."""

import subprocess
from pathlib import Path

__version__ = "0.2.0"


def code_version() -> str:
    """Version of this package, with the commit where it runs from a git checkout of its own.

    "0.2.0 (6ff7b8d0c1e2)"; "with changes" follows the commit where tracked files of the checkout differ from it.
    """
    folder = Path(__file__).resolve().parents[1]
    command = ["git", "-C", str(folder), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty= with changes"]
    if not (folder / ".git").exists():
        return __version__
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"{__version__} ({commit})"
