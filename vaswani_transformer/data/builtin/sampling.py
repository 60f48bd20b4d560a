# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Random clauses that make sense: subjects, objects, tenses and adverbials that go together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random

from . import phrases, times
from .clauses import Clause
from .lexicon import Noun, Verb, nouns_of, verbs
from .phrases import NounPhrase, Phrase

# Verbs of things that happen once: no habit. Verbs of things nobody intends: only told afterwards.
ONE_TIME = frozenset(
    "sell find build rent sign solve plant buy congratulate introduce throw cut recommend lend move".split()
)
MISHAPS = frozenset("lose break miss steal forget cough".split())
NO_PROGRESSIVE = frozenset("find thank arrive wake stop stay".split())
COUNTED = frozenset(
    "buy sell need see find count steal order eat bake cook peel pick wash repair draw photograph paint plant write "
    "read translate collect hide sew correct have write learn describe borrow throw water greet invite send "
    "feed".split()
)
FOR_SOMEONE = frozenset("buy cook bake sew draw paint write order carry build".split())
_SHARED = frozenset("dance work play".split())
_SUBJECT_PRONOUNS = ("i", "i", "you", "you", "m", "f", "we", "p")
_PAST_TENSES = ("past", "could", "had_to", "wanted")
_AFFIRMATIVE = ("progressive", "likes", "would_like", "must")
_TENSES = (
    ("present", 24), ("progressive", 11), ("past", 22), ("perfect", 9), ("future", 8), ("likes", 4), ("can", 4),
    ("must", 2), ("have_to", 3), ("want", 4), ("may", 3), ("should", 3), ("would_like", 3), ("could", 2),
    ("had_to", 2), ("wanted", 2),
)  # fmt: skip
_DEFINITE = ("the", "the", "possessive", "this")


@dataclass(frozen=True)
class Wish:
    """What a caller needs from a clause: tenses (any if empty), chances, a human subject, no stative verb."""

    tenses: tuple[str, ...] = ()
    negation: float = 0.15
    time: float = 0.5
    human: bool = False
    action: bool = False


@cache
def tense_choices(verb: Verb) -> tuple[tuple[str, int], ...]:
    """The tenses that make sense with `verb`, with weights."""
    if verb.en_base == "have":
        return (("present", 10), ("future", 1), ("would_like", 1))
    if verb.en_base == "know":
        return (("present", 1),)
    if verb.en_base in MISHAPS:
        return (("past", 3), ("perfect", 1))
    if verb.stative:
        return (("present", 6), ("past", 3), ("future", 1))
    skip = {"progressive"} if verb.en_base in NO_PROGRESSIVE else set()
    if verb.en_base in ONE_TIME:
        skip |= {"present", "likes"}
    if "person" not in verb.subjects:
        skip |= {"likes", "want", "may", "would_like", "wanted", "should"}
    if verb.en_base in ("wake", "fall", "laugh", "smile", "cry"):
        skip |= {"likes", "would_like", "want", "wanted", "should"}
    return tuple((tense, weight) for tense, weight in _TENSES if tense not in skip)


def _weighted(rng: Random, choices: tuple[tuple[str, int], ...]) -> str:
    return rng.choices([name for name, _ in choices], [weight for _, weight in choices])[0]


def choose_tense(rng: Random, verb: Verb, allowed: tuple[str, ...]) -> str:
    """A tense of `verb`, among `allowed` unless that is empty; "" when none of them makes sense."""
    choices = tense_choices(verb)
    if allowed:
        choices = tuple((t, w) for t, w in choices if t in allowed)
    return _weighted(rng, choices) if choices else ""


@cache
def _weighted_verbs() -> tuple[tuple[Verb, ...], tuple[int, ...]]:
    rows = verbs()
    return rows, tuple(accumulate(3 if verb.kind in ("acc", "give", "giveto", "put") else 4 for verb in rows))


def choose_verb(rng: Random, human: bool = False) -> Verb:
    """A verb; `human` asks for one whose subject is a person."""
    rows, weights = _weighted_verbs()
    while True:
        verb = rng.choices(rows, cum_weights=weights)[0]
        if not human or verb.subjects[0] == "person":
            return verb


def person(rng: Random, pronouns: bool = True) -> NounPhrase:
    """Somebody, as a subject: a pronoun, a name, a profession or a relative."""
    roll = rng.random()
    if pronouns and roll < 0.28:
        return phrases.pronoun_phrase(rng.choice(_SUBJECT_PRONOUNS))
    if roll < 0.46:
        return phrases.name_phrase(rng)
    if roll < 0.65:
        return phrases.noun_phrase(rng, rng.choice(nouns_of("kin")), False)
    plural = rng.random() < 0.25
    kinds = ("the", "the", "possessive", "this", "number") if plural else ("the", "the", "the", "a", "this", "every")
    return phrases.noun_phrase(rng, rng.choice(nouns_of("person")), plural, kinds)


