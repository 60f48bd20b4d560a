# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A clause and its word order in both languages.

English: subject, auxiliary, not, adverb, verb, objects, place, time.

German: one constituent before the finite verb, then subject, pronouns and names, time, dative, adverb, definite
accusative, companion, place, indefinite accusative, "nicht", complement, and the right bracket (prefix, participle or
infinitive); the finite verb closes a subordinate clause.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import english, german
from .lexicon import BE, Verb
from .phrases import Notes, NounPhrase, Phrase

# tense -> English auxiliary, or the head of a chain with "to"
_AUXILIARY = {
    "future": "will", "can": "can", "must": "must", "may": "may", "should": "should", "could": "could",
    "would_like": "would",
}  # fmt: skip
_CHAIN = {"have_to": "have", "want": "want", "likes": "like", "had_to": "had", "wanted": "wanted"}


@dataclass
class Clause:
    """One finite clause; `predicate` goes with "to be"."""

    subject: NounPhrase
    tense: str
    verb: Verb = BE
    predicate: Phrase | None = None
    negated: bool = False
    dative: NounPhrase | None = None
    accusative: NounPhrase | None = None
    complement: Phrase | None = None
    companion: Phrase | None = None
    place: Phrase | None = None
    time: Phrase | None = None
    adverb: Phrase | None = None

    @property
    def uses_kein(self) -> bool:
        """Whether the negation is "kein" rather than "nicht"."""
        return bool(self.negated and self.accusative and self.accusative.indefinite)

    @property
    def object(self) -> NounPhrase | None:
        """The accusative as it is said: under "kein" if that negates the clause."""
        return self.accusative.negated() if self.accusative and self.uses_kein else self.accusative


def _be(clause: Clause) -> str:
    table = english.BE_PAST if clause.tense == "past" else english.BE_PRESENT
    return table[clause.subject.person]


def _do(clause: Clause) -> str:
    if clause.tense in ("past", "had_to", "wanted"):
        return "did"
    return "does" if clause.subject.person == "3sg" else "do"


def _full_verb(clause: Clause) -> str:
    verb = clause.verb
    if clause.tense == "past":
        return verb.en_past
    if clause.tense in _CHAIN:
        head = _CHAIN[clause.tense]
        inflected = clause.subject.person == "3sg" and head in ("have", "want", "like")
        return f"{english.third_person(head) if inflected else head} to {verb.en_base}"
    return english.third_person(verb.en_base) if clause.subject.person == "3sg" else verb.en_base


def english_verbs(clause: Clause, with_do: bool) -> tuple[str, str]:
    """Auxiliary ("" for none) and main verb; `with_do` asks for do-support."""
    verb, tense = clause.verb, clause.tense
    if verb is BE:
        return _be(clause), ""
    if tense == "progressive":
        return english.BE_PRESENT[clause.subject.person], english.present_participle(verb)
    if tense == "perfect":
        return ("has" if clause.subject.person == "3sg" else "have"), verb.en_participle
    if tense in _AUXILIARY:
        return _AUXILIARY[tense], f"like to {verb.en_base}" if tense == "would_like" else verb.en_base
    if not with_do:
        return "", _full_verb(clause)
    head = {"had_to": "have", "wanted": "want"}.get(tense, _CHAIN.get(tense))
    return _do(clause), f"{head} to {verb.en_base}" if head else verb.en_base


def _english_rest(clause: Clause, skip: str) -> list[str]:
    """Everything after the main verb; `skip` names the part that stands elsewhere."""
    accusative = clause.object.en_object if clause.object and skip != "accusative" else ""
    dative = clause.dative.en_object if clause.dative and skip != "dative" else ""
    objects = {"giveto": [accusative, "to", dative], "play": ["the", accusative]}
    parts = [clause.verb.en_particle, *objects.get(clause.verb.kind, [dative, accusative])]
    for name in ("complement", "predicate", "companion", "place"):
        phrase = getattr(clause, name)
        parts += [phrase.en] if phrase and skip != name else []
    if clause.tense == "perfect" and clause.negated:
        parts.append("yet")
    return parts + ([clause.time.en] if clause.time and skip != "time" else [])


def _english_adverb(clause: Clause) -> list[str]:
    if clause.tense == "perfect" and not clause.negated:
        return ["already"]
    return [clause.adverb.en] if clause.adverb else []


def english_statement(clause: Clause, skip: str = "", subject: str | None = None) -> str:
    """Declarative word order without the part named `skip`; `subject` replaces the subject's text."""
    auxiliary, main = english_verbs(clause, clause.negated)
    head = [subject if subject is not None else clause.subject.en]
    if auxiliary == "can" and clause.negated:
        head.append("cannot")
    else:
        head += [auxiliary, "not" if clause.negated else ""]
    parts = [*head, *_english_adverb(clause), main, *_english_rest(clause, skip)]
    return " ".join(part for part in parts if part)


