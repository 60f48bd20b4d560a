# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Streams of files: the same pairs as the loaded corpus, in shards."""

import json

import datasets
import pytest

from vaswani_transformer.data import corpora, load_corpus, stream_corpus

SENTENCES = [
    ("a", "b"),
    ("", "x"),
    ("c\u2028d", "e f"),
    ("öä", "g\rh"),
    ("i", "j"),
    ("k", ""),
    ("l m n", "o"),
]
PAIRS = [{"source": source, "target": target} for source, target in SENTENCES]


@pytest.fixture
def text_files(tmp_path, monkeypatch):
    """Two text files, read in shards of 3 lines; the first has a byte order mark and other line
    ends.
    """
    monkeypatch.setattr(corpora, "_LINES_PER_SHARD", 3)
    (tmp_path / "text.en").write_bytes(
        b"\xef\xbb\xbf" + "".join(f"{pair[0]}\r\n" for pair in SENTENCES).encode()
    )
    (tmp_path / "text.de").write_bytes("\n".join(pair[1] for pair in SENTENCES).encode())
    return {"source_file": tmp_path / "text.en", "target_file": tmp_path / "text.de"}


@pytest.mark.parametrize(("lines_per_shard", "sizes"), [(3, [3, 3, 1]), (6, [4, 3])])
def test_text_files_are_streamed_in_shards_of_one_size(
    text_files, monkeypatch, lines_per_shard, sizes
):
    monkeypatch.setattr(corpora, "_LINES_PER_SHARD", lines_per_shard)
    stream = stream_corpus(**text_files)
    assert [
        len(list(stream.shard(len(sizes), index))) for index in range(stream.num_shards)
    ] == sizes
    assert list(stream) == PAIRS


def test_error_in_a_later_shard_names_the_line_of_the_file(text_files):
    with open(text_files["target_file"], "ab") as file:
        file.write(b"\n\xff\n")
    with open(text_files["source_file"], "ab") as file:
        file.write(b"p\r\n")
    size = text_files["target_file"].stat().st_size
    with pytest.raises(ValueError, match=f"byte 0xff in line 8 at byte offset {size - 2}"):
        list(stream_corpus(**text_files))


def test_text_files_that_differ_in_lines_are_refused_at_once(text_files):
    text_files["target_file"].write_text("a\nb\n")
    with pytest.raises(
        ValueError, match="text.de must have as many lines as .*text.en, got 2 and 7"
    ):
        stream_corpus(**text_files)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_parquet(path, rows):
    datasets.Dataset.from_list(rows).to_parquet(path, batch_size=3)


@pytest.mark.parametrize(
    ("name", "write"), [("pairs.jsonl", write_jsonl), ("pairs.parquet", write_parquet)]
)
@pytest.mark.parametrize(
    "row",
    [
        lambda source, target: {"source": source, "target": target, "other": 1},
        lambda source, target: {"en": source, "de": target},
        lambda source, target: {"translation": {"de": target, "en": source}},
    ],
    ids=["source", "languages", "translation"],
)
def test_files_of_pairs_are_streamed(tmp_path, name, write, row):
    write(tmp_path / name, [row(*pair) for pair in SENTENCES])
    stream = stream_corpus(pairs_file=tmp_path / name, source_language="en", target_language="de")
    assert list(stream) == PAIRS


TWO = {"translation": {"en": "A dog.", "de": "Ein Hund."}}
THREE = {"translation": {"en": "A cat.", "de": "Eine Katze.", "fr": "Un chat."}}
NULL = {"translation": {"en": "A cow.", "fr": None, "de": "Eine Kuh."}}
TURNED = {"translation": {"de": "Ein 犬.", "en": "A 犬."}, "id": 7}
# 6,000 fill 12 MB
LONG = {"translation": {"en": "A long sentence. " * 60, "de": "Ein langer Satz. " * 60}}
FLAT = {"en": "A fish.", "de": "Ein Fisch."}


