# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Decoding of section 6.1 inside the library's `generate`: GNMT length penalty, provable stop, input + 50.

Shapes: B sentences, N beams, T target length.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import GenerateEncoderDecoderOutput, MaxLengthCriteria
from transformers.generation.utils import GenerateOutput

# Score of a hypothesis that does not exist; the library's own marker is -1e9, any real one is far above.
_NO_HYPOTHESIS = -1.0e8

# Processors of the library that never lift a log-probability above 0, on which the stopping bound rests.
_NEVER_POSITIVE = {
    "EncoderNoRepeatNGramLogitsProcessor",
    "ForcedBOSTokenLogitsProcessor",
    "ForcedEOSTokenLogitsProcessor",
    "LogitNormalization",
    "MinLengthLogitsProcessor",
    "MinNewTokensLengthLogitsProcessor",
    "NoBadWordsLogitsProcessor",
    "NoRepeatNGramLogitsProcessor",
    "PrefixConstrainedLogitsProcessor",
    "SuppressTokensAtBeginLogitsProcessor",
    "SuppressTokensLogitsProcessor",
    "TemperatureLogitsWarper",
    "TopKLogitsWarper",
    "TopPLogitsWarper",
}


def gnmt_length_penalty(length: torch.Tensor | int, alpha: float) -> torch.Tensor | float:
    """((5 + length) / 6)^alpha, by which a hypothesis' log-probability is divided.

    Args:
        length: Generated tokens, `</s>` included, `<s>` and any forced prefix excluded.
        alpha: Strength; 0 scores by log-probability alone, larger values favour longer output.

    Paper: section 6.1, through Wu et al. 2016, equation 14.
    """
    return ((5 + length) / 6) ** alpha


@dataclass
class VaswaniTransformerGenerateOutput(GenerateEncoderDecoderOutput):
    """`GenerateEncoderDecoderOutput` of greedy search and sampling with `sequences_scores`, as beam search has them.

    They are (rows,) GNMT scores: log-probability under the model itself, before any processor, divided by
    `gnmt_length_penalty`; None unless `output_scores` was asked for.
    """

    sequences_scores: torch.FloatTensor | None = None


