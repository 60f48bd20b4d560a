# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Corpora of sentence pairs from text, JSON, CSV and Parquet files, `datasets` and the built-in file."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pyarrow as pa

from .readers import MAX_BYTES_PER_LINE, READERS, check_sides, existing_file, read_aligned

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
        dataset: Hub name, local folder, or "builtin" for the built-in short sentences of Tatoeba, English to German.
        dataset_config: Configuration of the dataset, for example "de-en".
        split: Split of the dataset; "builtin" has "train", "validation" and "test", the latter two with the first
            translation of each sentence (`evaluation.evaluation_set` has all).
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
    origin = find_origin(source_file, target_file, pairs_file, dataset)
    languages = (source_language, target_language)
    cache = _Cache(cache_dir)
    if origin == BUILTIN:
        return _load_builtin(split, languages, cache)
    if isinstance(origin, str):
        return _load_dataset(origin, dataset_config, split, languages, cache_dir)
    if len(origin) == 2:
        return cache.load(origin, (), lambda: read_aligned(*origin))
    (path,) = origin
    if path.suffix.lower() not in READERS:
        formats = ", ".join(READERS)
        raise ValueError(f"`pairs_file` must end in one of {formats}, got {path}. Rename or convert it.")
    return cache.load(origin, languages, lambda: _read_pairs(path, languages))


def find_origin(
    source_file: str | Path | None,
    target_file: str | Path | None,
    pairs_file: str | Path | None,
    dataset: str | Path | None,
) -> str | list[Path]:
    """What the arguments of `load_corpus` name: a dataset, two aligned text files or one file of pairs.

    Raises:
        ValueError: If they do not name exactly one origin, whole; says what is missing or too much.
        FileNotFoundError: If a file does not exist.
    """
    check_sides({"source_file": source_file, "target_file": target_file})
    origins = {"source_file": source_file, "pairs_file": pairs_file, "dataset": dataset}
    given = [name for name, value in origins.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            "`load_corpus` must get exactly one of `source_file` with `target_file`, `pairs_file` or `dataset`, got "
            f"{', '.join(given) or 'none'}. Name one corpus."
        )
    if dataset is not None:
        return str(dataset)
    files = {"source_file": source_file, "target_file": target_file, "pairs_file": pairs_file}
    return [existing_file(path, name) for name, path in files.items() if path is not None]


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


def _read_pairs(path: Path, languages: tuple[str | None, str | None]) -> Iterator[tuple[str, str]]:
    """Pairs of one .jsonl, .json, .csv, .tsv or .parquet file."""
    columns = None
    for place, row in READERS[path.suffix.lower()](path):
        if columns is None:
            columns = find_columns(list(row), translation_codes(row), languages, str(path))
        sides = row.get("translation") if columns.in_translation else row
        texts = sides if isinstance(sides, dict) else {}
        source, target = texts.get(columns.source), texts.get(columns.target)
        if not (isinstance(source, str) and isinstance(target, str)):
            raise ValueError(
                f"`pairs_file` must hold text under {columns.source!r} and {columns.target!r} in every row, got "
                f"{sides!r:.200} in {place} of {path}. Complete or remove the row."
            )
        _check_characters((source, target), place, path)
        yield source, target
    if columns is None:
        raise ValueError(f"`pairs_file` must hold at least one pair, got none in {path}. Check how it was written.")


def _check_characters(pair: tuple[str, str], place: str, path: Path) -> None:
    """Raises ValueError for half of a character, which JSON can hold and a file of text cannot, and giant texts."""
    for text in pair:
        try:
            if len(text.encode()) > MAX_BYTES_PER_LINE:
                raise ValueError(
                    f"`pairs_file` must hold texts of at most {MAX_BYTES_PER_LINE} bytes, got more in {place} of "
                    f"{path}. Split or remove the row."
                )
        except UnicodeEncodeError as error:
            raise ValueError(
                f"`pairs_file` must hold text that UTF-8 can hold, got half of a character, {text[error.start]!a}, in "
                f"{place} of {path}. Correct or remove the row."
            ) from error


