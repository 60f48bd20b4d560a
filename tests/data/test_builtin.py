# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The built-in corpus: size, determinism, splits, German inflection against paradigms written by hand."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from vaswani_transformer.data.builtin import (
    PHENOMENA,
    BuiltinPair,
    english,
    german,
    load_builtin_corpus,
    word_dictionary,
)
from vaswani_transformer.data.builtin.grammar import draft
from vaswani_transformer.data.builtin.lexicon import adjectives, nouns, verbs
from vaswani_transformer.data.builtin.splits import is_held_out

SPLITS = ("train", "validation", "test")
ROOT = Path(__file__).resolve().parents[2]


def _everything() -> list[BuiltinPair]:
    return [pair for split in SPLITS for pair in load_builtin_corpus(split)]


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def _verb(key: str):
    return next(verb for verb in verbs() if verb.de_prefix + verb.de_infinitive == key)


def _adjective(name: str):
    return next(adjective for adjective in adjectives() if adjective.en == name)


def test_builtin_corpus_has_50000_distinct_pairs():
    assert len({(pair.source, pair.target) for pair in _everything()}) >= 50_000


def test_builtin_corpus_has_one_translation_for_each_source():
    pairs = _everything()
    assert len({pair.source for pair in pairs}) == len({(pair.source, pair.target) for pair in pairs}) == len(pairs)


def test_builtin_grammar_has_one_translation_for_each_source_over_many_seeds():
    known: dict[str, str] = {}
    rng = Random(99)
    for _ in range(20_000):
        sentence = draft(rng)
        assert known.setdefault(sentence.source, sentence.target) == sentence.target


@pytest.mark.parametrize("side", ["source", "target"])
def test_builtin_corpus_has_1500_word_forms(side):
    forms = {word for pair in _everything() for word in _words(getattr(pair, side))}
    assert len(forms) >= 1_500


@pytest.mark.parametrize("side", ["source", "target"])
def test_builtin_corpus_has_3_to_25_words(side):
    lengths = [len(getattr(pair, side).split()) for pair in _everything()]
    assert min(lengths) >= 3 and max(lengths) <= 25


def test_builtin_phenomena_are_at_least_12_and_distinct():
    assert len(set(PHENOMENA)) == len(PHENOMENA) >= 12


@pytest.mark.parametrize("split", SPLITS)
def test_builtin_labels_are_known_phenomena_in_order(split):
    for pair in load_builtin_corpus(split):
        assert pair.phenomena == tuple(name for name in PHENOMENA if name in pair.phenomena)


@pytest.mark.parametrize("name", PHENOMENA)
def test_builtin_test_split_has_50_sentences_of_phenomenon(name):
    assert sum(name in pair.phenomena for pair in load_builtin_corpus("test")) >= 50


@pytest.mark.parametrize("name", PHENOMENA)
def test_builtin_train_split_has_400_sentences_of_phenomenon(name):
    assert sum(name in pair.phenomena for pair in load_builtin_corpus("train")) >= 400


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("split", ["validation", "test"])
def test_builtin_heldout_sentences_do_not_occur_in_training(split, side):
    train = {getattr(pair, side) for pair in load_builtin_corpus("train")}
    assert not train & {getattr(pair, side) for pair in load_builtin_corpus(split)}


@pytest.mark.parametrize("side", ["source", "target"])
def test_builtin_test_words_occur_in_training(side):
    seen = {word for pair in load_builtin_corpus("train") for word in _words(getattr(pair, side))}
    assert not {word for pair in load_builtin_corpus("test") for word in _words(getattr(pair, side))} - seen


def test_builtin_lemmas_are_frequent_in_training():
    counts = Counter(word for pair in load_builtin_corpus("train") for word in _words(pair.source))
    for entry in nouns():
        forms = {entry.en.split()[-1], entry.en_plural.split()[-1], entry.en + "'s"}
        assert sum(counts[form.lower()] for form in forms) >= 30, entry.en
    for verb in verbs():
        forms = {verb.en_base, english.third_person(verb.en_base), verb.en_past, verb.en_participle}
        assert sum(counts[form] for form in forms) >= 30, verb.key


def _replayed(kept: set[str]) -> dict[str, set[tuple[str, ...]]]:
    """The combinations of the sentences in ``kept``, by drawing the corpus again."""
    rng, found = Random(20170612), {}
    while len(found) < len(kept):
        sentence = draft(rng)
        if sentence.source in kept:
            found.setdefault(sentence.source, sentence.notes.combinations)
    return found


