# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A bilingual word list of the built-in corpus, for the word-for-word baseline."""

from __future__ import annotations

from . import english, german
from . import lexicon_words as words
from .lexicon import (
    Verb,
    adjectives,
    cities,
    names,
    nouns,
    numbers,
    ordinals,
    pairs,
    verbs,
)

_SMALL_WORDS = """
the|der a|ein an|ein this|dieser these|diese every|jeder any|kein which|welcher my|mein your|dein his|sein her|ihr
our|unser their|ihr i|ich you|du he|er she|sie we|wir they|sie me|mich him|ihn us|uns them|sie it|es not|nicht and|und
but|aber or|oder that|dass whether|ob because|weil if|wenn when|wann although|obwohl who|wer whom|wen what|was
where|wo why|warum how|wie many|viele than|als as|wie more|mehr most|meist am|bin are|sind is|ist was|war were|waren
do|tun does|tut did|tat has|hat have|haben had|hatte will|wird can|kann cannot|kann must|muss may|darf should|sollte
would|möchte could|konnte want|wollen wants|will wanted|wollte like|mögen likes|mag to|zu in|in into|in on|auf
onto|auf at|an of|von for|für with|mit without|ohne by|mit under|unter next|neben behind|hinter front|vor
above|über about|über after|nach before|vor during|während despite|trotz ago|vor every|jeder last|letzten
already|schon yet|noch always|immer often|oft sometimes|manchmal rarely|selten usually|meistens yesterday|gestern
today|heute tomorrow|morgen tonight|heute soon|bald later|später morning|Morgen evening|Abend afternoon|Nachmittag
night|Nacht weekend|Wochenende day|Tag days|Tage week|Woche weeks|Wochen month|Monat months|Monate year|Jahr
years|Jahre o'clock|Uhr up|auf off|ab out|aus along|mit down|auf back|zurück away|weg asleep|ein half|halb
quarter|Viertel past|nach home|Hause euros|Euro cost|kosten costs|kostet
think|denken thinks|denkt say|sagen says|sagt believe|glauben believes|glaubt hope|hoffen hopes|hofft know|wissen
knows|weiß clear|klar possible|möglich true|wahr raining|regnet snowing|schneit late|spät sun|Sonne shining|scheint
"""


def _verb_forms(verb: Verb) -> dict[str, str]:
    prefixed = verb.de_prefix
    return {
        verb.en_base: verb.de_full_infinitive,
        english.third_person(verb.en_base): prefixed + verb.de_third,
        english.present_participle(verb): prefixed + verb.de_third,
        verb.en_past: verb.de_participle,
        verb.en_participle: verb.de_participle,
    }


def word_dictionary() -> dict[str, str]:
    """English word forms, as they stand inside a sentence, with one German word form each.

    Lower-case except for names and the like: look a word up as it is, then in lower case. Verbs give their present
    and participle, nouns their nominatives, adjectives their base form: no context, no agreement.
    """
    table: dict[str, str] = {}
    for verb in sorted(verbs(), key=lambda verb: not verb.en_particle):
        table.update(_verb_forms(verb))
    for adjective in adjectives():
        table[english.comparative(adjective).split()[-1]] = adjective.de_comparative.replace("-", adjective.de)
        table[english.superlative(adjective).split()[-1]] = german.superlative_stem(adjective) + "e"
        table[adjective.en] = adjective.de
    for noun in nouns():
        table[noun.en.split()[-1]] = noun.de
        if not noun.is_mass:
            table[noun.en_plural.split()[-1]] = noun.de_plural
            table[english.possessive(noun.en)] = german.noun_form(noun, "gen", False)
    table.update({name: name for name, _ in names()})
    table.update({english.possessive(name): name + "s" for name, _ in names()})
    table.update(dict((*cities(), *numbers(), *ordinals())))
    for rows in (words.WEEKDAYS, words.MONTHS, words.SEASONS, _SMALL_WORDS):
        table.update(dict(pairs(" ".join(rows.split()))))
    table.update({f"{en}s": f"{de.lower()}s" for en, de in pairs(words.WEEKDAYS)})
    return table
