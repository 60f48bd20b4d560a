# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""English inflection: articles, verb forms, comparatives, numerals."""

from __future__ import annotations

from .lexicon import Adjective, Verb

BE_PRESENT = {"1sg": "am", "2sg": "are", "3sg": "is", "1pl": "are", "3pl": "are"}
BE_PAST = {"1sg": "was", "2sg": "were", "3sg": "was", "1pl": "were", "3pl": "were"}
_CONSONANT_SOUND = ("uni", "one")


def indefinite_article(next_word: str) -> str:
    """The article before `next_word`: "a" or "an"."""
    if next_word.startswith("honest"):
        return "an"
    if next_word.startswith(_CONSONANT_SOUND):
        return "a"
    return "an" if next_word[0] in "aeiouAEIOU" else "a"


def third_person(base: str) -> str:
    """The third person singular present of `base`."""
    if base == "have":
        return "has"
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def present_participle(verb: Verb) -> str:
    """The -ing form of `verb`."""
    base = verb.en_base
    if verb.doubles:
        return base + base[-1] + "ing"
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith("ee"):
        return base[:-1] + "ing"
    return base + "ing"


def _is_short(adjective: str) -> bool:
    """Whether `adjective` is compared with -er and -est rather than with more and most."""
    vowels = sum(
        1 for i, letter in enumerate(adjective) if letter in "aeiouy" and (i == 0 or adjective[i - 1] not in "aeiouy")
    )
    silent = adjective.endswith("e") and vowels > 1
    return adjective not in ("bored", "tired") and (vowels - silent == 1 or (vowels == 2 and adjective.endswith("y")))


def _graded(adjective: str, suffix: str) -> str:
    if adjective == "shy":
        return adjective + suffix
    if adjective.endswith("y") and adjective[-2] not in "aeiou":
        return adjective[:-1] + "i" + suffix
    if adjective.endswith("e"):
        return adjective + suffix[1:]
    if adjective[-1] not in "aeiouwy" and adjective[-2] in "aeiou" and adjective[-3] not in "aeiou":
        return adjective + adjective[-1] + suffix
    return adjective + suffix


def comparative(adjective: Adjective) -> str:
    """The comparative, such as "older", "better" or "more elegant"."""
    irregular = {"good": "better", "bad": "worse"}
    if adjective.en in irregular:
        return irregular[adjective.en]
    return _graded(adjective.en, "er") if _is_short(adjective.en) else "more " + adjective.en


def superlative(adjective: Adjective) -> str:
    """The superlative, such as "oldest", "best" or "most elegant"."""
    irregular = {"good": "best", "bad": "worst"}
    if adjective.en in irregular:
        return irregular[adjective.en]
    return _graded(adjective.en, "est") if _is_short(adjective.en) else "most " + adjective.en


def possessive(noun: str) -> str:
    """The s-genitive of a singular noun or a name."""
    return noun + "'s"