class SourceLengthCriteria(StoppingCriteria):
    """Ends each sentence at its own limit of generated tokens.

    Args:
        limits: (B,) largest number of generated tokens of each sentence.
        prompt_length: Tokens in front of the generated ones: `<s>` and a forced prefix.
    """

    def __init__(self, limits: torch.Tensor, prompt_length: int) -> None:
        self.limits = limits
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.BoolTensor:
        """(rows,) True where the row's sentence has reached its limit; rows of one sentence are neighbours."""
        generated = input_ids.shape[1] - self.prompt_length
        return (self.limits <= generated).repeat_interleave(input_ids.shape[0] // self.limits.shape[0])


@dataclass(frozen=True)
class _SearchRule:
    """How one call of beam search scores and stops; travels through the library's loop as its `length_penalty`.

    Args:
        alpha: Exponent of the length penalty.
        limits: (B, 1) largest number of generated tokens of each sentence.
        num_wanted: Hypotheses to return for each sentence.
        is_bounded: Whether no processor can lift a log-probability above 0.
    """

    alpha: float
    limits: torch.Tensor
    num_wanted: int
    is_bounded: bool

    def can_improve(self, running: torch.Tensor, finished: torch.Tensor, length: int) -> torch.Tensor:
        """(B, 1) True where a running hypothesis might still beat the `num_wanted`-th best finished one.

        Args:
            running: (B, N) log-probabilities of running hypotheses, best first, all of `length` generated tokens.
            finished: (B, N) scores of finished hypotheses, best first.
            length: Generated tokens so far.
        """
        best_running, worst_wanted = running[:, :1], finished[:, self.num_wanted - 1 : self.num_wanted]
        is_running = best_running > _NO_HYPOTHESIS
        if not self.is_bounded:
            return is_running
        # Log-probabilities only fall. Under alpha >= 0 the best that can come is the same one at the limit; under
        # alpha < 0 length is punished, and the best is the shortest.
        best_length = self.limits.to(running.dtype) if self.alpha >= 0 else length + 1
        return is_running & (best_running / gnmt_length_penalty(best_length, self.alpha) > worst_wanted)


class VaswaniTransformerGenerationMixin:
    """What `generate` does differently for this model: the paper's score, stop and limit.

    The generation config's key `max_new_tokens_over_source` (50) limits the output of each sentence to its source
    length plus that many tokens, `</s>` included. A `max_length` or `max_new_tokens` of the call, or of a
    GenerationConfig passed to it, takes its place. One in the model's own generation config is ignored while the key
    is set, because the library's evaluation writes its defaults there.

    Paper: section 6.1.
    """

    def _set_default_generation(self) -> None:
        """Section 6.1 as the default of `generate`; a saved generation_config.json replaces it on loading."""
        self.generation_config.update(
            num_beams=4, length_penalty=0.6, max_new_tokens_over_source=50, allow_custom_entries=True
        )
        # The library drops keys it does not know from a file that says it was derived from a model's config.
        self.generation_config._from_model_config = False

    def _prepare_generation_config(
        self, generation_config: GenerationConfig | None, **kwargs: Any
    ) -> tuple[GenerationConfig, dict]:
        """Decides whether the limit over the source holds for this call, and checks the length penalty."""
        is_given = "max_new_tokens_over_source" in kwargs
        over_source = kwargs.pop("max_new_tokens_over_source", None)
        own = generation_config is None or generation_config is self.generation_config
        given = kwargs if own else {**generation_config.to_dict(), **kwargs}
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, **kwargs)
        if not is_given:
            over_source = getattr(prepared, "max_new_tokens_over_source", None)
        if given.get("max_length") is not None or given.get("max_new_tokens") is not None:
            over_source = None
        _check_decoding(prepared.length_penalty, over_source)
        prepared.max_new_tokens_over_source = over_source
        if over_source is not None:
            prepared.max_length = prepared.max_new_tokens = None
        return prepared, model_kwargs

    def _prepare_generated_length(self, generation_config: GenerationConfig, **kwargs: Any) -> GenerationConfig:
        """Sizes the buffers for the longest limit in the batch; each sentence still ends at its own."""
        over_source = generation_config.max_new_tokens_over_source
        if over_source is not None:
            generation_config.max_new_tokens = kwargs["inputs_tensor"].shape[1] + over_source
            if self.config.position_encoding == "learned":
                room = self.config.max_position_embeddings - kwargs["input_ids_length"] + 1
                generation_config.max_new_tokens = min(generation_config.max_new_tokens, room)
        prepared = super()._prepare_generated_length(generation_config=generation_config, **kwargs)
        _check_prefix(kwargs["input_ids_length"], prepared.max_length)
        return prepared

    def _get_stopping_criteria(self, *args: Any, **kwargs: Any) -> StoppingCriteriaList:
        """The library's criteria, without its reminder of a position limit that sinusoids do not have."""
        criteria = super()._get_stopping_criteria(*args, **kwargs)
        if self.config.position_encoding == "sinusoidal":
            for criterion in criteria:
                if isinstance(criterion, MaxLengthCriteria):
                    criterion.max_position_embeddings = None
        return criteria

    def _sample(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **kwargs: Any,
    ) -> GenerateOutput | torch.LongTensor:
        """Greedy search and sampling, each row ending at its own limit."""
        self._check_token_ids("decoder_input_ids", input_ids)
        prompt_length = input_ids.shape[1]
        limits = _output_limits(generation_config, prompt_length, kwargs)
        stopping_criteria.append(SourceLengthCriteria(limits, prompt_length))
        log_probs = _LogProbabilities()
        if generation_config.return_dict_in_generate and generation_config.output_scores:
            logits_processor = LogitsProcessorList([log_probs, *logits_processor])
        with self._in_own_precision(logits_processor) as logits_processor:
            output = super()._sample(
                input_ids,
                logits_processor=logits_processor,
                stopping_criteria=stopping_criteria,
                generation_config=generation_config,
                **kwargs,
            )
        if not log_probs.steps:
            return output
        scores = log_probs.sequences_scores(output.sequences[:, prompt_length:], generation_config)
        return VaswaniTransformerGenerateOutput(**output, sequences_scores=scores)

    def _beam_search(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **kwargs: Any,
    ) -> GenerateOutput | torch.LongTensor:
        """The library's beam search under the paper's rule; rows (B * N, T) of one sentence are neighbours.

        Unused places after the end hold `<pad>`; the library would fill them with `</s>`, since its test for a pad
        token takes id 0 for "none".
        """
        self._check_token_ids("decoder_input_ids", input_ids)
        limits = _output_limits(generation_config, input_ids.shape[1], kwargs)[:: generation_config.num_beams]
        stopping_criteria.append(SourceLengthCriteria(limits, input_ids.shape[1]))
        pad_token_id = int(generation_config._pad_token_tensor)
        generation_config._pad_token_tensor = torch.full_like(generation_config._pad_token_tensor, -1)
        generation_config.length_penalty = _SearchRule(
            alpha=generation_config.length_penalty,
            limits=limits.unsqueeze(1),
            num_wanted=generation_config.num_return_sequences,
            is_bounded=all(type(processor).__name__ in _NEVER_POSITIVE for processor in logits_processor),
        )
        with self._in_own_precision(logits_processor, torch.nn.LogSoftmax(dim=-1)) as logits_processor:
            output = super()._beam_search(
                input_ids,
                logits_processor=logits_processor,
                stopping_criteria=stopping_criteria,
                generation_config=generation_config,
                **kwargs,
            )
        sequences = output if torch.is_tensor(output) else output.sequences
        sequences.masked_fill_(sequences == -1, pad_token_id)
        return output

    @contextlib.contextmanager
    def _in_own_precision(
        self, logits_processor: LogitsProcessorList, normalize: torch.nn.Module | None = None
    ) -> Iterator[LogitsProcessorList]:
        """The processors, behind one that undoes the library's rounding of a float64 model's logits to fp32.

        Args:
            logits_processor: Of the call.
            normalize: What the library applies to the logits before any processor; None is nothing.
        """
        if self.dtype != torch.float64:
            yield logits_processor
            return
        exact = _ExactLogits(normalize)
        hook = self.register_forward_hook(exact.record)
        try:
            yield LogitsProcessorList([exact, *logits_processor])
        finally:
            hook.remove()

    def _update_finished_beams(
        self,
        *,
        topk_log_probs: torch.Tensor,
        cur_len: int,
        decoder_prompt_len: int,
        length_penalty: _SearchRule,
        **state: Any,
    ) -> tuple[torch.Tensor, ...]:
        """Scores the hypotheses that end in this step by GNMT's penalty; the library's own would divide by length."""
        penalty = gnmt_length_penalty(cur_len + 1 - decoder_prompt_len, length_penalty.alpha)
        is_real = topk_log_probs > _NO_HYPOTHESIS
        return super()._update_finished_beams(
            topk_log_probs=torch.where(is_real, topk_log_probs / penalty, 10.0 * -1.0e9),
            cur_len=cur_len,
            decoder_prompt_len=decoder_prompt_len,
            length_penalty=0.0,
            **state,
        )

    def _check_early_stop_heuristic(
        self,
        *,
        is_early_stop_heuristic_unsatisfied: torch.Tensor,
        running_beam_scores: torch.Tensor,
        beam_scores: torch.Tensor,
        cur_len: int,
        decoder_prompt_len: int,
        length_penalty: _SearchRule,
        **state: Any,
    ) -> torch.Tensor:
        """(B, 1) True while a sentence's result can still change: a bound, not a heuristic."""
        return is_early_stop_heuristic_unsatisfied & length_penalty.can_improve(
            running_beam_scores, beam_scores, cur_len - decoder_prompt_len
        )


