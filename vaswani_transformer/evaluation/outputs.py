# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Files to write: refused before any time is spent on them, and complete when they appear."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]  # Windows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STANDARD_STREAM = "-"
_PICTURE_FORMATS = (".png", ".svg")
_OF_A_MODEL = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("recipe.json", "train_results.json", "trainer_state.json"),
)


def check_outputs(outputs: Mapping[str, str | Path | None], inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuses files that could not be written, or that would replace another file of the same command.

    Args:
        outputs: Files to write, by the name they have in errors; None is no file and "-" is stdout.
        inputs: Files that the command reads; None is no file and "-" is stdin.

    Raises:
        FileNotFoundError: The folder of an output does not exist.
        ValueError: An output is a folder, its folder is read-only, or it is an input or another output, as may be
            what lies beside it until it is complete.
    """
    others = {Path(file).resolve() for file in inputs if file is not None and str(file) != STANDARD_STREAM}
    for name, file in outputs.items():
        if file is None or is_stream(file):
            continue
        path = Path(file).resolve()
        _check_place(path, name, file)
        own = {path, part_of(path), description_of(path)}
        if taken := own & others:
            raise ValueError(
                f"`{name}` must be a file of its own, got {file}: {taken.pop()}, which is written for it, is "
                "also read or written for another. Pass another file."
            )
        others |= own


def is_stream(file: str | Path) -> bool:
    """Whether a file to write is stdout, a device or a pipe."""
    path = Path(file)
    return str(file) == STANDARD_STREAM or (path.exists() and not path.is_file() and not path.is_dir())


def _check_place(path: Path, name: str, file: str | Path) -> None:
    """Raises unless a file may be written at this resolved path; `file` is how the user wrote it."""
    if path.is_dir():
        raise ValueError(f"`{name}` must be a file, got the folder {file}. Pass a file in it.")
    if path.exists() and (path.name in _OF_A_MODEL or path.suffix == ".safetensors"):
        raise ValueError(f"`{name}` must not replace a file of a model, got {file}. Pass another file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"`{name}` must be in a folder that exists, got {file}. Create the folder first.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"`{name}` must be in a folder that can be written to, got {file}. Pass another file.")


def write_lines(lines: Iterable[str], output_file: str | Path) -> int:
    """Writes one line for each string and returns their number; a line feed inside a string becomes a space.

    A regular file is written beside its place and moved there at the end, so what it held before is never lost to a
    failure.

    Args:
        lines: What to write.
        output_file: A path; "-" is stdout.
    """
    num_lines = 0
    with open_output(output_file) as stream:
        for line in lines:
            stream.write(line_bytes(line))
            num_lines += 1
    return num_lines


def line_bytes(line: str) -> bytes:
    """A line of a file; a line feed inside the string becomes a space."""
    return line.replace("\n", " ").encode("utf-8") + b"\n"


def part_of(output_file: str | Path) -> Path:
    """Where an output lies until it is complete."""
    path = Path(output_file).resolve()
    return path.with_name(path.name + ".part")


def description_of(output_file: str | Path) -> Path:
    """What the part of an output is made of, if it is one that can be gone on with."""
    return Path(f"{part_of(output_file)}.json")


@contextlib.contextmanager
def open_output(output_file: str | Path) -> Iterator[BinaryIO]:
    """Binary stream that becomes the file when all went well; stdout and devices are written to directly.

    Args:
        output_file: A path; "-" is stdout.
    """
    if str(output_file) == STANDARD_STREAM:
        yield sys.stdout.buffer
        return
    path = Path(output_file).resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    beside = part_of(path)
    with open_part(path) as stream:
        description_of(path).unlink(missing_ok=True)  # of an earlier part, which is lost now
        stream.truncate(0)
        try:
            yield stream
            stream.flush()
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    os.replace(beside, path)


@contextlib.contextmanager
def open_part(output_file: str | Path) -> Iterator[BinaryIO]:
    """The part of an output, to be appended to by one process at a time.

    Raises:
        ValueError: Another process is writing it. (Not noticed on Windows, and where a file system has no locks.)
    """
    part = part_of(output_file)
    if part.is_symlink():  # in a folder from elsewhere it may lead to any file
        part.unlink()
    with part.open("ab") as stream:
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_own = os.path.samestat(os.fstat(stream.fileno()), part.stat())
            except (BlockingIOError, FileNotFoundError):
                is_own = False
            except OSError:  # this file system has no locks
                is_own = True
            if not is_own:
                raise ValueError(
                    f"`output` must be written by one process at a time, got {output_file}, which another one is "
                    "writing now. Wait for its end, or pass another file."
                )
        yield stream


def check_picture(name: str, file: str | Path) -> None:
    """Refuses a picture that could not be written, before it is drawn.

    Args:
        name: What the file is called in errors.
        file: A path that ends in .png or .svg.

    Raises:
        FileNotFoundError: Its folder does not exist.
        ValueError: It is of another format, or cannot be written.
    """
    if Path(file).suffix.lower() not in _PICTURE_FORMATS:
        raise ValueError(f"`{name}` must end in {' or '.join(_PICTURE_FORMATS)}, got {file}. Pass another name.")
    check_outputs({name: file})


def save_figure(figure: Figure, file: str | Path) -> None:
    """Writes a picture in the format of its name's end, in place of an older one only when it is complete."""
    with open_output(file) as stream:
        figure.savefig(stream, format=Path(file).suffix.lower().removeprefix("."))