def coreferent(rng: Random) -> NounPhrase:
    """Somebody definite, described by no feeling, whom a personal pronoun can take up again: never a neuter noun."""
    while True:
        candidate = person(rng)
        moody = candidate.adjective and "feeling" in candidate.adjective.classes
        vague = candidate.stem in ("jed", "ein") or "number" in candidate.phenomena
        if candidate.referent != "n" and not vague and not moody:
            return candidate


def subject_for(rng: Random, verb: Verb) -> NounPhrase:
    """A subject that can do what `verb` says."""
    if verb.subjects[0] == "person" and (len(verb.subjects) == 1 or rng.random() < 0.7):
        return person(rng)
    noun_choice = rng.choice(nouns_of(*(c for c in verb.subjects if c != "person")))
    plural = rng.random() < 0.2
    kinds = ("the", "the", "possessive", "this") if plural else ("the", "the", "the", "possessive", "this", "name")
    return phrases.noun_phrase(rng, noun_choice, plural, kinds)


def _object_noun(rng: Random, classes: tuple[str, ...], subject: NounPhrase) -> Noun:
    weights = classes if len(classes) > 1 and rng.random() < 0.6 else ()
    while True:
        candidates = nouns_of(rng.choice(weights)) if weights else nouns_of(*classes)
        candidate = rng.choice(candidates)
        if candidate is not subject.noun:
            return candidate


def _human_object(rng: Random, verb: Verb, subject: NounPhrase) -> NounPhrase | None:
    """A pronoun or name as object, now and then."""
    roll = rng.random()
    if roll < 0.15 and (not verb.en_particle or verb.kind == "pp" or verb.kind == "dat"):
        keys = [key for key in phrases.PRONOUNS if key != subject.referent and {key, subject.referent} != {"i", "we"}]
        if subject.referent in ("m", "f", "p", "n"):
            keys = [key for key in keys if key not in ("m", "f", "p")] if subject.is_pronoun else keys
        return phrases.pronoun_phrase(rng.choice(keys))
    if roll < 0.28:
        name = phrases.name_phrase(rng)
        return name if not set(name.en.split()) & set(subject.en.split()) else None
    return None


def object_for(
    rng: Random, verb: Verb, classes: tuple[str, ...], subject: NounPhrase, definite: bool = False
) -> NounPhrase:
    """An object of one of `classes` for `verb`; `definite` keeps to definite determiners."""
    choice = _object_noun(rng, classes, subject)
    if choice.is_human:
        human = _human_object(rng, verb, subject)
        if human:
            return human
    plural = verb.en_base in ("count", "collect") or rng.random() < 0.33
    kinds: tuple[str, ...] = ()
    if definite:
        kinds = _DEFINITE
    elif verb.en_base == "have":
        kinds = ("number", "bare", "number") if plural else ("a",)
    elif plural and verb.en_base not in COUNTED:
        kinds = ("the", "the", "bare", "bare", "possessive", "this")
    if choice.is_mass:
        kinds = ("the",) if definite else ()
    if choice.is_human and plural and not definite:
        kinds = ("the", "the", "possessive", "this")
    return phrases.noun_phrase(rng, choice, plural and choice.classes[0] != "kin", kinds)


def _fill_frame(rng: Random, clause: Clause) -> None:
    verb, subject, definite = clause.verb, clause.subject, clause.negated
    kind, frame = verb.kind, verb.frame
    if kind == "acc":
        clause.accusative = object_for(rng, verb, frame, subject, definite and rng.random() < 0.4)
    elif kind == "dat":
        clause.dative = object_for(rng, verb, frame, subject, definite)
    elif kind in ("give", "giveto"):
        clause.dative = object_for(rng, verb, ("person", "kin"), subject, True)
        clause.accusative = object_for(rng, verb, frame, subject)
        while not clause.accusative.noun:
            clause.accusative = object_for(rng, verb, frame, subject)
    elif kind == "pp":
        _, de, case, *classes = frame
        target = object_for(rng, verb, tuple(classes), subject, definite)
        label = "preposition_accusative" if case == "acc" else "preposition_dative"
        clause.complement = phrases.prepositional("", de, case, target, label)
    elif kind == "play":
        instrument = rng.choice(nouns_of("instrument"))
        clause.accusative = phrases.noun_phrase(rng, instrument, False, ("bare",), 0.0)
    else:
        _fill_place(rng, clause)


