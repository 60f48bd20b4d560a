# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""BPE-dropout: draws that are subwords of the same text, reproducible, and as likely as in the paper on it."""

import copy
import itertools
import json
import pickle
import random
from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerFast

from vaswani_transformer.data import load_corpus, tokenize_corpus, train_tokenizer
from vaswani_transformer.data.bpe_dropout import BpeDropout, RedrawnPairs

TEXTS = [
    "the lowest new newer wider",
    "it's 'some' l\u00f6wer \u4f4e \U0001f600!?",
    "  two   spaces ",
    "a-b, c.d 2026",
    "",
]


@pytest.fixture(scope="module")
def corpus():
    return load_corpus(dataset="builtin", split="validation")


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer(sentences=[*corpus["source"], *corpus["target"]], vocab_size=1500, show_progress=False)


@pytest.fixture(scope="module")
def tokenized(corpus, tokenizer):
    return tokenize_corpus(corpus, tokenizer)


def rows_of(tokenizer, texts):
    ids = tokenizer(texts)["input_ids"]
    return [{"input_ids": each, "labels": each} for each in ids]


def naive_draw(tokenizer, word, rate, rng):
    """Algorithm 1 of Provilkov et al. 2020, over strings."""
    merges = [tuple(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]]
    symbols = list(word)
    while True:
        pairs = list(itertools.pairwise(symbols))
        left = [(merges.index(pair), place) for place, pair in enumerate(pairs) if pair in merges]
        left = [each for each in left if rng.random() >= rate]
        if not left:
            return tuple(symbols)
        _, place = min(left)
        symbols[place : place + 2] = ["".join(pairs[place])]


def test_without_dropout_the_subwords_are_the_tokenizers(tokenizer, tokenized):
    dropout = BpeDropout(tokenizer, 0.0)
    for row in [*rows_of(tokenizer, TEXTS), *tokenized.select(range(300))]:
        drawn = dropout(row, 0, 0)
        assert list(drawn["input_ids"]) == row["input_ids"] and list(drawn["labels"]) == row["labels"]


def test_draws_are_subwords_of_the_same_text(tokenizer, tokenized):
    dropout = BpeDropout(tokenizer, 0.3)
    for place, row in enumerate([*rows_of(tokenizer, TEXTS), *tokenized.select(range(300))]):
        drawn = dropout(row, 1, place)
        assert tokenizer.decode(drawn["input_ids"]) == tokenizer.decode(row["input_ids"])
        assert drawn["labels"][-1] == tokenizer.eos_token_id and drawn["labels"].count(tokenizer.eos_token_id) == 1


def test_rate_of_almost_one_leaves_bytes(tokenizer):
    (row,) = rows_of(tokenizer, ["newer"])
    assert len(BpeDropout(tokenizer, 1 - 1e-12)(row, 0, 0)["input_ids"]) == len("newer") + 1


def test_draws_are_as_likely_as_the_papers(tokenizer):
    word, rate, number = "\u0120there", 0.3, 4000  # of five different letters
    (row,) = rows_of(tokenizer, [" there"])
    dropout, rng = BpeDropout(tokenizer, rate), random.Random(0)
    token = tokenizer.convert_ids_to_tokens
    ours = Counter(tuple(token(list(dropout(row, 0, each)["input_ids"])[:-1])) for each in range(number))
    theirs = Counter(naive_draw(tokenizer, word, rate, rng) for _ in range(number))
    assert len(ours) > 3
    for split in ours | theirs:
        expected = theirs[split] / number
        assert ours[split] / number == pytest.approx(
            expected, abs=5 * (expected * (1 - expected) / number) ** 0.5 + 2e-3
        )


def test_a_draw_depends_on_seed_epoch_pair_and_side_alone(tokenizer, tokenized):
    row = max(tokenized.select(range(100)), key=lambda each: len(each["input_ids"]))
    dropout = BpeDropout(tokenizer, 0.5, seed=1)
    first = dropout(row, 0, 7)
    for other in (dropout, BpeDropout(tokenizer, 0.5, seed=1), pickle.loads(pickle.dumps(dropout))):
        other(row, 3, 3)
        assert other(row, 0, 7) == first
    for other in (dropout(row, 1, 7), dropout(row, 0, 8), BpeDropout(tokenizer, 0.5, seed=2)(row, 0, 7)):
        assert other["input_ids"] != first["input_ids"] and other["labels"] != first["labels"]
    twins = dropout({"input_ids": row["input_ids"], "labels": row["input_ids"]}, 0, 0)
    assert twins["input_ids"] != twins["labels"]


@pytest.mark.parametrize(("side", "changed"), [("source", "input_ids"), ("target", "labels")])
def test_one_side_alone(tokenizer, side, changed):
    (row,) = rows_of(tokenizer, ["the lowest of the new towers was wider than the others"])
    drawn = BpeDropout(tokenizer, 0.5, side)(row, 0, 0)
    assert {name for name in row if drawn[name] != row[name]} == {changed}


def test_added_tokens_and_long_words_stay_whole(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.add_tokens(["<bt>"])
    (tag,) = tokenizer.convert_tokens_to_ids(["<bt>"])
    (row, long) = rows_of(tokenizer, ["<bt> the newest tower", "there" * 20])
    dropout = BpeDropout(tokenizer, 0.9)
    drawn = [dropout(row, 0, place)["input_ids"] for place in range(20)]
    assert all(ids[0] == tag for ids in drawn) and any(ids != row["input_ids"] for ids in drawn)
    assert dropout(long, 0, 0)["input_ids"] == long["input_ids"]


def test_another_kind_of_vocabulary_is_refused():
    other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(ValueError, match="`bpe_dropout` needs a vocabulary of byte-pair encoding .* WordLevel"):
        BpeDropout(other, 0.1)


def test_mean_lengths_are_those_of_draws(tokenizer, tokenized):
    dropout = BpeDropout(tokenizer, 0.2)
    planned = dropout.mean_lengths(tokenized)
    for epoch in (0, 5):
        drawn = [dropout(row, epoch, place) for place, row in enumerate(tokenized)]
        for name, lengths in zip(("input_ids", "labels"), planned, strict=True):
            assert lengths.sum() == pytest.approx(sum(len(row[name]) for row in drawn), rel=0.02)
            assert lengths.max() <= max(len(row[name]) for row in tokenized)
    assert planned[0].sum() > 1.1 * np.sum(tokenized["source_length"])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_is_drawn_anew_also_by_workers_that_live_on(tokenizer, tokenized, num_workers):
    pairs = RedrawnPairs(tokenized.select(range(40)), BpeDropout(tokenizer, 0.3))
    loader = DataLoader(
        pairs, batch_size=8, collate_fn=list, num_workers=num_workers, persistent_workers=num_workers > 0
    )
    epochs = []
    for epoch in (0, 1, 0):
        pairs.set_epoch(epoch)
        epochs.append([row["labels"] for batch in loader for row in batch])
    assert epochs[0] == epochs[2] != epochs[1]
    assert epochs[0] == [
        list(BpeDropout(tokenizer, 0.3)(row, 0, place)["labels"])
        for place, row in enumerate(tokenized.select(range(40)))
    ]
