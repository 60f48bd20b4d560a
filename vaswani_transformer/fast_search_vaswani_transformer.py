# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Beam search and greedy search over `DecoderSession`: the results of transformers' loops, without their copies.

Sentences leave the batch once nothing can change their result. Hypotheses are kept as tokens and parents, and read
back at the end. What is returned are tensors of inference mode: clone them.

Shapes: B sentences of the batch, A of them still searched, N beams, C candidates of a step, V vocabulary.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from transformers.generation.logits_process import (
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    SuppressTokensLogitsProcessor,
)
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria

from .decoder_session_vaswani_transformer import DecoderSession, is_plain
from .search_vaswani_transformer import NO_HYPOTHESIS, ROW_BY_ROW, SearchRule, check_scores

_BLOCK = 200  # tokens of which only the best is looked at first
_FEW_SCORES = 2**17  # which are not worth the search of blocks
_WORTH_DROPPING = 0.75  # the rest of a batch is copied when at most this share of it is still searched
_ARGUMENTS = {"attention_mask", "encoder_outputs", "inputs_embeds", "logits_to_keep", "past_key_values", "use_cache"}


def can_search(
    model: Any, stopping_criteria: StoppingCriteriaList, generation_config: GenerationConfig, arguments: dict[str, Any]
) -> bool:
    """True if the searches here give what transformers' would with these arguments."""
    config, given = generation_config, {name for name, value in arguments.items() if value is not None}
    given -= {name for name in ("synced_gpus", "use_cache") if arguments.get(name) is False}
    return (
        not config.do_sample
        and not (config.output_scores or config.output_logits)
        and not (config.output_attentions or config.output_hidden_states)
        and config.cache_implementation is None
        and config.prefill_chunk_size is None
        and not config.low_memory
        and {"encoder_outputs", "use_cache"} <= given <= _ARGUMENTS
        and not getattr(arguments.get("past_key_values"), "_is_user_defined", False)
        and all(_is_known(criterion, config) for criterion in stopping_criteria)
        and is_plain(model)
    )


def _is_known(criterion: StoppingCriteria, generation_config: GenerationConfig) -> bool:
    """True if a search here ends by itself where `criterion` would end it."""
    if type(criterion) is MaxLengthCriteria:
        return bool(criterion.max_length >= generation_config.max_length)
    ends = generation_config._eos_token_tensor
    return type(criterion) is EosTokenCriteria and ends is not None and torch.equal(criterion.eos_token_id, ends)


class ForbiddenTokens(LogitsProcessor):
    """Some processors of transformers, in place: they forbid the same tokens everywhere, and copy all scores."""

    def __init__(self, tokens: torch.Tensor, until: float) -> None:
        self.tokens, self.until = tokens, until

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """(rows, V) scores, -inf for the tokens while prefixes are shorter than `until`."""
        if input_ids.shape[1] < self.until:
            scores[:, self.tokens] = -torch.inf
        return scores

    @classmethod
    def instead_of(cls, processor: LogitsProcessor, vocab_size: int) -> LogitsProcessor:
        """A processor that does the same in place; `processor` itself, if it does something else."""
        until: float
        if type(processor) is MinLengthLogitsProcessor:
            tokens, until = processor.eos_token_id, processor.min_length
        elif type(processor) is MinNewTokensLengthLogitsProcessor:
            tokens, until = processor.eos_token_id, processor.prompt_length_to_skip + processor.min_new_tokens
        elif type(processor) is SuppressTokensLogitsProcessor:
            tokens, until = processor.suppress_tokens, math.inf
        else:
            return processor
        return cls(tokens[(tokens >= 0) & (tokens < vocab_size)], until)