def _fill_place(rng: Random, clause: Clause) -> None:
    verb = clause.verb
    if verb.kind == "dir":
        home = Phrase("home", "nach Hause")
        clause.complement = home if rng.random() < 0.12 else phrases.direction(rng)
    elif verb.kind == "city":
        clause.complement = phrases.city(rng, *verb.frame)
    elif verb.kind in ("loc", "onto"):
        en, de, *classes = verb.frame
        if classes == ["place"]:
            home = Phrase("at home", "zu Hause")
            clause.complement = home if rng.random() < 0.2 else phrases.location(rng, ("place",))
        else:
            clause.complement = phrases.beside(rng, (en, de), tuple(classes), verb.kind == "onto")
    elif verb.kind == "put":
        clause.accusative = object_for(rng, verb, verb.frame, clause.subject)
        hang = verb.frame == ("hang",)
        prepositions = ("above,next_to", "über,neben") if hang else ("on,under,next_to", "auf,unter,neben")
        targets = ("door", "window", "sofa", "bed", "desk") if hang else ("surface",)
        clause.complement = phrases.beside(rng, prepositions, targets, True)


def time_kind(tense: str) -> str:
    """The kind of time expression that goes with `tense` ("" for none)."""
    if tense in _PAST_TENSES:
        return "past"
    if tense in ("future", "can", "must", "have_to", "want", "may", "should", "would_like"):
        return "future"
    return "habit" if tense == "present" else ""


def _add_adverbials(rng: Random, clause: Clause, wish: Wish) -> None:
    verb = clause.verb
    plain = not clause.negated and "number" not in (clause.accusative.phenomena if clause.accusative else ())
    if plain and verb.places and rng.random() < 0.35:
        clause.place = phrases.location(rng, verb.places)
    human = clause.subject.is_human
    if plain and human and verb.en_base in FOR_SOMEONE and rng.random() < 0.3:
        clause.companion = phrases.beneficiary(rng)
    elif plain and human and not clause.place and verb.kind in ("dir", "city") and rng.random() < 0.35:
        by_vehicle = verb.en_base in ("travel", "go") and rng.random() < 0.5
        clause.companion = phrases.transport(rng) if by_vehicle else phrases.companion(rng)
    elif plain and human and verb.places and verb.en_base in _SHARED and rng.random() < 0.25:
        clause.companion = phrases.companion(rng)
    kind = time_kind(clause.tense)
    if verb.stative or not kind or rng.random() >= wish.time:
        return
    if clause.tense == "present" and not clause.negated and rng.random() < 0.3:
        clause.adverb = times.frequency(rng)
    elif not (clause.companion and clause.place):
        clause.time = times.time_phrase(rng, kind)


def _needs_marked_tense(clause: Clause) -> bool:
    """Whether English would not show the tense, as in "they read the book"."""
    same = clause.verb.en_base == clause.verb.en_past
    return same and clause.tense == "present" and not clause.negated and clause.subject.person != "3sg"


def _verb_and_tense(rng: Random, wish: Wish, verb: Verb | None, human: bool) -> tuple[Verb, str]:
    while True:
        candidate = verb or choose_verb(rng, human=wish.human or human)
        if wish.action and candidate.stative:
            continue
        if tense := choose_tense(rng, candidate, wish.tenses):
            return candidate, tense


def sample_clause(
    rng: Random, wish: Wish, subject: NounPhrase | None = None, verb: Verb | None = None, fronted: bool = False
) -> Clause:
    """A clause that fits `wish`; `fronted` says that the time may leave the middle field."""
    verb, tense = _verb_and_tense(rng, wish, verb, subject is not None)
    clause = Clause(subject or subject_for(rng, verb), tense, verb)
    negatable = tense not in _AFFIRMATIVE and verb.kind != "play" and clause.subject.stem not in ("jed", "ein")
    clause.negated = negatable and "number" not in clause.subject.phenomena and rng.random() < wish.negation
    _fill_frame(rng, clause)
    if clause.negated and clause.accusative and "number" in clause.accusative.phenomena:
        clause.negated = False
    _add_adverbials(rng, clause, wish)
    definite_object = clause.dative or (clause.accusative and not clause.accusative.indefinite)
    if clause.negated and definite_object and not fronted:
        clause.time = None
    if _needs_marked_tense(clause):
        clause.tense, clause.time, clause.adverb = "future", None, None
    return clause


def pronoun_for(phrase: NounPhrase) -> NounPhrase:
    """The personal pronoun that takes `phrase` up again."""
    return phrases.pronoun_phrase(phrase.referent)
