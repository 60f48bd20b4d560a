# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The rules of section 6.1's search: GNMT length penalty, each sentence's limit, the stopping bound, the scores.

Shapes: B sentences, N beams, V vocabulary, T target length; rows are B, or B * N with those of one sentence together.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import LogitsProcessor
from transformers.generation import logits_process

# Log-probability of a running hypothesis that does not exist: transformers adds -1e9, any real one is far above.
NO_HYPOTHESIS = -1.0e8

PAPER_BEAMS = 4  # of the search in section 6.1
PAPER_ALPHA = 0.6  # exponent of its length penalty
PAPER_OVER_SOURCE = 50  # its limit: this many tokens more than the source has
GNMT_OFFSET = 5  # of the length penalty in Wu et al. 2016

# Processors that treat each row by itself, whatever its place in the batch, and never lift a log-probability above 0.
ROW_BY_ROW = {
    logits_process.ForcedBOSTokenLogitsProcessor,
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


def gnmt_length_penalty(length: torch.Tensor | int, alpha: float, offset: float = GNMT_OFFSET) -> torch.Tensor | float:
    """((5 + length) / 6)^alpha, by which a hypothesis' log-probability is divided.

    Args:
        length: Generated tokens, `</s>` included, `<s>` and any forced prefix excluded.
        alpha: Strength; 0 scores by log-probability alone, larger values favour longer output.
        offset: c of ((c + length) / (c + 1))^alpha; 0 is length^alpha, as other toolkits have it.

    Paper: section 6.1, through Wu et al. 2016, equation 14.
    """
    return ((offset + length) / (offset + 1)) ** alpha


def check_length_penalty(alpha: Any, offset: Any) -> None:
    """Raises ValueError for what cannot be exponent and offset of `gnmt_length_penalty`; None is neither."""
    if alpha is not None and not (isinstance(alpha, (int, float)) and -10 <= alpha <= 10):
        raise ValueError(
            f"`length_penalty` must be a finite number in [-10, 10], got {alpha!r}. The paper uses 0.6; below 0 long "
            "output is punished."
        )
    if offset is not None and not (isinstance(offset, (int, float)) and 0 <= offset < math.inf):
        raise ValueError(
            f"`length_penalty_offset` must be a finite number of at least 0, got {offset!r}. The paper's, which is "
            "GNMT's, is 5; 0 divides by length^alpha."
        )


def check_scores(has_nan: torch.Tensor | int) -> None:
    """Raises ValueError if the model gave scores that are no numbers: what follows would be no translation."""
    if has_nan:
        raise ValueError(
            "The model's scores must be numbers, got NaN. Its weights are broken, its states overflow, or a logits "
            "processor made them: go back to the last good checkpoint, or load it with dtype=torch.float32."
        )


class ForcedEndAtLimit(LogitsProcessor):
    """`forced_eos_token_id` (E,) at each sentence's own limit (B,); transformers' processor has one for all."""

    def __init__(self, limits: torch.Tensor, prompt_length: int, eos_token_id: torch.Tensor) -> None:
        self.limits, self.prompt_length, self.eos_token_id = limits, prompt_length, eos_token_id

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """(rows, V) scores, at the last place of a sentence 0 for the end and -inf for all else."""
        is_last = self.limits <= input_ids.shape[1] - self.prompt_length + 1
        forced = torch.full_like(scores, -torch.inf)
        forced[:, self.eos_token_id] = 0.0
        rows = is_last.repeat_interleave(scores.shape[0] // self.limits.shape[0])
        return torch.where(rows.unsqueeze(1), forced, scores)


def process(processor: LogitsProcessor, prefixes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Return (R, V) scores after a processor that knows the (R, L) prefixes; may change `scores` in place.

    On a CPU, processors that forbid some tokens write these columns alone, where transformers writes all scores.
    """
    kind = type(processor)
    length = prefixes.shape[1]
    own: Any = processor
    if kind is logits_process.MinLengthLogitsProcessor:
        is_active, forbidden = length < own.min_length, own.eos_token_id
    elif kind is logits_process.MinNewTokensLengthLogitsProcessor:
        is_active, forbidden = length < own.prompt_length_to_skip + own.min_new_tokens, own.eos_token_id
    elif kind is logits_process.SuppressTokensLogitsProcessor:
        is_active, forbidden = True, own.suppress_tokens
    elif kind is logits_process.SuppressTokensAtBeginLogitsProcessor:
        is_active, forbidden = length == own.begin_index, own.begin_suppress_tokens
    else:
        is_active, forbidden = False, None
    if forbidden is None or scores.device.type != "cpu":
        processed: torch.Tensor = own(prefixes, scores)
        return processed
    if is_active:
        is_token = (forbidden >= 0) & (forbidden < scores.shape[1])
        scores.index_fill_(1, forbidden[is_token], -torch.inf)
    return scores


# All that never lift a log-probability above 0, on which the stopping bound rests.
NEVER_POSITIVE = ROW_BY_ROW | {
    ForcedEndAtLimit,
    logits_process.EncoderNoRepeatNGramLogitsProcessor,
    logits_process.PrefixConstrainedLogitsProcessor,
}


@dataclass
class SearchRule:
    """Scores and stop of one call of beam search; travels through transformers' loop as its `length_penalty`."""

    alpha: float  # exponent of the length penalty
    offset: float  # its offset
    limits: torch.Tensor  # (B, 1) largest number of generated tokens of each sentence
    num_wanted: int  # hypotheses to return for each sentence
    is_bounded: bool  # whether no processor can lift a log-probability above 0
    # (B, N) scores of the best finished hypotheses, best first, -inf where there is none; for transformers' loop alone
    scores: torch.Tensor = field(init=False)

    def penalty(self, length: torch.Tensor | int) -> torch.Tensor | float:
        """Divisor of the log-probability of a hypothesis of `length` generated tokens."""
        return gnmt_length_penalty(length, self.alpha, self.offset)

    def can_improve(self, running: torch.Tensor, finished: torch.Tensor, length: int) -> torch.Tensor:
        """(B, 1) True where a running hypothesis might still beat the `num_wanted`-th best finished one.

        `running` (B, N) are log-probabilities of `length` tokens, `finished` (B, N) are scores, both best first. If a
        processor may lift scores, no bound is sure. The search then stops as in transformers, by the N-th best.
        """
        num_compared = self.num_wanted if self.is_bounded else finished.shape[1]
        best_running, worst_wanted = running[:, :1], finished[:, num_compared - 1 : num_compared]
        is_running = best_running > NO_HYPOTHESIS
        # Log-probabilities only fall. Under alpha >= 0 the best that can come is the same one at the limit; under
        # alpha < 0 length is punished, and the best is the shortest.
        best_length = self.limits.to(running.dtype) if self.alpha >= 0 else length + 1
        return is_running & (best_running / self.penalty(best_length) > worst_wanted)
