# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Noun phrases, prepositional phrases and time expressions, in both languages at once.

Every random choice comes from the generator passed in, so equal generators give equal phrases.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from . import english, german
from .lexicon import (
    Adjective,
    Noun,
    adjectives_for,
    cities,
    names,
    nouns_of,
    numbers,
)

# person -> English subject, object, possessive; German nominative, accusative, dative, possessive stem
PRONOUNS = {
    "i": ("1sg", "I", "me", "my", "ich", "mich", "mir", "mein"),
    "you": ("2sg", "you", "you", "your", "du", "dich", "dir", "dein"),
    "m": ("3sg", "he", "him", "his", "er", "ihn", "ihm", "sein"),
    "f": ("3sg", "she", "her", "her", "sie", "sie", "ihr", "ihr"),
    "we": ("1pl", "we", "us", "our", "wir", "uns", "uns", "unser"),
    "p": ("3pl", "they", "them", "their", "sie", "sie", "ihnen", "ihr"),
}
_PREPOSITIONS = {"in_front_of": "in front of", "next_to": "next to"}


@dataclass
class Notes:
    """What a sentence shows: its phenomena and the combinations that the splits hold out."""

    phenomena: set[str] = field(default_factory=set)
    combinations: set[tuple[str, ...]] = field(default_factory=set)


@dataclass(frozen=True)
class Phrase:
    """A finished piece of text in both languages with the phenomena it shows."""

    en: str
    de: str
    phenomena: tuple[str, ...] = ()
    combinations: tuple[tuple[str, ...], ...] = ()

    def note(self, notes: Notes) -> None:
        """Adds what this phrase shows to `notes`."""
        notes.phenomena.update(self.phenomena)
        notes.combinations.update(self.combinations)


@dataclass(frozen=True)
class NounPhrase:
    """A pronoun, a name or a phrase around a noun whose case is still open.

    `referent` names the pronoun of `PRONOUNS` that stands for it: for a noun its gender, or "p" for the plural, with
    which determiners and adjectives agree.
    """

    person: str
    referent: str
    en: str
    en_object: str
    is_pronoun: bool = False
    name: str = ""
    noun: Noun | None = None
    plural: bool = False
    stem: str = ""
    prefix: str = ""
    suffix: str = ""
    adjective: Adjective | None = None
    adjective_de: str = ""
    indefinite: bool = False
    phenomena: tuple[str, ...] = ()

    @property
    def is_human(self) -> bool:
        """Whether it is somebody."""
        return self.noun is None or self.noun.is_human

    def german(self, case: str, notes: Notes) -> str:
        """The German phrase in `case`; what it shows goes into `notes`."""
        notes.phenomena.update(self.phenomena)
        if self.is_pronoun:
            return PRONOUNS[self.referent][{"nom": 4, "acc": 5, "dat": 6}[case]]
        if self.noun is None:
            return self.name
        self._note_case(self.noun, case, notes)
        parts = [self.prefix]
        if self.stem:
            parts.append(german.determiner(self.stem, case, self.referent))
        if self.adjective:
            parts.append(self.adjective_de + german.adjective_ending(self.stem, case, self.referent))
        parts += [german.noun_form(self.noun, case, self.plural), self.suffix]
        return " ".join(part for part in parts if part)

    def _note_case(self, noun: Noun, case: str, notes: Notes) -> None:
        if self.stem and case != "nom":
            notes.phenomena.add({"acc": "accusative", "dat": "dative", "gen": "genitive"}[case])
        if self.plural:
            notes.phenomena.add("plural")
        if self.adjective:
            genders = {"m": "masculine", "f": "feminine", "n": "neuter", "p": "plural"}
            notes.phenomena.add("adjective_" + genders[self.referent])
            notes.combinations.add(("noun", noun.en, self.adjective.en, case))

    def negated(self) -> NounPhrase:
        """The phrase under "kein"; only for an indefinite one."""
        en = self.en if self.stem else f"any {self.en}"
        return replace(self, en=en, en_object=en, stem="kein", indefinite=True)


def pronoun_phrase(key: str) -> NounPhrase:
    """The personal pronoun `key` of `PRONOUNS`."""
    row = PRONOUNS[key]
    return NounPhrase(person=row[0], referent=key, en=row[1], en_object=row[2], is_pronoun=True)