def read_in_both_ways(path, tmp_path):
    """Pairs of a file as it is loaded and as it is streamed, or the text of the error."""
    languages = {"pairs_file": path, "source_language": "en", "target_language": "de"}
    found = []
    for read in (
        lambda: load_corpus(**languages, cache_dir=tmp_path / "cache"),
        lambda: stream_corpus(**languages),
    ):
        try:
            found.append(list(read()))
        except ValueError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize(
    "rows",
    [
        [TWO, THREE],
        [TWO, NULL, THREE],
        [TURNED, TWO, THREE],
        [{"id": 1, **TWO}, {"id": "x", **THREE}],
        [FLAT, {**FLAT, "fr": "Un poisson."}, {"id": [1], **FLAT}],
        [LONG] * 6000 + [THREE, TURNED],
    ],
    ids=["third", "third_null", "order", "other_columns", "flat", "third_late"],
)
def test_json_lines_with_different_keys_are_the_same_pairs_in_both_ways(tmp_path, rows):
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    inside = [row.get("translation", row) for row in rows]
    expected = [{"source": row["en"], "target": row["de"]} for row in inside]
    loaded, streamed = read_in_both_ways(tmp_path / "pairs.jsonl", tmp_path)
    assert loaded == streamed == expected


@pytest.mark.parametrize(
    ("row", "name", "got"),
    [
        ({"translation": {"de": "A.", "fr": "B."}}, "en", "None"),
        ({"translation": {"en": "A.", "de": 3}}, "de", "3"),
        ({"translation": ["A.", "B."]}, "en", "None"),
    ],
)
def test_json_line_without_a_text_is_refused_by_its_line_in_both_ways(tmp_path, row, name, got):
    write_jsonl(tmp_path / "pairs.jsonl", [TWO, THREE, row, TWO])
    loaded, streamed = read_in_both_ways(tmp_path / "pairs.jsonl", tmp_path)
    assert loaded == streamed
    assert f"pairs.jsonl` must hold text in every row of {name!r}, got {got} in line 3" in loaded


@pytest.mark.parametrize("first", [{"translation": {"en": "A."}}, [1]])
def test_first_json_line_decides_on_the_columns_in_both_ways(tmp_path, first):
    write_jsonl(tmp_path / "pairs.jsonl", [first, TWO])
    loaded, streamed = read_in_both_ways(tmp_path / "pairs.jsonl", tmp_path)
    assert loaded == streamed
    assert "pairs.jsonl" in loaded


def test_folder_of_json_lines_with_a_third_language_is_read_in_both_ways(tmp_path):
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "train.jsonl", [TWO, THREE, TURNED])
    corpus = {"dataset": tmp_path / "data", "source_language": "en", "target_language": "de"}
    for found in (load_corpus(**corpus, cache_dir=tmp_path / "cache"), stream_corpus(**corpus)):
        assert [row["source"] for row in found] == ["A dog.", "A cat.", "A 犬."]
        assert [row["target"] for row in found] == ["Ein Hund.", "Eine Katze.", "Ein 犬."]


def test_folder_of_saved_data_is_streamed_in_shards(tmp_path):
    datasets.Dataset.from_list(PAIRS).save_to_disk(tmp_path / "saved")
    stream = stream_corpus(dataset=tmp_path / "saved")
    assert (list(stream), stream.num_shards) == (PAIRS, len(PAIRS))


def test_folder_of_data_files_is_streamed_and_a_missing_text_is_named(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", PAIRS)
    assert list(stream_corpus(dataset=tmp_path)) == PAIRS
    write_jsonl(tmp_path / "train.jsonl", [{"source": "a", "target": None}])
    with pytest.raises(ValueError, match="must hold text in every row of 'target'"):
        list(stream_corpus(dataset=tmp_path))


def test_file_that_cannot_be_streamed_is_refused(tmp_path):
    (tmp_path / "pairs.csv").write_text("source,target\na,b\n")
    with pytest.raises(ValueError, match="A file of pairs must end in one of"):
        stream_corpus(pairs_file=tmp_path / "pairs.csv")


def test_empty_lines_at_the_end_of_a_file_count(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("x\n\n")
    assert corpora.index_aligned(tmp_path / "a", tmp_path / "b", 5) == [(1, 2, 0, 0)]
