# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Text files compressed by gzip: whatever reads text reads them like the plain file."""

import csv
import gzip
import json

import pytest

from vaswani_transformer.data import (
    corpora,
    load_corpus,
    read_lines,
    stream_corpus,
)
from vaswani_transformer.files import text_suffix
from vaswani_transformer.inference.evaluate import load_evaluation_set
from vaswani_transformer.inference.translate import translate_file
from vaswani_transformer.recipe import get_recipe

PAIRS = [
    ("A dog.", "Ein Hund."),
    ("", "leer"),
    ("two\u2028lines", "犬がいる。"),
    ("Ça va ?", "Как дела?"),
] * 3


@pytest.fixture
def packed(tmp_path):
    """Two aligned text files in gzip, and the same in plain, as arguments of `load_corpus`."""
    plain = {}
    for name, code, side in zip(
        ("source_file", "target_file"), ("en", "de"), zip(*PAIRS, strict=True), strict=True
    ):
        plain[name] = tmp_path / f"train.{code}"
        plain[name].write_bytes("".join(f"{line}\r\n" for line in side).encode())
    files = {name: path.with_name(path.name + ".gz") for name, path in plain.items()}
    for name, path in plain.items():
        files[name].write_bytes(gzip.compress(path.read_bytes()))
    return files, plain


def pairs_of(corpus):
    return [(row["source"], row["target"]) for row in corpus]


def test_gzip_corpus_is_loaded_and_streamed_as_the_plain_one(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "_LINES_PER_SHARD", 5)
    files, plain = packed
    for given in (files, {**files, "target_file": plain["target_file"]}):
        assert pairs_of(load_corpus(**given, cache_dir=tmp_path / "cache")) == PAIRS
        stream = stream_corpus(**given)
        assert pairs_of(stream) == PAIRS
        assert stream.num_shards == 1  # to read from the middle is to decompress all before it
    assert stream_corpus(**plain).num_shards == 3


def test_gzip_is_known_by_its_content_under_any_name(packed, tmp_path):
    content = packed[0]["source_file"].read_bytes()
    (tmp_path / "other").write_bytes(content)
    (tmp_path / "plain.gz").write_text("a\nb\n")
    assert list(read_lines(tmp_path / "other")) == [source for source, _ in PAIRS]
    assert list(read_lines(tmp_path / "plain.gz")) == ["a", "b"]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv"])
def test_gzip_file_of_pairs_is_read(tmp_path, suffix):
    path = tmp_path / f"pairs{suffix}.GZ"
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        rows = [{"source": source, "target": target} for source, target in PAIRS]
        if suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        elif suffix == ".json":
            json.dump(rows, file)
        else:
            delimiter = "\t" if suffix == ".tsv" else ","
            csv.writer(file, delimiter=delimiter).writerows([("source", "target"), *PAIRS])
    assert pairs_of(load_corpus(pairs_file=path, cache_dir=tmp_path / "cache")) == PAIRS
    if suffix == ".jsonl":
        assert pairs_of(stream_corpus(pairs_file=path)) == PAIRS


def test_gzip_text_is_translated_and_evaluated_on_as_plain_text(
    packed, tiny_model, tiny_tokenizer, tmp_path
):
    files, plain = packed
    outputs = []
    for given in (files, plain):
        output = tmp_path / "out"
        translate_file(tiny_model, tiny_tokenizer, given["source_file"], output, max_new_tokens=3)
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") == len(PAIRS)
    sets = [load_evaluation_set(**given) for given in (files, plain)]
    assert (sets[0].sources, sets[0].references) == (sets[1].sources, sets[1].references)


def test_gzip_names_tell_the_languages(packed):
    files = packed[0]
    recipe = get_recipe(
        None, train_source=str(files["source_file"]), train_target=str(files["target_file"])
    )
    assert (recipe.source_language, recipe.target_language) == ("en", "de")
    with pytest.raises(ValueError, match="train.en.gz must be text in de"):
        load_corpus(**files, source_language="de", target_language="en")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a/b.EN", ".en"), ("b.en.gz", ".en"), ("c.jsonl.GZ", ".jsonl"), ("d.gz", ""), ("gz", "")],
)
def test_suffix_of_text_is_that_of_the_plain_file(name, suffix):
    assert text_suffix(name) == suffix


def cut(content):
    return content[:-9]


def change(content):
    return content[:12] + bytes(byte ^ 255 for byte in content[12:30]) + content[30:]


def change_checksum(content):
    return content[:-8] + b"\0\0\0\0" + content[-4:]


@pytest.mark.parametrize("damage", [cut, lambda content: content[:5], change, change_checksum])
@pytest.mark.parametrize("read", [load_corpus, stream_corpus])
def test_broken_gzip_corpus_is_refused_in_one_sentence(packed, damage, read):
    path = packed[0]["target_file"]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="train.de.gz` must be a whole gzip file"):
        list(read(**packed[0]))