def name_phrase(rng: Random) -> NounPhrase:
    """One first name, or now and then two joined by "and"."""
    name, gender = rng.choice(names())
    if rng.random() < 0.12:
        other, _ = rng.choice(names())
        if other != name:
            return NounPhrase("3pl", "p", f"{name} and {other}", f"{name} and {other}", name=f"{name} und {other}")
    return NounPhrase("3sg", gender, name, name, name=name)


def _adjective(rng: Random, noun: Noun, chance: float, definite: bool) -> tuple[Adjective | None, str, str]:
    """A fitting adjective: itself, its English form and its German stem (a superlative where that is possible)."""
    choices = adjectives_for(noun)
    if not choices or rng.random() >= chance:
        return None, "", ""
    adjective = rng.choice(choices)
    if definite and adjective.de_comparative != "-" and rng.random() < 0.2:
        return adjective, english.superlative(adjective), german.superlative_stem(adjective)
    return adjective, adjective.en, german.adjective_stem(adjective.de)


def _count(rng: Random) -> tuple[str, str]:
    return numbers()[rng.randint(1, 11) if rng.random() < 0.22 else rng.randint(12, 98)]


def _determiner(rng: Random, noun: Noun, plural: bool, kinds: tuple[str, ...]) -> str:
    if noun.classes[0] == "kin":
        return rng.choice(("possessive", "possessive", "possessive", "name"))
    if noun.classes[0] == "language":
        return "bare"
    if noun.classes[0] in ("person", "animal") and not {"own", "pet"} & set(noun.classes):
        kinds = tuple(kind for kind in kinds if kind not in _OWNED) or _UNOWNED[plural]
    if kinds:
        return rng.choice(kinds)
    if noun.is_mass:
        return rng.choice(("the", "bare", "bare", "possessive"))
    if plural:
        return rng.choice(("the", "the", "bare", "bare", "number", "number", "possessive", "this"))
    return rng.choice(("the", "the", "the", "a", "a", "a", "possessive", "possessive", "this", "name", "owner"))


_OWNED = ("possessive", "name", "owner")
_UNOWNED = {False: ("the", "the", "the", "a", "a", "this"), True: ("the", "the", "number", "this")}


def _possessor(rng: Random, kind: str) -> tuple[str, str, str, str, tuple[str, ...]]:
    """English words before the noun, German stem, prefix and suffix, phenomena, for a possessive determiner."""
    if kind == "possessive":
        row = PRONOUNS[rng.choice(tuple(PRONOUNS))]
        return row[3], row[7], "", "", ("possessive",)
    if kind == "name":
        name, _ = rng.choice(names())
        return english.possessive(name), "", name + "s", "", ("possessive",)
    owner = noun_phrase(rng, rng.choice(nouns_of("person")), False, ("the",), 0.25)
    inner = Notes()
    suffix = owner.german("gen", inner)
    return english.possessive(owner.en), "der", "", suffix, ("possessive", *sorted(inner.phenomena))


_SIMPLE = {
    "the": ("the", "der"),
    "bare": ("", ""),
    "every": ("every", "jed"),
    "which": ("which", "welch"),
}


def noun_phrase(
    rng: Random, noun: Noun, plural: bool, kinds: tuple[str, ...] = (), adjective_chance: float = 0.45
) -> NounPhrase:
    """A random phrase around `noun`; `kinds` limits the determiners."""
    plural = plural and not noun.is_mass
    kind = _determiner(rng, noun, plural, kinds)
    prefix = suffix = ""
    phenomena: tuple[str, ...] = ()
    adjective, adjective_en, adjective_de = _adjective(rng, noun, adjective_chance, kind == "the")
    if kind in ("possessive", "name", "owner"):
        en_det, stem, prefix, suffix, phenomena = _possessor(rng, kind)
    elif kind == "number":
        en_det, prefix = _count(rng)
        stem, phenomena = "", ("number",)
    elif kind == "this":
        en_det, stem = ("these" if plural else "this"), "dies"
    elif kind == "a":
        following = adjective_en or noun.en
        en_det, stem = english.indefinite_article(following), "ein"
    else:
        en_det, stem = _SIMPLE[kind]
    en = " ".join(word for word in (en_det, adjective_en, noun.en_plural if plural else noun.en) if word)
    referent = "p" if plural else noun.gender[0]
    return NounPhrase(
        "3pl" if plural else "3sg", referent, en, en, noun=noun, plural=plural, stem=stem, prefix=prefix,
        suffix=suffix, adjective=adjective, adjective_de=adjective_de, indefinite=kind in ("a", "bare"),
        phenomena=phenomena,
    )  # fmt: skip


