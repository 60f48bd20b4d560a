# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sentence patterns with their weights, and the function that draws a sentence."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from random import Random

from . import patterns_complex as complex_
from . import patterns_simple as simple
from .sentence import Draft

PATTERNS: tuple[tuple[Callable[[Random], Draft], int], ...] = (
    (simple.statement, 17),
    (simple.fronted, 14),
    (complex_.weather, 3),
    (simple.yes_no, 9),
    (simple.wh, 10),
    (complex_.that, 10),
    (complex_.whether, 4),
    (complex_.because, 8),
    (complex_.if_when, 8),
    (complex_.although, 5),
    (complex_.coordinated, 3),
    (simple.measure, 7),
    (simple.comparison, 5),
    (simple.described, 6),
    (complex_.relative, 4),
)
_FUNCTIONS = tuple(pattern for pattern, _ in PATTERNS)
_CUMULATIVE = tuple(accumulate(weight for _, weight in PATTERNS))


def draft(rng: Random) -> Draft:
    """One random sentence."""
    return rng.choices(_FUNCTIONS, cum_weights=_CUMULATIVE)[0](rng)
