# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training of vocabularies from files and iterators."""

import datasets
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, TokenizersBackend
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


def test_tokenizer_has_the_size_asked_for_and_has_learnt_both_languages(files):
    tokenizer = train(files, vocab_size=290)
    assert (type(tokenizer), len(tokenizer)) == (VaswaniTransformerTokenizer, 290)
    assert all(
        len(tokenizer.tokenize(sentence)) <= len(sentence) / 2 for sentence in SOURCES + TARGETS
    )


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


PAIRS = [
    (f'I can\'t see "{number}1" ABC-caf\u00e9s', f'Ich sehe "{number}1" nicht')
    for number in range(300)
]


def normalizer_of(pairs):
    sentences = [side for pair in pairs for side in pair]
    return train(sentences=sentences, vocab_size=300).backend_tokenizer.normalizer.normalize_str


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He can\u2019t, she can\u02bct", "He can't, she can't"),
        ("\u201cyes\u201d \u00abno\u00bb", '"yes" "no"'),
        ("a\u00a0b\u2009c\u202fd\u3000e", "a b c d e"),
        ("soft\u00adhyphen zero\u200bwidth\ufeff", "softhyphen zerowidth"),
        ("cafe\u0301", "caf\u00e9"),
        ("\uff21\uff22\uff23 \uff11", "ABC 1"),
        ("non\u2011breaking", "non-breaking"),
        ("\u00a0 around\t", "around"),
        (
            "d\u00e9j\u00e0 vu \u2026 \u2014 \u00bd \u4e2d\u3002",
            "d\u00e9j\u00e0 vu \u2026 \u2014 \u00bd \u4e2d\u3002",
        ),  # no look-alikes
        ("می\u200cخواهم र\u094d\u200d", "می\u200cخواهم र\u094d\u200d"),  # joiners are spelling
    ],
)
def test_lookalikes_that_the_training_text_lacks_become_the_usual_characters(text, expected):
    assert normalizer_of(PAIRS)(text) == expected


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("lookalike", ["\u2019", "\u201c", "\u00a0", "\u200b", "\uff21", "e\u0301"])
def test_a_lookalike_that_is_frequent_on_one_side_is_left_alone_on_both(lookalike, side):
    pairs = [list(pair) for pair in PAIRS]
    for pair in pairs[:15]:  # one pair in twenty
        pair[side] += lookalike
    assert normalizer_of(pairs)(f"x{lookalike}y") == f"x{lookalike}y"


@pytest.mark.parametrize(
    ("lookalike", "number", "expected"),
    [("\u2019", 1, "x'y"), ("\u00a0", 6, "x\u00a0y"), ("\u200b", 6, "x\u200by")],
)
def test_a_lookalike_is_rare_below_one_of_a_hundred_sentences(lookalike, number, expected):
    """Though its usual form is everywhere."""
    pairs = [list(pair) for pair in PAIRS]
    for pair in pairs[:number]:  # of 600 sentences
        pair[0] += lookalike
    assert normalizer_of(pairs)(f"x{lookalike}y") == expected


def test_a_lookalike_is_left_alone_where_its_usual_form_is_rare():
    assert (
        normalizer_of([("a b", "c d")] * 300)("can\u2019t \u201cx\u201d \uff21")
        == "can\u2019t \u201cx\u201d \uff21"
    )


def test_every_reader_of_a_trained_tokenizer_maps_the_same(tmp_path):
    trained = train(sentences=[side for pair in PAIRS for side in pair], vocab_size=300)
    trained.save_pretrained(tmp_path)
    texts = ["He can\u2019t.", " \u201cA\u201d\u00a0cafe\u0301 ", "He can't."]
    expected = trained(texts).input_ids
    assert expected[0] == expected[2]
    for reader in (AutoTokenizer, TokenizersBackend, VaswaniTransformerTokenizer):
        found = reader.from_pretrained(tmp_path)(texts, text_target=texts)
        assert found["input_ids"] == found["labels"] == expected
    plain = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert [plain.encode(text).ids for text in texts] == expected


def test_small_corpus_is_warned_of(files, monkeypatch):
    warnings = []
    monkeypatch.setattr(
        logging.get_logger("vaswani_transformer.data.vocabulary"), "warning", warnings.append
    )
    tokenizer = train(files, vocab_size=5000)
    assert warnings == [
        f"The text yields a vocabulary of {len(tokenizer)} entries, fewer than `vocab_size` 5000."
    ]


def test_vocabulary_below_the_bytes_is_refused(files):
    with pytest.raises(ValueError, match="`vocab_size`"):
        train(files, vocab_size=258)


def test_missing_file_is_refused(files, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        train([*files, tmp_path / "absent"])


@pytest.mark.parametrize("options", [{}, {"files": ["a"], "sentences": ["b"]}])
def test_training_needs_files_or_sentences(options):
    with pytest.raises(ValueError, match="`files` or `sentences` must be given, and not both"):
        train(**options)
