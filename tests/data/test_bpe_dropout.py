# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""BPE-dropout: draws that are subwords of the same text, reproducible, and as likely as in the
paper on it.
"""

import copy
import itertools
import json
import pickle
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerFast

from vaswani_transformer.data import load_corpus, tokenize_corpus, train_tokenizer
from vaswani_transformer.data.bpe_dropout import BpeDropout, RedrawnPairs


@pytest.fixture(scope="module")
def corpus():
    return load_corpus(dataset="builtin", split="validation")


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer(
        sentences=[*corpus["source"], *corpus["target"]], vocab_size=1500, show_progress=False
    )


@pytest.fixture(scope="module")
def tokenized(corpus, tokenizer):
    return tokenize_corpus(corpus, tokenizer)


def rows_of(tokenizer, texts):
    ids = tokenizer(texts)["input_ids"]
    return [{"input_ids": each, "labels": each} for each in ids]


def ranks_of(tokenizer):
    """Rank of each pair of strings that may be merged."""
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    return {tuple(pair): rank for rank, pair in enumerate(merges)}


def naive_draw(ranks, word, rate, rng):
    """Algorithm 1 of Provilkov et al. 2020, over strings."""
    symbols = list(word)
    while True:
        pairs = list(itertools.pairwise(symbols))
        left = [(ranks[pair], place) for place, pair in enumerate(pairs) if pair in ranks]
        left = [each for each in left if rng.random() >= rate]
        if not left:
            return tuple(symbols)
        _, place = min(left)
        symbols[place : place + 2] = ["".join(pairs[place])]


def test_draws_are_as_likely_as_the_papers(tokenizer):
    word = "there"
    rate = 0.3
    number = 4000
    (row,) = rows_of(tokenizer, [word])
    dropout = BpeDropout(tokenizer, rate)
    rng = random.Random(0)
    token = tokenizer.convert_ids_to_tokens
    ours = Counter(
        tuple(token(list(dropout(row, 0, each)["input_ids"])[:-1])) for each in range(number)
    )
    ranks = ranks_of(tokenizer)
    theirs = Counter(naive_draw(ranks, word, rate, rng) for _ in range(number))
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
    for other in (
        dropout(row, 1, 7),
        dropout(row, 0, 8),
        BpeDropout(tokenizer, 0.5, seed=2)(row, 0, 7),
    ):
        assert other["input_ids"] != first["input_ids"] and other["labels"] != first["labels"]
    twins = dropout({"input_ids": row["input_ids"], "labels": row["input_ids"]}, 0, 0)
    assert twins["input_ids"] != twins["labels"]


@pytest.mark.parametrize(("side", "changed"), [("source", "input_ids"), ("target", "labels")])
def test_one_side_alone(tokenizer, side, changed):
    (row,) = rows_of(tokenizer, ["the lowest of the new towers was wider than the others"])
    drawn = BpeDropout(tokenizer, 0.5, side)(row, 0, 0)
    assert {name for name in row if drawn[name] != row[name]} == {changed}


def test_added_tokens_stay_whole(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.add_tokens(["<bt>"])
    (tag,) = tokenizer.convert_tokens_to_ids(["<bt>"])
    (row,) = rows_of(tokenizer, ["<bt> the newest<bt> tower"])
    drawn = [BpeDropout(tokenizer, 0.9)(row, 0, place)["input_ids"] for place in range(20)]
    assert all(ids[0] == tag and ids.count(tag) == 2 for ids in drawn)
    assert {tokenizer.decode(ids) for ids in drawn} == {tokenizer.decode(row["input_ids"])}
    assert any(ids != row["input_ids"] for ids in drawn)


def test_text_that_is_cut_inside_a_character_stays_as_it_is(tokenizer):
    (row,) = rows_of(tokenizer, ["the newest \u72d7"])
    cut = {name: ids[:-2] for name, ids in row.items()}
    assert "\ufffd" in tokenizer.decode(cut["labels"])
    assert BpeDropout(tokenizer, 0.9)(cut, 0, 0)["labels"] == cut["labels"]


def test_another_kind_of_vocabulary_is_refused(tokenizer):
    of_words = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    )
    of_spaces = copy.deepcopy(tokenizer)
    of_spaces.backend_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    of_spaces.backend_tokenizer.decoder = decoders.Metaspace()
    whole_words = copy.deepcopy(tokenizer)
    model = whole_words.backend_tokenizer.model
    model.ignore_merges = True
    whole_words.backend_tokenizer.model = model
    for each in (of_words, of_spaces, whole_words):
        with pytest.raises(ValueError, match="`bpe_dropout`"):
            BpeDropout(each, 0.1)


# ---- texts of any script ----

WITH_MARKS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
PRE_TOKENIZERS = {
    "letters": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "letters and marks": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WITH_MARKS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}
WORDS = {
    "Chinese": "我们 老师 昨天 图书馆 苹果 历史 师来 书店 天气 老书 我买 们读",
    "Thai": "ฉัน กิน ข้าว ที่ บ้าน เขา อ่าน หนังสือ มาก แล้ว",
    "Hindi": "कुत्ता किताब पढ़ता है लड़की पानी घर में",
    "English": "the dog reads a book about history in library while they were waiting",
}
IS_SPACED = {"Chinese": False, "Thai": False, "Hindi": True, "English": True}


def make_sentences(language, number, seed):
    """Different random sentences of 8 to 16 words."""
    words = WORDS[language].split()
    rng = random.Random(seed)
    space = " " if IS_SPACED[language] else ""
    sentences = set()
    while len(sentences) < number:
        sentences.add(space.join(rng.choices(words, k=rng.randint(8, 16))))
    return sorted(sentences)


@pytest.fixture(scope="module", params=PRE_TOKENIZERS)
def of_many_scripts(request):
    """Tokenizer of several scripts with an added token, by pre-tokenizer."""
    sentences = [
        sentence for language in WORDS for sentence in make_sentences(language, 200, seed=0)
    ]
    tokenizer = train_tokenizer(sentences=sentences, vocab_size=900, show_progress=False)
    tokenizer.backend_tokenizer.pre_tokenizer = PRE_TOKENIZERS[request.param]
    tokenizer.add_tokens(["<bt>", AddedToken("<2zh>", rstrip=True, normalized=False)])
    return tokenizer


PARTS = [*"".join(WORDS.values()), *" \n'.,!0123\u3002\u0301", "<bt>", "<2zh>", "</s>", "we're"]
PART = st.one_of(st.sampled_from(PARTS), st.characters(exclude_categories=["Cs"]))
TEXT = st.lists(PART, max_size=40).map("".join)


@given(text=TEXT)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_subwords_of_any_text_are_the_tokenizers_without_dropout_and_the_same_text_with_it(
    of_many_scripts, text
):
    (row,) = rows_of(of_many_scripts, [text])
    assert BpeDropout(of_many_scripts, 0.0)(row, 0, 0) == row
    drawn = BpeDropout(of_many_scripts, 0.5)(row, 0, 0)["labels"]
    token = of_many_scripts.convert_ids_to_tokens
    assert "".join(token(drawn)) == "".join(token(row["labels"]))


@pytest.mark.parametrize("language", WORDS)
def test_as_many_sentences_change_and_grow_as_by_the_papers_algorithm(of_many_scripts, language):
    rate = 0.2
    dropout = BpeDropout(of_many_scripts, rate)
    rng = random.Random(0)
    ranks = ranks_of(of_many_scripts)
    split = of_many_scripts.backend_tokenizer.pre_tokenizer.pre_tokenize_str
    growth = []
    is_changed = []
    for place, sentence in enumerate(make_sentences(language, 100, seed=1)):
        (row,) = rows_of(of_many_scripts, [sentence])
        whole = of_many_scripts.convert_ids_to_tokens(row["labels"][:-1])
        ours = of_many_scripts.convert_ids_to_tokens(dropout(row, 0, place)["labels"][:-1])
        theirs = [
            token for piece, _ in split(sentence) for token in naive_draw(ranks, piece, rate, rng)
        ]
        growth.append([len(tokens) - len(whole) for tokens in (ours, theirs)])
        is_changed.append([tokens != whole for tokens in (ours, theirs)])
    for values in (np.array(growth), np.array(is_changed)):
        ours, theirs = values.mean(axis=0)
        assert theirs > 0 and abs(ours - theirs) <= 4 * np.sqrt(values.var(axis=0).sum() / 100)


def test_a_long_piece_is_drawn(of_many_scripts):
    """Of 3,000 bytes, as a text without spaces or punctuation is."""
    (row,) = rows_of(
        of_many_scripts, ["".join(random.Random(0).choices(WORDS["Chinese"].split(), k=500))]
    )
    drawn = BpeDropout(of_many_scripts, 0.5)(row, 0, 0)["labels"]
    assert drawn != row["labels"] and of_many_scripts.decode(drawn) == of_many_scripts.decode(
        row["labels"]
    )


# ---- data ----


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
        pairs,
        batch_size=8,
        collate_fn=list,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
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