class _ExactLogits(LogitsProcessor):
    """Puts the logits of the last forward pass, unrounded, in the place of the scores it is given."""

    def __init__(self, normalize: torch.nn.Module | None) -> None:
        self.normalize = normalize or torch.nn.Identity()

    def record(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """Forward hook that keeps the logits (rows, V) of the last position."""
        self.logits = output.logits[:, -1]

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """(rows, V) logits, or log-probabilities, in the model's own precision."""
        return self.normalize(self.logits)


class _LogProbabilities(LogitsProcessor):
    """Keeps the model's own log-probabilities of every step, before any other processor changes them."""

    def __init__(self) -> None:
        self.steps: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """(rows, V) logits, unchanged."""
        self.steps.append(torch.log_softmax(scores, dim=-1))
        return scores

    def sequences_scores(self, tokens: torch.Tensor, generation_config: GenerationConfig) -> torch.Tensor:
        """(rows,) GNMT scores of generated tokens (rows, T), in which what follows the end does not count."""
        is_end = torch.isin(tokens, generation_config._eos_token_tensor)
        is_after_end = is_end.cumsum(dim=1) > is_end
        is_filler = (tokens == generation_config._pad_token_tensor).flip(1).cumprod(dim=1).flip(1).bool()
        is_counted = ~(is_after_end | is_filler)
        steps = zip(self.steps, tokens.split(1, dim=1), strict=False)  # the library may look a step ahead
        chosen = torch.cat([log_probs.gather(1, token) for log_probs, token in steps], dim=1)
        penalty = gnmt_length_penalty(is_counted.sum(dim=1).to(chosen.dtype), generation_config.length_penalty)
        return (chosen * is_counted).sum(dim=1) / penalty


def check_length_penalty(alpha: float | None) -> None:
    """Raises ValueError unless `alpha` is None or can be the exponent of `gnmt_length_penalty`."""
    if alpha is not None and not (math.isfinite(alpha) and alpha >= -10.0):
        raise ValueError(
            f"`length_penalty` must be a finite number of at least -10, got {alpha}. The paper uses 0.6; below 0 "
            "long output is punished."
        )


def _check_decoding(length_penalty: float | None, over_source: int | None) -> None:
    check_length_penalty(length_penalty)
    if over_source is not None and (type(over_source) is not int or over_source < 0):
        raise ValueError(
            f"`max_new_tokens_over_source` must be a whole number of at least 0 or None, got {over_source!r}."
        )


def _check_prefix(prefix_length: int, max_length: int) -> None:
    if prefix_length >= max_length:
        raise ValueError(
            f"`decoder_input_ids` must be shorter than the limit of {max_length} tokens, `<s>` and forced prefix "
            f"included, got {prefix_length}. Raise `max_length`, or limit the new tokens alone by `max_new_tokens` or "
            "`max_new_tokens_over_source`; learned positions end at `max_position_embeddings`."
        )


def _output_limits(generation_config: GenerationConfig, prompt_length: int, model_kwargs: dict) -> torch.Tensor:
    """(rows,) largest number of generated tokens of each row: that of the buffers, or source length + 50."""
    attention_mask = model_kwargs.get("attention_mask")
    encoded = model_kwargs["encoder_outputs"][0]
    buffer = torch.full((encoded.shape[0],), generation_config.max_length - prompt_length, device=encoded.device)
    over_source = generation_config.max_new_tokens_over_source
    if over_source is None:
        return buffer
    source_lengths = buffer.new_full(buffer.shape, encoded.shape[1])
    if attention_mask is not None:
        source_lengths = (attention_mask != 0).sum(dim=-1)
    return torch.minimum(source_lengths + over_source, buffer)


__all__ = [
    "SourceLengthCriteria",
    "VaswaniTransformerGenerateOutput",
    "VaswaniTransformerGenerationMixin",
    "check_length_penalty",
    "gnmt_length_penalty",
]
