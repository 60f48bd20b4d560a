# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""German inflection: determiners, adjectives, nouns, verbs, contractions.

Cases are `nom acc dat gen`; genders are `m f n` and `p` for the plural.
"""

from __future__ import annotations

from functools import cache

from .lexicon import Adjective, Noun, Verb

DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "gen": {"m": "des", "f": "der", "n": "des", "p": "der"},
}
# dieser, jeder, welcher
_STRONG_DETERMINER = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
# ein, kein and the possessives: without an ending in three places
_MIXED_DETERMINER = {
    **_STRONG_DETERMINER,
    "nom": {"m": "", "f": "e", "n": "", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "p": "e"},
}
_STRONG_ADJECTIVE = {**_STRONG_DETERMINER, "gen": {"m": "en", "f": "er", "n": "en", "p": "er"}}
_CONTRACTIONS = {
    "in dem": "im",
    "an dem": "am",
    "zu dem": "zum",
    "von dem": "vom",
    "in das": "ins",
    "an das": "ans",
    "zu der": "zur",
}
_SUPERLATIVES = {
    "groß": "größt", "gut": "best", "hoch": "höchst", "dunkel": "dunkelst", "teuer": "teuerst", "neu": "neuest",
}  # fmt: skip
HAVE = {"1sg": "habe", "2sg": "hast", "3sg": "hat", "1pl": "haben", "3pl": "haben"}
BE = {"1sg": "bin", "2sg": "bist", "3sg": "ist", "1pl": "sind", "3pl": "sind"}
BE_PAST = {"1sg": "war", "2sg": "warst", "3sg": "war", "1pl": "waren", "3pl": "waren"}
WILL = {"1sg": "werde", "2sg": "wirst", "3sg": "wird", "1pl": "werden", "3pl": "werden"}
MODALS = {
    "can": {"1sg": "kann", "2sg": "kannst", "3sg": "kann", "1pl": "können", "3pl": "können"},
    "must": {"1sg": "muss", "2sg": "musst", "3sg": "muss", "1pl": "müssen", "3pl": "müssen"},
    "want": {"1sg": "will", "2sg": "willst", "3sg": "will", "1pl": "wollen", "3pl": "wollen"},
    "may": {"1sg": "darf", "2sg": "darfst", "3sg": "darf", "1pl": "dürfen", "3pl": "dürfen"},
    "should": {"1sg": "sollte", "2sg": "solltest", "3sg": "sollte", "1pl": "sollten", "3pl": "sollten"},
    "would_like": {"1sg": "möchte", "2sg": "möchtest", "3sg": "möchte", "1pl": "möchten", "3pl": "möchten"},
    "could": {"1sg": "konnte", "2sg": "konntest", "3sg": "konnte", "1pl": "konnten", "3pl": "konnten"},
    "had_to": {"1sg": "musste", "2sg": "musstest", "3sg": "musste", "1pl": "mussten", "3pl": "mussten"},
    "wanted": {"1sg": "wollte", "2sg": "wolltest", "3sg": "wollte", "1pl": "wollten", "3pl": "wollten"},
}
MODALS["have_to"] = MODALS["must"]
_GENITIVE_ES = ("man", "child", "friend", "doctor", "dentist")
_SECOND_PERSON = {"hält": "hältst", "weiß": "weißt"}


def determiner(stem: str, case: str, gender: str) -> str:
    """The form of a determiner: `der`, `dies`, `jed`, `welch`, `ein`, `kein` or a possessive stem."""
    if stem == "der":
        return DEFINITE[case][gender]
    if stem in ("dies", "jed", "welch"):
        return stem + _STRONG_DETERMINER[case][gender]
    return stem + _MIXED_DETERMINER[case][gender]


def adjective_ending(stem: str, case: str, gender: str) -> str:
    """The ending after determiner `stem` ("" for none): weak, mixed or strong declension."""
    if not stem:
        return _STRONG_ADJECTIVE[case][gender]
    if case in ("dat", "gen") or gender == "p":
        return "en"
    weak = stem in ("der", "dies", "jed", "welch")
    if case == "acc" and gender == "m":
        return "en"
    return "e" if weak else _STRONG_ADJECTIVE[case][gender]


def adjective_stem(word: str) -> str:
    """The stem an ending is put on: "teuer" gives "teur", "dunkel" gives "dunkl", "hoch" gives "hoh"."""
    special = {"teuer": "teur", "dunkel": "dunkl", "hoch": "hoh", "sauer": "saur", "müde": "müd"}
    return special.get(word, word)


def superlative_stem(adjective: Adjective) -> str:
    """The stem of the superlative, such as "ältest" or "größt"."""
    if adjective.de in _SUPERLATIVES:
        return _SUPERLATIVES[adjective.de]
    stem = adjective.de_comparative[:-2]
    if stem.endswith("end") or (stem.endswith("isch") and stem != "frisch"):
        return stem + "st"
    if stem.endswith(("d", "t", "s", "ß", "z", "sch")):
        return stem + "est"
    return stem + "st"


@cache
def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """The form of `noun`: genitive -s or -es, dative plural -n, n-declension."""
    if plural:
        return noun.de_plural + "n" if case == "dat" and noun.de_plural[-1] not in "ns" else noun.de_plural
    if noun.gender == "mn":
        return noun.de if case == "nom" else noun.de_plural
    if case != "gen" or noun.gender == "f":
        return noun.de
    if noun.de[-1] in "sßzx" or noun.de.endswith(("sch", "st")):
        return noun.de + "es"
    return noun.de + ("es" if noun.en in _GENITIVE_ES else "s")


def _stem(infinitive: str) -> str:
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


@cache
def finite(verb: Verb, person: str) -> str:
    """The present form of `verb` for `person` (1sg 2sg 3sg 1pl 3pl), without its separable prefix."""
    if person in ("1pl", "3pl"):
        return verb.de_infinitive
    if person == "3sg" or (person == "1sg" and verb.de_third == "weiß"):
        return verb.de_third
    if person == "1sg":
        if verb.de_infinitive.endswith("eln"):
            return verb.de_infinitive[:-3] + "le"
        return _stem(verb.de_infinitive) + "e"
    if verb.de_third in _SECOND_PERSON:
        return _SECOND_PERSON[verb.de_third]
    head = verb.de_third[:-1]
    return head + ("t" if head[-1] in "sßzx" else "st")


def contract(preposition: str, phrase: str) -> str:
    """`preposition` and noun phrase joined, with the usual contraction: "in" + "dem Garten" gives "im Garten"."""
    article, _, rest = phrase.partition(" ")
    short = _CONTRACTIONS.get(f"{preposition} {article}") if rest else None
    return f"{short} {rest}" if short else f"{preposition} {phrase}"
