# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Files of any bytes through the readers: every line is kept in its place, or the file is refused
by line.
"""

import csv
import io
import json
import tempfile

import hypothesis
import pandas
import pytest
from hypothesis import strategies as st
from nasty import (
    any_files,
    fuzz,
    good_files,
    json_texts,
    json_values,
    lines,
    texts,
)

from vaswani_transformer.data import corpora
from vaswani_transformer.data.corpora import _read_shards, _read_text, load_corpus
from vaswani_transformer.files import decode_lines

pytestmark = pytest.mark.slow

SUFFIXES = [".csv", ".json", ".jsonl", ".parquet", ".tsv"]
PAIRS = st.lists(st.tuples(texts, texts), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def split_by_hand(content):
    """Lines of a file, and the number of the first that is not UTF-8."""
    rows = content.split(b"\n")
    rows = rows[:-1] if rows[-1] == b"" else rows
    found = []
    for number, row in enumerate(rows, start=1):
        row = row[3:] if number == 1 and row.startswith(b"\xef\xbb\xbf") else row
        try:
            found.append((row[:-1] if row.endswith(b"\r") else row).decode())
        except UnicodeDecodeError:
            return found, number
    return found, None


def all_lines(read):
    """Lines that a reader yields, and the number of the line that its error names."""
    found = []
    try:
        found.extend(read())
    except ValueError as error:
        return found, int(
            str(error).split("must be UTF-8 text")[1].split(" in line ")[1].split()[0]
        )
    return found, None


@fuzz(20_000, content=any_files)
def test_lines_end_at_line_feeds_alone_and_bad_bytes_are_named_by_line(place, content):
    path = place / "lines"
    path.write_bytes(content)
    assert all_lines(lambda: decode_lines(io.BytesIO(content), "lines", 2**16)) == split_by_hand(
        content
    )
    if content:
        assert all_lines(lambda: corpora.read_lines(path)) == split_by_hand(content)


@fuzz(5000, short=40, source=good_files, target=good_files, data=st.data())
def test_two_files_stay_aligned_whole_or_in_parts_or_are_refused(place, source, target, data):
    hypothesis.assume(source and target)
    (sources, _), (targets, _) = split_by_hand(source), split_by_hand(target)
    paths = place / "source", place / "target"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    if len(sources) != len(targets):
        with pytest.raises(ValueError, match="must have as many lines as"):
            list(_read_text(paths))
        return
    expected = list(zip(sources, targets, strict=True))
    assert [(pair["source"], pair["target"]) for pair in _read_text(paths)] == expected
    shards = corpora.index_aligned(*paths, data.draw(st.integers(1, 4)))
    parts = list(_read_shards(*map(str, paths), shards))
    assert [(pair["source"], pair["target"]) for pair in parts] == expected


def read_pairs(path, source_language=None, target_language=None):
    """Pairs of a file, read anew."""
    languages = {"source_language": source_language, "target_language": target_language}
    with tempfile.TemporaryDirectory() as cache:
        found = load_corpus(pairs_file=path, cache_dir=cache, **languages).to_dict()
    return list(zip(found["source"], found["target"], strict=True))


def check_pairs_or_error(path, *languages):
    """Reads a file, which gives pairs of texts or an error that names the file."""
    try:
        pairs = read_pairs(path, *languages)
    except ValueError as raised:
        error = str(raised)
    else:
        assert all(isinstance(text, str) for pair in pairs for text in pair)
        return
    assert str(path) in error


def write_jsonl(path, pairs):
    rows = [json.dumps({"source": source, "target": target}) for source, target in pairs]
    path.with_suffix(".jsonl").write_text("\n".join(rows))
    return path.with_suffix(".jsonl")


WRITERS = {
    ".jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
    ".json": lambda table, path: table.to_json(path, orient="records", indent=1),
    ".csv": lambda table, path: table.to_csv(path, index=False, quoting=csv.QUOTE_ALL),
    ".parquet": lambda table, path: table.to_parquet(path),
}


@pytest.mark.parametrize("suffix", WRITERS)
@fuzz(2500, pairs=PAIRS)
def test_pairs_written_by_other_programs_come_back(place, suffix, pairs):
    path = place / f"pairs{suffix}"
    WRITERS[suffix](pandas.DataFrame(pairs, columns=["source", "target"]), path)
    # a carriage return before a line feed counts as part of the line's end, in fields, too
    if suffix == ".csv":
        pairs = [tuple(text.replace("\r\n", "\n") for text in pair) for pair in pairs]
    assert read_pairs(path) == pairs


FIELD = lines.map(lambda text: text.replace("\t", ""))


@fuzz(
    2500,
    pairs=st.lists(
        st.tuples(FIELD, FIELD.filter(lambda text: not text.endswith("\r"))), max_size=5
    ),
)
def test_tsv_keeps_everything_but_tabs_and_line_feeds(place, pairs):
    path = place / "pairs.tsv"
    path.write_bytes("\n".join(["source\ttarget", *map("\t".join, pairs)]).encode())
    if pairs:
        assert read_pairs(path) == pairs


@fuzz(8000, suffix=st.sampled_from(SUFFIXES), content=st.one_of(any_files, st.binary(max_size=40)))
def test_any_bytes_as_a_file_of_pairs_are_pairs_of_text_or_refused_by_name(place, suffix, content):
    path = place / f"any{suffix}"
    path.write_bytes(content)
    check_pairs_or_error(path, "en", "de")


@fuzz(
    8000,
    rows=st.lists(json_texts(["source", "target", "translation", "en"]), min_size=1, max_size=3),
)
def test_any_json_is_pairs_of_text_or_refused_by_file_and_line(place, rows):
    path = place / "any.jsonl"
    path.write_text("\n".join(rows))
    check_pairs_or_error(path, "en", "source")


@fuzz(500, short=5, values=st.lists(st.tuples(json_values, json_values), min_size=1, max_size=3))
def test_json_lines_of_any_values_are_text_or_refused(place, values):
    path = write_jsonl(place / "values", values)
    if all(isinstance(value, str) for pair in values for value in pair):
        assert read_pairs(path) == values
        return
    with pytest.raises(
        ValueError, match="values.jsonl` must hold (text in every row|pairs that can be read)"
    ):
        read_pairs(path)