def prepositional(en: str, de: str, case: str, noun_phrase: NounPhrase, label: str) -> Phrase:
    """Preposition and noun phrase in `case`; `label` names the phenomenon."""
    notes = Notes()
    text = german.contract(de, noun_phrase.german(case, notes))
    phenomena = (label, *sorted(notes.phenomena))
    english_text = f"{en} {noun_phrase.en_object}".strip()
    return Phrase(english_text, text, phenomena, tuple(sorted(notes.combinations)))


def _place(rng: Random, classes: tuple[str, ...]) -> tuple[Noun, NounPhrase]:
    """A place, and a phrase around it."""
    kinds = rng.choice((("the",), ("the",), ("the",), ("a",), ("possessive", "owner")))
    noun = rng.choice(nouns_of(*classes))
    if "room" not in noun.classes and kinds[0] == "possessive":
        kinds = ("the",)
    return noun, noun_phrase(rng, noun, False, kinds, 0.35)


def location(rng: Random, classes: tuple[str, ...]) -> Phrase:
    """A place where something happens: dative."""
    place, phrase = _place(rng, classes)
    en, de = place.location
    return prepositional(en, de, "dat", phrase, "two_way_location")


def direction(rng: Random) -> Phrase:
    """A place where someone goes: accusative, or dative after "zu"."""
    place, phrase = _place(rng, ("place",))
    en, de = place.direction
    if de == "zu":
        return prepositional(en, de, "dat", phrase, "preposition_dative")
    return prepositional(en, de, "acc", phrase, "two_way_motion")


def beside(rng: Random, prepositions: tuple[str, str], classes: tuple[str, ...], motion: bool) -> Phrase:
    """A relation to an object, such as "under the table": accusative for motion, else dative."""
    english_ones, german_ones = (cell.split(",") for cell in prepositions)
    index = rng.randrange(len(english_ones))
    noun = rng.choice(nouns_of(*classes))
    phrase = noun_phrase(rng, noun, False, ("the", "the", "a", "possessive", "this"), 0.35)
    en = _PREPOSITIONS.get(english_ones[index], english_ones[index])
    label = "two_way_motion" if motion else "two_way_location"
    return prepositional(en, german_ones[index], "acc" if motion else "dat", phrase, label)


def city(rng: Random, en_preposition: str, de_preposition: str) -> Phrase:
    """A city or country after its preposition."""
    en, de = rng.choice(cities())
    return Phrase(f"{en_preposition} {en}", f"{de_preposition} {de}")


def companion(rng: Random) -> Phrase:
    """With or without whom."""
    return _with_person(rng, *rng.choice((("with", "mit", "dat"), ("with", "mit", "dat"), ("without", "ohne", "acc"))))


def beneficiary(rng: Random) -> Phrase:
    """For whom something is done."""
    return _with_person(rng, "for", "für", "acc")


def _with_person(rng: Random, en: str, de: str, case: str) -> Phrase:
    noun = rng.choice(nouns_of("kin", "person"))
    phrase = noun_phrase(rng, noun, rng.random() < 0.15, ("the", "a", "possessive"), 0.35)
    if phrase.plural and phrase.indefinite:
        phrase = noun_phrase(rng, noun, True, ("the",), 0.35)
    return prepositional(en, de, case, phrase, "preposition_dative" if case == "dat" else "preposition_accusative")


def transport(rng: Random) -> Phrase:
    """By which vehicle."""
    noun = rng.choice(nouns_of("public", "taxi", "car", "bicycle"))
    phrase = NounPhrase("3sg", noun.gender, noun.en, noun.en, noun=noun, stem="der")
    return prepositional("by", "mit", "dat", phrase, "preposition_dative")
