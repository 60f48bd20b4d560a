# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.1's search by CTranslate2: its hypotheses, scored and ranked as GNMT does.

CTranslate2 keeps the beams that `generate` keeps and differs in three ways, all of which are undone here. It divides
by length^alpha: the log-probability is recovered and divided again. It stops at a number of finished hypotheses, where
`generate` stops when none can come among the best: it is made to finish more than are wanted, and more again while the
last ones are among the best; no proof is behind this, as CTranslate2 does not tell what it has not finished. It has
one limit a call, where each sentence has its own: those that come to theirs are searched once more with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..search_vaswani_transformer import gnmt_length_penalty

# Finished hypotheses after which CTranslate2 stops, by the number of beams. CTranslate2's own default of 1 gives other
# 4-best lists than `generate` for 15 % of the sentences of two test sets, and 2 for one in a thousand.
PATIENCE = 3.0

_NO_PENALTY = 1e-30  # CTranslate2 takes 0 for leave to stop at the first hypothesis


@dataclass(frozen=True)
class Decoding:
    """How sentences are translated.

    Args:
        num_beams: Hypotheses kept for each sentence; 1 is greedy search.
        num_best: Those that are returned.
        length_penalty: Alpha of ((c + length) / (c + 1))^alpha.
        length_penalty_offset: c of it.
        max_new_tokens_over_source: Output limit in tokens beyond the source's; None: `max_new_tokens`.
        max_new_tokens: Output limit of all sentences.
    """

    num_beams: int
    num_best: int
    length_penalty: float
    length_penalty_offset: float
    max_new_tokens_over_source: int | None
    max_new_tokens: int | None

    def limit(self, source: list[int]) -> int:
        """Largest number of output tokens of a source, `</s>` included."""
        return len(source) + self.max_new_tokens_over_source if self.max_new_tokens is None else self.max_new_tokens


@dataclass(frozen=True)
class Found:
    """A hypothesis in tokens.

    Args:
        tokens: Their ids, `</s>` included where it is there.
        log_prob: Natural logarithm of its probability.
        score: `log_prob` divided by GNMT's penalty.
    """

    tokens: list[int]
    log_prob: float
    score: float


class Search:
    """Beam search by a CTranslate2 model.

    Args:
        engine: A `ctranslate2.Translator`.
        names: Of the vocabulary's entries, by id.
        ends: Ids that end a translation.
    """

    def __init__(self, engine: Any, names: list[str], ends: list[int]) -> None:
        self.engine, self.names = engine, names
        self.ids = {name: index for index, name in enumerate(names)}
        self.ends = [names[end] for end in ends]

    def __call__(self, sources: list[list[int]], decoding: Decoding, num_positions: int) -> list[list[Found]]:
        """The best hypotheses of each source, best first, from one batch.

        Args:
            sources: Token ids, each ending in `</s>`.
            decoding: How they are translated.
            num_positions: The model's; no limit is above it.
        """
        limits = [min(decoding.limit(source), num_positions) for source in sources]
        lengths = list(map(len, sources))
        # Where length more than makes up for improbable tokens, later hypotheses are the better ones, up to the limit.
        is_longest_best = _power_like(decoding, lengths) > 1
        return self._best(sources, limits, decoding, 2.0 * max(limits) if is_longest_best else PATIENCE)

    def _best(
        self, sources: list[list[int]], limits: list[int], decoding: Decoding, patience: float
    ) -> list[list[Found]]:
        """The best hypotheses of each source under its own limit, where these are settled."""
        found = self._search(sources, max(limits), decoding, patience)
        best = [sorted(each, key=lambda one: -one.score)[: decoding.num_best] for each in found]
        longest = [max(len(one.tokens) for one in each) for each in found]
        for places, more_patience in _unsettled(best, longest, limits, is_greedy=decoding.num_beams == 1):
            chosen = [sources[place] for place in places], [limits[place] for place in places]
            for place, each in zip(places, self._best(*chosen, decoding, more_patience * patience), strict=True):
                best[place] = each
        return best

    def _search(self, sources: list[list[int]], limit: int, decoding: Decoding, patience: float) -> list[list[Found]]:
        """What CTranslate2 finds for each source until it stops."""
        is_greedy = decoding.num_beams == 1
        alpha = _power_like(decoding, list(map(len, sources)))
        results = self.engine.translate_batch(
            [[self.names[index] for index in source] for source in sources],
            beam_size=decoding.num_beams,
            patience=1 if is_greedy else patience,
            num_hypotheses=1 if is_greedy else round(patience * decoding.num_beams),
            length_penalty=alpha,
            return_scores=True,
            end_token=self.ends,
            return_end_token=True,
            max_input_length=0,  # never truncate
            max_decoding_length=limit,
            min_decoding_length=0,  # its default of 1 forbids an empty output and raises all other scores by that
        )
        return [
            [
                self._found(tokens, score * max(len(tokens), 1) ** alpha, decoding)
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def _found(self, tokens: list[str], log_prob: float, decoding: Decoding) -> Found:
        penalty = gnmt_length_penalty(max(len(tokens), 1), decoding.length_penalty, decoding.length_penalty_offset)
        return Found([self.ids[token] for token in tokens], log_prob, log_prob / penalty)


def _unsettled(
    best: list[list[Found]], longest: list[int], limits: list[int], is_greedy: bool
) -> Iterator[tuple[list[int], float]]:
    """Places of sources that are to be searched again, and with how many times the patience.

    Under their own limit if they came to it and the batch's is another; longer if the last step of the search still
    brought one of the best.
    """
    at_limit = [place for place, limit in enumerate(limits) if longest[place] >= limit and limit < max(limits)]
    at_limit.sort(key=lambda place: limits[place])
    for _, places in groupby(at_limit, key=lambda place: limits[place]):
        yield list(places), 1.0
    moving = [
        place
        for place, limit in enumerate(limits)
        if longest[place] < limit and any(len(one.tokens) == longest[place] for one in best[place])
    ]
    if moving and not is_greedy:
        yield moving, 2.0


def _power_like(decoding: Decoding, lengths: list[int]) -> float:
    """The exponent of length^x that ranks hypotheses around the mean of `lengths` as GNMT's penalty does.

    CTranslate2 ranks by it which of the hypotheses of its last step it leaves out.
    """
    length = sum(lengths) / len(lengths)
    return decoding.length_penalty * length / (length + decoding.length_penalty_offset) or _NO_PENALTY
