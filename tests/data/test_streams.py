# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Streams of files: the same pairs as the loaded corpus, in shards."""

import json

import datasets
import pytest

from vaswani_transformer.data import corpora, load_corpus, stream_corpus

SENTENCES = [("a", "b"), ("", "x"), ("c\u2028d", "e f"), ("öä", "g\rh"), ("i", "j"), ("k", ""), ("l m n", "o")]
PAIRS = [{"source": source, "target": target} for source, target in SENTENCES]


@pytest.fixture
def text_files(tmp_path, monkeypatch):
    """Two text files, read in shards of 3 lines; the first has a byte order mark and other line ends."""
    monkeypatch.setattr(corpora, "_LINES_PER_SHARD", 3)
    (tmp_path / "text.en").write_bytes(b"\xef\xbb\xbf" + "".join(f"{pair[0]}\r\n" for pair in SENTENCES).encode())
    (tmp_path / "text.de").write_bytes("\n".join(pair[1] for pair in SENTENCES).encode())
    return {"source_file": tmp_path / "text.en", "target_file": tmp_path / "text.de"}


def test_text_files_are_streamed_as_they_are_loaded(text_files, tmp_path):
    assert list(stream_corpus(**text_files)) == load_corpus(**text_files, cache_dir=tmp_path).to_list() == PAIRS


def test_text_files_are_streamed_in_shards(text_files):
    stream = stream_corpus(**text_files)
    assert stream.num_shards == 3
    assert [len(list(stream.shard(3, index))) for index in range(3)] == [3, 3, 1]


def test_shards_of_text_files_have_one_size(text_files, monkeypatch):
    monkeypatch.setattr(corpora, "_LINES_PER_SHARD", 6)
    stream = stream_corpus(**text_files)
    assert [len(list(stream.shard(2, index))) for index in range(2)] == [4, 3]
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
    with pytest.raises(ValueError, match="text.de must have as many lines as .*text.en, got 2 and 7"):
        stream_corpus(**text_files)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path, rows):
    datasets.Dataset.from_list(rows).to_parquet(path, batch_size=3)


@pytest.mark.parametrize(("name", "write"), [("pairs.jsonl", write_jsonl), ("pairs.parquet", write_parquet)])
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


def test_folder_of_saved_data_is_streamed_in_shards(tmp_path):
    datasets.Dataset.from_list(PAIRS).save_to_disk(tmp_path / "saved")
    stream = stream_corpus(dataset=tmp_path / "saved")
    assert (list(stream), stream.num_shards) == (PAIRS, len(PAIRS))


def test_folder_of_data_files_is_streamed(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", PAIRS)
    assert list(stream_corpus(dataset=tmp_path)) == PAIRS


def test_missing_text_of_a_stream_is_named(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [*PAIRS, {"source": "a", "target": None}])
    with pytest.raises(ValueError, match="must hold text in every row of 'target'"):
        list(stream_corpus(dataset=tmp_path))


def test_file_that_cannot_be_streamed_is_refused(tmp_path):
    (tmp_path / "pairs.csv").write_text("source,target\na,b\n")
    with pytest.raises(ValueError, match=r"`pairs_file` must end in one of .jsonl, .parquet to be streamed"):
        stream_corpus(pairs_file=tmp_path / "pairs.csv")


def test_empty_lines_at_the_end_of_a_file_count(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("x\n\n")
    assert corpora.index_aligned(tmp_path / "a", tmp_path / "b", 5) == [(1, 2, 0, 0)]
