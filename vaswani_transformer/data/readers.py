# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Lines of text files, and rows of JSON, CSV, TSV and Parquet files, one at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..lines import decode_lines

MAX_BYTES_PER_LINE = 2**20  # to split a longer text into tokens takes gigabytes
_ROWS_PER_READ = 10_000
_NOT_JSON = (ValueError, RecursionError)  # the second where brackets are nested too deep


def existing_file(path: str | Path, name: str) -> Path:
    """The path, if it is a file that is not empty."""
    path = Path(path)
    if not path.is_file():
        if path.exists() and not path.is_dir():
            raise ValueError(f"`{name}` must be a file, got the stream {path}. Save what it gives to a file first.")
        reason = "a folder" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"`{name}` must be an existing file, got {path} ({reason}). Check the path.")
    if path.stat().st_size == 0:
        raise ValueError(f"`{name}` must hold text, got the empty file {path}. Check how it was written.")
    return path


def check_sides(sides: Mapping[str, str | Path | None]) -> None:
    """Raises ValueError when one of two aligned files, by their names in the error, is given without the other."""
    missing = [name for name, file in sides.items() if file is None]
    if len(missing) == 1:
        (given,) = (file for file in sides.values() if file is not None)
        raise ValueError(f"`{missing[0]}` must be given beside {given}, got none. Name the file of the other side.")


def read_lines(
    path: str | Path, *, offset: int = 0, line: int = 1, max_bytes: int = MAX_BYTES_PER_LINE
) -> Iterator[str]:
    r"""Lines of a UTF-8 text file, one at a time, without their line ends.

    Lines end in `\n` or `\r\n`; no other character ends a line. A byte order mark at the start is skipped.

    Args:
        path: The text file.
        offset: Byte at which to begin, the first of a line.
        line: Number of this line, from 1.
        max_bytes: Bytes of the longest line, without its end; -1 is any number.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is empty, has a longer line or holds bytes that are not UTF-8; names file, line and
            byte offset.
    """
    path = existing_file(path, "path")
    with open(path, "rb") as file:
        file.seek(offset)
        yield from decode_lines(file, str(path), max_bytes, offset=offset, line=line)


def read_aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Pairs of two text files; raises ValueError at their end if their line counts differ."""
    num_source = num_target = 0
    for source_line, target_line in zip_longest(read_lines(source), read_lines(target)):
        num_source += source_line is not None
        num_target += target_line is not None
        if num_source == num_target:
            yield source_line, target_line
    _check_aligned(source, num_source, target, num_target)


def index_aligned(source: Path, target: Path, lines_per_part: int) -> list[tuple[int, int, int, int]]:
    """Parts of two text files: first line (from 1), number of lines, and byte offset in both files, of each.

    Args:
        source: Source sentences.
        target: Target sentences; raises ValueError if it differs in lines.
        lines_per_part: Lines of each part but the last.
    """
    (num_source, source_offsets), (num_target, target_offsets) = (
        _index_lines(path, lines_per_part) for path in (source, target)
    )
    _check_aligned(source, num_source, target, num_target)
    firsts = range(0, num_source, lines_per_part)
    return [
        (first + 1, min(lines_per_part, num_source - first), source_offset, target_offset)
        for first, source_offset, target_offset in zip(firsts, source_offsets, target_offsets, strict=True)
    ]


def _index_lines(path: Path, lines_per_part: int) -> tuple[int, list[int]]:
    """Number of lines of a text file, and the byte offsets of every `lines_per_part`-th from the first on."""
    offset, offsets, number = 0, [], -1
    with open(path, "rb") as file:
        for number, raw in enumerate(file):
            if number % lines_per_part == 0:
                offsets.append(offset)
            offset += len(raw)
    return number + 1, offsets


def _check_aligned(source: Path, num_source: int, target: Path, num_target: int) -> None:
    """Raises ValueError when two text files differ in lines."""
    if num_source != num_target:
        raise ValueError(
            f"`target_file` must have as many lines as `source_file`, got {num_source} lines in {source} and "
            f"{num_target} lines in {target}. Align the files line by line."
        )


def _read_json(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and row of each pair of a JSON lines file, or of a JSON file that is one list."""
    for number, line in enumerate(read_lines(path, max_bytes=-1), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except _NOT_JSON as error:
            if number == 1 and line.lstrip().startswith("["):  # a list that is laid out over several lines
                yield from _read_json_list(path)
                return
            raise ValueError(
                f"`{path}` must hold one JSON object a line, got an error in line {number}: {error}. Correct the line."
            ) from error
        if isinstance(row, list):
            yield from _read_json_list(path)
            return
        yield f"line {number}", _check_row(row, f"line {number}", path)


def _read_json_list(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and row of each pair of a JSON file that is one list."""
    try:
        rows = json.loads("\n".join(read_lines(path, max_bytes=-1)))
    except _NOT_JSON as error:
        raise ValueError(f"`{path}` must be one JSON list, got an error: {error}. Correct the file.") from error
    for number, row in enumerate(rows, start=1):
        yield f"entry {number}", _check_row(row, f"entry {number}", path)


def _check_row(row: Any, place: str, path: Path) -> dict[str, Any]:
    """The row, if it is a JSON object."""
    if not isinstance(row, dict):
        raise ValueError(
            f"`{path}` must hold JSON objects, got {row!r:.100} in {place}. Write one object for each pair."
        )
    return row


def _read_csv(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and row of each pair of a CSV file with a header."""
    rows = csv.DictReader((f"{line}\n" for line in read_lines(path)), strict=True)
    try:
        for row in rows:
            if None in row:
                raise ValueError(
                    f"`{path}` must have {len(row) - 1} columns in every row, got more in line "
                    f"{rows.line_num}. Quote fields that hold a comma."
                )
            yield f"line {rows.line_num}", row
    except csv.Error as error:
        raise ValueError(
            f"`{path}` must be valid CSV, got an error in line {rows.reader.line_num}: {error}. Correct it."
        ) from error


def _read_tsv(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and row of each pair of a TSV file with a header; quotation marks are text."""
    lines = read_lines(path)
    header = next(lines).split("\t")
    for number, line in enumerate(lines, start=2):
        fields = line.split("\t")
        if len(fields) != len(header):
            raise ValueError(
                f"`{path}` must have {len(header)} columns in every row, got {len(fields)} in line {number}. "
                "Separate columns by one tab, and sentences hold none."
            )
        yield f"line {number}", dict(zip(header, fields, strict=True))


def _read_parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and row of each pair of a Parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(_ROWS_PER_READ) for row in batch.to_pylist())
            yield from ((f"row {number}", row) for number, row in enumerate(rows, start=1))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"`{path}` must be a Parquet file, got an error: {error}. Check how it was written."
        ) from error


READERS = {".jsonl": _read_json, ".json": _read_json, ".csv": _read_csv, ".tsv": _read_tsv, ".parquet": _read_parquet}
