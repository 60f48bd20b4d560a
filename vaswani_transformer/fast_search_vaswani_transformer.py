# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Beam search and greedy search over `DecoderSession`, with the results of transformers' loops and
fewer copies.

A sentence leaves the batch once its result is final. Each step stores only its tokens and their
parent beams; the hypotheses are read back from these at the end.

Shapes: B sentences of the batch, A sentences still searched, N beams, R = A * N rows, C candidates
of a step, n hypotheses to return, P length of the prompt, T steps, V vocabulary.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.utils import logging

from .decoder_session_vaswani_transformer import DecoderSession, is_plain
from .search_vaswani_transformer import NO_HYPOTHESIS, ROW_BY_ROW, SearchRule, check_scores, process

logger = logging.get_logger(__name__)

_BLOCK = 64  # tokens of a block in `top_k`
_FEW_SCORES = 2**17  # below this size a plain top-k is faster
_STEPS_BETWEEN_LOOKS = 8  # on a device, because each look is a sync
# Finished sentences are dropped when at most this share of the batch is left. Dropping copies the
# rest, and on a GPU it costs the capture of a new graph, too.
_WORTH_DROPPING, _WORTH_DROPPING_ON_DEVICE = 0.75, 0.25
_CAPTURING = threading.Lock()  # torch captures one graph at a time
_OF_THREAD = threading.local()  # its `captured` maps a device to (stream, last graph)
_CACHES = {"cache", "past_key_values"}  # argument names in transformers since 5.24, and before
_ARGUMENTS = {
    "attention_mask",
    "encoder_outputs",
    "inputs_embeds",
    "logits_to_keep",
    "use_cache",
    *_CACHES,
}


def can_search(
    model: Any,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    arguments: dict[str, Any],
) -> bool:
    """Return True if the searches of this file give the same result as transformers' loops for
    these arguments.
    """
    config, given = (
        generation_config,
        {name for name, value in arguments.items() if value is not None},
    )
    given -= {name for name in ("synced_gpus", "use_cache") if arguments.get(name) is False}
    return (
        not config.do_sample
        and not (config.output_scores or config.output_logits)
        and not (config.output_attentions or config.output_hidden_states)
        and config.cache_implementation is None
        and {"encoder_outputs", "use_cache"} <= given <= _ARGUMENTS
        and not any(getattr(arguments.get(name), "_is_user_defined", False) for name in _CACHES)
        and all(_is_known(criterion, config) for criterion in stopping_criteria)
        and is_plain(model)
    )


def _is_known(criterion: StoppingCriteria, generation_config: GenerationConfig) -> bool:
    """Return True if the searches of this file end wherever `criterion` would end them."""
    if type(criterion) is MaxLengthCriteria:
        return bool(criterion.max_length >= generation_config.max_length)
    ends = generation_config._eos_token_tensor
    return (
        type(criterion) is EosTokenCriteria
        and ends is not None
        and torch.equal(criterion.eos_token_id, ends)
    )


@dataclass
class SearchTask:
    """Arguments and decoder state of the search of one call of `generate`."""

    session: DecoderSession
    prompt: torch.Tensor  # (B, P) `<s>` and a forced prefix
    limits: torch.Tensor  # (B,) largest number of generated tokens of each sentence
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

        Args:
            model: A model for which `can_search` is true.
            input_ids: (B * N, P) prompts; each sentence's are repeated for its beams.
            limits: (B,) largest number of generated tokens of each sentence.
            processors: Logits processors.
            generation_config: Its `num_beams` is N.
            arguments: Further arguments of transformers' search, for B * N rows.
        """
        beams, ends = generation_config.num_beams, generation_config._eos_token_tensor
        mask = arguments.get("attention_mask")
        encoded, prompt = arguments["encoder_outputs"][0], input_ids[::beams]
        session = DecoderSession(
            model, encoded[::beams], None if mask is None else mask[::beams], beams
        )
        session.read(prompt[:, :-1])
        ends, has_nan = (
            limits.new_empty(0) if ends is None else ends,
            limits.new_zeros((), dtype=torch.bool),
        )
        return cls(session, prompt, limits, ends, processors, has_nan)

    @property
    def is_row_by_row(self) -> bool:
        """Return True if every processor treats rows independently, so that some rows can be left
        out.
        """
        return all(type(each) in ROW_BY_ROW for each in self.processors)

    def processed(
        self, parts: Iterable[torch.Tensor], prefixes: torch.Tensor
    ) -> Iterable[torch.Tensor]:
        """Yield the scores (.., V) after the processors, for consecutive parts of the rows.

        Processors that may not treat rows independently get all rows at once. They get copies,
        outside of inference mode, because they may keep them.

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
                whole = torch.cat(copies) if len(copies) > 1 else copies[0].clone()
                result = self.processors(prefixes.clone(), whole)  # type: ignore[arg-type]  # LongTensor there
            yield result.to(whole.dtype)

    def note(self, scores: torch.Tensor) -> None:
        """Set `has_nan` if one of the scores is NaN."""
        self.has_nan |= scores.isnan().any()

    def ended(
        self, tokens: torch.Tensor, limits: torch.Tensor, length: torch.Tensor
    ) -> torch.Tensor:
        """Return an (A, C) mask: True for hypotheses that end with their newest token.

        Args:
            tokens: (A, C) newest tokens.
            limits: (A, 1) largest number of generated tokens.
            length: Number of generated tokens with the newest one, broadcastable to (A, C).
        """
        return (tokens.unsqueeze(-1) == self.ends).any(dim=-1) | (limits <= length)


