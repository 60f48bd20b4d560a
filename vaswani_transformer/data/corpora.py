# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Corpora of sentence pairs from text, JSON, CSV and Parquet files, `datasets` and the built-in grammar."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

try:
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(
        "`datasets` must be installed to load corpora, got no such package. "
        "Install it with: pip install 'vaswani-transformer[train]'"
    ) from error

BUILTIN = "builtin"

_CACHE_VERSION = "1"
_ROWS_PER_WRITE = 10_000
_SCHEMA = pa.schema({"source": pa.string(), "target": pa.string()})


def load_corpus(
    *,
    source_file: str | Path | None = None,
    target_file: str | Path | None = None,
    pairs_file: str | Path | None = None,
    dataset: str | Path | None = None,
    dataset_config: str | None = None,
    split: str = "train",
    source_language: str | None = None,
    target_language: str | None = None,
    cache_dir: str | Path | None = None,
) -> datasets.Dataset:
    """Sentence pairs as a memory-mapped dataset with the string columns `source` and `target`.

    Exactly one origin is given: two aligned text files, one file of pairs, or a dataset. Files are read once into an
    Arrow file that is cached by their paths, sizes and times of change, so that a second start does not read them.

    Text files hold one sentence a line; only a line feed, or a carriage return and line feed, ends a line, so that
    U+2028 and the like stay inside sentences. Files and datasets of pairs have the columns `source` and `target`, or
    columns named by the two languages, or a column `translation` like `{"en": "...", "de": "..."}`. CSV and TSV files
    have a header; quotation marks in TSV are part of the text.

    Args:
        source_file: Source sentences.
        target_file: Target sentences, aligned with `source_file`.
        pairs_file: A .jsonl, .json, .csv, .tsv or .parquet file of pairs.
        dataset: Hub name, local folder, or "builtin" for the built-in English-German corpus.
        dataset_config: Configuration of the dataset, for example "de-en".
        split: Split of the dataset; "builtin" has "train", "validation" and "test".
        source_language: Language code that names the source column or key.
        target_language: Language code that names the target column or key.
        cache_dir: Folder of the Arrow files; None is a folder in the cache of `datasets`.

    Returns:
        The pairs in the order of their origin, blank sentences included.

    Raises:
        ValueError: If not exactly one origin is given, a file is empty or not UTF-8 (file, line and byte offset are
            named), text files differ in lines, or columns are missing.
        FileNotFoundError: If a file does not exist.

    Example:
        >>> corpus = load_corpus(source_file="train.en", target_file="train.de")
    """
    _check_origin(source_file, target_file, pairs_file, dataset)
    languages = (source_language, target_language)
    cache = _Cache(cache_dir)
    if dataset is not None:
        if str(dataset) == BUILTIN:
            return _load_builtin(split, cache)
        return _load_dataset(str(dataset), dataset_config, split, languages, cache_dir)
    if pairs_file is not None:
        path = _existing_file(pairs_file, "pairs_file")
        if path.suffix.lower() not in _READERS:
            formats = ", ".join(_READERS)
            raise ValueError(f"`pairs_file` must end in one of {formats}, got {path}. Rename or convert it.")
        return cache.load([path], languages, lambda: _read_pairs(path, languages))
    source, target = _existing_file(source_file, "source_file"), _existing_file(target_file, "target_file")
    return cache.load([source, target], (), lambda: _read_aligned(source, target))


def read_lines(path: str | Path) -> Iterator[str]:
    r"""Lines of a UTF-8 text file, one at a time, without their line ends.

    Lines end in `\n` or `\r\n`; no other character ends a line. A byte order mark at the start is skipped.

    Args:
        path: The text file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is empty or holds bytes that are not UTF-8; names file, line and byte offset.
    """
    path = _existing_file(path, "path")
    with open(path, "rb") as file:
        offset = 0
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"`{path}` must be UTF-8 text, got byte 0x{raw[error.start]:02x} in line {number} at byte offset "
                    f"{offset + error.start}. Convert the file to UTF-8 or remove the line."
                ) from error
            offset += len(raw)
            if number == 1:
                line = line.removeprefix("\ufeff")
            yield line.removesuffix("\n").removesuffix("\r")


