# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Time expressions: fixed ones by tense, weekdays, months, dates, clock times, spans, events."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from . import lexicon_words as words
from .lexicon import nouns_of, numbers, ordinals, pairs
from .phrases import Notes, Phrase, noun_phrase, prepositional

_NEXT_HOUR = 12


def weekday(rng: Random, tense: str) -> Phrase:
    """As in "on Monday", and by tense "last Monday", "next Monday" or "every Monday"."""
    en, de = rng.choice(pairs(words.WEEKDAYS))
    options = [(f"on {en}", f"am {de}"), (f"on {en} evening", f"am {de}abend"), (f"on {en} morning", f"am {de}morgen")]
    if tense == "past":
        options = [*options, (f"last {en}", f"letzten {de}")]
    elif tense == "future":
        options = [*options, (f"next {en}", f"nächsten {de}")]
    else:
        options = [(f"every {en}", f"jeden {de}"), (f"on {en}s", f"{de.lower()}s")]
    return Phrase(*rng.choice(options), ("date",))


def date(rng: Random, tense: str) -> Phrase:
    """As in "on the third of May", "in May" or "in summer"."""
    month, monat = rng.choice(pairs(words.MONTHS))
    roll = rng.random()
    if tense == "habit" and roll < 0.5:
        season, jahreszeit = rng.choice(pairs(words.SEASONS))
        return Phrase(f"in {season}", f"im {jahreszeit}", ("date",))
    if tense == "habit" or roll < 0.25:
        return Phrase(f"in {month}", f"im {monat}", ("date",))
    day, tag = rng.choice(ordinals())
    if month == "February" and day in ("thirtieth", "thirty-first"):
        day, tag = ordinals()[0]
    return Phrase(f"on the {day} of {month}", f"am {tag} {monat}", ("date",))


def clock(rng: Random, tense: str) -> Phrase:
    """A time of day; German counts the half hour towards the next hour."""
    index = rng.randrange(12)
    en, de = numbers()[index]
    later_de = numbers()[(index + 1) % _NEXT_HOUR][1]
    later_de = "eins" if later_de == "ein" else later_de
    spoken = "eins" if de == "ein" else de
    options = (
        (f"at {en} o'clock", f"um {de} Uhr"),
        (f"at {en} o'clock", f"um {de} Uhr"),
        (f"at half past {en}", f"um halb {later_de}"),
        (f"at a quarter past {en}", f"um Viertel nach {spoken}"),
        (f"at a quarter to {en}", f"um Viertel vor {spoken}"),
    )
    return Phrase(*rng.choice(options), ("time_of_day",))


def span(rng: Random, tense: str) -> Phrase:
    """As in "two weeks ago" or "in two weeks"."""
    en, de = numbers()[rng.randint(1, 19)]
    unit, einheit = rng.choice((("days", "Tagen"), ("weeks", "Wochen"), ("months", "Monaten"), ("years", "Jahren")))
    labels = ("number", "preposition_dative")
    if tense == "past":
        return Phrase(f"{en} {unit} ago", f"vor {de} {einheit}", labels)
    return Phrase(f"in {en} {unit}", f"in {de} {einheit}", labels)


def around_event(rng: Random, tense: str) -> Phrase:
    """As in "during the concert", "after the concert", "before the concert": genitive or dative."""
    noun = rng.choice(nouns_of("event", "meal"))
    phrase = noun_phrase(rng, noun, False, ("the",), 0.3)
    if "meal" in noun.classes:
        phrase = replace(phrase, en=noun.en, en_object=noun.en)
    en, de, case = rng.choice((("during", "während", "gen"), ("after", "nach", "dat"), ("before", "vor", "dat")))
    if case == "gen":
        notes = Notes()
        text = f"{de} {phrase.german('gen', notes)}"
        return Phrase(f"{en} {phrase.en}", text, tuple(sorted(notes.phenomena)), tuple(sorted(notes.combinations)))
    return prepositional(en, de, case, phrase, "preposition_dative")


def weather(rng: Random, despite: bool) -> Phrase:
    """As in "because of the rain" or "despite the rain": genitive."""
    noun = rng.choice(nouns_of("weather"))
    en, de = ("despite", "trotz") if despite else ("because of", "wegen")
    notes = Notes()
    phrase = noun_phrase(rng, noun, False, ("the",), 0.0)
    return Phrase(f"{en} {phrase.en}", f"{de} {phrase.german('gen', notes)}", tuple(sorted(notes.phenomena)))


def fixed(rng: Random, tense: str) -> Phrase:
    """An adverbial without inner structure."""
    table = {"past": words.PAST_TIMES, "future": words.FUTURE_TIMES, "habit": words.HABIT_TIMES}[tense]
    return Phrase(*rng.choice(pairs(table)))


_MAKERS = {
    "past": (fixed, fixed, fixed, weekday, weekday, date, date, clock, span, around_event),
    "future": (fixed, fixed, fixed, weekday, weekday, date, date, clock, span, around_event),
    "habit": (fixed, fixed, weekday, weekday, date, clock, around_event),
}


def time_phrase(rng: Random, tense: str) -> Phrase:
    """A time expression for `tense`: "past", "future" or "habit"."""
    return rng.choice(_MAKERS[tense])(rng, tense)


def frequency(rng: Random) -> Phrase:
    """How often: always, often, sometimes, rarely, usually."""
    return Phrase(*rng.choice(pairs(words.FREQUENCIES)))
