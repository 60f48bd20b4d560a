# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Corpora of sentence pairs: from files, from `datasets` or built in; stored or streamed."""

from __future__ import annotations

import csv
import glob
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets

from ..files import decode_lines, open_text, text_suffix
from . import builtin

BUILTIN = "builtin"
MAX_BYTES_PER_LINE = 2**20  # To tokenize a longer line would take gigabytes of memory.

_TEXT = datasets.Features({"source": datasets.Value("string"), "target": datasets.Value("string")})
_STREAMED = (".jsonl", ".parquet")  # files of pairs that can be streamed
_LINES_PER_SHARD = 50_000
_SHARDS_OF_STORED = 64
# A lone surrogate. JSON can contain it as an escape, but UTF-8 cannot encode it.
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


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
    """Return sentence pairs as a dataset with the string columns `source` and `target`.

    Give exactly one origin: two aligned text files with one sentence per line, one file of pairs,
    or a dataset. Pairs that are read from files are stored in the cache, in an Arrow file that is
    mapped into memory. The original files are read again only if they change.

    A file or dataset of pairs must have columns with the names of the two languages, or the columns
    `source` and `target`, or a column `translation` like `{"en": "...", "de": "..."}`. CSV and
    TSV files need a header. In the TSV file `pairs_file`, quotation marks are part of the text. The
    files of a dataset's folder are read by `datasets`, for which a TSV file is a CSV file.

    Args:
        source_file: Source sentences.
        target_file: Target sentences, aligned with `source_file`.
        pairs_file: A .jsonl, .json, .csv, .tsv or .parquet file of pairs.
        dataset: Hub name, local folder, or "builtin" for the built-in short sentences of Tatoeba,
            English to German.
        dataset_config: Configuration of the dataset, for example "de-en".
        split: Split of the dataset. "builtin" has "train", "validation" and "test". Its
            "validation" and "test" have only the first translation of each sentence.
            `inference.evaluate.load_evaluation_set` returns all translations.
        source_language: Language code that names the source column or key.
        target_language: Language code that names the target column or key.
        cache_dir: Folder of the Arrow files. None means the cache of `datasets`.

    Returns:
        The pairs, in the order in which they appear in the files or the dataset. Pairs with blank
        sentences are included.

    Raises:
        ValueError: If no origin or more than one is given, a file is empty or not UTF-8, text files
            have different numbers of lines, or columns or texts are missing.
        FileNotFoundError: If a file does not exist.

    Example:
        >>> corpus = load_corpus(source_file="train.en", target_file="train.de")
    """
    languages = (source_language, target_language)
    origin = find_origin(source_file, target_file, pairs_file, dataset, languages)
    has_configs = isinstance(origin, str) and origin != BUILTIN and not _is_saved_to_disk(origin)
    if dataset_config is not None and not has_configs:
        raise ValueError(
            f"`dataset_config` must be left out for {origin}, which has no configurations."
        )
    if origin == BUILTIN:
        builtin.check_direction(*languages)
        return _store(_read_builtin, [builtin.CORPUS_FILE], cache_dir, split=split)
    if isinstance(origin, str):
        return _select(
            lambda: _load_split(origin, dataset_config, split, cache_dir), languages, origin
        )
    if len(origin) == 2:
        return _store(_read_text, origin, cache_dir)
    path, suffix = str(origin[0]), text_suffix(origin[0])
    readers = {".jsonl": _read_json, ".json": _read_json, ".csv": _read_table, ".tsv": _read_table}
    if suffix in readers:
        _first_of(readers[suffix]((path,), languages), path)
        return _store(readers[suffix], origin, cache_dir, languages=languages)
    if suffix != ".parquet":
        raise ValueError(
            f"A file of pairs must end in {', '.join(readers)} or .parquet, got {path}. Rename or "
            "convert it."
        )
    # `datasets` would read a name with brackets as a pattern.
    options = {"data_files": glob.escape(path), "split": "train", "cache_dir": cache_dir}
    return _select(lambda: datasets.load_dataset("parquet", **options), languages, path)


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
    """Return sentence pairs as a stream with the string columns `source` and `target`.

    The pairs are not stored, except those of "builtin", which are stored in the cache. The
    arguments are those of `load_corpus`, and so are the errors. A file of pairs must be a .jsonl or
    a .parquet file.

    Two aligned text files are divided into shards of up to 50,000 lines. If the source file or the
    target file is compressed, the two files together are a single shard. A .jsonl file is one
    shard. Each row group of a Parquet file is a shard. A resumed training skips the shards that it
    has finished. `StreamLoader` says how processes and workers share the shards.

    Example:
        >>> languages = {"source_language": "en", "target_language": "de"}
        >>> stream = stream_corpus(dataset="wmt/wmt14", dataset_config="de-en", **languages)
    """
    languages = (source_language, target_language)
    origin = find_origin(source_file, target_file, pairs_file, dataset, languages)
    if isinstance(origin, str):
        if origin == BUILTIN or _is_saved_to_disk(origin):
            stored = load_corpus(
                dataset=origin,
                dataset_config=dataset_config,
                split=split,
                source_language=source_language,
                target_language=target_language,
            )
            return stored.to_iterable_dataset(num_shards=min(_SHARDS_OF_STORED, len(stored)))
        return _pick(
            datasets.load_dataset(origin, dataset_config, split=split, streaming=True),
            languages,
            origin,
        )
    if len(origin) == 2:
        source, target = origin
        shards = index_aligned(source, target, sys.maxsize)  # one part with all lines
        num_lines = shards[0][1]
        # To start in the middle of a compressed file, all text before it must be decompressed.
        is_packed = ".gz" in (source.suffix, target.suffix)
        num_shards = 1 if is_packed else -(-num_lines // _LINES_PER_SHARD)
        if num_shards > 1:
            shards = index_aligned(source, target, -(-num_lines // num_shards))
        arguments = {"source": str(source), "target": str(target), "shards": shards}
        return datasets.IterableDataset.from_generator(
            _read_shards, features=_TEXT, gen_kwargs=arguments
        )
    path, suffix = str(origin[0]), text_suffix(origin[0])
    if suffix not in _STREAMED:
        raise ValueError(
            f"A file of pairs must end in one of {', '.join(_STREAMED)} to be streamed, got "
            f"{path}. Convert it, or train without `streaming`."
        )
    if suffix == ".jsonl":
        options: Any = {"paths": (path,), "languages": languages}
        _first_of(_read_json(**options), path)
        return datasets.IterableDataset.from_generator(
            _read_json, features=_TEXT, gen_kwargs=options
        )
    stream = datasets.load_dataset(
        "parquet", data_files=glob.escape(path), split="train", streaming=True
    )
    return _pick(stream.reshard(), languages, path)


# ---- origins ----


def find_origin(
    source: str | Path | None,
    target: str | Path | None,
    pairs: str | Path | None,
    dataset: str | Path | None,
    languages: Sequence[str | None],
) -> str | list[Path]:
    """Return the origin of a corpus: a dataset, two aligned text files, or a file of pairs.

    Args:
        source: Text file of the source side, or None.
        target: Text file of the target side, or None.
        pairs: File of pairs, or None.
        dataset: Name or folder of a dataset, or None.
        languages: Source and target language. They are compared with the suffixes of the files, to
            recognize swapped files.

    Returns:
        The name of the dataset, or the paths of the files.

    Raises:
        ValueError: If no origin or more than one is given, a side is missing, or the suffix of a
            file is the language of the other side.
        FileNotFoundError: If a file does not exist.
    """
    if (source is None) != (target is None):
        raise ValueError(
            f"{source or target} must be given with the other side's file, got none. Name both."
        )
    given = [str(origin) for origin in (source, pairs, dataset) if origin is not None]
    if len(given) != 1:
        raise ValueError(
            "A corpus must be two text files, or a file of pairs, or a dataset, got "
            f"{' and '.join(given) or 'none'}. Name one of them."
        )
    if dataset is not None:
        return str(dataset)
    if pairs is not None:
        return [existing_file(pairs)]
    sides = [str(source), str(target)]
    for side, own, other in zip(sides, languages, reversed(languages), strict=False):
        if other and own != other and text_suffix(side) == f".{other}".lower():
            raise ValueError(
                f"{side} must be text in {own or 'the other language'}, got the suffix of {other}. "
                "Exchange the two files, or the languages."
            )
    if sides[0] == sides[1]:
        raise ValueError(f"Source and target must be two files, got {source} twice. Name both.")
    return [existing_file(side) for side in sides]


def existing_file(path: str | Path) -> Path:
    """Return the path of an existing file that is not empty.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be an existing file. Check the path.")
    with open_text(path) as file:
        if not file.read(1):
            raise ValueError(f"{path} must hold text, got an empty file. Check how it was written.")
    return path


def _load_split(
    name: str, config: str | None, split: str, cache_dir: str | Path | None
) -> datasets.Dataset:
    """Load one split of a dataset.

    The dataset is on the Hub, in a folder of data files, or in a folder that `save_to_disk` wrote.
    """
    if not _is_saved_to_disk(name):
        return datasets.load_dataset(name, config, split=split, cache_dir=cache_dir)
    saved = datasets.load_from_disk(name)
    if isinstance(saved, datasets.Dataset):
        saved = {str(saved.split or "train"): saved}
    if split not in saved:
        raise FileNotFoundError(
            f"The split must be one of {', '.join(saved)} in {name}, got {split}. Pass another, "
            "or save a DatasetDict."
        )
    return saved[split]


def _is_saved_to_disk(name: str) -> bool:
    return any((Path(name) / file).is_file() for file in ("dataset_dict.json", "state.json"))


# ---- columns ----


def _find_columns(
    columns: Sequence[str], languages: tuple[str | None, str | None], origin: str
) -> list[str]:
    """Return the names of the source and target columns.

    If the corpus has a column `translation`, the keys of this column are passed as `columns`.
    """
    for names in (languages, ("source", "target")):
        if len(set(names)) == 2 and set(names) <= set(columns):
            return [str(name) for name in names]
    raise ValueError(
        'The columns must be "source" and "target", or the two languages must be columns or keys '
        f'of "translation", got {languages[0]!r} and {languages[1]!r}. {origin} has: '
        f"{', '.join(map(str, columns)) or 'none'}."
    )


def _select(
    load: Callable[[], datasets.Dataset], languages: tuple[str | None, str | None], origin: str
) -> datasets.Dataset:
    """Load a dataset and return its two text columns. Raise ValueError if a text is missing."""
    try:
        loaded = load()
        for column in loaded.data.columns:  # JSON and Parquet files may contain invalid bytes.
            column.validate(full=True)
    except (datasets.exceptions.DatasetGenerationError, ValueError) as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise ValueError(
            f"`{origin}` must hold pairs that can be read, got an error: {cause} Correct its "
            "files, or the arguments."
        ) from error
    # `datasets` reads `translation` as JSON if the rows have different languages.
    if isinstance(loaded.features.get("translation"), datasets.Json):
        return _pick(loaded, languages, origin)
    if isinstance(loaded.features.get("translation"), (dict, datasets.Translation)):
        loaded = loaded.select_columns("translation").flatten()
        loaded = loaded.rename_columns(
            {name: name.removeprefix("translation.") for name in loaded.column_names}
        )
    names = _find_columns(loaded.column_names, languages, origin)
    loaded = loaded.select_columns(names)
    for name in names:
        missing = loaded.data.column(name).null_count
        if missing or loaded.features[name] not in (
            datasets.Value("string"),
            datasets.Value("large_string"),
        ):
            raise ValueError(
                f"`{origin}` must hold text in every row of {name!r}, got {loaded.features[name]}, "
                f"{missing} of them missing. Complete or remove such rows, or choose another "
                "column."
            )
    return loaded.rename_columns(dict(zip(names, _TEXT, strict=True)))


def _pick(corpus: Any, languages: tuple[str | None, str | None], origin: str) -> Any:
    """Return a dataset or a stream with only the columns `source` and `target`."""
    row = _first_of(corpus, origin)
    options = {"names": _find_columns(list(_columns(row)), languages, origin), "origin": origin}
    return corpus.map(
        _pick_columns, batched=True, fn_kwargs=options, remove_columns=list(row), features=_TEXT
    )


def _first_of(pairs: Iterable[dict[str, Any]], origin: str) -> dict[str, Any]:
    """Return the first row. Raise ValueError if there are no rows."""
    for row in pairs:
        return row
    raise ValueError(f"`{origin}` must hold at least one pair, got none. Check how it was written.")


def _pick_columns(
    rows: dict[str, list[Any]], names: list[str], origin: str
) -> dict[str, list[str]]:
    """Return the source and target texts of a batch of rows, as columns."""
    values = zip(*rows.values(), strict=True)
    pairs = [
        _pick_pair(dict(zip(rows, row, strict=True)), names, origin, "a row") for row in values
    ]
    return {side: [pair[side] for pair in pairs] for side in _TEXT}


def _pick_pair(row: Any, names: list[str], origin: str, place: str) -> dict[str, str]:
    """Return the source and target text of a row.

    Raises:
        ValueError: A side is not text. The message names `place`.
    """
    columns = _columns(row)
    texts = [columns.get(name) for name in names]
    for name, text in zip(names, texts, strict=True):
        if not isinstance(text, str) or _HALF_CHARACTER.search(text):
            raise ValueError(
                f"`{origin}` must hold text in every row of {name!r}, got {text!r:.40} in {place}. "
                "Complete or remove such rows, or choose another column."
            )
    return dict(zip(_TEXT, texts, strict=True))


def _columns(row: Any) -> dict[str, Any]:
    """Return the columns of a row, or the content of its column `translation` if it has one.

    Return {} if the row is not a JSON object.
    """
    if not isinstance(row, dict):
        return {}
    inside = row.get("translation")
    return inside if isinstance(inside, dict) else row


# ---- files ----


def _store(
    read: Callable[..., Iterator[dict[str, str]]],
    files: Sequence[Path],
    cache_dir: str | Path | None,
    **options: Any,
) -> datasets.Dataset:
    """Return the pairs that `read` yields, from the cache unless the files have changed.

    Args:
        read: Generator of pairs, which takes `paths` and the options.
        files: Files that `read` reads.
        cache_dir: Folder of the cache. None means the cache of `datasets`.
        **options: Further arguments of `read`.
    """
    # `from_generator` hashes all arguments of `read` to find the cache file. All functions that are
    # passed as `read` ignore the argument `known_files`. It is passed only so that the hash changes
    # when a file changes. In 0.2.0, which read other columns, it had another name.
    known = tuple(
        (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files
    )
    arguments = {"paths": tuple(map(str, files)), "known_files": known, **options}
    try:
        return datasets.Dataset.from_generator(
            read, features=_TEXT, cache_dir=cache_dir, gen_kwargs=arguments
        )
    except datasets.exceptions.DatasetGenerationError as error:
        raise error.__cause__ or error from None


def _read_builtin(split: str, **_: Any) -> Iterator[dict[str, str]]:
    """Yield the built-in pairs of a split.

    The split "train" has all translations of each sentence. Other splits have only the first
    translation of each sentence.
    """
    for english, translations in builtin.read_builtin(split):
        for german in translations if split == "train" else translations[:1]:
            yield {"source": english, "target": german}


def read_lines(path: str | Path, *, offset: int = 0, line: int = 1) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 text file, without their line ends.

    A line ends with `\n` or `\r\n`. Other separators, such as U+2028, do not end a line. A byte
    order mark at the start of the file is skipped.

    Args:
        path: The text file.
        offset: Byte to start at. It must be the first byte of a line.
        line: Number of the line at `offset`, from 1, for error messages.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is empty, has a line of more than one mebibyte, or has bytes that
            are not UTF-8. The message names the file, the line and the byte offset.
    """
    path = existing_file(path)
    with open_text(path) as file:
        file.seek(offset)
        yield from decode_lines(file, str(path), MAX_BYTES_PER_LINE, offset=offset, line=line)


def _read_text(paths: tuple[str, str], **_: Any) -> Iterator[dict[str, str]]:
    """Yield the pairs of two text files, after comparing their line counts."""
    all_lines = index_aligned(*paths, sys.maxsize)  # a single part
    yield from _read_shards(*paths, all_lines)


def _read_table(
    paths: tuple[str], languages: tuple[str | None, str | None], **_: Any
) -> Iterator[dict[str, str]]:
    """Yield the pairs of a CSV or TSV file with a header.

    Quotation marks in a TSV file are part of the text.
    """
    (path,) = paths
    rows: Any = (line.split("\t") if line else [] for line in read_lines(path))
    if text_suffix(path) == ".csv":
        rows = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    header: list[str] = []
    number = 0
    try:
        for number, row in enumerate(rows, start=1):  # noqa: B007  # The error needs `number`.
            if not row:  # This is a blank line.
                continue
            if not header:
                header = row
                columns = [row.index(name) for name in _find_columns(row, languages, path)]
            elif len(row) != len(header):
                raise csv.Error(f"{len(row)} columns instead of {len(header)}")
            else:
                yield dict(zip(_TEXT, (row[column] for column in columns), strict=True))
    except csv.Error as error:
        line = getattr(rows, "line_num", number)
        raise ValueError(
            f"`{path}` must be a table, got an error in line {line}: {error}. Correct it."
        ) from error


def _read_json(
    paths: tuple[str], languages: tuple[str | None, str | None], **_: Any
) -> Iterator[dict[str, str]]:
    """Yield the pairs of a JSON file.

    The first row decides which columns are read. Other rows may have further columns.
    """
    (path,) = paths
    names: list[str] = []
    for place, row in _read_json_rows(path):
        names = names or _find_columns(list(_columns(row)), languages, f"The first row of {path}")
        yield _pick_pair(row, names, path, place)


def _read_json_rows(path: str) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a JSON file, each with its place in the file for error messages.

    The file has JSON lines, or one list.
    """
    with open_text(path) as file:
        if file.read(100).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
            file.seek(0)
            for number, row in enumerate(_parse_json(file.read(), path, "its list"), start=1):
                yield f"row {number}", row
            return
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"line {number}", _parse_json(line, path, f"line {number}")


def _parse_json(content: str | bytes, path: str, place: str) -> Any:
    """Parse a JSON value. If it is broken, raise ValueError with a message that names `place`."""
    try:
        return json.loads(content)
    except (RecursionError, ValueError) as error:
        raise ValueError(
            f"`{path}` must hold pairs that can be read, got an error in {place}: {error}. Correct "
            "it."
        ) from error


def _read_shards(
    source: str, target: str, shards: Sequence[tuple[int, int, int, int]]
) -> Iterator[dict[str, str]]:
    """Yield the pairs of the given parts of two text files. `index_aligned` returns such parts."""
    for line, num_lines, source_offset, target_offset in shards:
        sources = read_lines(source, offset=source_offset, line=line)
        targets = read_lines(target, offset=target_offset, line=line)
        for _, source_line, target_line in zip(range(num_lines), sources, targets, strict=False):
            yield {"source": source_line, "target": target_line}


def index_aligned(
    source: str | Path, target: str | Path, lines_per_part: int
) -> list[tuple[int, int, int, int]]:
    """Divide two aligned text files into parts that start and end at the same lines.

    Returns:
        For each part: the number of its first line, from 1; its number of lines; and its byte
        offsets in the source file and in the target file.

    Raises:
        ValueError: If the files have different numbers of lines.
    """
    counts, offsets = [], []
    for path in (source, target):
        next(read_lines(path))  # raises an error if the file is empty or not text
        offset = 0
        starts = []
        number = -1
        with open_text(path) as file:
            for number, raw in enumerate(file):
                if number % lines_per_part == 0:
                    starts.append(offset)
                offset += len(raw)
        counts.append(number + 1)
        offsets.append(starts)
    if counts[0] != counts[1]:
        raise ValueError(
            f"{target} must have as many lines as {source}, got {counts[1]} and {counts[0]}. Align "
            "them line by line."
        )
    return [
        (first + 1, min(lines_per_part, counts[0] - first), *starts)
        for first, *starts in zip(range(0, counts[0], lines_per_part), *offsets, strict=True)
    ]
