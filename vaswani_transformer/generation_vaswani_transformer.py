# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Decoding of section 6.1 inside the library's `generate`: GNMT length penalty, provable stop, input + 50.

Shapes: B sentences, N beams, T target length.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation import (
    ForcedEOSTokenLogitsProcessor,
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
    MaxLengthCriteria,
)
from transformers.generation.utils import GenerateOutput

from .fast_search_vaswani_transformer import BeamSearch, SearchTask, can_search, greedy_search
from .inputs_vaswani_transformer import check_batch, check_token_ids
from .search_vaswani_transformer import (
    GNMT_OFFSET,
    NEVER_POSITIVE,
    NO_HYPOTHESIS,
    CheckedScores,
    ChosenLogProbabilities,
    ExactLogits,
    ForcedEndAtLimit,
    SearchRule,
    SourceLengthCriteria,
    check_length_penalty,
    check_length_penalty_offset,
    scores_of_chosen,
)

PAPER_ALPHA = 0.6
_MOST_BEAMS = 10_000  # a generation config from elsewhere may ask for any number; they would fill the memory


@dataclass
class VaswaniTransformerGenerateOutput(GenerateEncoderDecoderOutput):
    """`GenerateEncoderDecoderOutput` of greedy search and sampling with `sequences_scores`, as beam search has them.

    They are (rows,) GNMT scores: log-probability divided by `gnmt_length_penalty`. Here it is the model's own, before
    any processor; beam search ranks by, and reports, what the processors leave of it. Processors that only forbid
    tokens make no difference.
    """

    sequences_scores: torch.FloatTensor | None = None


