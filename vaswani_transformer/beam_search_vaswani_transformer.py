# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Beam search and greedy search with `IncrementalDecoder`, and the rules of section 6.1.

The rules are the length penalty, the limits and the rule that stops a search.

The searches give the same results as the loops of transformers, and copy less. A sentence leaves
the batch once its result is final. Each step stores only the newest tokens and their parent beams.
At the end, the hypotheses are read back from what the steps have stored.

Shapes: B = sentences of the batch, A = sentences that are still searched, N = beams,
R = A * N rows, C = candidates of a step, n = hypotheses to return for each sentence, P = length of
the prompt, L = tokens so far, T = steps, V = vocabulary, E = end tokens.
"""

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import logits_process
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.utils import logging

from .incremental_decoder_vaswani_transformer import IncrementalDecoder, is_plain

logger = logging.get_logger(__name__)

# As in transformers, -1e9 is added to the log-probability of a beam that must not continue. Real
# log-probabilities are far higher. So a log-probability below NO_HYPOTHESIS means that there is no
# hypothesis.
_EXCLUDED = -1.0e9
NO_HYPOTHESIS = -1.0e8

PAPER_BEAMS = 4  # beam size in section 6.1
PAPER_ALPHA = 0.6  # exponent of the length penalty in section 6.1
PAPER_OVER_SOURCE = 50  # section 6.1: an output has at most this many tokens more than its source
GNMT_OFFSET = 5  # offset of the length penalty in Wu et al. 2016

# Processors whose result for a row depends neither on the other rows nor on the row's index. They
# also never raise a log-probability above 0.
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

_BLOCK = 64  # tokens per block in `top_k`
_FEW_SCORES = 2**17  # below this size a plain top-k is faster
# On an accelerator, looking at a step's results is a sync. So the loop looks at the results only
# every few steps.
_STEPS_BETWEEN_LOOKS = 8
# Finished sentences are dropped when at most this share of the batch is still open. Dropping
# them costs a copy of the open sentences, and on a GPU also the capture of a new graph.
_WORTH_DROPPING = 0.75
_WORTH_DROPPING_ON_ACCELERATOR = 0.25
_CAPTURING = threading.Lock()  # torch captures one graph at a time
_OF_THREAD = threading.local()  # `captured`: stream and newest graph of each device
_CACHES = {"cache", "past_key_values"}  # names of the cache: since transformers 5.24, and before
# Arguments of transformers' loops that the searches of this file support.
_ARGUMENTS = {
    "attention_mask",
    "encoder_outputs",
    "inputs_embeds",
    "logits_to_keep",
    "use_cache",
    *_CACHES,
}


# ---- rules of section 6.1 ----


def gnmt_length_penalty(
    length: torch.Tensor | int, alpha: float, offset: float = GNMT_OFFSET
) -> torch.Tensor | float:
    """Return the GNMT length penalty ((5 + length) / 6)^alpha.

    The score of a hypothesis is its log-probability divided by this penalty.

    Args:
        length: Number of generated tokens, `</s>` included, `<s>` and any forced prefix excluded.
        alpha: Exponent. With 0 the score is the log-probability. Larger values favor longer output.
        offset: The constant c in ((c + length) / (c + 1))^alpha. 0 gives length^alpha, as in
            fairseq and transformers.

    Paper: section 6.1, through Wu et al. 2016, equation 14.
    """
    return ((offset + length) / (offset + 1)) ** alpha


def check_length_penalty(alpha: Any, offset: Any) -> None:
    """Raise ValueError if `gnmt_length_penalty` cannot use this exponent or offset.

    None, which stands for a default, is accepted.
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
    """Raise ValueError if `max_new_tokens_over_source` is neither a number of tokens nor None."""
    if over_source is not None and (type(over_source) is not int or over_source < 0):
        raise ValueError(
            "`max_new_tokens_over_source` must be a whole number of at least 0 or None, got "
            f"{over_source!r}. The paper's is 50; None leaves the length to `max_length`."
        )


