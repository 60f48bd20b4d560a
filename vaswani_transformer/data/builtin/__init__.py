# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The built-in corpus: English-German sentence pairs made by a deterministic grammar.

It lets a small model learn real translation offline, in minutes, without anybody's text. The design:

- A lexicon (`lexicon_nouns`, `lexicon_verbs`, `lexicon_words`) of about 360 nouns and places, 145 verbs and 100
  adjectives, with the classes that make a sentence sensible: one eats food, repairs machines, trusts people.
- Inflection (`english`, `german`): genders, four cases, weak, mixed and strong adjectives, the n-declension, stem
  changes, separable prefixes, perfect with "haben" or "sein", contractions such as "im" and "zum".
- Clauses (`clauses`) hold their constituents and are put into the word order of each language: main clause, fronted
  element, question, subordinate clause, relative clause.
- Patterns (`grammar`) draw sentences; each pair names the `PHENOMENA` it shows.
- Splits (`splits`): test sentences hold combinations of words and structures that training never shows.

English to German is a function. Conventions where English leaves a choice: "you" is "du"; the simple past and the
present perfect are both Perfekt, but "was" is "war"; the progressive is the present with "gerade"; "likes to" is
"gern"; professions without a female form in English are masculine; in relations of place "to" a building is "zu".

Example:
    >>> from vaswani_transformer.data.builtin import load_builtin_corpus
    >>> pair = load_builtin_corpus("test")[0]
"""

from __future__ import annotations

from .dictionary import word_dictionary
from .splits import PHENOMENA, SPLITS, BuiltinPair, generate


def load_builtin_corpus(split: str) -> list[BuiltinPair]:
    """One split of the built-in corpus.

    Args:
        split: "train", "validation" or "test".

    Returns:
        The pairs of the split in a fixed order. The list is shared between calls: do not change it.

    Raises:
        ValueError: `split` is none of the three.
    """
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {', '.join(SPLITS)}, got {split!r}. Choose one of these splits.")
    return generate()[split]


__all__ = ["PHENOMENA", "BuiltinPair", "load_builtin_corpus", "word_dictionary"]