class VaswaniTransformerGenerationMixin:
    """What `generate` does differently for this model: the paper's score, stop and limit.

    The generation config's key `max_new_tokens_over_source` (50) limits the output of each sentence to its source
    length plus that many tokens, `</s>` included. A `max_length` or `max_new_tokens` of the call, or of a
    GenerationConfig passed to it, takes its place. One in the model's own generation config is ignored while the key
    is set, because the library's evaluation writes its defaults there.

    The key `length_penalty_offset` (5) is c of the length penalty ((c + length) / (c + 1))^`length_penalty`; 0 gives
    length^`length_penalty`, the score of fairseq and of the library's own search.

    Paper: section 6.1.
    """

    def _set_default_generation(self) -> None:
        """Section 6.1's scores and limit, for whatever search `generate` runs; a generation_config.json replaces them.

        The search itself is greedy until the model has learned something, as in every model of the library.
        """
        self.generation_config.update(
            length_penalty_offset=GNMT_OFFSET, max_new_tokens_over_source=50, allow_custom_entries=True
        )
        # The library drops keys it does not know from a file that says it was derived from a model's config.
        self.generation_config._from_model_config = False

    def set_default_search(self) -> None:
        """Section 6.1's beam search, beam 4 and alpha 0.6, as the default of `generate` unless another was chosen.

        Loading a checkpoint calls it, and so does learning from labels. A generation config without our keys is the
        user's own: it stays.
        """
        own = self.generation_config
        if hasattr(own, "max_new_tokens_over_source") and own.num_beams is None:
            own.num_beams = 4
            own.length_penalty = PAPER_ALPHA if own.length_penalty is None else own.length_penalty

    def _prepare_generation_config(
        self, generation_config: GenerationConfig | None, **kwargs: Any
    ) -> tuple[GenerationConfig, dict]:
        """Decides whether the limit over the source holds for this call, and checks the length penalty."""
        is_given = "max_new_tokens_over_source" in kwargs
        over_source = kwargs.pop("max_new_tokens_over_source", None)
        offset = kwargs.pop("length_penalty_offset", None)
        own = generation_config is None or generation_config is self.generation_config
        given = kwargs if own else {**generation_config.to_dict(), **kwargs}
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, **kwargs)
        if not is_given:
            over_source = getattr(prepared, "max_new_tokens_over_source", None)
        if given.get("max_length") is not None or given.get("max_new_tokens") is not None:
            over_source = None
        if given.get("length_penalty") is None and self.generation_config.length_penalty is None:
            is_ours = hasattr(self.generation_config, "max_new_tokens_over_source")
            prepared.length_penalty = PAPER_ALPHA if is_ours else 1.0  # 1.0 is the library's own default
        if offset is None:
            offset = getattr(prepared, "length_penalty_offset", None)
        prepared.length_penalty_offset = GNMT_OFFSET if offset is None else offset
        _check_decoding(prepared, over_source)
        prepared.max_new_tokens_over_source = over_source
        if over_source is not None:
            prepared.max_length = prepared.max_new_tokens = None
        return prepared, model_kwargs

    def _prepare_decoder_input_ids_for_generation(
        self, batch_size: int, model_input_name: str, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> tuple[torch.LongTensor, dict[str, Any]]:
        """As the library's, which fails without a message on prefixes of another shape."""
        prefixes = model_kwargs.get("decoder_input_ids")
        if prefixes is not None:
            check_token_ids("decoder_input_ids", prefixes)
            check_batch(prefixes.shape[0], batch_size)
        return super()._prepare_decoder_input_ids_for_generation(
            batch_size, model_input_name, model_kwargs, *args, **kwargs
        )

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
        check_token_ids("decoder_input_ids", input_ids, self.config.vocab_size)
        prompt_length = input_ids.shape[1]
        limits = _output_limits(generation_config, prompt_length, kwargs)
        stopping_criteria.append(SourceLengthCriteria(limits, prompt_length))
        logits_processor = _with_own_limits(logits_processor, limits, prompt_length)
        if can_search(self, stopping_criteria, generation_config, kwargs):
            task = SearchTask.of(self, input_ids, limits, logits_processor, generation_config, kwargs)
            found = greedy_search(task, self._padding(generation_config), generation_config.return_dict_in_generate)
            sequences, chosen = (each.clone() for each in found)  # no tensors of inference mode
            if not generation_config.return_dict_in_generate:
                return sequences
            scores = scores_of_chosen(chosen, sequences[:, prompt_length:], limits, generation_config)
            return VaswaniTransformerGenerateOutput(sequences=sequences, sequences_scores=scores)
        log_probs = ChosenLogProbabilities()
        if generation_config.return_dict_in_generate:
            logits_processor.insert(0, log_probs)
        with self._in_own_precision(logits_processor) as logits_processor:
            output = super()._sample(
                input_ids,
                logits_processor=logits_processor,
                stopping_criteria=stopping_criteria,
                generation_config=generation_config,
                **kwargs,
            )
        if not generation_config.return_dict_in_generate:
            return output
        scores = log_probs.sequences_scores(output.sequences[:, prompt_length:], limits, generation_config)
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
        check_token_ids("decoder_input_ids", input_ids, self.config.vocab_size)
        prompt_length = input_ids.shape[1]
        limits = _output_limits(generation_config, prompt_length, kwargs)[:: generation_config.num_beams]
        stopping_criteria.append(SourceLengthCriteria(limits, prompt_length))
        logits_processor = _with_own_limits(logits_processor, limits, prompt_length)
        padding = self._padding(generation_config)
        rule = SearchRule(
            alpha=generation_config.length_penalty,
            offset=generation_config.length_penalty_offset,
            limits=limits.unsqueeze(1),
            num_wanted=generation_config.num_return_sequences,
            is_bounded=all(type(processor).__name__ in NEVER_POSITIVE for processor in logits_processor),
        )
        if can_search(self, stopping_criteria, generation_config, kwargs):
            task = SearchTask.of(self, input_ids, limits, logits_processor, generation_config, kwargs)
            search = BeamSearch(task, rule, generation_config.num_beams, generation_config.early_stopping is True)
            sequences, beams, scores = (each.clone() for each in search.run(padding))
            if not generation_config.return_dict_in_generate:
                return sequences
            return GenerateBeamEncoderDecoderOutput(sequences=sequences, sequences_scores=scores, beam_indices=beams)
        generation_config._pad_token_tensor = torch.tensor(-1)
        generation_config.length_penalty = rule
        with self._in_own_precision(logits_processor, torch.nn.LogSoftmax(dim=-1)) as logits_processor:
            output = super()._beam_search(
                input_ids,
                logits_processor=logits_processor,
                stopping_criteria=stopping_criteria,
                generation_config=generation_config,
                **kwargs,
            )
        scores = rule.scores[:, : rule.num_wanted].flatten()
        sequences = output if torch.is_tensor(output) else output.sequences
        sequences[scores == -torch.inf, prompt_length:] = -1  # what the search held for want of a hypothesis
        sequences.masked_fill_(sequences == -1, padding)
        if not torch.is_tensor(output):
            output.sequences_scores = scores
            output.beam_indices[scores == -torch.inf] = -1
        return output

    def _padding(self, generation_config: GenerationConfig) -> int:
        """The token that fills places behind the end."""
        pad = generation_config._pad_token_tensor
        return (self.config.pad_token_id or 0) if pad is None else int(pad)

    @contextlib.contextmanager
    def _in_own_precision(
        self, logits_processor: LogitsProcessorList, normalize: torch.nn.Module | None = None
    ) -> Iterator[LogitsProcessorList]:
        """The processors, behind one that refuses NaN and one that undoes the rounding of float64 logits to fp32.

        Args:
            logits_processor: Of the call.
            normalize: What the library applies to the logits before any processor; None is nothing.
        """
        if self.dtype != torch.float64:
            yield LogitsProcessorList([CheckedScores(), *logits_processor])
            return
        exact = ExactLogits(normalize)
        hook = self.register_forward_hook(exact.record)
        try:
            yield LogitsProcessorList([exact, CheckedScores(), *logits_processor])
        finally:
            hook.remove()

    def _update_finished_beams(
        self,
        *,
        topk_log_probs: torch.Tensor,
        beam_scores: torch.Tensor,
        is_sent_finished: torch.Tensor,
        next_token_hits_stopping_criteria: torch.Tensor,
        top_num_beam_mask: torch.Tensor,
        is_early_stop_heuristic_unsatisfied: torch.Tensor,
        early_stopping: bool | str,
        cur_len: int,
        decoder_prompt_len: int,
        length_penalty: SearchRule,
        **state: Any,
    ) -> tuple[torch.Tensor, ...]:
        """Scores the hypotheses that end in this step by GNMT's penalty; the library's own would divide by length.

        The library marks what must not win by adding -1e9, which real scores can reach under a negative alpha, and in
        which fp32 loses them. Here it is -inf.
        """
        is_full = torch.all(is_sent_finished, dim=-1, keepdim=True) & (early_stopping is True)
        ends = next_token_hits_stopping_criteria & top_num_beam_mask & (topk_log_probs > NO_HYPOTHESIS)
        ends = ends & is_early_stop_heuristic_unsatisfied & ~is_full
        penalty = length_penalty.penalty(cur_len + 1 - decoder_prompt_len)
        finished = super()._update_finished_beams(
            topk_log_probs=torch.where(ends, topk_log_probs / penalty, -torch.inf),
            beam_scores=torch.where(is_sent_finished, beam_scores, -torch.inf),
            is_sent_finished=is_sent_finished,
            next_token_hits_stopping_criteria=ends,
            top_num_beam_mask=top_num_beam_mask,
            is_early_stop_heuristic_unsatisfied=is_early_stop_heuristic_unsatisfied,
            early_stopping=early_stopping,
            cur_len=cur_len,
            decoder_prompt_len=decoder_prompt_len,
            length_penalty=0.0,
            **state,
        )
        length_penalty.scores = finished[1]
        return finished

    def _check_early_stop_heuristic(
        self,
        *,
        is_early_stop_heuristic_unsatisfied: torch.Tensor,
        running_beam_scores: torch.Tensor,
        beam_scores: torch.Tensor,
        cur_len: int,
        decoder_prompt_len: int,
        length_penalty: SearchRule,
        **state: Any,
    ) -> torch.Tensor:
        """(B, 1) True while a sentence's result can still change: a bound, not a heuristic."""
        return is_early_stop_heuristic_unsatisfied & length_penalty.can_improve(
            running_beam_scores, beam_scores, cur_len - decoder_prompt_len
        )


def _with_own_limits(processors: LogitsProcessorList, limits: torch.Tensor, prompt_length: int) -> LogitsProcessorList:
    """The processors of a call, of which those that force the end do it at each sentence's own limit."""
    return LogitsProcessorList(
        ForcedEndAtLimit(limits, prompt_length, processor.eos_token_id)
        if isinstance(processor, ForcedEOSTokenLogitsProcessor)
        else processor
        for processor in processors
    )


def _check_decoding(generation_config: GenerationConfig, over_source: int | None) -> None:
    num_beams = generation_config.num_beams
    if num_beams is not None and not (type(num_beams) is int and 1 <= num_beams <= _MOST_BEAMS):
        raise ValueError(
            f"`num_beams` must be a whole number from 1 to {_MOST_BEAMS}, got {num_beams!r}. The paper uses 4; 1 is "
            "greedy search."
        )
    num_returned = generation_config.num_return_sequences
    if num_returned is not None and not (type(num_returned) is int and num_returned >= 1):
        raise ValueError(
            f"`num_return_sequences` must be a whole number of at least 1, got {num_returned!r}. 1 gives the best."
        )
    for name in ("eos_token_id", "pad_token_id", "bos_token_id", "decoder_start_token_id"):
        _check_token_id(name, getattr(generation_config, name))
    check_length_penalty(generation_config.length_penalty)
    check_length_penalty_offset(generation_config.length_penalty_offset)
    if over_source is not None and (type(over_source) is not int or over_source < 0):
        raise ValueError(
            f"`max_new_tokens_over_source` must be a whole number of at least 0 or None, got {over_source!r}."
        )


def _check_token_id(name: str, value: Any) -> None:
    if value is None or torch.is_tensor(value):
        return
    ids = value if isinstance(value, (list, tuple)) else [value]
    if not ids or not all(type(each) is int and abs(each) < 2**31 for each in ids):
        raise ValueError(
            f"`{name}` must be a token's id, a list of some or None, got {value!r}. `<pad>` is 0, `<s>` 1, `</s>` 2."
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


__all__ = ["VaswaniTransformerGenerateOutput", "VaswaniTransformerGenerationMixin"]