def test_builtin_test_sentences_hold_combinations_that_never_occur_in_training():
    train = {pair.source for pair in load_builtin_corpus("train")}
    test = {pair.source for pair in load_builtin_corpus("test")}
    combinations = _replayed(train | test)
    seen = set().union(*(combinations[source] for source in train))
    assert all(combinations[source] - seen for source in test)
    assert all(any(map(is_held_out, combinations[source])) for source in test)


def test_builtin_validation_split_has_no_heldout_sentence_of_test():
    test = {pair.source for pair in load_builtin_corpus("test")}
    assert not test & {pair.source for pair in load_builtin_corpus("validation")}


# Models were trained on these bytes, and their scores are published: another corpus would need another name.
DIGESTS = {
    "train": "6bcb76c069996fbf0305d41619a10f40dfa90c45bed4317a566838ddd98463c8",
    "validation": "ad8db639530380619cf160ec90905f85e24a040db01ba88e786f2a3ecca3c910",
    "test": "48c97f5cec9653bbb7094ff0cf795573d8ad8eb71ad82d42555f87f2de10c182",
}


@pytest.mark.parametrize("split", SPLITS)
def test_builtin_corpus_is_the_same_in_every_version(split):
    lines = (f"{pair.source}\t{pair.target}\t{' '.join(pair.phenomena)}\n" for pair in load_builtin_corpus(split))
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == DIGESTS[split]


def test_builtin_dictionary_is_the_same_in_every_version():
    lines = "".join(f"{english}\t{german}\n" for english, german in word_dictionary().items())
    digest = "9da3604871b06a61442599d91c277600badaa52f7044caef08d995ed0e6a8990"
    assert hashlib.sha256(lines.encode()).hexdigest() == digest


@pytest.mark.slow
def test_builtin_corpus_is_the_same_in_another_process():
    code = (
        "import hashlib; from vaswani_transformer.data.builtin import load_builtin_corpus as load;"
        "print(hashlib.sha256(repr([load(s) for s in ('train', 'validation', 'test')]).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = hashlib.sha256(repr([load_builtin_corpus(split) for split in SPLITS]).encode()).hexdigest()
    assert run.stdout.strip().splitlines()[-1] == here


def test_builtin_load_raises_when_split_is_unknown():
    with pytest.raises(ValueError, match="train, validation, test"):
        load_builtin_corpus("dev")


def test_builtin_dictionary_covers_the_words_of_the_test_split():
    table = word_dictionary()
    words = [word for pair in load_builtin_corpus("test") for word in re.findall(r"[\w'-]+", pair.source)]
    known = sum(word in table or word.lower() in table for word in words)
    assert known / len(words) > 0.98


@pytest.mark.parametrize(
    ("stem", "case", "gender", "expected"),
    [
        ("der", "acc", "m", "den"), ("der", "dat", "f", "der"), ("der", "dat", "p", "den"), ("der", "gen", "n", "des"),
        ("ein", "nom", "m", "ein"), ("ein", "acc", "m", "einen"), ("ein", "acc", "n", "ein"),
        ("ein", "dat", "f", "einer"),
        ("kein", "acc", "p", "keine"), ("unser", "dat", "m", "unserem"), ("dies", "nom", "n", "dieses"),
        ("jed", "dat", "m", "jedem"), ("welch", "acc", "m", "welchen"),
    ],
)  # fmt: skip
def test_german_determiner_agrees_with_case_and_gender(stem, case, gender, expected):
    assert german.determiner(stem, case, gender) == expected


@pytest.mark.parametrize(
    ("stem", "forms"),
    [
        ("der", "e e e en / en e e en / en en en en / en en en en"),
        ("ein", "er e es en / en e es en / en en en en / en en en en"),
        ("", "er e es e / en e es e / em er em en / en er en er"),
    ],
)
def test_german_adjective_ending_follows_the_declension_table(stem, forms):
    cells = [
        [german.adjective_ending(stem, case, gender) for gender in "mfnp"] for case in ("nom", "acc", "dat", "gen")
    ]
    assert " / ".join(" ".join(row) for row in cells) == forms


@pytest.mark.parametrize(
    ("name", "case", "plural", "expected"),
    [
        ("student", "acc", False, "Studenten"), ("boy", "gen", False, "Jungen"), ("child", "gen", False, "Kindes"),
        ("child", "dat", True, "Kindern"), ("car", "dat", True, "Autos"), ("garden", "dat", True, "Gärten"),
        ("friend", "gen", False, "Freundes"), ("woman", "gen", False, "Frau"), ("house", "gen", False, "Hauses"),
        ("dog", "dat", True, "Hunden"), ("teacher", "gen", False, "Lehrers"),
    ],
)  # fmt: skip
def test_german_noun_is_declined(name, case, plural, expected):
    (noun,) = (entry for entry in nouns() if entry.en == name)
    assert german.noun_form(noun, case, plural) == expected


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("lesen", "lese liest liest lesen lesen"), ("sammeln", "sammle sammelst sammelt sammeln sammeln"),
        ("füttern", "füttere fütterst füttert füttern füttern"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeiten"),
        ("halten", "halte hältst hält halten halten"), ("sitzen", "sitze sitzt sitzt sitzen sitzen"),
        ("abfahren", "fahre fährst fährt fahren fahren"), ("haben", "habe hast hat haben haben"),
    ],
)  # fmt: skip
def test_german_verb_is_conjugated(infinitive, forms):
    verb = _verb(infinitive)
    assert " ".join(german.finite(verb, person) for person in ("1sg", "2sg", "3sg", "1pl", "3pl")) == forms


