# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The code that goes to the Hub with a model: which files it is, and how others can tell whose it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from transformers.dynamic_module_utils import get_relative_import_files
from transformers.utils import CONFIG_NAME

from ..analysis.text_table import markdown_table
from ..files import CODE_FILES, read_json
from ..version import code_version

_AUTO_CLASSES = ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM")
_PLACE = re.compile(r"\w+_vaswani_transformer\.\w+", re.ASCII)
_SECTION = re.compile(r"\n## Code\n.*?(?=\n## |\Z)", re.DOTALL)
_PACKAGE = Path(__file__).resolve().parents[1]


def code_files(folder: Path) -> set[Path]:
    """The files of code that a folder's config names, and those that they import.

    Raises:
        FileNotFoundError: One is missing, so that the model would not work without this package.
        ValueError: The config names none, or code of another place.
    """
    config = read_json(folder / CONFIG_NAME)
    classes, pipelines = config.get("auto_map") or {}, config.get("custom_pipelines") or {}
    missing = [name for name in _AUTO_CLASSES if name not in classes]
    if missing or "translation" not in pipelines:
        raise ValueError(
            f"`model` must have a {CONFIG_NAME} that names its code, got {folder} without "
            f"{', '.join(missing or ['a translation pipeline'])}. Load the model and save it again."
        )
    files = set()
    for place in sorted({*map(str, classes.values()), *(str(pipeline["impl"]) for pipeline in pipelines.values())}):
        if not _PLACE.fullmatch(place):
            raise ValueError(
                f"`model` must have a {CONFIG_NAME} that names code of its own folder, got {place!r} in {folder}. "
                "Load the model and save it again."
            )
        path = folder / f"{place.split('.')[0]}.py"
        try:
            files |= {path, *map(Path, get_relative_import_files(path))}
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"`model` must have the code that its {CONFIG_NAME} names, got {folder} without "
                f"{Path(error.filename).name}. Load the model and save it again."
            ) from error
    return files


def code_section(files: Iterable[Path]) -> str:
    """The section of a model's card on the code beside it, with hashes to compare; "" if there is none."""
    hashes = {path.name: _hash(path) for path in sorted(files)}
    if not hashes:
        return ""
    own = {path.name: _hash(path) for path in _PACKAGE.glob(CODE_FILES)}
    others = [f"`{name}`" for name, value in hashes.items() if value != own.get(name)]
    whose = f"but for {', '.join(others)} they are" if others else "they are"
    rows = [("file", "bytes", "SHA-256")]
    rows += [(f"`{name}`", f"{size:,}", f"`{digest}`") for name, (size, digest) in hashes.items()]
    return (
        "## Code\n\nWith `trust_remote_code=True` these files run on your machine; without it, none does. When this "
        f"was written, {whose} those of vaswani-transformer {code_version()}. To compare them, run `sha256sum "
        f"{CODE_FILES}` in a copy of this repo and in the folder of your own vaswani-transformer of that version."
        f"\n\n{markdown_table(rows)}"
    )


def with_code_section(card: str, files: Iterable[Path]) -> str:
    """A card whose section on the code tells of these files; it is added at the end of a card without one."""
    section = code_section(files)
    if _SECTION.search(card):
        return _SECTION.sub(lambda _: f"\n{section}\n", card)
    return f"{card.rstrip()}\n\n{section}\n"


def _hash(path: Path) -> tuple[int, str]:
    """Bytes and SHA-256 of a file."""
    content = path.read_bytes()
    return len(content), hashlib.sha256(content).hexdigest()
