# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The built-in corpus: its splits, its attribution, and the script that makes it."""

import lzma

import make_corpus
import pytest
from processes import ROOT

from vaswani_transformer.data import builtin, load_corpus
from vaswani_transformer.inference.evaluate import load_evaluation_set


@pytest.fixture(scope="module")
def splits():
    return {name: list(builtin.read_builtin(name)) for name in ("train", "validation", "test")}


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A copy of the corpus file with one flipped bit, in the place of the file."""
    content = bytearray(builtin.CORPUS_FILE.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "damaged.txt.xz").write_bytes(content)
    monkeypatch.setattr(builtin, "CORPUS_FILE", tmp_path / "damaged.txt.xz")
    return tmp_path / "damaged.txt.xz"


def letters(sentence):
    """Letters and digits of a sentence in lower case: what remains without punctuation, capitals
    and spaces.
    """
    return "".join(filter(str.isalnum, sentence.lower()))


def test_test_and_validation_hold_1000_different_sentences_with_all_references(splits):
    for name in ("validation", "test"):
        assert len({letters(english) for english, _ in splits[name]}) == len(splits[name]) == 1000
        assert max(len(references) for _, references in splits[name]) > 5


@pytest.mark.parametrize("held_out", ["validation", "test"])
def test_no_held_out_sentence_occurs_in_another_split(splits, held_out):
    for name in {"train", "validation", "test"} - {held_out}:
        english = {letters(sentence) for sentence, _ in splits[name]}
        german = {letters(sentence) for _, group in splits[name] for sentence in group}
        assert english.isdisjoint(letters(sentence) for sentence, _ in splits[held_out])
        assert german.isdisjoint(
            letters(sentence) for _, group in splits[held_out] for sentence in group
        )


@pytest.mark.heavy
def test_every_pair_is_from_the_raw_split_of_its_name(splits, shared_data):
    for name, raw in (("train", "train"), ("validation", "valid"), ("test", "test")):
        sides = [
            (shared_data / "tatoeba_en_de" / f"{raw}.{side}")
            .read_text(encoding="utf-8")
            .split("\n")
            for side in ("en", "de")
        ]
        known = {
            (letters(english), letters(german)) for english, german in zip(*sides, strict=True)
        }
        assert {
            (letters(english), letters(german))
            for english, group in splits[name]
            for german in group
        } <= known


@pytest.mark.heavy
def test_script_makes_the_packaged_text(shared_data):
    packaged = lzma.decompress(builtin.CORPUS_FILE.read_bytes()).decode()
    assert make_corpus.make_text(shared_data / "tatoeba_en_de") == packaged


def test_file_begins_with_the_attribution_of_the_notice():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8").split("\n\n")[1].strip()
    assert (
        lzma.decompress(builtin.CORPUS_FILE.read_bytes())
        .decode()
        .startswith(notice + "\n\ntrain\n")
    )
    for needed in ("CC BY 2.0 FR", "licenses/by/2.0/.", "tatoeba.org", "www.manythings.org/anki"):
        assert needed in notice


def test_damaged_file_is_refused(damaged, tmp_path):
    with pytest.raises(lzma.LZMAError):
        load_corpus(dataset="builtin", split="test", cache_dir=tmp_path)


def test_unknown_split_is_refused():
    with pytest.raises(
        ValueError, match="The split must be one of train, validation, test, got 'valid'"
    ):
        builtin.read_builtin("valid")


def test_loading_writes_in_the_cache_alone(tmp_path):
    before = {path: path.stat().st_mtime_ns for path in builtin.CORPUS_FILE.parent.iterdir()}
    load_corpus(dataset="builtin", split="validation", cache_dir=tmp_path)
    assert {
        path: path.stat().st_mtime_ns for path in builtin.CORPUS_FILE.parent.iterdir()
    } == before
    assert list(tmp_path.rglob("*.arrow"))


@pytest.mark.heavy
def test_corpus_holds_every_training_pair_and_one_pair_of_each_other_sentence(splits, tmp_path):
    pairs = [(english, german) for english, group in splits["train"] for german in group]
    loaded = load_corpus(dataset="builtin", cache_dir=tmp_path)[:]
    assert list(zip(loaded["source"], loaded["target"], strict=True)) == pairs
    loaded = load_corpus(dataset="builtin", split="test", cache_dir=tmp_path)[:]
    expected = [(english, group[0]) for english, group in splits["test"]]
    assert list(zip(loaded["source"], loaded["target"], strict=True)) == expected


@pytest.mark.parametrize("load", [load_corpus, load_evaluation_set])
def test_other_languages_than_its_own_are_refused(load):
    with pytest.raises(
        ValueError, match="must be en and de for the built-in corpus, got de and en"
    ):
        load(dataset="builtin", split="test", source_language="de", target_language="en")
