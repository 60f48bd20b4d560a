# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A finished sentence of both languages."""

from __future__ import annotations

from dataclasses import dataclass

from .phrases import Notes


@dataclass(frozen=True)
class Draft:
    """A sentence of both languages before the splits are made."""

    source: str
    target: str
    notes: Notes


def finish(en: str, de: str, notes: Notes, mark: str = ".") -> Draft:
    """A sentence with its capital and its final `mark`."""
    return Draft(en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark, notes)
