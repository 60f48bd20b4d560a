# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Folders that appear whole or not at all, in place of nothing but an earlier export."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

# What an export has beside what its engine reads.
_OTHER_FILES = {CONFIG_NAME, GENERATION_CONFIG_NAME, "tokenizer.json", "tokenizer_config.json"}


def check_output_folder(output_dir: str | Path, engine_files: Collection[str]) -> None:
    """Refuses a place where no export can be written, or where it would replace something else.

    Args:
        output_dir: Folder to make; it may exist if it is empty or an earlier export.
        engine_files: Names of the files that only an export has. A folder with all of them, and with nothing but them,
            configs and a tokenizer, is an earlier export.

    Raises:
        FileNotFoundError: The folder around it does not exist.
        ValueError: It is a file, holds other files or cannot be written.
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
    names = {each.name for each in path.iterdir()} if path.is_dir() else set()
    if names and not set(engine_files) <= names <= {*engine_files, *_OTHER_FILES}:
        others = sorted(names - {*engine_files}) or sorted(names)
        raise ValueError(
            f"`output_dir` must be a new or empty folder or an earlier export, got {output_dir} with "
            f"{', '.join(others[:3])}{' and others' if len(others) > 3 else ''}. Pass another name."
        )


@contextlib.contextmanager
def writing_folder(output_dir: str | Path) -> Iterator[Path]:
    """Gives an empty folder, which takes the place of `output_dir` if what is done with it succeeds.

    Args:
        output_dir: Checked by `check_output_folder`.
    """
    path = Path(output_dir).resolve()
    beside, old = (path.with_name(f".{path.name}.{os.getpid()}.{end}") for end in ("part", "old"))
    beside.mkdir()
    try:
        yield beside
        if path.exists():
            path.rename(old)
        beside.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
