# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Tokenised corpora: ids, lengths and the cache."""

import datasets
import pytest
from transformers import AutoTokenizer

from vaswani_transformer import VaswaniTransformerTokenizer
from vaswani_transformer.data import load_corpus, preparation, tokenize_corpus

PAIRS = {
    "source": ["A dog runs.", "A book.", " \u00a0"],
    "target": ["Ein Hund rennt.", "</s> Buch", ""],
}


@pytest.fixture
def corpus():
    return datasets.Dataset.from_dict(PAIRS)


@pytest.fixture
def cached_corpus(tmp_path):
    """A corpus on disk, whose tokenised form is cached beside it."""
    for side, sentences in PAIRS.items():
        (tmp_path / side).write_text("".join(f"{sentence}\n" for sentence in sentences))
    return load_corpus(
        source_file=tmp_path / "source",
        target_file=tmp_path / "target",
        cache_dir=tmp_path / "cache",
    )


@pytest.mark.parametrize(("column", "side"), [("input_ids", "source"), ("labels", "target")])
def test_tokenized_ids_are_those_of_single_sentences_in_four_bytes(
    corpus, tiny_tokenizer, column, side
):
    rows = tokenize_corpus(corpus, tiny_tokenizer)
    # the third sentence has no visible character
    assert rows[column][:] == [
        *(tiny_tokenizer(sentence)["input_ids"] for sentence in PAIRS[side][:2]),
        [2],
    ]
    assert rows[f"{side}_length"][:] == [len(ids) for ids in rows[column][:]]
    with pytest.raises(ValueError, match="columns source and target, got target"):
        tokenize_corpus(corpus.remove_columns("source"), tiny_tokenizer)
    assert rows.features[column] == datasets.List(datasets.Value("int32"))
    assert rows.features[f"{side}_length"] == datasets.Value("int32")


def test_corpus_is_tokenized_again_for_another_target_language(
    cached_corpus, tiny_tokenizer, monkeypatch
):
    tokenize_corpus(cached_corpus, tiny_tokenizer)
    seen = []
    encode = preparation.encode_pairs
    monkeypatch.setattr(
        preparation,
        "encode_pairs",
        lambda *args, **kwargs: seen.append(1) or encode(*args, **kwargs),
    )
    for language in ("deu_Latn", "fra_Latn"):
        monkeypatch.setattr(tiny_tokenizer, "tgt_lang", language, raising=False)
        tokenize_corpus(cached_corpus, tiny_tokenizer)
    assert len(seen) == 2


def test_corpus_is_not_tokenized_again_for_an_equal_tokenizer(
    cached_corpus, tiny_tokenizer, tmp_path, monkeypatch
):
    first = tokenize_corpus(cached_corpus, tiny_tokenizer)
    tiny_tokenizer.save_pretrained(tmp_path / "tokenizer")
    equal = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    equal(["a", "b c"], padding=True, truncation=True, max_length=3)  # leaves its settings behind
    monkeypatch.setattr(preparation, "encode_pairs", lambda *_: pytest.fail("tokenized again"))
    assert tokenize_corpus(cached_corpus, equal)[:] == first[:]


def test_corpus_is_tokenized_again_for_another_vocabulary(cached_corpus, tiny_tokenizer):
    other = VaswaniTransformerTokenizer().train_new_from_iterator(
        ["other text"], vocab_size=262, show_progress=False
    )
    tokenize_corpus(cached_corpus, tiny_tokenizer)
    assert (
        tokenize_corpus(cached_corpus, other)["input_ids"][0]
        == other(PAIRS["source"][0])["input_ids"]
    )


def test_corpus_is_tokenized_again_when_special_tokens_become_text(
    cached_corpus, tiny_tokenizer, tmp_path
):
    tiny_tokenizer.save_pretrained(tmp_path / "tokenizer")
    other = AutoTokenizer.from_pretrained(tmp_path / "tokenizer", split_special_tokens=False)
    tokenize_corpus(cached_corpus, tiny_tokenizer)
    assert tokenize_corpus(cached_corpus, other)["labels"][1][0] == other.eos_token_id
