# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all: written beside their place, then moved there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def writing_beside(path: Path) -> Iterator[Path]:
    """Gives the path of a file to write, which takes the place of `path` if that succeeds and is deleted if not.

    What already has that path is deleted: in a folder from elsewhere it may be a link to any file.
    """
    beside = path.with_name(path.name + ".part")
    beside.unlink(missing_ok=True)
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Returns when a file's content, or the names in a folder, would outlive a power cut."""
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, nor a file be flushed that was opened to be read
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems flush no folders
            raise
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> Path:
    """Writes a text file in UTF-8, in place of an older one only when it is complete, and returns its path."""
    with writing_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")
    return path


def write_json(path: Path, value: Any) -> Path:
    """Writes a JSON file for people to read, as `write_text` does."""
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
