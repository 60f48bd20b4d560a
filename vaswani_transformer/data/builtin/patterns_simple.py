# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sentences of one clause: statements, questions, ages and prices, comparisons, descriptions."""

from __future__ import annotations

from random import Random

from . import clauses, english, phrases
from .clauses import Clause
from .lexicon import adjectives_for, nouns_of, numbers
from .phrases import Notes, NounPhrase, Phrase
from .sampling import Wish, person, sample_clause
from .sentence import Draft, finish


def statement(rng: Random) -> Draft:
    """Subject first."""
    clause, notes = sample_clause(rng, Wish()), Notes()
    return finish(clauses.english_statement(clause), clauses.german_statement(clause, "statement", notes), notes)


def fronted(rng: Random) -> Draft:
    """A time or a place first; the German subject follows the verb."""
    while True:
        clause = sample_clause(rng, Wish(time=0.85), fronted=True)
        part = "time" if clause.time else "place"
        phrase = getattr(clause, part)
        if phrase and not (clause.negated and part == "place"):
            return _fronted(clause, part, phrase)


def _fronted(clause: Clause, part: str, phrase: Phrase) -> Draft:
    notes = Notes()
    phrase.note(notes)
    notes.phenomena.add("verb_second")
    de = clauses.german_statement(clause, "fronted", notes, front=phrase.de, skip=part)
    return finish(f"{phrase.en} {clauses.english_statement(clause, skip=part)}", de, notes)


def yes_no(rng: Random) -> Draft:
    """A yes/no question."""
    clause, notes = sample_clause(rng, Wish(negation=0.08)), Notes()
    while clause.subject.referent == "i" and clause.tense in ("want", "would_like", "likes"):
        clause = sample_clause(rng, Wish(negation=0.08))
    notes.phenomena.add("yes_no_question")
    return finish(clauses.english_question(clause), clauses.german_question(clause, "yes_no", notes), notes, "?")


def _ask(clause: Clause, opening: tuple[str, str], skip: str, notes: Notes) -> Draft:
    notes.phenomena.add("wh_question")
    de = clauses.german_question(clause, "wh", notes, opening[1], skip)
    return finish(clauses.english_question(clause, opening[0], skip), de, notes, "?")


def _object_question(rng: Random, clause: Clause, phrase: NounPhrase, notes: Notes) -> Draft:
    """What, whom, which or how many, for the accusative `phrase`."""
    noun = phrase.noun
    if noun is None or noun.is_human:
        return _ask(clause, ("whom", "wen"), "accusative", notes)
    if noun.is_mass or rng.random() < 0.3:
        return _ask(clause, ("what", "was"), "accusative", notes)
    if phrase.plural and rng.random() < 0.6:
        notes.phenomena.add("plural")
        return _ask(clause, (f"how many {noun.en_plural}", f"wie viele {noun.de_plural}"), "accusative", notes)
    which = phrases.noun_phrase(rng, noun, phrase.plural, ("which",))
    return _ask(clause, (which.en, which.german("acc", notes)), "accusative", notes)


def _subject_question(clause: Clause, notes: Notes) -> Draft:
    notes.phenomena.add("wh_question")
    clause.subject = NounPhrase("3sg", "m", "who", "who", name="wer")
    de = clauses.german_question(clause, "wh", notes, "wer", "subject")
    return finish(clauses.english_statement(clause), de, notes, "?")


def wh(rng: Random) -> Draft:
    """A question with who, what, whom, which, how many, where, when or why."""
    clause, notes = sample_clause(rng, Wish(negation=0.0, time=0.35, human=True)), Notes()
    roll = rng.random()
    if roll < 0.2:
        return _subject_question(clause, notes)
    if clause.accusative and clause.verb.kind != "play" and roll < 0.75:
        return _object_question(rng, clause, clause.accusative, notes)
    if clause.verb.kind == "dat" and roll < 0.75:
        return _ask(clause, ("whom", "wem"), "dative", notes)
    if clause.verb.kind in ("dir", "city") and roll < 0.8:
        moves = clause.verb.en_base != "live"
        return _ask(clause, ("where", "wohin" if moves else "wo"), "complement", notes)
    if clause.place:
        return _ask(clause, ("where", "wo"), "place", notes)
    timeless = clause.verb.stative or clause.adverb or clause.tense in ("progressive", "likes", "perfect")
    if roll < 0.9 and not timeless:
        return _ask(clause, ("when", "wann"), "time", notes)
    return _ask(clause, ("why", "warum"), "", notes)


