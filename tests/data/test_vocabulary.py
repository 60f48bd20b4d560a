# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training of vocabularies from files and iterators."""

import datasets
import pytest
from transformers.utils import logging

from vaswani_transformer import VaswaniTransformerTokenizer
from vaswani_transformer.data import corpus_sentences, train_tokenizer

SOURCES = ["A dog runs in the park.", "Two dogs run."]
TARGETS = ["Ein Hund rennt im Park.", "Zwei Hunde rennen."]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "train.en", tmp_path / "train.de"]
    for path, sentences in zip(paths, (SOURCES, TARGETS), strict=True):
        path.write_text("".join(f"{sentence}\n" for sentence in sentences))
    return paths


def train(*args, vocab_size=280, **options):
    return train_tokenizer(*args, vocab_size=vocab_size, show_progress=False, **options)


def test_tokenizer_has_the_size_asked_for(files):
    assert len(train(files)) == 280


def test_tokenizer_is_ours(files):
    assert type(train(files)) is VaswaniTransformerTokenizer


@pytest.mark.parametrize("sentence", SOURCES + TARGETS)
def test_tokenizer_has_learnt_both_languages(files, sentence):
    assert len(train(files, vocab_size=330).tokenize(sentence)) <= len(sentence) / 2


@pytest.mark.parametrize(
    "sentences",
    [
        SOURCES + TARGETS,
        iter(SOURCES + TARGETS),
        [SOURCES, TARGETS],
        corpus_sentences(datasets.Dataset.from_dict({"source": SOURCES, "target": TARGETS})),
    ],
    ids=["list", "iterator", "batches", "corpus"],
)
def test_files_and_sentences_train_the_same(files, sentences):
    assert train(sentences=sentences).get_vocab() == train(files).get_vocab()


def test_small_corpus_is_warned_of(files, monkeypatch):
    warnings = []
    monkeypatch.setattr(logging.get_logger("vaswani_transformer.data.vocabulary"), "warning", warnings.append)
    tokenizer = train(files, vocab_size=5000)
    assert warnings == [f"The text yields a vocabulary of {len(tokenizer)} entries, fewer than `vocab_size` 5000."]


def test_vocabulary_below_the_bytes_is_refused(files):
    with pytest.raises(ValueError, match="`vocab_size` must be at least 259 .* got 258"):
        train(files, vocab_size=258)


def test_missing_file_is_refused(files, tmp_path):
    with pytest.raises(FileNotFoundError, match="must be an existing file, got .*absent"):
        train([*files, tmp_path / "absent"])


def test_empty_file_is_refused(files, tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="must hold text, got the empty file .*empty"):
        train([*files, tmp_path / "empty"])


def test_bytes_that_are_not_utf8_are_refused(files, tmp_path):
    (tmp_path / "bad").write_bytes(b"ok\nno \xff\n")
    with pytest.raises(ValueError, match="bad` must be UTF-8 text, got byte 0xff in line 2 at byte offset 6"):
        train([*files, tmp_path / "bad"])


@pytest.mark.parametrize("options", [{}, {"files": ["a"], "sentences": ["b"]}])
def test_training_needs_files_or_sentences(options):
    with pytest.raises(ValueError, match="`files` or `sentences` must be given, and not both"):
        train(**options)