def check_scores(has_nan: torch.Tensor | int) -> None:
    """Raise ValueError if the model gave NaN scores, because NaN cannot be ranked."""
    if has_nan:
        raise ValueError(
            "The model's scores must be numbers, got NaN. Its weights are broken, its states "
            "overflow, or a logits processor gave NaN. Go back to the last good checkpoint, or "
            "load it with dtype=torch.float32."
        )


def process(
    processor: LogitsProcessor, prefixes: torch.Tensor, scores: torch.Tensor
) -> torch.Tensor:
    """Apply a processor to the (R, V) scores and (R, L) prefixes, and return the new scores.

    On a CPU, processors that only forbid tokens are not called, because they would copy all scores.
    Instead the columns of the forbidden tokens are set to -inf, in place.
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


# Processors that never raise a log-probability above 0. With other processors, the score of a
# running hypothesis has no upper bound; see `SearchRule.can_improve`.
NEVER_POSITIVE = ROW_BY_ROW | {
    logits_process.EncoderNoRepeatNGramLogitsProcessor,
    logits_process.PrefixConstrainedLogitsProcessor,
}


@dataclass
class SearchRule:
    """Scoring and stopping rule of one beam search.

    If the beam search of transformers runs instead of `BeamSearch`, it receives this object as its
    `length_penalty`.
    """

    alpha: float  # exponent of the length penalty
    offset: float  # offset of the length penalty
    limits: torch.Tensor  # (B, 1) maximum number of generated tokens of each sentence
    num_wanted: int  # hypotheses to return for each sentence
    is_bounded: bool  # True if no processor can raise a log-probability above 0
    # (B, N) scores of finished hypotheses, best first, -inf if there is none. They are set
    # only in transformers' loop.
    scores: torch.Tensor = field(init=False)

    def penalty(self, length: torch.Tensor | int) -> torch.Tensor | float:
        """Return the divisor of the log-probability of a hypothesis of `length` tokens."""
        return gnmt_length_penalty(length, self.alpha, self.offset)

    def can_improve(
        self, running: torch.Tensor, finished: torch.Tensor, length: torch.Tensor | int
    ) -> torch.Tensor:
        """Return a (B, 1) mask: True if a running hypothesis might still enter the results.

        The bound of a running hypothesis is the best score that it can reach if no processor raises
        log-probabilities. The best bound must beat the `num_wanted`-th best finished hypothesis.
        But if a processor may raise log-probabilities, a hypothesis may exceed its bound. In this
        case, the best bound must beat only the N-th best finished hypothesis, as in transformers.

        Args:
            running: (B, N) log-probabilities of running hypotheses, best first.
            finished: (B, N) scores of finished hypotheses, best first.
            length: Number of generated tokens of the running hypotheses.
        """
        rank = self.num_wanted if self.is_bounded else finished.shape[1]
        worst_wanted = finished[:, rank - 1 : rank]
        best_running = running[:, :1]
        is_running = best_running > NO_HYPOTHESIS
        # Log-probabilities are at most 0 and fall with every token. So the bound is the present
        # log-probability divided by the largest penalty that is still to come. This is the penalty
        # at the limit, or, with alpha < 0, the penalty after one more token.
        best_length: torch.Tensor | int
        if self.alpha >= 0:
            best_length = self.limits.to(running.dtype)
        else:
            best_length = length + 1
        return is_running & (best_running / self.penalty(best_length) > worst_wanted)


# ---- the searches ----


def can_search(
    model: Any,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    arguments: dict[str, Any],
) -> bool:
    """Return True if the searches in this file can replace a given call of transformers' search.

    If they can, they give the same results as transformers' search.

    Args:
        model: The model.
        stopping_criteria: Stopping criteria of the call.
        generation_config: Generation config of the call.
        arguments: Further arguments of transformers' search.
    """
    config = generation_config
    returns_scores = config.output_scores or config.output_logits
    returns_states = config.output_attentions or config.output_hidden_states
    if config.do_sample or config.low_memory or returns_scores or returns_states:
        return False
    if config.cache_implementation is not None:
        return False
    if any(getattr(arguments.get(name), "_is_user_defined", False) for name in _CACHES):
        return False

    given = {name for name, value in arguments.items() if value is not None}
    # The searches do not support `synced_gpus=True`, and they always use a cache. So the condition
    # below leaves a call to transformers if `synced_gpus` is given or `use_cache` is not given. For
    # both arguments, False counts as not given.
    given -= {name for name in ("synced_gpus", "use_cache") if arguments.get(name) is False}
    if not {"encoder_outputs", "use_cache"} <= given <= _ARGUMENTS:
        return False
    return all(_is_known(each, config) for each in stopping_criteria) and is_plain(model)


def _is_known(criterion: StoppingCriteria, generation_config: GenerationConfig) -> bool:
    """Return True if `criterion` never stops a hypothesis that `Search` would continue."""
    if type(criterion) is MaxLengthCriteria:
        return bool(criterion.max_length >= generation_config.max_length)
    ends = generation_config._eos_token_tensor
    if type(criterion) is not EosTokenCriteria or ends is None:
        return False
    # A criterion made by the caller may keep its ids on the CPU.
    return torch.equal(criterion.eos_token_id.to(ends.device), ends)


@dataclass
class SearchTask:
    """Arguments and decoder state of one call of `generate`."""

    decoder: IncrementalDecoder
    prompt: torch.Tensor  # (B, P) `<s>` and, if there is one, a forced prefix
    limits: torch.Tensor  # (B,) maximum number of generated tokens of each sentence
    ends: torch.Tensor  # (E,) tokens that end a hypothesis
    processors: LogitsProcessorList
    has_nan: torch.Tensor  # () True once the model has given NaN scores

    @classmethod
    def of(
        cls,
        model: Any,
        input_ids: torch.Tensor,
        limits: torch.Tensor,
        processors: LogitsProcessorList,
        generation_config: GenerationConfig,
        arguments: dict[str, Any],
    ) -> "SearchTask":
        """Make a task from the arguments of transformers' search.

        The task's decoder has already read the prompt, except for the last token.

        Args:
            model: A model for which `can_search` is true.
            input_ids: (B * N, P) prompts, repeated for the beams of each sentence.
            limits: (B,) maximum number of generated tokens of each sentence.
            processors: Logits processors.
            generation_config: Its `num_beams` is N.
            arguments: Further arguments of transformers' search, for B * N rows.
        """
        num_beams = generation_config.num_beams
        prompt = input_ids[::num_beams]
        encoded = arguments["encoder_outputs"][0][::num_beams]
        mask = arguments.get("attention_mask")
        if mask is not None:
            mask = mask[::num_beams]
        decoder = IncrementalDecoder(model, encoded, mask, num_beams)
        decoder.read(prompt[:, :-1])

        ends = generation_config._eos_token_tensor
        if ends is None:
            ends = limits.new_empty(0)
        has_nan = limits.new_zeros((), dtype=torch.bool)
        return cls(decoder, prompt, limits, ends, processors, has_nan)

    @property
    def is_row_by_row(self) -> bool:
        """Return True if every processor treats each row by itself.

        Finished sentences can be dropped from the batch only if this property is true.
        """
        return all(type(each) in ROW_BY_ROW for each in self.processors)

    def processed(
        self, parts: Iterable[torch.Tensor], prefixes: torch.Tensor
    ) -> Iterable[torch.Tensor]:
        """Apply the processors to consecutive parts of the rows, and yield the new scores (.., V).

        If `is_row_by_row` is true, each part is processed by itself. Otherwise the processors get
        all rows at once, in normal tensors instead of inference tensors, because a processor may
        keep these tensors for later calls.

        Args:
            parts: Scores (.., V) of consecutive parts of the R rows.
            prefixes: (R, L) tokens of all rows so far.
        """
        if not self.processors:
            yield from parts
        elif self.is_row_by_row:
            start = 0
            for part in parts:
                own_prefixes = prefixes[start : start + len(part)]
                start += len(part)
                for processor in self.processors:
                    part = process(processor, own_prefixes, part)
                yield part
        else:
            copies = [part.clone() for part in parts]
            for part in copies:
                self.note(part.amax(dim=1))
            with torch.inference_mode(False), torch.no_grad():
                ids: Any = prefixes.clone()  # transformers declares torch.LongTensor
                scores = torch.cat(copies)
                result = self.processors(ids, scores)
            yield result.to(scores.dtype)

    def note(self, scores: torch.Tensor) -> None:
        """Set `has_nan` if one of the scores is NaN."""
        self.has_nan |= scores.isnan().any()

    def ended(
        self, tokens: torch.Tensor, limits: torch.Tensor, length: torch.Tensor | int
    ) -> torch.Tensor:
        """Return an (A, C) mask: True for hypotheses that end with their newest token.

        Args:
            tokens: (A, C) newest tokens.
            limits: (A, 1) maximum number of generated tokens.
            length: Number of generated tokens, the newest included; broadcastable to (A, C).
        """
        is_end_token = (tokens.unsqueeze(-1) == self.ends).any(dim=-1)
        return is_end_token | (limits <= length)


class Candidates(NamedTuple):
    """The candidates of a step: hypotheses with one more token, best first."""

    scores: torch.Tensor  # (A, C) log-probabilities of the hypotheses
    tokens: torch.Tensor  # (A, C) their newest tokens
    parents: torch.Tensor  # (A, C) beams that these tokens continue


class Search:
    """Base of both searches: a loop of steps.

    On an accelerator, steps write in place and never sync, so that they can be captured as CUDA
    graphs. The loop looks at their results every few steps.
    """

    def __init__(self, task: SearchTask, num_beams: int) -> None:
        limits = task.limits
        num_sentences = len(limits)
        self._task = task
        self._num_steps = int(limits.max())
        # For each of the A sentences still searched: its index in the batch (A,), whether its
        # result can still change (A,), and its limit (A, 1).
        self._sentences = torch.arange(num_sentences, device=limits.device)
        self._is_open = torch.ones_like(self._sentences, dtype=torch.bool)
        self._limits = limits.unsqueeze(1)
        # (A, 2, N) the newest token of each beam and the beam that this token continues. `_tokens`
        # (A, N) and `_parents` (A, N) are views of `_newest`.
        tokens = task.prompt[:, -1:].expand(-1, num_beams)
        self._newest = torch.stack((tokens, task.decoder.beams.expand_as(tokens)), dim=1)
        self._tokens, self._parents = self._newest.unbind(1)
        # (A, N, L) all tokens before the newest; updated only if there are processors.
        self._prefixes = task.prompt[:, :-1].unsqueeze(1).expand(-1, num_beams, -1)
        # (T, B, 2, N) `_newest` of every step. Hypotheses are read back from this tensor.
        self._history = limits.new_empty(self._num_steps, num_sentences, 2, num_beams)
        # Index of the current step in `_history`. On an accelerator it is a (1,) tensor, because in
        # a CUDA graph a Python number would keep its value from the capture.
        #
        # The decoder has two more counters, `decoder._position` and `decoder.length`. They also
        # count the prompt, while `_step_index` starts at 0. A step increments `_step_index` (in
        # `_advance`) and `decoder._position` (in `decoder.step`), so a replayed graph increments
        # these two. `decoder.length` is a Python number that no code inside a graph reads. `_run`
        # increments `decoder.length` after each step.
        self._step_index: torch.Tensor | int = 0
        if task.decoder.is_static:
            self._step_index = limits.new_zeros(1)

    @property
    def _length(self) -> torch.Tensor | int:
        """Return the number of generated tokens after the current step.

        On an accelerator the number is a () tensor in float64, so that penalties are as precise as
        with a Python number.
        """
        if isinstance(self._step_index, int):
            return self._step_index + 1
        return self._step_index.double().squeeze(0) + 1

    def _step(self) -> None:
        raise NotImplementedError

    def _advance(self) -> None:
        """Run one step and store its tokens and parents in `_history`."""
        self._step()
        self._history[self._step_index, self._sentences] = self._newest
        self._step_index += 1

    def _run(self) -> None:
        """Search until all results are final.

        On a GPU, if steps can be captured and there are no logits processors, the steps use a CUDA
        graph. The first step after a change of shapes runs without a graph, and loads the kernels.
        The second step is captured as a graph. This graph is replayed for the second step and all
        later steps, until the shapes change again.
        """
        decoder = self._task.decoder
        uses_graphs = can_capture(decoder.device) and not self._task.processors
        worth_dropping = _WORTH_DROPPING
        if decoder.is_static:
            worth_dropping = _WORTH_DROPPING_ON_ACCELERATOR

        advance = self._advance
        num_alike = 0  # steps since the shapes last changed
        for step in range(1, self._num_steps + 1):
            if decoder.make_room():
                advance = self._advance
                num_alike = 0
            if uses_graphs and num_alike == 1:
                advance = capture(self._advance, decoder.device)
            advance()
            num_alike += 1
            decoder.length += 1

            is_look_due = step % _STEPS_BETWEEN_LOOKS == 0 or step == self._num_steps
            # If the decoder has no room for another token, always check whether the search is
            # finished, because a further step would raise an error.
            if decoder.is_static and decoder.has_room and not is_look_due:
                continue
            check_scores(self._task.has_nan)
            num_open = int(self._is_open.sum())
            if num_open == 0:
                break
            is_worthwhile = num_open <= worth_dropping * len(self._is_open)
            if is_worthwhile and self._task.is_row_by_row:
                self._keep(self._is_open.nonzero().squeeze(1))
                advance = self._advance
                num_alike = 0

    def _keep(self, kept: torch.Tensor) -> None:
        """Keep only the sentences with these indices (A,). The results of the others are final."""
        self._task.decoder.keep(kept)
        self._sentences = self._sentences[kept]
        self._is_open = self._is_open[kept]
        self._limits = self._limits[kept]
        self._newest = self._newest[kept]
        self._tokens, self._parents = self._newest.unbind(1)
        self._prefixes = self._prefixes[kept]

    def _processed(self, parts: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
        """Yield the processed scores (.., V) of the next tokens.

        If there are logits processors, this method first updates the prefixes, and then applies the
        processors to the scores.

        Args:
            parts: Scores (.., V) of consecutive parts of the R rows.
        """
        if self._task.processors:
            parents = self._parents.unsqueeze(-1).expand(-1, -1, self._prefixes.shape[2])
            prefixes = self._prefixes.gather(1, parents)
            self._prefixes = torch.cat((prefixes, self._tokens.unsqueeze(-1)), dim=-1)
        return self._task.processed(parts, self._prefixes.flatten(0, 1))


class BeamSearch(Search):
    """Section 6.1's beam search.

    The results are those of transformers' loop with the same rule.

    Args:
        task: Arguments and decoder state.
        rule: Scoring and stopping rule.
        num_beams: Number of beams N.
        is_early: Whether the search of a sentence ends when it has N finished hypotheses.
    """

    def __init__(self, task: SearchTask, rule: SearchRule, num_beams: int, is_early: bool) -> None:
        super().__init__(task, num_beams)
        self._rule = rule
        self._num_beams = num_beams
        self._is_early = is_early
        # There are N * max(2, E + 1) candidates, as in transformers. At most N * E of them end with
        # one of the E end tokens. So at least N candidates without an end token remain.
        self._num_candidates = max(2, 1 + len(task.ends)) * num_beams
        shape = len(task.limits), num_beams
        # Finished hypotheses, best first. `_scores` (B, N) has their scores, and -inf for each
        # hypothesis that is missing. `_endings` (B, N, 3) has, for each hypothesis, its length, its
        # last token and the beam that this token continues.
        self._scores = task.limits.new_full(shape, -torch.inf, dtype=task.decoder.dtype)
        self._endings = task.limits.new_zeros(*shape, 3)
        # (A, N) log-probabilities of running hypotheses. All beams begin with the same prompt, so
        # the first step continues only the first of them.
        self._running = torch.zeros_like(self._scores)
        self._running[:, 1:] = _EXCLUDED

    def run(self, padding: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Run the search, and return the n best hypotheses of each sentence.

        Args:
            padding: Id that fills the positions after the end of a hypothesis.

        Returns:
            Three tensors. The first has the prompts with the hypotheses (B * n, P + T). The second
            has the `beam_indices` of transformers (B * n, T): for each token, the number of the
            beam that the token continues, and -1 after the end. The beams of all sentences are
            numbered together, from 0 to B * N - 1. The third has the scores (B * n,), -inf if there
            is no hypothesis.
        """
        self._run()
        num_wanted = self._rule.num_wanted
        scores = self._scores[:, :num_wanted]
        lengths, last_tokens, last_parents = self._endings[:, :num_wanted].unbind(-1)
        lengths = lengths.masked_fill(scores == -torch.inf, 0)
        tokens, beams = self._read_back(lengths, last_tokens, last_parents)  # (B, n, T)

        sentences = torch.arange(len(scores), device=scores.device)
        first_rows = sentences.view(-1, 1, 1) * self._num_beams
        rows = torch.where(beams == -1, -1, beams + first_rows).int()
        prompt = self._task.prompt.unsqueeze(1).expand(-1, num_wanted, -1)
        tokens = tokens.masked_fill(tokens == -1, padding)
        sequences = torch.cat((prompt, tokens), dim=2)
        return sequences.flatten(0, 1), rows.flatten(0, 1), scores.flatten()

    def _read_back(
        self, lengths: torch.Tensor, last_tokens: torch.Tensor, last_parents: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read hypotheses back from `_history`, from the last token to the first.

        For example, two steps with two beams have stored these tokens and parents:

            step 0: beam 0 = (a, parent 0), beam 1 = (b, parent 0)
            step 1: beam 0 = (c, parent 1), beam 1 = (d, parent 0)

        A hypothesis of length 3 has the last token `</s>` and the last parent 0. Beam 0 of step 1
        gives its second token, c, and the parent 1. Beam 1 of step 0 gives its first token, b, and
        the parent 0. So the tokens are b, c, `</s>`, and the beams that they continue are 0, 1, 0.

        Args:
            lengths: (B, n) number of tokens of each hypothesis, 0 if there is none.
            last_tokens: (B, n) last token of each hypothesis.
            last_parents: (B, n) beam that the last token continues.

        Returns:
            The tokens (B, n, T) and the beams that they continue (B, n, T), both -1 after the end.
        """
        longest = int(lengths.max())
        sequences = lengths.new_full((*lengths.shape, longest), -1)
        beams = sequences.clone()
        token = last_tokens
        beam = last_parents
        for length in range(longest, 0, -1):
            if length < longest:
                # For hypotheses with more than `length` tokens, look up the token of `beam` in
                # `_history[length - 1]`, and the beam that this token continues. For hypotheses
                # with exactly `length` tokens, begin with their last token.
                is_inside = lengths > length
                tokens, parents = self._history[length - 1].unbind(1)
                token = torch.where(is_inside, tokens.gather(1, beam), last_tokens)
                beam = torch.where(is_inside, parents.gather(1, beam), last_parents)
            has_token = lengths >= length
            sequences[..., length - 1] = torch.where(has_token, token, -1)
            beams[..., length - 1] = torch.where(has_token, beam, -1)
        return sequences, beams

    def _step(self) -> None:
        """Finish the candidates that end, and continue with the best N of the others.

        A sentence stays open while its running hypotheses can still change its result.
        """
        candidates = self._continuations()
        length = self._length
        is_end = self._task.ended(candidates.tokens, self._limits, length)
        self._finish(candidates, is_end, length)

        scores = torch.where(is_end, candidates.scores + _EXCLUDED, candidates.scores)
        scores, order = scores.topk(self._num_beams)
        self._running.copy_(scores)
        torch.gather(candidates.tokens, 1, order, out=self._tokens)
        torch.gather(candidates.parents, 1, order, out=self._parents)

        finished = self._scores[self._sentences]
        self._is_open &= self._rule.can_improve(scores, finished, length).squeeze(1)
        if self._is_early:
            self._is_open &= (finished == -torch.inf).any(dim=1)

    def _continuations(self) -> Candidates:
        """Run the decoder on the newest tokens, and return their best continuations."""
        decoder = self._task.decoder
        states = decoder.step(self._tokens, self._parents)
        row_scores = []
        row_tokens = []
        for part in self._processed(decoder.log_probabilities(states)):
            best_scores, best_tokens = top_k(part, self._num_candidates)
            row_scores.append(best_scores)
            row_tokens.append(best_tokens)
        scores = torch.cat(row_scores)  # (R, k)
        tokens = torch.cat(row_tokens)
        self._task.note(scores)

        num_sentences = len(self._sentences)
        width = scores.shape[1]
        scores = scores.view(num_sentences, -1, width) + self._running.unsqueeze(-1)
        scores, order = scores.flatten(1).topk(self._num_candidates)
        tokens = tokens.view(num_sentences, -1).gather(1, order)
        return Candidates(scores, tokens, parents=order // width)

    def _finish(
        self, candidates: Candidates, is_end: torch.Tensor, length: torch.Tensor | int
    ) -> None:
        """Add ended candidates to the finished hypotheses, and keep the N best finished ones.

        Only candidates among the best N of the step may be added, as in transformers.
        """
        exists = candidates.scores > NO_HYPOTHESIS
        can_end = is_end & exists & self._is_open.unsqueeze(1)
        can_end[:, self._num_beams :] = False
        # This shortcut is for CPUs. On an accelerator, `any` would be a sync.
        if not self._task.decoder.is_static and not can_end.any():
            return

        new_scores = candidates.scores / self._rule.penalty(length)
        new_scores = torch.where(can_end, new_scores, -torch.inf)
        scores = torch.cat((self._scores[self._sentences], new_scores), dim=1)
        scores, order = scores.topk(self._num_beams)
        self._scores[self._sentences] = scores

        # Unlike `length`, which is in float64 on an accelerator, these are integers.
        lengths = torch.zeros_like(candidates.tokens) + self._step_index + 1
        new_endings = torch.stack((lengths, candidates.tokens, candidates.parents), dim=-1)
        endings = torch.cat((self._endings[self._sentences], new_endings), dim=1)
        order = order.unsqueeze(-1).expand(-1, -1, 3)
        self._endings[self._sentences] = endings.gather(1, order)

    def _keep(self, kept: torch.Tensor) -> None:
        super()._keep(kept)
        self._running = self._running[kept]
        self._rule = replace(self._rule, limits=self._limits)


class GreedySearch(Search):
    """Greedy search: the best token at every step.

    Args:
        task: Arguments and decoder state.
        padding: Id that fills the positions after the end of a sentence.
    """

    def __init__(self, task: SearchTask, padding: int) -> None:
        super().__init__(task, num_beams=1)
        self._padding = padding

    def run(self) -> torch.Tensor:
        """Run the search, and return the prompts with the generated tokens (B, P + T)."""
        self._run()
        tokens = self._history[:, :, 0, 0].T  # (B, T)
        limits = self._task.limits.unsqueeze(1)
        lengths = torch.arange(1, self._num_steps + 1, device=limits.device)
        is_end = self._task.ended(tokens, limits, lengths)
        is_after_end = is_end.cumsum(dim=1) > is_end
        longest = int((~is_after_end).sum(dim=1).max())
        tokens = tokens.masked_fill(is_after_end, self._padding)[:, :longest]
        return torch.cat((self._task.prompt, tokens), dim=1)

    def _step(self) -> None:
        decoder = self._task.decoder
        logits = decoder.logits(decoder.step(self._tokens))
        best = [part.max(dim=1, keepdim=True) for part in self._processed(logits)]
        self._task.note(torch.cat([part.values for part in best]))
        tokens = torch.cat([part.indices for part in best])
        tokens.masked_fill_(~self._is_open.unsqueeze(1), self._padding)
        self._tokens.copy_(tokens)
        self._is_open &= ~self._task.ended(tokens, self._limits, self._length).squeeze(1)


def can_capture(device: torch.device) -> bool:
    """Return True if steps on this device can be captured as CUDA graphs.

    Deterministic operators of PyTorch may wait for the GPU, which breaks a capture.
    """
    return device.type == "cuda" and not torch.are_deterministic_algorithms_enabled()


def capture(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Capture a step as a CUDA graph, and return a function that replays the graph.

    A replay costs one launch. The capture does not run the step. If the capture fails, `step`
    itself is returned. A thread uses one graph at a time, so all graphs of a thread on one
    device share one memory pool. The pool exists only while at least one of its graphs exists.
    So a reference to the most recently captured graph is kept.
    """
    captured = _OF_THREAD.__dict__.setdefault("captured", {})
    with _CAPTURING, torch.cuda.device(device):
        current = torch.cuda.current_stream()
        graph = torch.cuda.CUDAGraph()
        stream, last_graph = captured.pop(device, (None, None))
        try:
            if last_graph is None:
                stream = torch.cuda.Stream()
                pool = None
                # A capture cannot use the memory that torch has cached. After a failed capture,
                # torch 2.11 may raise an error here.
                torch.cuda.empty_cache()
            else:
                pool = last_graph.pool()
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                graph.capture_begin(pool, capture_error_mode="thread_local")
                try:
                    step()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            logger.warning_once(
                f"torch cannot capture the search's steps, so it launches each kernel: {error}"
            )
            return step
        current.wait_stream(stream)
        captured[device] = stream, graph
    return graph.replay


def top_k(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `k` best scores of each row of (R, V) and their indices, best first.

    If V is smaller than `k`, all scores are returned. Large inputs are searched in two steps: first
    for the `k` blocks of tokens with the largest maxima, then for the best scores in these blocks.
    On a CPU, these two steps are twice as fast as one search over all scores.
    """
    num_rows, num_tokens = scores.shape
    num_blocks = num_tokens // _BLOCK
    if num_blocks < 2 * k or scores.numel() < _FEW_SCORES:
        return scores.topk(min(k, num_tokens))

    end = num_blocks * _BLOCK
    maxima = scores[:, :end].unflatten(1, (num_blocks, _BLOCK)).amax(dim=2)
    blocks = maxima.topk(k).indices.unsqueeze(2)  # (R, k, 1)
    inside = torch.arange(_BLOCK, device=scores.device)
    in_blocks = (blocks * _BLOCK + inside).flatten(1)
    after_blocks = torch.arange(end, num_tokens, device=scores.device).expand(num_rows, -1)
    indices = torch.cat((in_blocks, after_blocks), dim=1)
    best, order = scores.gather(1, indices).topk(k)
    return best, indices.gather(1, order)