class Candidates(NamedTuple):
    """The best continuations of a step, best first."""

    scores: torch.Tensor  # (A, C) log-probabilities
    tokens: torch.Tensor  # (A, C) last tokens
    parents: torch.Tensor  # (A, C) beams that they continue


class Search:
    """Base of both searches: a loop of steps that write in place.

    Steps on a device never sync. The loop looks at their results every few steps.
    """

    def __init__(self, task: SearchTask, num_beams: int) -> None:
        self._task, limits, new = task, task.limits, task.limits.new_zeros
        num_sentences, self._num_steps = len(limits), int(limits.max())
        # (A,) those still searched
        self._sentences = torch.arange(num_sentences, device=limits.device)
        self._is_open = new(num_sentences, dtype=torch.bool).logical_not_()  # (A,) True: not final
        self._limits = limits.unsqueeze(1)  # (A, 1)
        # (A, 2, N): the newest token of each beam and its parent beam. Processors also need
        # `_prefixes` (A, N, L), all tokens before the newest.
        tokens = task.prompt[:, -1:].expand(-1, num_beams)
        self._newest = torch.stack((tokens, task.session.beams.expand_as(tokens)), dim=1)
        self._tokens, self._parents = self._newest.unbind(1)
        self._prefixes = task.prompt[:, :-1].unsqueeze(1).expand(-1, num_beams, -1)
        # (T, B, 2, N): `_newest` of all steps, to read hypotheses back from. The current step
        # writes at `_place`.
        self._all = limits.new_empty(self._num_steps, num_sentences, 2, num_beams)
        self._place: Any = new(1) if task.session.is_static else 0

    @property
    def _length(self) -> Any:
        """Return the number of generated tokens after the current step; on a device, a () float64
        tensor.
        """
        return (
            self._place.double().squeeze(0) + 1 if torch.is_tensor(self._place) else self._place + 1
        )

    def _step(self) -> None:
        raise NotImplementedError

    def _advance(self) -> None:
        """Run one step and store its tokens and parents."""
        self._step()
        self._all[self._place, self._sentences] = self._newest
        self._place += 1

    def _run(self) -> None:
        """Search until all results are final.

        A GPU captures the second step of each shape, and then replays it.
        """
        session, advance, num_alike = self._task.session, self._advance, 0
        share = _WORTH_DROPPING_ON_DEVICE if session.is_static else _WORTH_DROPPING
        for step in range(1, self._num_steps + 1):
            if session.make_room():
                advance, num_alike = self._advance, 0
            elif num_alike == 1 and can_capture(session.device) and not self._task.processors:
                # the first step has loaded the kernels
                advance = capture(self._advance, session.device)
            advance()
            num_alike, session.length = num_alike + 1, session.length + 1
            if (
                session.is_static
                and session.has_room
                and step % _STEPS_BETWEEN_LOOKS
                and step < self._num_steps
            ):
                continue
            check_scores(self._task.has_nan)
            if not (num_open := int(self._is_open.sum())):
                break
            if num_open <= share * len(self._is_open) and self._task.is_row_by_row:
                self._keep(self._is_open.nonzero().squeeze(1))
                advance, num_alike = self._advance, 0

    def _keep(self, kept: torch.Tensor) -> None:
        """Keep only the sentences with these indices (A,). The results of the others are final."""
        self._task.session.keep(kept)
        for name in ("_sentences", "_is_open", "_limits", "_newest", "_prefixes"):
            setattr(self, name, getattr(self, name)[kept])
        self._tokens, self._parents = self._newest.unbind(1)

    def _processed(self, parts: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
        """Yield the scores (.., V) of the next tokens after the processors, for consecutive parts
        of the rows.
        """
        if self._task.processors:
            parents = self._parents.unsqueeze(-1).expand(-1, -1, self._prefixes.shape[2])
            self._prefixes = torch.cat(
                (self._prefixes.gather(1, parents), self._tokens.unsqueeze(-1)), dim=-1
            )
        return self._task.processed(parts, self._prefixes.flatten(0, 1))


class BeamSearch(Search):
    """Section 6.1's beam search, with the results of transformers' loop under the same rule.

    With `is_early` the search of a sentence ends when it has N finished hypotheses.
    """

    def __init__(self, task: SearchTask, rule: SearchRule, num_beams: int, is_early: bool) -> None:
        super().__init__(task, num_beams)
        self._rule, self._num_beams, self._is_early = rule, num_beams, is_early
        self._num_candidates = max(2, 1 + len(task.ends)) * num_beams
        # Finished hypotheses, best first: scores (B, N), and length, last token and parent beam of
        # each (B, N, 3).
        shape = len(task.limits), num_beams
        self._scores = task.limits.new_full(shape, -torch.inf, dtype=task.session.dtype)
        self._ends = task.limits.new_zeros(*shape, 3)
        # (A, N) log-probabilities of running hypotheses
        self._running = torch.zeros_like(self._scores)
        self._running[:, 1:] = 10 * NO_HYPOTHESIS

    def run(self, padding: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Search all sentences, and return their n best hypotheses.

        Args:
            padding: Id that fills the positions after the end of a hypothesis.

        Returns:
            (B * n, P + T) prompts with hypotheses; (B * n, T) the row of transformers' B * N rows
            that each token continues, -1 after the end; (B * n,) scores, -inf if there is no
            hypothesis.
        """
        self._run()
        scores, ends = (each[:, : self._rule.num_wanted] for each in (self._scores, self._ends))
        lengths = torch.where(scores == -torch.inf, 0, ends[..., 0])
        tokens, beams = self._read_back(lengths, ends[..., 1], ends[..., 2])  # (B, n, T)
        first_rows = (
            torch.arange(len(scores), device=scores.device).view(-1, 1, 1) * self._num_beams
        )
        beams = torch.where(beams == -1, -1, beams + first_rows).int()
        prompt = self._task.prompt.unsqueeze(1).expand(-1, scores.shape[1], -1)
        sequences = torch.cat((prompt, tokens.masked_fill(tokens == -1, padding)), dim=2)
        return sequences.flatten(0, 1), beams.flatten(0, 1), scores.flatten()

    def _read_back(
        self, lengths: torch.Tensor, last: torch.Tensor, parents: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens (B, n, T) of hypotheses and the beams that they continue, with -1 after
        the end.

        Args:
            lengths: (B, n) number of tokens of each hypothesis, 0 if there is none.
            last: (B, n) last token of each.
            parents: (B, n) the beam that the last token continues.
        """
        longest = int(lengths.max())
        sequences = lengths.new_full((*lengths.shape, longest), -1)
        beams = sequences.clone()
        token, beam = last, parents
        for length in range(longest, 0, -1):
            is_last, is_inside = lengths == length, lengths > length
            if length < longest:  # one step back, to what the parent beam held
                tokens, origins = self._all[length - 1].unbind(1)
                token = torch.where(is_inside, tokens.gather(1, beam), last)
                beam = torch.where(is_inside, origins.gather(1, beam), parents)
            is_there = is_last | is_inside
            sequences[..., length - 1] = torch.where(is_there, token, -1)
            beams[..., length - 1] = torch.where(is_there, beam, -1)
        return sequences, beams

    def _step(self) -> None:
        """Continue with the best N candidates that do not end, and note which sentences' results
        can still change.
        """
        candidates, length = self._continuations(), self._length
        is_end = self._task.ended(candidates.tokens, self._limits, length)
        self._finish(candidates, is_end, length)
        scores = torch.where(is_end, candidates.scores + 10 * NO_HYPOTHESIS, candidates.scores)
        scores, order = scores.topk(self._num_beams)
        self._running.copy_(scores)
        torch.gather(candidates.tokens, 1, order, out=self._tokens)
        torch.gather(candidates.parents, 1, order, out=self._parents)
        finished = self._scores[self._sentences]
        self._is_open &= self._rule.can_improve(scores, finished, length).squeeze(1)
        if self._is_early:
            self._is_open &= (finished == -torch.inf).any(dim=1)

    def _continuations(self) -> Candidates:
        """Return the best continuations of the newest tokens."""
        session = self._task.session
        parts = self._processed(
            session.log_probabilities(session.step(self._tokens, self._parents))
        )
        best = [top_k(part, self._num_candidates) for part in parts]
        # (R, k)
        scores, tokens = (
            torch.cat(each) if len(best) > 1 else each[0] for each in zip(*best, strict=True)
        )
        self._task.note(scores)
        num_sentences, width = len(self._sentences), scores.shape[1]
        # (A, N * k)
        scores = (scores.view(num_sentences, -1, width) + self._running.unsqueeze(-1)).flatten(1)
        scores, order = scores.topk(self._num_candidates)
        return Candidates(scores, tokens.view(num_sentences, -1).gather(1, order), order // width)

    def _finish(self, candidates: Candidates, is_end: torch.Tensor, length: torch.Tensor) -> None:
        """Add the candidates that end, if they are among the best N, to the finished hypotheses;
        keep the best N.
        """
        can_end = is_end & (candidates.scores > NO_HYPOTHESIS) & self._is_open.unsqueeze(1)
        can_end[:, self._num_beams :] = False
        if not (self._task.session.is_static or can_end.any()):
            return
        scores = torch.where(can_end, candidates.scores / self._rule.penalty(length), -torch.inf)
        scores, order = torch.cat((self._scores[self._sentences], scores), dim=1).topk(
            self._num_beams
        )
        lengths = torch.zeros_like(candidates.tokens) + self._place + 1
        new = torch.stack((lengths, candidates.tokens, candidates.parents), dim=-1)
        ends = torch.cat((self._ends[self._sentences], new), dim=1)
        self._scores[self._sentences] = scores
        self._ends[self._sentences] = ends.gather(1, order.unsqueeze(-1).expand(-1, -1, 3))

    def _keep(self, kept: torch.Tensor) -> None:
        super()._keep(kept)
        self._running, self._rule = self._running[kept], replace(self._rule, limits=self._limits)


class GreedySearch(Search):
    """Greedy search: the best token at every step.

    `padding` is the id after the end of a sentence.
    """

    def __init__(self, task: SearchTask, padding: int) -> None:
        super().__init__(task, num_beams=1)
        self._padding = padding

    def run(self) -> torch.Tensor:
        """Search all sentences, and return prompts with generated tokens (B, P + T)."""
        self._run()
        tokens, limits = self._all[:, :, 0, 0].T, self._task.limits.unsqueeze(1)
        is_end = self._task.ended(
            tokens, limits, torch.arange(1, self._num_steps + 1, device=limits.device)
        )
        is_behind = is_end.cumsum(dim=1) > is_end
        longest = int((~is_behind).sum(dim=1).max())
        tokens = tokens.masked_fill(is_behind, self._padding)[:, :longest]
        return torch.cat((self._task.prompt, tokens), dim=1)

    def _step(self) -> None:
        session, is_open = self._task.session, self._is_open.unsqueeze(1)
        logits = session.logits(session.step(self._tokens))
        best = [part.max(dim=1, keepdim=True) for part in self._processed(logits)]
        self._task.note(torch.cat([part.values for part in best]))
        tokens = torch.cat([part.indices for part in best]).masked_fill(~is_open, self._padding)
        self._tokens.copy_(tokens)
        self._is_open &= ~self._task.ended(tokens, self._limits, self._length).squeeze(1)


def can_capture(device: torch.device) -> bool:
    """Return True if steps on this device can be captured as CUDA graphs."""
    return device.type == "cuda"


def capture(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Capture a step as a CUDA graph, and return a function that replays it at the cost of one
    launch.

    The capture itself computes nothing. If it fails, the step itself is returned. The graphs of a
    thread use one memory pool, one after the other. The last graph keeps the pool for the next
    search.
    """
    captured = _OF_THREAD.__dict__.setdefault("captured", {})
    with _CAPTURING, torch.cuda.device(device):
        current, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        stream, last = captured.pop(device, None) or (torch.cuda.Stream(), None)
        if last is None:
            torch.cuda.empty_cache()  # a capture cannot use the memory that torch has cached
        stream.wait_stream(current)
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(
                    None if last is None else last.pool(), capture_error_mode="thread_local"
                )
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
    """Return the `k` best scores of each row of (R, V) and their indices, best first; all if there
    are fewer.

    For large inputs it finds the best score of each block of tokens, then searches only the best
    blocks. This is twice as fast on a CPU.
    """
    num_blocks = scores.shape[1] // _BLOCK
    if num_blocks < 2 * k or scores.numel() < _FEW_SCORES:
        return scores.topk(min(k, scores.shape[1]))
    blocks = scores[:, : num_blocks * _BLOCK].unflatten(1, (num_blocks, _BLOCK))
    places = blocks.amax(dim=2).topk(k).indices.unsqueeze(2)  # (R, k, 1)
    rest = torch.arange(num_blocks * _BLOCK, scores.shape[1], device=scores.device).expand(
        len(scores), -1
    )
    inside = torch.arange(_BLOCK, device=scores.device)
    places = torch.cat(((places * _BLOCK + inside).flatten(1), rest), dim=1)
    best, order = scores.gather(1, places).topk(k)
    return best, places.gather(1, order)
