# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Folders that appear whole or not at all, and never in the place of anything."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path


def check_output_folder(output_dir: str | Path) -> None:
    """Refuses a place where no export can be written, or where it would replace something, an earlier export, too.

    Args:
        output_dir: Folder to make; it may exist if it is empty.

    Raises:
        FileNotFoundError: The folder around it does not exist.
        ValueError: It is a file, holds files or cannot be written.
    """
    path = Path(output_dir).resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"`output_dir` must be a folder, got the file {output_dir}. Pass another name.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"`output_dir` must be in a folder that exists, got {output_dir}. Create {path.parent} first."
        )
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"`output_dir` must be in a folder that can be written to, got {output_dir}. Pass another.")
    if path.is_dir() and (names := sorted(each.name for each in path.iterdir())):
        raise ValueError(
            f"`output_dir` must be a new or empty folder, got {output_dir} with {', '.join(names[:3])}"
            f"{' and others' if len(names) > 3 else ''}. Pass another name, or delete it first."
        )


@contextlib.contextmanager
def writing_folder(output_dir: str | Path) -> Iterator[Path]:
    """Gives an empty folder, which becomes `output_dir` if what is done with it succeeds and is deleted if not.

    It lies beside its place. What kills the process leaves it there, as export-*.part.

    Args:
        output_dir: Checked by `check_output_folder`.
    """
    path = Path(output_dir).resolve()
    beside = path.with_name(f"export-{uuid.uuid4().hex[:8]}.part")
    beside.mkdir()
    try:
        yield beside
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()  # empty; not every system puts a folder in the place of another
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
