# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A finished sentence of both languages."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from vaswani_transformer.data.builtin import clauses
from vaswani_transformer.data.builtin.clauses import Clause
from vaswani_transformer.data.builtin.phrases import Notes


@dataclass(frozen=True)
class Draft:
    """A sentence of both languages before the splits are made."""

    source: str
    target: str
    notes: Notes


def finish(en: str, de: str, notes: Notes, mark: str = ".") -> Draft:
    """A sentence with its capital and its final ``mark``."""
    return Draft(en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark, notes)


def copula(rng: Random, clause: Clause, notes: Notes, question: float) -> Draft:
    """A statement with "to be", or with chance ``question`` the question."""
    if rng.random() < question:
        notes.phenomena.add("yes_no_question")
        return finish(clauses.english_question(clause), clauses.german_question(clause, "yes_no", notes), notes, "?")
    return finish(clauses.english_statement(clause), clauses.german_statement(clause, "statement", notes), notes)