def _check_origin(source_file, target_file, pairs_file, dataset) -> None:
    """Raises ValueError unless exactly one origin of pairs is given, whole."""
    if (source_file is None) != (target_file is None):
        missing, given = ("source_file", target_file) if source_file is None else ("target_file", source_file)
        raise ValueError(f"`{missing}` must be given beside {given}, got None. Name the file of the other side.")
    given = [
        name
        for name, value in (("source_file", source_file), ("pairs_file", pairs_file), ("dataset", dataset))
        if value is not None
    ]
    if len(given) != 1:
        raise ValueError(
            "`load_corpus` must get exactly one of `source_file` with `target_file`, `pairs_file` or `dataset`, got "
            f"{', '.join(given) or 'none'}. Name one corpus."
        )


def _existing_file(path: str | Path, name: str) -> Path:
    """The path, if it is a file that is not empty."""
    path = Path(path)
    if not path.is_file():
        reason = "a folder" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"`{name}` must be an existing file, got {path} ({reason}). Check the path.")
    if path.stat().st_size == 0:
        raise ValueError(f"`{name}` must hold text, got the empty file {path}. Check how it was written.")
    return path


class _Cache:
    """Folder of Arrow files, each made once from the origin its name is the hash of.

    Args:
        folder: The folder; None is one in the cache of `datasets`.
    """

    def __init__(self, folder: str | Path | None):
        self.folder = Path(datasets.config.HF_DATASETS_CACHE if folder is None else folder) / "vaswani_transformer"

    def load(
        self, files: Sequence[Path], details: Sequence[Any], pairs: Callable[[], Iterable[tuple[str, str]]]
    ) -> datasets.Dataset:
        """The dataset of these files, read by `pairs` if they are new or have changed."""
        stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return self.load_by_key(json.dumps([stats, list(details)]), pairs, files[0].name)

    def load_by_key(self, key: str, pairs: Callable[[], Iterable[tuple[str, str]]], name: str) -> datasets.Dataset:
        """The dataset with this key, written from `pairs` if it is new; `name` is shown beside the progress."""
        digest = hashlib.sha256(f"{_CACHE_VERSION} {key}".encode()).hexdigest()[:32]
        path = self.folder / digest / "pairs.arrow"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_arrow(path, pairs(), name)
        table = datasets.table.MemoryMappedTable.from_file(str(path))
        return datasets.Dataset(table, fingerprint=digest)