@pytest.mark.parametrize(
    ("preposition", "phrase", "expected"),
    [
        ("in", "dem alten Garten", "im alten Garten"), ("zu", "der Schule", "zur Schule"),
        ("in", "das Büro", "ins Büro"),
        ("an", "den See", "an den See"), ("auf", "das Feld", "auf das Feld"), ("in", "einem Wald", "in einem Wald"),
    ],
)  # fmt: skip
def test_german_preposition_contracts_with_the_article(preposition, phrase, expected):
    assert german.contract(preposition, phrase) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("old", "older oldest älter ältest"), ("good", "better best besser best"), ("big", "bigger biggest größer größt"),
     ("expensive", "more expensive most expensive teurer teuerst")],
)  # fmt: skip
def test_adjective_is_compared(name, expected):
    entry = _adjective(name)
    forms = (english.comparative(entry), english.superlative(entry), entry.de_comparative)
    assert " ".join((*forms, german.superlative_stem(entry))) == expected


@pytest.mark.parametrize(
    ("pattern", "label"),
    [
        (r"^(Gestern|Morgen|Am Montag) (hat|ist|wird|kann|muss) ", "verb_second"),
        (r", dass .* (hat|ist)\.$", "verb_final"),
        (r"\bkeinen\b", "negation_kein"), (r"^(Wer|Was|Wen|Wem|Wo|Wohin|Wann|Warum)\b.*\?$", "wh_question"),
        (r"\bum [a-zü]+ Uhr\b", "time_of_day"), (r"\bim Garten\b", "two_way_location"),
        (r"\bzum\b", "preposition_dative"),
    ],
)  # fmt: skip
def test_builtin_label_matches_the_german_surface(pattern, label):
    matching = [pair for pair in load_builtin_corpus("train") if re.search(pattern, pair.target)]
    assert matching and all(label in pair.phenomena for pair in matching)


def test_builtin_sentences_are_capitalised_and_end_in_a_mark():
    for pair in load_builtin_corpus("train"):
        for text in (pair.source, pair.target):
            assert text[0].isupper() and text[-1] in ".?" and "  " not in text and " ," not in text


def test_builtin_baselines_stay_under_40_bleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    table, test = word_dictionary(), load_builtin_corpus("test")
    references = [[pair.target for pair in test]]
    glosses = [
        re.sub(r"[\w'-]+", lambda match: table.get(match[0], table.get(match[0].lower(), match[0])), pair.source)
        for pair in test
    ]
    assert sacrebleu.corpus_bleu([pair.source for pair in test], references).score < 40
    assert sacrebleu.corpus_bleu(glosses, references).score < 40


def _nearest(source: str, index: dict[str, list[int]], bags: list[set[str]]) -> int:
    """The training sentence with the largest Jaccard overlap of words."""
    words = set(_words(source))
    shared = Counter(number for word in sorted(words) for number in index.get(word, ()))
    return max(shared, key=lambda number: shared[number] / len(words | bags[number]))


def test_builtin_nearest_training_pair_stays_under_40_bleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    train, test = load_builtin_corpus("train"), load_builtin_corpus("test")[::10]
    bags = [set(_words(pair.source)) for pair in train]
    index: dict[str, list[int]] = {}
    for number, bag in enumerate(bags):
        for word in bag:
            index.setdefault(word, []).append(number)
    guesses = [train[_nearest(pair.source, index, bags)].target for pair in test]
    assert sacrebleu.corpus_bleu(guesses, [[pair.target for pair in test]]).score < 40
