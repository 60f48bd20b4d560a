# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Generation and the three splits.

A sentence carries combinations: (noun, adjective, case) and (verb, clause type). A keyed hash marks about one in
twenty as held out. A sentence with a held-out combination may only become a test sentence, so that every test
sentence holds a combination that training and validation never show, though every word form and every pattern does
occur in training.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from random import Random

from .grammar import draft
from .sentence import Draft

PHENOMENA = (
    "adjective_masculine",
    "adjective_feminine",
    "adjective_neuter",
    "adjective_plural",
    "accusative",
    "dative",
    "genitive",
    "dative_object",
    "verb_second",
    "verb_final",
    "separable_verb",
    "modal_verb",
    "perfect_tense",
    "future_tense",
    "negation_kein",
    "negation_nicht",
    "plural",
    "possessive",
    "preposition_accusative",
    "preposition_dative",
    "two_way_location",
    "two_way_motion",
    "number",
    "date",
    "time_of_day",
    "yes_no_question",
    "wh_question",
    "relative_clause",
    "comparison",
)
SPLITS = ("train", "validation", "test")
NUM_TRAIN = 50_000
NUM_VALIDATION = 1_000
NUM_TEST = 1_000
MIN_TEST_PER_PHENOMENON = 50
MIN_WORDS = 3
MAX_WORDS = 25
_SEED = 20170612
_HELD_OUT_ONE_IN = 20
_WORD = re.compile(r"[\w'-]+")
_OPEN_TYPES = ("statement", "matrix")


@dataclass(frozen=True)
class BuiltinPair:
    """One sentence pair with the names of the phenomena it shows, in the order of `PHENOMENA`."""

    source: str
    target: str
    phenomena: tuple[str, ...]


@cache
def is_held_out(combination: tuple[str, ...]) -> bool:
    """Whether `combination` belongs to the test split alone; a plain statement with a verb never does."""
    if combination[0] == "verb" and combination[2] in _OPEN_TYPES:
        return False
    digest = blake2b("|".join(combination).encode(), digest_size=4, key=b"vaswani").digest()
    return int.from_bytes(digest, "big") % _HELD_OUT_ONE_IN == 0


def _is_usable(candidate: Draft, seen: set[str]) -> bool:
    lengths = (len(candidate.source.split()), len(candidate.target.split()))
    return min(lengths) >= MIN_WORDS and max(lengths) <= MAX_WORDS and candidate.source not in seen


@cache
def _ordered(labels: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in PHENOMENA if name in labels)


def _as_pair(candidate: Draft) -> BuiltinPair:
    return BuiltinPair(candidate.source, candidate.target, _ordered(frozenset(candidate.notes.phenomena)))


def _pick_test(pool: list[BuiltinPair]) -> list[BuiltinPair]:
    """Test sentences in pool order, rarest phenomena first until each has its share, then the rest of the pool."""
    available = Counter(name for pair in pool for name in pair.phenomena)
    chosen: dict[str, BuiltinPair] = {}
    counts: Counter[str] = Counter()
    for name in sorted(PHENOMENA, key=lambda name: (available[name], name)):
        for pair in pool:
            if counts[name] >= MIN_TEST_PER_PHENOMENON:
                break
            if name in pair.phenomena and pair.source not in chosen:
                chosen[pair.source] = pair
                counts.update(pair.phenomena)
    for pair in pool:
        if len(chosen) >= NUM_TEST:
            break
        chosen.setdefault(pair.source, pair)
    return [pair for pair in pool if pair.source in chosen]


def _words(pair: BuiltinPair) -> set[str]:
    return set(_WORD.findall(f"{pair.source} {pair.target}".lower()))


def _with_known_words(pool: list[BuiltinPair], train: list[BuiltinPair]) -> list[BuiltinPair]:
    """The pairs of `pool` whose every word form, on both sides, occurs in `train`."""
    vocabulary = {word for pair in train for word in _words(pair)}
    return [pair for pair in pool if _words(pair) <= vocabulary]


@cache
def generate() -> dict[str, list[BuiltinPair]]:
    """All three splits. One seed, no clock, no set order: the same bytes everywhere."""
    rng = Random(_SEED)
    sources: set[str] = set()
    targets: set[str] = set()
    known: list[BuiltinPair] = []
    unseen: list[BuiltinPair] = []
    while len(known) < NUM_TRAIN + NUM_VALIDATION:
        candidate = draft(rng)
        if not _is_usable(candidate, sources) or candidate.target in targets:
            continue
        sources.add(candidate.source)
        targets.add(candidate.target)
        held_out = any(map(is_held_out, candidate.notes.combinations))
        (unseen if held_out else known).append(_as_pair(candidate))
    return {
        "train": known[:NUM_TRAIN],
        "validation": known[NUM_TRAIN:],
        "test": _pick_test(_with_known_words(unseen, known[:NUM_TRAIN])),
    }