@dataclass
class SearchTask:
    """The search of one call of `generate`."""

    session: DecoderSession
    prompt: torch.Tensor  # (B, P) `<s>` and a forced prefix
    limits: torch.Tensor  # (B,) largest number of generated tokens of each sentence
    ends: torch.Tensor  # (E,) tokens that end a hypothesis
    processors: LogitsProcessorList

    @classmethod
    @torch.inference_mode()
    def of(
        cls,
        model: Any,
        input_ids: torch.Tensor,
        limits: torch.Tensor,
        processors: LogitsProcessorList,
        generation_config: GenerationConfig,
        arguments: dict[str, Any],
    ) -> "SearchTask":
        """From the arguments of transformers' search, whose rows, as of the prompts (B * N, P), are B * N."""
        beams, ends = generation_config.num_beams, generation_config._eos_token_tensor
        mask = arguments.get("attention_mask")
        encoded, prompt = arguments["encoder_outputs"][0], input_ids[::beams]
        session = DecoderSession(model, encoded[::beams], None if mask is None else mask[::beams], beams)
        for position in range(prompt.shape[1] - 1):
            session.step(prompt[:, position : position + 1].expand(-1, beams))
        processors = LogitsProcessorList(
            ForbiddenTokens.instead_of(each, model.config.vocab_size) for each in processors
        )
        return cls(session, prompt, limits, limits.new_empty(0) if ends is None else ends, processors)

    @property
    def is_row_by_row(self) -> bool:
        """True if the processors may see some rows of the batch without the others."""
        return all(type(each) in {ForbiddenTokens, *ROW_BY_ROW} for each in self.processors)

    def processed(self, parts: Iterable[torch.Tensor], prefixes: torch.Tensor) -> Iterable[torch.Tensor]:
        """Processed scores (.., V), which come a part of the rows at a time; prefixes are (R, L).

        Processors that are not known to treat each row by itself get all rows at once, in memory of their own and
        outside inference mode: they may keep what they see.
        """
        if not self.processors:
            yield from parts
        elif self.is_row_by_row:
            start = 0
            for part in parts:
                yield self.processors(prefixes[start : start + len(part)], part)  # type: ignore[arg-type]  # LongTensor there
                start += len(part)
        else:
            copies = [part.clone() for part in parts]
            with torch.inference_mode(False), torch.no_grad():
                whole = torch.cat(copies) if len(copies) > 1 else copies[0].clone()
                check_scores(whole.amax(dim=1))
                result = self.processors(prefixes.clone(), whole)  # type: ignore[arg-type]  # LongTensor there
            yield result.to(whole.dtype)

    def ended(self, tokens: torch.Tensor, limits: torch.Tensor, length: int) -> torch.Tensor:
        """(A, C) True where a hypothesis ends with the token (A, C) as its `length`-th, under limits (A, 1)."""
        return torch.isin(tokens, self.ends) | (limits <= length)


