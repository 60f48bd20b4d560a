# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.1's search by CTranslate2: its hypotheses, scored, ranked and stopped as `generate`'s are.

CTranslate2 keeps the beams that `generate` keeps, but divides by length^alpha and stops at a number of finished
hypotheses. So it is asked for log-probabilities, and for all that it finds within a number of tokens, its horizon: the
finished hypotheses, and the running ones of the last step. These tell whether a better one can come, by the bound at
which `generate` stops. Where one can, the sentence is searched again with a farther horizon, at last its own limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..search_vaswani_transformer import gnmt_length_penalty

# Horizons in tokens: of the first search, over the longest source of a batch; and how much farther each next one is.
_OVER_SOURCE, _GROWTH = 5, 1.5

_NO_PENALTY = 1e-30  # CTranslate2 takes 0 for leave to stop at the first hypothesis


@dataclass(frozen=True)
class Decoding:
    """How sentences are translated.

    Args:
        num_beams: Hypotheses kept for each sentence; 1 is greedy search.
        num_best: Those that are returned.
        length_penalty: Alpha of ((c + length) / (c + 1))^alpha.
        length_penalty_offset: c of it.
        max_new_tokens: Output limit in tokens.
        is_over_source: Whether the limit is counted beyond the source's tokens.
    """

    num_beams: int
    num_best: int
    length_penalty: float
    length_penalty_offset: float
    max_new_tokens: int
    is_over_source: bool

    def limit(self, source: list[int]) -> int:
        """Largest number of output tokens of a source, `</s>` included."""
        return self.max_new_tokens + (len(source) if self.is_over_source else 0)

    def score(self, log_prob: float, length: int) -> float:
        """GNMT's score of a hypothesis of `length` tokens."""
        return log_prob / float(gnmt_length_penalty(max(length, 1), self.length_penalty, self.length_penalty_offset))


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
        num_positions: The model's; no limit is above it.
    """

    def __init__(self, engine: Any, names: list[str], ends: list[int], num_positions: int) -> None:
        self.engine, self.names, self.ends, self.num_positions = engine, names, set(ends), num_positions
        self.ids = {name: index for index, name in enumerate(names)}

    def __call__(self, sources: list[list[int]], decoding: Decoding) -> list[list[Found]]:
        """The best hypotheses of each source, best first, from one batch.

        Args:
            sources: Token ids, each ending in `</s>`.
            decoding: How they are translated.
        """
        limits = [min(decoding.limit(source), self.num_positions) for source in sources]
        best: list[list[Found]] = [[] for _ in sources]
        horizon = max(map(len, sources)) + _OVER_SOURCE
        open_places = list(range(len(sources)))
        while open_places:
            still_open = []
            for steps in sorted({min(limits[place], horizon) for place in open_places}):
                places = [place for place in open_places if min(limits[place], horizon) == steps]
                for place, found in zip(
                    places, self._search([sources[p] for p in places], steps, decoding), strict=True
                ):
                    best[place] = self._best(found, steps, limits[place], decoding)
                    if not self._is_settled(best[place], found, steps, limits[place], decoding):
                        still_open.append(place)
            open_places, horizon = still_open, round(_GROWTH * horizon)
        return best

    def _best(self, found: list[Found], steps: int, limit: int, decoding: Decoding) -> list[Found]:
        """The best of what is complete: finished, or cut off by the limit."""
        complete = [one for one in found if steps == limit or self._is_finished(one)]
        return sorted(complete, key=lambda one: -one.score)[: decoding.num_best]

    def _is_settled(self, best: list[Found], found: list[Found], steps: int, limit: int, decoding: Decoding) -> bool:
        """Whether no hypothesis of more than `steps` tokens can come among the best; see `SearchRule.can_improve`."""
        if steps == limit:
            return True
        if decoding.num_beams == 1:
            return bool(best)
        running = [one.log_prob for one in found if not self._is_finished(one)]
        if not running:  # all that was chosen last has finished: what goes on is less probable than any of it
            running = [min((one.log_prob for one in found if len(one.tokens) == steps), default=0.0)]
        best_length = limit if decoding.length_penalty >= 0 else steps + 1
        return len(best) == decoding.num_best and decoding.score(max(running), best_length) <= best[-1].score

    def _is_finished(self, one: Found) -> bool:
        return bool(one.tokens) and one.tokens[-1] in self.ends

    def _search(self, sources: list[list[int]], steps: int, decoding: Decoding) -> list[list[Found]]:
        """All that CTranslate2 finds for each source in a number of steps: finished, and running after the last."""
        is_greedy = decoding.num_beams == 1
        most = 1 if is_greedy else decoding.num_beams * (steps + 1)  # more than can finish, so that it does not stop
        results = self.engine.translate_batch(
            [[self.names[index] for index in source] for source in sources],
            beam_size=decoding.num_beams,
            patience=most / decoding.num_beams,
            num_hypotheses=most,
            length_penalty=_NO_PENALTY,
            return_scores=True,
            end_token=[self.names[end] for end in self.ends],
            return_end_token=True,
            max_input_length=0,  # never truncate
            max_decoding_length=steps,
            min_decoding_length=0,  # its default of 1 forbids an empty output and raises all other scores by that
        )
        return [
            [
                Found([self.ids[token] for token in tokens], log_prob, decoding.score(log_prob, len(tokens)))
                for tokens, log_prob in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]