def english_question(clause: Clause, opening: str = "", skip: str = "") -> str:
    """Question word order after `opening`, without the part named `skip`."""
    auxiliary, main = english_verbs(clause, True)
    negation = "not" if clause.negated else ""
    parts = [opening, auxiliary, clause.subject.en, negation, *_english_adverb(clause), main]
    return " ".join(part for part in (*parts, *_english_rest(clause, skip)) if part)


def german_verbs(clause: Clause) -> tuple[str, str]:
    """Finite verb and right bracket of a main clause."""
    person, verb, tense = clause.subject.person, clause.verb, clause.tense
    if verb is BE:
        return (german.BE_PAST if tense == "past" else german.BE)[person], ""
    if tense in ("past", "perfect"):
        return (german.BE if verb.uses_sein else german.HAVE)[person], verb.de_participle
    if tense == "future":
        return german.WILL[person], verb.de_full_infinitive
    if tense in german.MODALS:
        return german.MODALS[tense][person], verb.de_full_infinitive
    return german.finite(verb, person), verb.de_prefix


def _note_verbs(clause: Clause, clause_type: str, notes: Notes) -> None:
    verb = clause.verb
    if verb is not BE:
        notes.combinations.add(("verb", verb.key, clause_type))
        for label, holds in (
            ("separable_verb", verb.de_prefix),
            ("modal_verb", clause.tense in german.MODALS),
            ("perfect_tense", clause.tense in ("past", "perfect")),
            ("future_tense", clause.tense == "future"),
        ):
            if holds:
                notes.phenomena.add(label)
    if clause.negated:
        notes.phenomena.add("negation_kein" if clause.uses_kein else "negation_nicht")


def _german_adverbs(clause: Clause) -> tuple[str, str, str]:
    """Early adverb ("gerade", "oft"), late adverb ("schon", "gern") and the word for not."""
    early = "gerade" if clause.tense == "progressive" else (clause.adverb.de if clause.adverb else "")
    late = "gern" if clause.tense == "likes" else ""
    if clause.tense == "perfect" and not clause.negated:
        late = "schon"
    negation = "nicht" if clause.negated and not clause.uses_kein else ""
    if clause.tense == "perfect" and clause.negated:
        late, negation = ("noch", "") if clause.uses_kein else ("", "noch nicht")
    return early, late, negation


def _german_middle(clause: Clause, skip: str, notes: Notes) -> list[str]:
    """The middle field after the subject."""

    def text(name: str) -> str:
        phrase: Phrase | None = getattr(clause, name)
        if not phrase or skip == name:
            return ""
        phrase.note(notes)
        return phrase.de

    early, late, negation = _german_adverbs(clause)
    dative = clause.dative.german("dat", notes) if clause.dative and skip != "dative" else ""
    accusative = clause.object.german("acc", notes) if clause.object and skip != "accusative" else ""
    pronoun = definite = indefinite = ""
    if clause.accusative and not clause.accusative.noun:
        pronoun = accusative
    elif clause.accusative and (clause.accusative.indefinite or "number" in clause.accusative.phenomena):
        indefinite = accusative
    else:
        definite = accusative
    if clause.dative and not clause.dative.noun:
        pronoun, dative = f"{pronoun} {dative}".strip(), ""
    if clause.dative and skip != "dative":
        notes.phenomena.add("dative_object")
    fields = [pronoun, text("time"), dative, early, definite, late, text("companion"), text("place"), indefinite]
    return [*fields, negation, text("complement"), text("predicate")]


def german_statement(
    clause: Clause, clause_type: str, notes: Notes, *, front: str = "", skip: str = "", subject: str | None = None
) -> str:
    """Verb-second order: the subject (`subject` replaces its text), or `front`, stands before the finite verb."""
    _note_verbs(clause, clause_type, notes)
    finite, bracket = german_verbs(clause)
    if subject is None:
        subject = clause.subject.german("nom", notes)
    head = [front, finite, subject] if front else [subject, finite]
    parts = [*head, *_german_middle(clause, skip, notes), bracket]
    return " ".join(part for part in parts if part)


def german_question(clause: Clause, clause_type: str, notes: Notes, opening: str = "", skip: str = "") -> str:
    """Verb-first order, or verb-second after the question word `opening`."""
    _note_verbs(clause, clause_type, notes)
    finite, bracket = german_verbs(clause)
    subject = "" if skip == "subject" else clause.subject.german("nom", notes)
    parts = [opening, finite, subject, *_german_middle(clause, skip, notes), bracket]
    return " ".join(part for part in parts if part)


def german_subordinate(
    clause: Clause, conjunction: str, clause_type: str, notes: Notes, with_subject: bool = True
) -> str:
    """Verb-final order after `conjunction` (or a relative pronoun, then without the subject)."""
    _note_verbs(clause, clause_type, notes)
    notes.phenomena.add("verb_final")
    finite, bracket = german_verbs(clause)
    closing = bracket + finite if bracket == clause.verb.de_prefix else f"{bracket} {finite}"
    subject = clause.subject.german("nom", notes) if with_subject else ""
    parts = [conjunction, subject, *_german_middle(clause, "", notes), closing]
    return " ".join(part for part in parts if part)
