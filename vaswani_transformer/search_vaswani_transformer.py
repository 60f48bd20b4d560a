# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Rules of section 6.1's search: length penalty, limits and stopping bound.

Shapes: B sentences, N beams, V vocabulary, E end tokens; R rows are B, or B * N with a sentence's
beams adjacent.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import LogitsProcessor
from transformers.generation import logits_process

# A log-probability below this marks a missing hypothesis: transformers adds -1e9 to it, and real
# ones are far higher.
NO_HYPOTHESIS = -1.0e8

PAPER_BEAMS = 4  # beam size in section 6.1
PAPER_ALPHA = 0.6  # exponent of the length penalty in section 6.1
PAPER_OVER_SOURCE = 50  # limit in section 6.1: this many tokens more than the source
GNMT_OFFSET = 5  # offset of the length penalty in Wu et al. 2016

# Processors that treat rows independently of each other and of their index, and never raise a
# log-probability above 0.
ROW_BY_ROW = {
    logits_process.ForcedBOSTokenLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.LogitNormalization,
    logits_process.MinLengthLogitsProcessor,
    logits_process.MinNewTokensLengthLogitsProcessor,
    logits_process.NoBadWordsLogitsProcessor,
    logits_process.NoRepeatNGramLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.SuppressTokensAtBeginLogitsProcessor,
    logits_process.SuppressTokensLogitsProcessor,
    logits_process.TemperatureLogitsWarper,
    logits_process.TopKLogitsWarper,
    logits_process.TopPLogitsWarper,
}


def gnmt_length_penalty(
    length: torch.Tensor | int, alpha: float, offset: float = GNMT_OFFSET
) -> torch.Tensor | float:
    """Return the GNMT length penalty ((5 + length) / 6)^alpha.

    The score of a hypothesis is its log-probability divided by this penalty.

    Args:
        length: Number of generated tokens, `</s>` included, `<s>` and any forced prefix excluded.
        alpha: Exponent; 0 scores by log-probability alone, larger values favor longer output.
        offset: c of ((c + length) / (c + 1))^alpha; 0 gives length^alpha, as in fairseq and
            transformers.

    Paper: section 6.1, through Wu et al. 2016, equation 14.
    """
    return ((offset + length) / (offset + 1)) ** alpha


def check_length_penalty(alpha: Any, offset: Any) -> None:
    """Raise ValueError if `gnmt_length_penalty` cannot use this exponent or offset.

    None is not checked.
    """
    if alpha is not None and not (isinstance(alpha, (int, float)) and -10 <= alpha <= 10):
        raise ValueError(
            f"`length_penalty` must be a finite number in [-10, 10], got {alpha!r}. The paper uses "
            "0.6. Negative values favor short output."
        )
    if offset is not None and not (isinstance(offset, (int, float)) and 0 <= offset < math.inf):
        raise ValueError(
            f"`length_penalty_offset` must be a finite number of at least 0, got {offset!r}. The "
            "paper uses GNMT's 5; with 0 the penalty is length^alpha."
        )


def check_over_source(over_source: Any) -> None:
    """Raise ValueError unless `max_new_tokens_over_source` is a number of tokens or None."""
    if over_source is not None and (type(over_source) is not int or over_source < 0):
        raise ValueError(
            "`max_new_tokens_over_source` must be a whole number of at least 0 or None, got "
            f"{over_source!r}. The paper's is 50; None leaves the length to `max_length`."
        )


def check_scores(has_nan: torch.Tensor | int) -> None:
    """Raise ValueError if the model gave NaN scores, because no hypothesis is best then."""
    if has_nan:
        raise ValueError(
            "The model's scores must be numbers, got NaN. Its weights are broken, its states "
            "overflow, or a logits processor gave NaN. Go back to the last good checkpoint, or "
            "load it with dtype=torch.float32."
        )


def process(
    processor: LogitsProcessor, prefixes: torch.Tensor, scores: torch.Tensor
) -> torch.Tensor:
    """Return (R, V) scores after a processor that reads the (R, L) prefixes.

    The scores may be changed in place. On a CPU, a processor that forbids some tokens writes only
    their columns, while transformers copies all scores.
    """
    kind = type(processor)
    length = prefixes.shape[1]
    own: Any = processor
    is_active = True
    forbidden = None
    if kind is logits_process.MinLengthLogitsProcessor:
        is_active = length < own.min_length
        forbidden = own.eos_token_id
    elif kind is logits_process.MinNewTokensLengthLogitsProcessor:
        is_active = length < own.prompt_length_to_skip + own.min_new_tokens
        forbidden = own.eos_token_id
    elif kind is logits_process.SuppressTokensLogitsProcessor:
        forbidden = own.suppress_tokens
    elif kind is logits_process.SuppressTokensAtBeginLogitsProcessor:
        is_active = length == own.begin_index
        forbidden = own.begin_suppress_tokens
    if forbidden is None or scores.device.type != "cpu":
        processed: torch.Tensor = own(prefixes, scores)
        return processed
    if is_active:
        is_token = (forbidden >= 0) & (forbidden < scores.shape[1])
        scores.index_fill_(1, forbidden[is_token], -torch.inf)
    return scores


# Processors that never raise a log-probability above 0. With others, the stopping bound is invalid.
NEVER_POSITIVE = ROW_BY_ROW | {
    logits_process.EncoderNoRepeatNGramLogitsProcessor,
    logits_process.PrefixConstrainedLogitsProcessor,
}


@dataclass
class SearchRule:
    """Scoring and stopping rule of one beam search.

    In transformers' loop it takes the place of the number `length_penalty`.
    """

    alpha: float  # exponent of the length penalty
    offset: float  # offset of the length penalty
    limits: torch.Tensor  # (B, 1) maximum number of generated tokens of each sentence
    num_wanted: int  # hypotheses to return for each sentence
    is_bounded: bool  # True if no processor can raise a log-probability above 0
    # (B, N) scores of finished hypotheses, best first, -inf if there is none. Only transformers'
    # loop sets them.
    scores: torch.Tensor = field(init=False)

    def penalty(self, length: torch.Tensor | int) -> torch.Tensor | float:
        """Return the divisor of the log-probability of a hypothesis of `length` tokens."""
        return gnmt_length_penalty(length, self.alpha, self.offset)

    def can_improve(
        self, running: torch.Tensor, finished: torch.Tensor, length: torch.Tensor | int
    ) -> torch.Tensor:
        """Return a (B, 1) mask: True if a running hypothesis might still enter the results.

        To enter, it must beat the `num_wanted`-th best finished hypothesis. If a processor may
        raise scores, there is no bound. Then it is compared with the N-th best finished one, as in
        transformers.

        Args:
            running: (B, N) log-probabilities of running hypotheses, best first.
            finished: (B, N) scores of finished hypotheses, best first.
            length: Number of generated tokens of the running hypotheses.
        """
        rank = self.num_wanted if self.is_bounded else finished.shape[1]
        worst_wanted = finished[:, rank - 1 : rank]
        best_running = running[:, :1]
        is_running = best_running > NO_HYPOTHESIS
        # A log-probability falls with every token. So the best possible score keeps the present
        # log-probability and has the length with the largest penalty: the limit, or with
        # alpha < 0 one more token.
        best_length: torch.Tensor | int
        if self.alpha >= 0:
            best_length = self.limits.to(running.dtype)
        else:
            best_length = length + 1
        return is_running & (best_running / self.penalty(best_length) > worst_wanted)