class Columns(NamedTuple):
    """Names of the source and target columns, or of keys of the column `translation`."""

    source: str
    target: str
    in_translation: bool = False


def translation_codes(row: Mapping[str, Any]) -> list[str] | None:
    """Languages under which a row's column `translation` holds its sides; None if it has no such column."""
    translation = row.get("translation")
    return list(translation) if isinstance(translation, dict) else None


def find_columns(
    columns: Sequence[str], codes: Sequence[str] | None, languages: tuple[str | None, str | None], origin: str
) -> Columns:
    """Where both sides of a corpus stand.

    Args:
        columns: Columns of the corpus.
        codes: Keys of its column `translation`; None if it has no such column.
        languages: The languages asked for.
        origin: Name of the corpus, for the error.
    """
    source, target = languages
    if codes is None and {"source", "target"} <= set(columns):
        return Columns("source", "target")
    if source and target and {source, target} <= set(columns if codes is None else codes):
        return Columns(source, target, in_translation=codes is not None)
    if codes is not None:
        raise ValueError(
            "`source_language` and `target_language` must be two of the languages of the corpus, got "
            f"{source!r} and {target!r}. {origin} has: {', '.join(codes)}."
        )
    raise ValueError(
        "The columns must be `source` and `target`, or the two languages, or `translation`, got "
        f"{', '.join(map(str, columns))} in {origin}. Rename the columns, or set `source_language` and "
        "`target_language` to two of them."
    )


def _load_dataset(
    name: str, config: str | None, split: str, languages: tuple[str | None, str | None], cache_dir: str | Path | None
) -> datasets.Dataset:
    """Pairs of a dataset of the Hub, of a folder of data files or of a folder written by `save_to_disk`."""
    try:
        loaded = _load_split(name, config, split, cache_dir)
    except (datasets.exceptions.DatasetGenerationError, pa.ArrowInvalid, json.JSONDecodeError) as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise ValueError(
            f"`dataset` must hold data that can be read, got an error in {name}: {cause}. Correct or copy its files "
            "again."
        ) from error
    codes = None
    if "translation" in loaded.column_names:
        loaded = loaded.select_columns("translation").flatten()
        codes = [column.removeprefix("translation.") for column in loaded.column_names]
    columns = find_columns(loaded.column_names, codes, languages, name)
    prefix = "translation." if columns.in_translation else ""
    source, target = prefix + columns.source, prefix + columns.target
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


def _load_split(name: str, config: str | None, split: str, cache_dir: str | Path | None) -> datasets.Dataset:
    """One split of a dataset with all its columns."""
    if not is_saved_to_disk(name):
        return datasets.load_dataset(name, config, split=split, cache_dir=cache_dir and str(cache_dir))
    loaded = datasets.load_from_disk(name)
    if isinstance(loaded, datasets.Dataset):
        return loaded
    if split not in loaded:
        raise ValueError(f"`split` must be one of {', '.join(loaded)}, got {split!r}. Choose a split of {name}.")
    return loaded[split]


def is_saved_to_disk(name: str | Path) -> bool:
    """Whether a dataset is a folder written by `save_to_disk`."""
    return any((Path(name) / file).is_file() for file in ("dataset_dict.json", "state.json"))


def _load_builtin(split: str, languages: tuple[str | None, str | None], cache: _Cache) -> datasets.Dataset:
    """Pairs of the built-in corpus: all translations of the training sentences, the first one of the others."""
    from . import builtin

    builtin.check_direction(*languages)

    def pairs() -> Iterator[tuple[str, str]]:
        for english, translations in builtin.read_builtin(split):
            for german in translations if split == "train" else translations[:1]:
                yield english, german

    return cache.load_by_key(f"{BUILTIN} {split} {builtin.CORPUS_SHA256}", pairs, f"{BUILTIN} {split}")