class Hypotheses:
    """Tokens and parents of all running beams, from which any hypothesis can be read back."""

    def __init__(self, num_sentences: int, num_beams: int) -> None:
        self._shape = num_sentences, num_beams
        self._steps: list[tuple[torch.Tensor, torch.Tensor]] = []  # tokens and parents (B, N) of each length

    def add(self, sentences: torch.Tensor, tokens: torch.Tensor, parents: torch.Tensor) -> None:
        """The next tokens (A, N) of these sentences (A,), and the beams that they continue."""
        if len(sentences) < self._shape[0]:
            places = sentences.unsqueeze(1).expand(-1, self._shape[1])
            tokens, parents = (tokens.new_zeros(self._shape).scatter(0, places, each) for each in (tokens, parents))
        self._steps.append((tokens, parents))

    def read(self, lengths: torch.Tensor, last: torch.Tensor, parents: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(B, n, T) tokens of hypotheses and the beam that each token continues; -1 behind their ends.

        Takes of each hypothesis (B, n) its length, 0 if there is none, its last token and the beam that it continues.
        """
        longest = int(lengths.max())
        sequences = torch.full((*lengths.shape, longest), -1)
        beams = sequences.clone()
        token, beam = last, parents
        for length in range(longest, 0, -1):
            is_last, is_inside = lengths == length, lengths > length
            if length < longest:  # beyond the last token: what the beam held that the later one continues
                tokens, origins = self._steps[length - 1]
                token = torch.where(is_inside, tokens.gather(1, beam), last)
                beam = torch.where(is_inside, origins.gather(1, beam), parents)
            is_there = is_last | is_inside
            sequences[..., length - 1] = torch.where(is_there, token, -1)
            beams[..., length - 1] = torch.where(is_there, beam, -1)
        return sequences, beams


class Candidates(NamedTuple):
    """The best continuations of a step, best first."""

    scores: torch.Tensor  # (A, C) log-probabilities
    tokens: torch.Tensor  # (A, C) the last token of each
    parents: torch.Tensor  # (A, C) the beam that each continues


class BeamSearch:
    """Section 6.1's search; finds what transformers' loop finds under the same rule.

    With `is_early` a sentence ends with its N-th hypothesis.
    """

    def __init__(self, task: SearchTask, rule: SearchRule, num_beams: int, is_early: bool) -> None:
        self._task, self._rule, self._num_beams, self._is_early = task, rule, num_beams, is_early
        self._num_candidates = max(2, 1 + len(task.ends)) * num_beams
        num_sentences = len(task.limits)
        self._hypotheses = Hypotheses(num_sentences, num_beams)
        # Of all sentences: the best finished hypotheses, best first, and of each its length, last token and parent.
        self._scores = torch.full((num_sentences, num_beams), -torch.inf, dtype=task.session.dtype)
        self._ends = torch.zeros(num_sentences, num_beams, 3, dtype=torch.long)
        self._sentences = torch.arange(num_sentences)  # those still searched; what follows is of them alone
        self._is_open = torch.ones(num_sentences, dtype=torch.bool)  # whether their result can change
        self._running = torch.zeros_like(self._scores)  # log-probabilities of running hypotheses
        self._running[:, 1:] = 10 * NO_HYPOTHESIS
        # The newest token of each beam, the beam that it continues and, for processors, all before it.
        self._tokens = task.prompt[:, -1:].expand(-1, num_beams)
        self._parents = torch.arange(num_beams).expand(num_sentences, -1)
        self._prefixes = task.prompt[:, :-1].unsqueeze(1).expand(-1, num_beams, -1)

    @torch.inference_mode()
    def run(self, padding: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Searches all sentences to their ends; `padding` fills the places behind these.

        Returns:
            (B * n, P + T) prompts and best hypotheses; (B * n, T) the rows of transformers' batch (B * N) that each of
            their tokens continues, -1 behind the ends; (B * n,) their scores, -inf where there is no hypothesis.
        """
        for length in range(1, int(self._task.limits.max()) + 1):
            candidates = self._continuations()
            is_end = self._task.ended(candidates.tokens, self._rule.limits, length)
            self._finish(candidates, is_end, length)
            self._run_on(candidates, is_end, length)
            if not self._is_open.any():
                break
            self._drop_finished()
        scores, ends = (each[:, : self._rule.num_wanted] for each in (self._scores, self._ends))
        lengths = torch.where(scores == -torch.inf, 0, ends[..., 0])
        tokens, beams = self._hypotheses.read(lengths, ends[..., 1], ends[..., 2])  # (B, n, T)
        first_rows = torch.arange(0, scores.shape[0] * self._num_beams, self._num_beams).view(-1, 1, 1)
        beams = torch.where(beams == -1, -1, beams + first_rows).int()
        prompt = self._task.prompt.unsqueeze(1).expand(-1, scores.shape[1], -1)
        sequences = torch.cat((prompt, tokens.masked_fill(tokens == -1, padding)), dim=2)
        return sequences.flatten(0, 1), beams.flatten(0, 1), scores.flatten()

    def _continuations(self) -> Candidates:
        """Runs decoder and processors on the newest tokens."""
        session = self._task.session
        parts = session.log_probabilities(session.step(self._tokens, self._parents))
        if self._task.processors:
            parents = self._parents.unsqueeze(-1).expand(-1, -1, self._prefixes.shape[2])
            self._prefixes = torch.cat((self._prefixes.gather(1, parents), self._tokens.unsqueeze(-1)), dim=-1)
        parts = self._task.processed(parts, self._prefixes.flatten(0, 1))
        best = [top_k(part, self._num_candidates) for part in parts]
        scores, tokens = (torch.cat(each) if len(best) > 1 else each[0] for each in zip(*best, strict=True))  # (R, k)
        check_scores(scores)
        num_sentences, width = len(self._sentences), scores.shape[1]
        scores = (scores.view(num_sentences, -1, width) + self._running.unsqueeze(-1)).flatten(1)  # (A, N * k)
        scores, order = scores.topk(self._num_candidates)
        return Candidates(scores, tokens.view(num_sentences, -1).gather(1, order), order // width)

    def _finish(self, candidates: Candidates, is_end: torch.Tensor, length: int) -> None:
        """Adds the hypotheses that end among the best N to the best finished ones."""
        can_end = is_end & (candidates.scores > NO_HYPOTHESIS) & self._is_open.unsqueeze(1)
        can_end[:, self._num_beams :] = False
        if not can_end.any():
            return
        scores = torch.where(can_end, candidates.scores / self._rule.penalty(length), -torch.inf)
        scores, order = torch.cat((self._scores[self._sentences], scores), dim=1).topk(self._num_beams)
        lengths = torch.full_like(candidates.tokens, length)
        new = torch.stack((lengths, candidates.tokens, candidates.parents), dim=-1)
        ends = torch.cat((self._ends[self._sentences], new), dim=1)
        self._scores[self._sentences] = scores
        self._ends[self._sentences] = ends.gather(1, order.unsqueeze(-1).expand(-1, -1, 3))

    def _run_on(self, candidates: Candidates, is_end: torch.Tensor, length: int) -> None:
        """Takes the best N continuations that do not end, and finds out whose result can still change."""
        scores = torch.where(is_end, candidates.scores + 10 * NO_HYPOTHESIS, candidates.scores)
        self._running, order = scores.topk(self._num_beams)
        self._tokens, self._parents = candidates.tokens.gather(1, order), candidates.parents.gather(1, order)
        self._hypotheses.add(self._sentences, self._tokens, self._parents)
        finished = self._scores[self._sentences]
        self._is_open = self._is_open & self._rule.can_improve(self._running, finished, length).squeeze(1)
        if self._is_early:
            self._is_open &= (finished == -torch.inf).any(dim=1)

    def _drop_finished(self) -> None:
        """Leaves out sentences whose result is known."""
        if self._is_open.sum() > _WORTH_DROPPING * len(self._is_open) or not self._task.is_row_by_row:
            return
        kept = self._is_open.nonzero().squeeze(1)
        self._task.session.keep(kept)
        self._rule = replace(self._rule, limits=self._rule.limits[kept])
        self._sentences, self._is_open = self._sentences[kept], self._is_open[kept]
        self._running, self._tokens, self._parents, self._prefixes = (
            each[kept] for each in (self._running, self._tokens, self._parents, self._prefixes)
        )


@torch.inference_mode()
def greedy_search(task: SearchTask, padding: int, with_scores: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes the best token at every step; `padding` fills the places behind the ends.

    Returns:
        (B, P + T) prompts and tokens, and (B, T) the model's own log-probabilities of the latter, 0 behind the ends;
        (B, 0) without scores.
    """
    num_sentences = len(task.limits)
    sequences, log_probs = task.prompt, task.prompt.new_empty(num_sentences, 0, dtype=task.session.dtype)
    sentences, is_open = torch.arange(num_sentences), torch.ones(num_sentences, dtype=torch.bool)
    tokens = task.prompt[:, -1:]
    for length in range(1, int(task.limits.max()) + 1):
        logits = list(task.session.logits(task.session.step(tokens)))
        own = torch.cat(logits).log_softmax(dim=-1) if with_scores else None  # processors may change the logits
        best = [part.max(dim=1, keepdim=True) for part in task.processed(iter(logits), sequences[sentences])]
        check_scores(torch.cat([part.values for part in best]))
        tokens = torch.cat([part.indices for part in best]).masked_fill(~is_open.unsqueeze(1), padding)
        sequences = _extended(sequences, sentences, tokens, padding)
        if own is not None:
            log_probs = _extended(log_probs, sentences, own.gather(1, tokens) * is_open.unsqueeze(1), 0)
        is_open = is_open & ~task.ended(tokens, task.limits[sentences].unsqueeze(1), length).squeeze(1)
        if not is_open.any():
            break
        if is_open.sum() <= _WORTH_DROPPING * len(is_open) and task.is_row_by_row:
            kept = is_open.nonzero().squeeze(1)
            task.session.keep(kept)
            sentences, is_open, tokens = sentences[kept], is_open[kept], tokens[kept]
    return sequences, log_probs


def _extended(rows: torch.Tensor, places: torch.Tensor, column: torch.Tensor, filler: int) -> torch.Tensor:
    """Rows (B, T) with one more column: (A, 1) at some places, `filler` at the others."""
    last = rows.new_full((len(rows), 1), filler)
    last[places] = column
    return torch.cat((rows, last), dim=1)


def top_k(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The best `k` of each row of scores (R, V), or all if there are fewer, best first, and where they stand.

    On a CPU the search for the best of each block of tokens, and then in the best blocks alone, is twice as fast where
    there is much to search.
    """
    num_blocks = scores.shape[1] // _BLOCK
    if num_blocks < 2 * k or scores.numel() < _FEW_SCORES:
        return scores.topk(min(k, scores.shape[1]))
    blocks = scores[:, : num_blocks * _BLOCK].unflatten(1, (num_blocks, _BLOCK))
    places = blocks.amax(dim=2).topk(k).indices.unsqueeze(2)  # (R, k, 1)
    rest = torch.arange(num_blocks * _BLOCK, scores.shape[1]).expand(len(scores), -1)
    places = torch.cat(((places * _BLOCK + torch.arange(_BLOCK)).flatten(1), rest), dim=1)
    best, order = scores.gather(1, places).topk(k)
    return best, places.gather(1, order)
