# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The lexicon of the built-in corpus as typed rows, parsed once from the tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from . import lexicon_nouns as nouns_table
from . import lexicon_words as words_table
from .lexicon_verbs import VERBS as VERB_TABLE

GOODS = ("clothing", "vehicle", "furniture", "thing", "vessel", "instrument", "reading")


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun of both languages; `location` and `direction` hold (English, German) prepositions of a place."""

    en: str
    en_plural: str
    de: str
    gender: str
    de_plural: str
    classes: tuple[str, ...]
    location: tuple[str, str] = ("", "")
    direction: tuple[str, str] = ("", "")

    @property
    def is_mass(self) -> bool:
        """Whether the noun has no plural."""
        return self.en_plural == "-"

    @property
    def is_human(self) -> bool:
        """Whether it is a person or a relative."""
        return self.classes[0] in ("person", "kin")


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective of both languages and the noun classes it fits."""

    en: str
    de: str
    de_comparative: str
    classes: frozenset[str]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb of both languages with its frame."""

    en_base: str
    en_past: str
    en_participle: str
    en_particle: str
    doubles: bool
    de_prefix: str
    de_infinitive: str
    de_third: str
    de_participle: str
    uses_sein: bool
    subjects: tuple[str, ...]
    kind: str
    frame: tuple[str, ...]
    stative: bool
    places: tuple[str, ...]

    @property
    def key(self) -> str:
        """A name unique to the verb."""
        return f"{self.en_base}_{self.en_particle}_{self.de_prefix}{self.de_infinitive}_{self.kind}"

    @property
    def de_full_infinitive(self) -> str:
        """The infinitive with its separable prefix."""
        return self.de_prefix + self.de_infinitive


@cache
def pairs(table: str) -> tuple[tuple[str, str], ...]:
    """Rows `English|German` of a table split at spaces, or at lines where it has several."""
    rows = table.strip().split("\n") if "\n" in table else table.split()
    return tuple(_halves(row, "|") for row in rows)


def _halves(text: str, separator: str) -> tuple[str, str]:
    first, second = text.split(separator)
    return first, second


def _parse_noun(row: str) -> Noun:
    en, en_plural, de, gender, de_plural, classes, *place = row.split("|")
    labels = (*classes.split(), "place") if place else tuple(classes.split())
    return Noun(en, en_plural, de, gender, de_plural, labels, *(_halves(cell, " ") for cell in place))


@cache
def nouns() -> tuple[Noun, ...]:
    """All nouns, places last."""
    rows = nouns_table.NOUNS.strip().split("\n") + nouns_table.PLACES.strip().split("\n")
    return tuple(_parse_noun(row) for row in rows)


@cache
def nouns_of(*classes: str) -> tuple[Noun, ...]:
    """The nouns that belong to one of `classes`; a class may also be the English singular of one noun."""
    return tuple(noun for noun in nouns() if set(classes) & {noun.en, *noun.classes})


@cache
def adjectives() -> tuple[Adjective, ...]:
    """All adjectives."""
    rows = [row.split("|") for row in words_table.ADJECTIVES.strip().split("\n")]
    groups = {"people": ("person", "kin"), "goods": GOODS, "coloured": GOODS[:5]}
    return tuple(
        Adjective(en, de, more, frozenset(c for name in classes.split() for c in groups.get(name, (name,))))
        for en, de, more, classes in rows
    )


@cache
def adjectives_for(entry: Noun) -> tuple[Adjective, ...]:
    """The adjectives that fit `entry`."""
    labels = {entry.classes[0]} | ({"fruit", "bake", "hot", "bag"} & set(entry.classes))
    fitting = tuple(adjective for adjective in adjectives() if labels & adjective.classes)
    return tuple(a for a in fitting if a.en not in ("big", "small")) if entry.is_mass else fitting


def parse_verb(row: str) -> Verb:
    """The verb of one row of the table."""
    english, german, subjects, frame, places = row.split("|")
    words, _, particle = english.partition(",")
    doubles = "+" in words
    forms = words.replace("+", " ").split()
    base = forms[0]
    if len(forms) == 1:
        past = participle = _regular_past(base, doubles)
    else:
        past, participle = forms[1:]
    infinitive, third, de_participle, *auxiliary = german.split()
    prefix, _, stem = infinitive.rpartition("-")
    kind, *rest = frame.lstrip("!").split()
    return Verb(
        base, past, participle, particle.strip(), doubles, prefix, stem, third, de_participle, bool(auxiliary),
        tuple(subjects.split()), kind, tuple(rest), frame.startswith("!"), tuple(places.replace("-", "").split()),
    )  # fmt: skip


def _regular_past(base: str, doubles: bool) -> str:
    if doubles:
        return base + base[-1] + "ed"
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + "ed"


BE = parse_verb("be was been|sein ist gewesen sein|person|!none|-")  # not among the verbs that are drawn


@cache
def verbs() -> tuple[Verb, ...]:
    """All verbs."""
    return tuple(parse_verb(row) for row in VERB_TABLE.strip().split("\n"))


@cache
def names() -> tuple[tuple[str, str], ...]:
    """First names with their gender, f or m."""
    female = [(name, "f") for name in nouns_table.FEMALE_NAMES.split()]
    return tuple(female + [(name, "m") for name in nouns_table.MALE_NAMES.split()])


@cache
def cities() -> tuple[tuple[str, str], ...]:
    """Cities and countries without an article."""
    return pairs(nouns_table.CITIES)


@cache
def numbers() -> tuple[tuple[str, str], ...]:
    """The numerals 1 to 99; index i holds i + 1."""
    units = pairs(words_table.NUMBER_UNITS)
    result = [*units, *pairs(words_table.NUMBER_TEENS)]
    for en_ten, de_ten in pairs(words_table.NUMBER_TENS):
        result.append((en_ten, de_ten))
        result += [(f"{en_ten}-{en}", f"{de}und{de_ten}") for en, de in units]
    return tuple(result)


@cache
def ordinals() -> tuple[tuple[str, str], ...]:
    """The days of a month, first to thirty-first, in the German dative."""
    low, units = pairs(words_table.ORDINALS), pairs(words_table.NUMBER_UNITS)
    high = [(f"twenty-{en}", f"{de}undzwanzigsten") for (en, _), (_, de) in zip(low[:9], units, strict=True)]
    return (*low, *high, ("thirtieth", "dreißigsten"), ("thirty-first", "einunddreißigsten"))