def _write_arrow(path: Path, pairs: Iterable[tuple[str, str]], name: str) -> None:
    """Writes pairs as an Arrow stream beside `path`, then renames it."""
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(beside, "wb") as file, pa.ipc.new_stream(file, _SCHEMA) as writer:
            progress = iter(datasets.utils.tqdm(pairs, desc=f"Reading {name}", unit=" pairs"))
            while rows := list(islice(progress, _ROWS_PER_WRITE)):
                columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
                writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _read_aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Pairs of two text files; raises ValueError at their end if their line counts differ."""
    num_source = num_target = 0
    for source_line, target_line in zip_longest(read_lines(source), read_lines(target)):
        num_source += source_line is not None
        num_target += target_line is not None
        if num_source == num_target:
            yield source_line, target_line
    if num_source != num_target:
        raise ValueError(
            f"`target_file` must have as many lines as `source_file`, got {num_source} lines in {source} and "
            f"{num_target} lines in {target}. Align the files line by line."
        )


def _read_pairs(path: Path, languages: tuple[str | None, str | None]) -> Iterator[tuple[str, str]]:
    """Pairs of one .jsonl, .json, .csv, .tsv or .parquet file."""
    reader = _READERS[path.suffix.lower()]
    columns = None
    for place, row in reader(path):
        if columns is None:
            translation = row.get("translation")
            codes = list(translation) if isinstance(translation, dict) else None
            columns = _find_columns(list(row), codes, languages, str(path))
        if columns[0] == "translation":
            row = row.get("translation")
        pair = tuple(row.get(column) for column in columns[-2:]) if isinstance(row, dict) else (None,)
        if not all(isinstance(text, str) for text in pair):
            raise ValueError(
                f"`pairs_file` must hold text under {columns[-2]!r} and {columns[-1]!r} in every row, got "
                f"{row!r:.200} in {place} of {path}. Complete or remove the row."
            )
        yield pair
    if columns is None:
        raise ValueError(f"`pairs_file` must hold at least one pair, got none in {path}. Check how it was written.")


def _read_json(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and row of each pair of a JSON lines file, or of a JSON file that is one list."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
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
        rows = json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
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
    rows = csv.DictReader((f"{line}\n" for line in read_lines(path)), restkey="", strict=True)
    try:
        for row in rows:
            if "" in row:
                raise ValueError(
                    f"`{path}` must have {len(rows.fieldnames)} columns in every row, got more in line "
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
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"`{path}` must be a Parquet file, got an error: {error}. Check how it was written."
        ) from error
    with file:
        rows = (row for batch in file.iter_batches(_ROWS_PER_WRITE) for row in batch.to_pylist())
        yield from ((f"row {number}", row) for number, row in enumerate(rows, start=1))


_READERS = {".jsonl": _read_json, ".json": _read_json, ".csv": _read_csv, ".tsv": _read_tsv, ".parquet": _read_parquet}


def _find_columns(
    columns: Sequence[str], codes: Sequence[str] | None, languages: tuple[str | None, str | None], origin: str
) -> tuple[str, ...]:
    """Names of the source and target columns, after "translation" if they are keys of that column.

    Args:
        columns: Columns of the corpus.
        codes: Keys of its column `translation`; None if it has no such column.
        languages: The languages asked for.
        origin: Name of the corpus, for the error.
    """
    if codes is not None:
        if None not in languages and set(languages) <= set(codes):
            return ("translation", *languages)
        wanted = " and ".join(repr(language) for language in languages)
        raise ValueError(
            "`source_language` and `target_language` must be two of the languages of the corpus, got "
            f"{wanted}. {origin} has: {', '.join(codes)}."
        )
    if {"source", "target"} <= set(columns):
        return ("source", "target")
    if None not in languages and set(languages) <= set(columns):
        return languages
    raise ValueError(
        "The columns must be `source` and `target`, or the two languages, or `translation`, got "
        f"{', '.join(map(str, columns))} in {origin}. Rename the columns, or set `source_language` and "
        "`target_language` to two of them."
    )


def _load_dataset(
    name: str, config: str | None, split: str, languages: tuple[str | None, str | None], cache_dir: str | Path | None
) -> datasets.Dataset:
    """Pairs of a dataset of the Hub, of a folder of data files or of a folder written by `save_to_disk`."""
    folder = Path(name)
    if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
        loaded = datasets.load_from_disk(name)
        if isinstance(loaded, datasets.DatasetDict):
            if split not in loaded:
                known = ", ".join(loaded)
                raise ValueError(f"`split` must be one of {known}, got {split!r}. Choose a split of {name}.")
            loaded = loaded[split]
    else:
        loaded = datasets.load_dataset(name, config, split=split, cache_dir=cache_dir and str(cache_dir))
    codes = None
    if "translation" in loaded.column_names:
        loaded = loaded.select_columns("translation").flatten()
        codes = [column.removeprefix("translation.") for column in loaded.column_names]
    columns = _find_columns(loaded.column_names, codes, languages, name)
    source, target = (f"translation.{column}" if codes else column for column in columns[-2:])
    loaded = loaded.select_columns([source, target])
    for column in (source, target):
        if loaded.features[column].dtype not in ("string", "large_string") or loaded.data.column(column).null_count:
            raise ValueError(
                f"`dataset` must hold text in every row of {column!r}, got missing values or "
                f"{loaded.features[column]} in {name}. Remove these rows or choose another column."
            )
    if (source, target) == ("source", "target"):
        return loaded
    return loaded.rename_columns({source: "source", target: "target"})


def _load_builtin(split: str, cache: _Cache) -> datasets.Dataset:
    """Pairs of the built-in corpus; made anew when its grammar has changed."""
    from . import builtin

    grammar = b"".join(path.read_bytes() for path in sorted(Path(builtin.__file__).parent.glob("*.py")))
    key = f"{BUILTIN} {split} {hashlib.sha256(grammar).hexdigest()}"
    return cache.load_by_key(
        key,
        lambda: ((pair.source, pair.target) for pair in builtin.load_builtin_corpus(split)),
        f"{BUILTIN} {split}",
    )
