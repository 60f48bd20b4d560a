# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sentences of several clauses, and sentences about the weather."""

from __future__ import annotations

from random import Random

from . import clauses, phrases, times
from . import lexicon_words as words
from .clauses import Clause
from .lexicon import Verb, adjectives, nouns_of, pairs, parse_verb, verbs
from .phrases import Notes, NounPhrase, Phrase
from .sampling import Wish, coreferent, person, pronoun_for, sample_clause
from .sentence import Draft, finish

_THAT_VERBS = tuple(
    parse_verb(row)
    for row in (
        "know knew known|wissen weiß gewusst|person|!none|-",
        "say said said|sagen sagt gesagt|person|none|-",
        "think thought thought|denken denkt gedacht|person|!none|-",
        "believe|glauben glaubt geglaubt|person|!none|-",
        "hope|hoffen hofft gehofft|person|!none|-",
    )
)
_ASK = parse_verb("ask|fragen fragt gefragt|person|none|-")
_IMPERSONAL = (
    ("good", "gut"), ("bad", "schlecht"), ("important", "wichtig"), ("strange", "seltsam"), ("clear", "klar"),
    ("possible", "möglich"), ("true", "wahr"), ("sad", "traurig"), ("wonderful", "wunderbar"),
)  # fmt: skip
_CONDITIONAL = ("present", "can", "want", "have_to", "may")
_CONSEQUENCE = ("future", "can", "have_to", "may", "should", "must", "would_like", "want")


def _unhappy(rng: Random, tenses: tuple[str, ...], subject: NounPhrase | None, hindered: bool) -> Clause:
    """A clause that fits a hindrance: negated, or something one has to do; the opposite if not `hindered`."""
    while True:
        wish = Wish(tenses=tenses, time=0.0, negation=0.8 if hindered else 0.0, human=True, action=True)
        clause = sample_clause(rng, wish, subject=subject)
        if not hindered or clause.negated != (clause.tense in ("have_to", "had_to")):
            return clause


def weather(rng: Random) -> Draft:
    """As in "Because of the rain ..." or "Despite the rain ...": genitive and verb-second order."""
    despite = rng.random() < 0.5
    tenses = ("progressive", "past", "want", "future") if despite else ("can", "could", "future", "have_to", "had_to")
    clause, notes, phrase = _unhappy(rng, tenses, None, not despite), Notes(), times.weather(rng, despite)
    phrase.note(notes)
    notes.phenomena.add("verb_second")
    de = clauses.german_statement(clause, "fronted", notes, front=phrase.de)
    return finish(f"{phrase.en} {clauses.english_statement(clause)}", de, notes)


def _matrix(subject: NounPhrase, verb: Verb, negated: bool = False) -> Clause:
    return Clause(subject, "present", verb, negated=negated)


def that(rng: Random) -> Draft:
    """A clause after "that"."""
    inner, notes = sample_clause(rng, Wish(time=0.35)), Notes()
    if rng.random() < 0.25:
        en, de = rng.choice(_IMPERSONAL)
        outer = (f"it is {en}", f"es ist {de}")
    else:
        matrix = _matrix(person(rng), rng.choice(_THAT_VERBS))
        outer = (clauses.english_statement(matrix), clauses.german_statement(matrix, "matrix", notes))
    de = f"{outer[1]}, {clauses.german_subordinate(inner, 'dass', 'that', notes)}"
    return finish(f"{outer[0]} that {clauses.english_statement(inner)}", de, notes)


