# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Corpora as streams: pairs that are read again in every epoch instead of being kept on disk as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets

from .corpora import BUILTIN, Columns, find_columns, find_origin, is_saved_to_disk, load_corpus, translation_codes
from .readers import index_aligned, read_lines

_KINDS = {".jsonl": "json", ".parquet": "parquet"}
_LINES_PER_SHARD = 50_000
_SHARDS_OF_STORED = 64


def stream_corpus(
    *,
    source_file: str | Path | None = None,
    target_file: str | Path | None = None,
    pairs_file: str | Path | None = None,
    dataset: str | Path | None = None,
    dataset_config: str | None = None,
    split: str = "train",
    source_language: str | None = None,
    target_language: str | None = None,
) -> datasets.IterableDataset:
    """Sentence pairs as a stream with the string columns `source` and `target`; nothing is written.

    The arguments are those of `load_corpus`, and so is what files and columns mean. Text files are divided into shards
    of 50,000 lines, Parquet files into their row groups, so that several processes and workers read different parts
    and a training that is resumed need not read what lies before; a JSON lines file is one shard.

    Raises:
        ValueError: If not exactly one origin is given, a file is empty or of a kind that cannot be streamed, text
            files differ in lines, or columns are missing.
        FileNotFoundError: If a file does not exist.

    Example:
        >>> stream = stream_corpus(dataset="wmt/wmt14", dataset_config="de-en", source_language="en",
        ...                        target_language="de")
    """
    origin = find_origin(source_file, target_file, pairs_file, dataset)
    languages = (source_language, target_language)
    if not isinstance(origin, str):
        return _stream_text(*origin) if len(origin) == 2 else _pick(_stream_pairs(*origin), languages, str(*origin))
    if origin == BUILTIN or is_saved_to_disk(origin):
        stored = load_corpus(
            dataset=origin, split=split, source_language=source_language, target_language=target_language
        )
        return stored.to_iterable_dataset(num_shards=min(_SHARDS_OF_STORED, len(stored)))
    stream = datasets.load_dataset(origin, dataset_config, split=split, streaming=True)
    return _pick(stream, languages, origin)


def _stream_text(source: Path, target: Path) -> datasets.IterableDataset:
    """Pairs of two text files, in shards of whole lines."""
    shards = index_aligned(source, target, _LINES_PER_SHARD)
    return datasets.IterableDataset.from_generator(
        _read_shards,
        features=datasets.Features({"source": datasets.Value("string"), "target": datasets.Value("string")}),
        gen_kwargs={"source": str(source), "target": str(target), "shards": shards},
    )


def _read_shards(source: str, target: str, shards: Sequence[tuple[int, int, int, int]]) -> Iterator[dict[str, str]]:
    """Pairs of parts of two text files."""
    for line, num_lines, source_offset, target_offset in shards:
        sources = read_lines(source, offset=source_offset, line=line)
        targets = read_lines(target, offset=target_offset, line=line)
        for _, source_line, target_line in zip(range(num_lines), sources, targets, strict=False):
            yield {"source": source_line, "target": target_line}


def _stream_pairs(path: Path) -> datasets.IterableDataset:
    """All columns of one file of pairs."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"`pairs_file` must end in one of {', '.join(_KINDS)} to be streamed, got {path}. Convert it, or train "
            "without `streaming`."
        )
    stream = datasets.load_dataset(kind, data_files=str(path), split="train", streaming=True)
    return stream.reshard() if kind == "parquet" else stream


def _pick(
    stream: datasets.IterableDataset, languages: tuple[str | None, str | None], origin: str
) -> datasets.IterableDataset:
    """The stream with the columns `source` and `target` alone."""
    row = next(iter(stream), None)
    if row is None:
        raise ValueError(f"`dataset` must hold at least one pair, got none in {origin}. Check how it was written.")
    columns = find_columns(list(row), translation_codes(row), languages, origin)
    return stream.map(
        _pick_columns,
        batched=True,
        fn_kwargs={"columns": columns},
        remove_columns=list(row),
        features=datasets.Features({"source": datasets.Value("string"), "target": datasets.Value("string")}),
    )


def _pick_columns(rows: dict[str, list[Any]], columns: Columns) -> dict[str, list[Any]]:
    """Both sides of some rows."""
    if columns.in_translation:
        pairs = rows["translation"]
        return {"source": [pair[columns.source] for pair in pairs], "target": [pair[columns.target] for pair in pairs]}
    return {"source": rows[columns.source], "target": rows[columns.target]}