def measure(rng: Random) -> Draft:
    """An age or a price."""
    notes = Notes({"number"})
    if rng.random() < 0.5:
        subject = person(rng)
        while subject.plural or subject.stem == "jed" or "number" in subject.phenomena:
            subject = person(rng)
        young = subject.noun is not None and "young" in subject.noun.classes
        en, de = numbers()[rng.randint(3, 18) if young else rng.randint(19, 98)]
        predicate = Phrase(f"{en} years old", f"{de} Jahre alt")
        clause = Clause(subject, rng.choice(("present", "present", "past")), predicate=predicate)
        return finish(clauses.english_statement(clause), clauses.german_statement(clause, "statement", notes), notes)
    en, de = numbers()[rng.randint(1, 98)]
    goods = rng.choice(nouns_of("clothing", "thing", "vessel", "reading", "furniture"))
    plural = rng.random() < 0.25
    phrase = phrases.noun_phrase(rng, goods, plural, ("the", "this"), 0.6)
    verbs = ("cost", "kosten") if plural else ("costs", "kostet")
    text = phrase.german("nom", notes)
    if rng.random() < 0.2:
        notes.phenomena.add("yes_no_question")
        auxiliary = "do" if plural else "does"
        return finish(f"{auxiliary} {phrase.en} cost {en} euros", f"{verbs[1]} {text} {de} Euro", notes, "?")
    return finish(f"{phrase.en} {verbs[0]} {en} euros", f"{text} {verbs[1]} {de} Euro", notes)


def _copula(rng: Random, clause: Clause, notes: Notes, question: float) -> Draft:
    """A statement with "to be", or with chance `question` the question."""
    if rng.random() < question:
        notes.phenomena.add("yes_no_question")
        return finish(clauses.english_question(clause), clauses.german_question(clause, "yes_no", notes), notes, "?")
    return finish(clauses.english_statement(clause), clauses.german_statement(clause, "statement", notes), notes)


_COMPARED = ("person", "kin", "animal", "vehicle", "clothing", "furniture", "building", "instrument", "food", "town")


def comparison(rng: Random) -> Draft:
    """As in "faster than" or "as fast as"."""
    kind = rng.choice(_COMPARED)
    noun, other_noun = rng.sample([noun for noun in nouns_of(kind) if not noun.is_mass], 2)
    kinds = () if kind == "kin" else ("the", "the", "possessive", "this", "name")
    first = phrases.noun_phrase(rng, noun, rng.random() < 0.2, kinds, 0.3)
    second = phrases.noun_phrase(rng, other_noun, False, kinds, 0.3)
    used = (first.adjective, second.adjective)
    adjective = rng.choice([a for a in adjectives_for(noun) if a.de_comparative != "-" and a not in used])
    notes = Notes({"comparison"})
    other = second.german("nom", notes)
    if rng.random() < 0.7:
        predicate = Phrase(
            f"{english.comparative(adjective)} than {second.en}", f"{adjective.de_comparative} als {other}"
        )
    else:
        predicate = Phrase(f"as {adjective.en} as {second.en}", f"so {adjective.de} wie {other}")
    tense = rng.choice(("present", "present", "past"))
    return _copula(rng, Clause(first, tense, predicate=predicate), notes, 0.15)


def described(rng: Random) -> Draft:
    """Somebody or something is, or was, in some way."""
    kinds = rng.choice((("person",), ("clothing", "vehicle", "thing"), ("food",), ("place",), ("animal",), ("idea",)))
    noun = rng.choice([n for n in nouns_of(*kinds) if len(adjectives_for(n)) > 1])
    determiners = ("the", "the", "possessive", "this", "name", "owner")
    subject = phrases.noun_phrase(rng, noun, rng.random() < 0.3, () if noun.is_mass else determiners, 0.35)
    if noun.is_mass:
        subject = phrases.noun_phrase(rng, noun, False, ("the",), 0.35)
    adjective = rng.choice([a for a in adjectives_for(noun) if a is not subject.adjective])
    predicate = Phrase(adjective.en, adjective.de)
    past = rng.random() < 0.35
    clause = Clause(subject, "past" if past else "present", predicate=predicate, negated=rng.random() < 0.25)
    return _copula(rng, clause, Notes(), 0.2 if not clause.negated else 0.0)