def whether(rng: Random) -> Draft:
    """A clause after "whether", in a statement or a question."""
    inner, notes = sample_clause(rng, Wish(time=0.35, negation=0.0)), Notes()
    de_inner = clauses.german_subordinate(inner, "ob", "whether", notes)
    roll = rng.random()
    if roll < 0.4:
        matrix = _matrix(person(rng), _ASK)
    elif roll < 0.8:
        matrix = _matrix(person(rng), _THAT_VERBS[0], negated=True)
        if matrix.subject.stem == "jed":
            matrix.negated, matrix.verb = False, _ASK
    else:
        notes.phenomena.add("yes_no_question")
        matrix = _matrix(phrases.pronoun_phrase("you"), _THAT_VERBS[0])
        en = f"{clauses.english_question(matrix)} whether {clauses.english_statement(inner)}"
        return finish(en, f"{clauses.german_question(matrix, 'matrix', notes)}, {de_inner}", notes, "?")
    en = f"{clauses.english_statement(matrix)} whether {clauses.english_statement(inner)}"
    return finish(en, f"{clauses.german_statement(matrix, 'matrix', notes)}, {de_inner}", notes)


def _feeling(subject: NounPhrase, name: str) -> Clause:
    adjective = next(entry for entry in adjectives() if entry.en == name)
    return Clause(subject, "present", predicate=Phrase(adjective.en, adjective.de))


def _weather_clause(rng: Random, conjunction: str, notes: Notes) -> tuple[str, str]:
    en, de = rng.choice(pairs(words.WEATHER))
    notes.phenomena.add("verb_final")
    return en, f"{conjunction} {de}"


def _subordinate(clause: Clause, conjunction: str, key: str, notes: Notes) -> tuple[str, str]:
    return clauses.english_statement(clause), clauses.german_subordinate(clause, conjunction, key, notes)


def _motivated(rng: Random, subject: NounPhrase, notes: Notes) -> tuple[Clause, tuple[str, str]]:
    """An action and the feeling that explains it."""
    feeling, bases = rng.choice(pairs(words.MOTIVES))
    choices = [v for v in verbs() if v.en_base in bases.split() and v.subjects[0] == "person" and not v.de_prefix]
    verb = rng.choice(choices or [v for v in verbs() if v.en_base in bases.split()])
    main = sample_clause(rng, Wish(("progressive", "want", "would_like", "future", "past"), 0.0, 0.0), subject, verb)
    state = _feeling(pronoun_for(subject), feeling)
    if main.tense == "past":
        state.tense = "past"
    return main, _subordinate(state, "weil", "because", notes)


def _hindered(rng: Random, subject: NounPhrase, notes: Notes) -> tuple[Clause, tuple[str, str]]:
    """Something somebody cannot do, and why."""
    main = _unhappy(rng, ("can", "want", "future"), subject, True)
    if rng.random() < 0.4:
        return main, _weather_clause(rng, "weil", notes)
    state = _feeling(pronoun_for(subject), rng.choice(words.OBSTACLES.split()))
    return main, _subordinate(state, "weil", "because", notes)


def _affected(rng: Random, subject: NounPhrase, notes: Notes) -> tuple[Clause, tuple[str, str]]:
    """A feeling and the action that causes it."""
    feeling = rng.choice(words.EFFECTS.split())
    tenses = {"happy": ("past", "can", "may"), "tired": ("past", "had_to")}.get(feeling, ("have_to", "had_to", "past"))
    action = sample_clause(rng, Wish(tenses, 0.0, 0.5, action=True), pronoun_for(subject))
    return _feeling(subject, feeling), _subordinate(action, "weil", "because", notes)


def because(rng: Random) -> Draft:
    """A reason: a state explains an action, or an action explains a state."""
    subject, notes = coreferent(rng), Notes()
    pattern = rng.choices((_motivated, _hindered, _affected), (3, 2, 5))[0]
    main, reason = pattern(rng, subject, notes)
    de = f"{clauses.german_statement(main, 'statement', notes)}, {reason[1]}"
    return finish(f"{clauses.english_statement(main)} because {reason[0]}", de, notes)


