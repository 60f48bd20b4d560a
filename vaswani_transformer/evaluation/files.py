# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Files and standard streams of sentences: read line by line, translated, written when complete.

A line ends at a line feed and nowhere else; a carriage return in front of it and a byte order mark at the beginning
of a file are dropped.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .translate import translate

STANDARD_STREAM = "-"


def translate_file(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    input_file: str | Path = STANDARD_STREAM,
    output_file: str | Path = STANDARD_STREAM,
    **options: Any,
) -> int:
    """Translates a file line by line; the output has as many lines as the input.

    The input is streamed. The output file appears, or replaces an older one, only when it is complete.

    Args:
        model: In eval mode; decodes as its generation config says.
        tokenizer: Saved with the model.
        input_file: UTF-8 text, one sentence a line; "-" is stdin.
        output_file: Where the translations go; "-" is stdout.
        **options: Of `translate`, for example max_tokens_per_batch, progress or num_beams.

    Returns:
        Number of lines.

    Raises:
        FileNotFoundError: The input file or the output's folder does not exist.
        ValueError: The input file is empty or not UTF-8, or input and output are the same file.

    Example:
        >>> translate_file(model, tokenizer, "newstest2014.en", "newstest2014.de", progress=True)
    """
    total = check_files(input_file, output_file)
    with _open_input(input_file) as stream:
        sentences = read_lines(stream, _name(input_file))
        return write_lines(translate(model, tokenizer, sentences, total=total, **options), output_file)


def check_files(input_file: str | Path, output_file: str | Path) -> int | None:
    """Refuses files that `translate_file` would fail on, before any time is spent on them.

    Returns:
        Number of lines of the input, or None if it is a stream, which cannot be read twice.

    Raises:
        FileNotFoundError: The input file or the output's folder does not exist.
        ValueError: The input file is empty or not UTF-8, or input and output are the same file.
    """
    check_outputs({"output": output_file}, [input_file])
    if str(input_file) == STANDARD_STREAM:
        return None
    if not Path(input_file).exists():
        raise FileNotFoundError(f"`input` must be a file, got {input_file}, which does not exist. Check the path.")
    if Path(input_file).is_dir():
        raise ValueError(f"`input` must be a file, got the folder {input_file}. Pass a text file.")
    if not Path(input_file).is_file():
        return None
    with _open_input(input_file) as stream:
        num_lines = sum(1 for _ in read_lines(stream, _name(input_file)))
    if num_lines == 0:
        raise ValueError(f"`input` must hold at least one line, got the empty file {input_file}.")
    return num_lines


def check_outputs(outputs: Mapping[str, str | Path | None], inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuses files that could not be written, or that would replace another file of the same command.

    Args:
        outputs: Files to write, by the name they have in errors; None is no file and "-" is stdout.
        inputs: Files that the command reads; None is no file and "-" is stdin.

    Raises:
        FileNotFoundError: The folder of an output does not exist.
        ValueError: An output is a folder, its folder is read-only, or it is an input or another output.
    """
    others = {Path(file).resolve() for file in inputs if file is not None and str(file) != STANDARD_STREAM}
    for name, file in outputs.items():
        if file is None or _is_stream(file):
            continue
        path = Path(file).resolve()
        _check_place(path, name, file)
        if path in others:
            raise ValueError(
                f"`{name}` must be a file of its own, got {file}, which is also read or written. Pass another file."
            )
        others.add(path)


def _is_stream(file: str | Path) -> bool:
    """Whether a file to write is stdout, a device or a pipe."""
    path = Path(file)
    return str(file) == STANDARD_STREAM or (path.exists() and not path.is_file() and not path.is_dir())


def _check_place(path: Path, name: str, file: str | Path) -> None:
    """Raises unless a file may be written at this resolved path; `file` is how the user wrote it."""
    if path.is_dir():
        raise ValueError(f"`{name}` must be a file, got the folder {file}. Pass a file in it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"`{name}` must be in a folder that exists, got {file}. Create the folder first.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"`{name}` must be in a folder that can be written to, got {file}. Pass another file.")


def read_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Lines of a binary stream without their ends, decoded one by one.

    Args:
        stream: Read from its present position, once.
        name: Of the file, for errors.

    Raises:
        ValueError: A byte is not UTF-8; the message names file, line and offset.
    """
    offset = 0
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"`{name}` must be UTF-8 text, got byte 0x{raw[error.start]:02x} in line {number} (byte offset "
                f"{offset + error.start} of the file). Convert the file first, for example with iconv."
            ) from error
        offset += len(raw)
        yield (line.removeprefix("\ufeff") if number == 1 else line).removesuffix("\n").removesuffix("\r")


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
            stream.write(line.replace("\n", " ").encode("utf-8") + b"\n")
            num_lines += 1
    return num_lines


def _name(input_file: str | Path) -> str:
    return "stdin" if str(input_file) == STANDARD_STREAM else str(input_file)


def _open_input(input_file: str | Path) -> contextlib.AbstractContextManager[BinaryIO]:
    if str(input_file) == STANDARD_STREAM:
        return contextlib.nullcontext(sys.stdin.buffer)
    return Path(input_file).open("rb")


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
    beside = path.with_name(path.name + ".part")
    try:
        with beside.open("wb") as stream:
            yield stream
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