def if_when(rng: Random) -> Draft:
    """A condition, before or after its main clause."""
    notes = Notes()
    subject = coreferent(rng)
    conjunction = rng.choice(("if", "if", "when"))
    wish = Wish(tenses=_CONDITIONAL if conjunction == "if" else ("present",), time=0.0)
    if rng.random() < 0.2:
        condition = _weather_clause(rng, "wenn", notes)
    else:
        inner = sample_clause(rng, wish, subject=subject)
        condition = clauses.english_statement(inner), clauses.german_subordinate(inner, "wenn", "if", notes)
    follower = pronoun_for(subject) if rng.random() < 0.4 else coreferent(rng)
    main = sample_clause(rng, Wish(tenses=_CONSEQUENCE, time=0.1), subject=follower)
    if rng.random() < 0.3 and not follower.is_pronoun:
        de = f"{clauses.german_statement(main, 'statement', notes)}, {condition[1]}"
        return finish(f"{clauses.english_statement(main)} {conjunction} {condition[0]}", de, notes)
    return _inverted(conjunction, condition, main, notes)


def _inverted(conjunction: str, condition: tuple[str, str], main: Clause, notes: Notes) -> Draft:
    """Subordinate clause first, then the main clause with its verb first."""
    notes.phenomena.add("verb_second")
    de = f"{condition[1]}, {clauses.german_question(main, 'inverted', notes)}"
    return finish(f"{conjunction} {condition[0]}, {clauses.english_statement(main)}", de, notes)


def although(rng: Random) -> Draft:
    """A concession before its main clause."""
    subject, notes = coreferent(rng), Notes()
    tenses = ("progressive", "future", "want", "have_to", "can", "may")
    if rng.random() < 0.25:
        state = _weather_clause(rng, "obwohl", notes)
        main = sample_clause(rng, Wish(tenses, 0.0, 0.2, action=True), subject)
    else:
        feeling = _feeling(subject, rng.choice(words.OBSTACLES.split()))
        state = _subordinate(feeling, "obwohl", "although", notes)
        main = sample_clause(rng, Wish(tenses, 0.0, 0.2, action=True), pronoun_for(subject))
    return _inverted("although", state, main, notes)


def coordinated(rng: Random) -> Draft:
    """Two main clauses joined by "and" or "but"."""
    notes = Notes()
    tense = rng.choice((("progressive",), ("past",), ("future",), ("can",), ("want",)))
    wish = Wish(tenses=tense, time=0.0, negation=0.0)
    first = sample_clause(rng, wish, subject=coreferent(rng))
    second = sample_clause(rng, wish, subject=coreferent(rng))
    en, de = rng.choice(((" and", " und"), (", but", ", aber")))
    source = f"{clauses.english_statement(first)}{en} {clauses.english_statement(second)}"
    target = (
        f"{clauses.german_statement(first, 'statement', notes)}{de} "
        f"{clauses.german_statement(second, 'coordinated', notes)}"
    )
    return finish(source, target, notes)


_RELATIVE = {"m": "der", "f": "die", "n": "das", "p": "die"}


def relative(rng: Random) -> Draft:
    """A person with a relative clause whose subject that person is."""
    noun = rng.choice(nouns_of("person"))
    subject = phrases.noun_phrase(rng, noun, rng.random() < 0.25, ("the",), 0.3)
    inner = sample_clause(rng, Wish(time=0.3, negation=0.1), subject=subject)
    main = sample_clause(rng, Wish(tenses=("present", "past", "future", "want", "can"), time=0.0), subject=subject)
    notes = Notes({"relative_clause"})
    pronoun = _RELATIVE[subject.referent]
    embedded = clauses.german_subordinate(inner, pronoun, "relative", notes, with_subject=False)
    en = f"{subject.en} {clauses.english_statement(inner, subject='who')}"
    de = f"{subject.german('nom', notes)}, {embedded},"
    return finish(
        clauses.english_statement(main, subject=en),
        clauses.german_statement(main, "statement", notes, subject=de),
        notes,
    )
