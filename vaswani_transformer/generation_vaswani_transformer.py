# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Decoding of section 6.1 inside transformers' `generate`.

Section 6.1 uses beam search with GNMT's length penalty and at most 50 tokens more than the source.
The stopping rule is exact: a search ends when no hypothesis can still enter the results.

`generate` calls `_prepare_generation_config` and `_prepare_generated_length`, then `_sample` or
`_beam_search`. If the searches of beam_search_vaswani_transformer.py support the call, `_sample`
and `_beam_search` run these searches. Otherwise they run the loops of transformers. Beam search
follows the same `SearchRule` in both cases.

Shapes: B sentences, N beams, T target length, V vocabulary. There are B rows, or B * N rows with
the beams of a sentence next to each other.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import torch
from transformers import (
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation.utils import (
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
)
from transformers.utils import logging

from .beam_search_vaswani_transformer import (
    GNMT_OFFSET,
    NEVER_POSITIVE,
    NO_HYPOTHESIS,
    PAPER_ALPHA,
    PAPER_BEAMS,
    PAPER_OVER_SOURCE,
    BeamSearch,
    GreedySearch,
    SearchRule,
    SearchTask,
    can_search,
    check_length_penalty,
    check_over_source,
    check_scores,
)
from .configuration_vaswani_transformer import VaswaniTransformerConfig

logger = logging.get_logger(__name__)


_SWITCHING = threading.Lock()
_ENABLED_BEFORE: list[bool] = []  # one entry for each open context, in all threads


@contextlib.contextmanager
def without_cudnn_attention(device: torch.device) -> Iterator[None]:
    """Disable cuDNN's attention within the context.

    On a GPU, cuDNN's attention needs 0.4 s or more for each new shape. The setting belongs to all
    threads, so the context that closes last restores it.
    """
    if device.type == "cpu":
        yield
        return
    with _SWITCHING:
        _ENABLED_BEFORE.append(torch.backends.cuda.cudnn_sdp_enabled())
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        with _SWITCHING:
            # Only the first entry can be True, so only the context that closes last restores it.
            torch.backends.cuda.enable_cudnn_sdp(_ENABLED_BEFORE.pop())


class SourceLengthCriteria(StoppingCriteria):
    """Stopping criterion with a limit for each sentence.

    Args:
        limits: (B,) maximum number of tokens after the prompt.
        prompt_length: Length of the prompt, which is `<s>` and, if there is one, a forced prefix.
    """

    def __init__(self, limits: torch.Tensor, prompt_length: int) -> None:
        self.limits = limits
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Return a (rows,) mask: True for the rows of sentences that have reached their limit."""
        generated = input_ids.shape[1] - self.prompt_length
        num_each = len(input_ids) // len(self.limits)
        return (self.limits <= generated).repeat_interleave(num_each)


class CheckedScores(LogitsProcessor):
    """Logits processor that raises ValueError if a score is NaN, and never changes the scores."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the (rows, V) scores, unchanged."""
        check_scores(scores.amax(dim=-1).isnan().any())
        return scores


class VaswaniTransformerGenerationMixin(GenerationMixin):
    """`generate` with the paper's score, stopping rule and output limit.

    The generation config has two more keys. `max_new_tokens_over_source` (50) limits the output of
    each sentence to the length of its source plus that many tokens, `</s>` included. Any
    `max_new_tokens` replaces this limit. A `max_length` that is passed to the call, as an argument
    or in a GenerationConfig, also replaces this limit. A `max_length` in the model's own generation
    config does not replace the limit, because evaluation with `Seq2SeqTrainer` writes a default
    `max_length` to the model's config.

    `length_penalty_offset` (5) is c in ((c + length) / (c + 1))^alpha, where alpha is
    `length_penalty`. With 0 the penalty is length^alpha, as in fairseq and transformers.

    Paper: section 6.1.
    """

    # [misc] and [arg-type] are ignored below because of transformers' types: no model fulfills
    # the protocol that transformers declares for `self`, and no function of torch returns the
    # torch.LongTensor that transformers declares for token ids.
    config: VaswaniTransformerConfig
    generation_config: Any  # with the keys of this package

    def _set_default_generation(self) -> None:
        """Set the offset of the length penalty, and section 6.1's limit on the output length.

        The search stays greedy, as for every model of transformers that is built from a config.
        """
        self.generation_config.update(
            length_penalty_offset=GNMT_OFFSET,
            max_new_tokens_over_source=PAPER_OVER_SOURCE,
            allow_custom_entries=True,
        )
        # If a saved generation config has True here, loading it drops keys that transformers does
        # not know.
        self.generation_config._from_model_config = False

    @functools.wraps(GenerationMixin.generate)
    def generate(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Generate as transformers does, but with cuDNN's attention disabled."""
        model: Any = self
        with without_cudnn_attention(model.device):
            return super().generate(*args, **kwargs)  # type: ignore[misc]

    def set_default_search(self) -> None:
        """Make section 6.1's beam search the default of `generate`: beam 4 and alpha 0.6.

        The trainer of this package calls this method. `from_pretrained` calls it if there is no
        generation_config.json. Call it yourself before you train a new model with the trainer of
        transformers. The default is saved with the model. Nothing changes if the generation config
        already sets `num_beams` or enables sampling, or if it lacks the keys of this package.
        """
        own = self.generation_config
        has_own_keys = hasattr(own, "max_new_tokens_over_source")
        has_chosen_search = own.num_beams is not None or own.do_sample
        if has_own_keys and not has_chosen_search:
            own.num_beams = PAPER_BEAMS
            if own.length_penalty is None:
                own.length_penalty = PAPER_ALPHA

    def _prepare_generation_config(
        self, generation_config: Any, **kwargs: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Prepare the generation config of a call.

        The first of these limits that is set applies:

        1. `max_new_tokens` or `max_length` as an argument of the call,
        2. `max_new_tokens_over_source` as an argument of the call,
        3. `max_new_tokens` in the passed generation config or in the model's generation config, or
           `max_length` in the passed config,
        4. `max_new_tokens_over_source` in the passed config or in the model's generation config,
        5. `max_length` in the model's generation config, as in transformers.

        `max_new_tokens_over_source=None` as an argument of the call skips items 2 and 4. If both
        `max_new_tokens` and `max_length` are set, transformers uses `max_new_tokens`. Item 3
        ignores `max_length` in a passed config if this config is equal to the model's config, or if
        this config holds defaults that `Seq2SeqTrainer` wrote.

        Raises:
            ValueError: `max_new_tokens_over_source`, `length_penalty` or `length_penalty_offset` is
                out of range.
        """
        own = self.generation_config
        passed = {}
        if generation_config is not None:
            passed = generation_config.to_dict()
            is_own = passed == own.to_dict()
            if is_own or _holds_trainers_defaults(generation_config):
                passed["max_length"] = None  # a default that nobody chose for this call
        is_limit_given = "max_new_tokens_over_source" in kwargs
        over_source = kwargs.pop("max_new_tokens_over_source", None)
        offset = kwargs.pop("length_penalty_offset", None)
        given = {**passed, **kwargs}
        prepared: Any
        prepared, model_kwargs = super()._prepare_generation_config(  # type: ignore[misc]
            generation_config, **kwargs
        )

        if is_limit_given:
            other_limits = kwargs  # item 1 of the list
        else:
            over_source = getattr(prepared, "max_new_tokens_over_source", None)
            other_limits = {**given, "max_new_tokens": prepared.max_new_tokens}  # items 1 and 3
        for name in ("max_length", "max_new_tokens"):
            if other_limits.get(name) is not None:
                over_source = None

        # If the model's generation config has the keys of this package but no length penalty, the
        # penalty is the paper's. Without these keys, it is that of transformers.
        default_penalty, default_offset = 1.0, 0.0
        if hasattr(own, "max_new_tokens_over_source"):
            default_penalty, default_offset = PAPER_ALPHA, GNMT_OFFSET
        if given.get("length_penalty") is None and own.length_penalty is None:
            prepared.length_penalty = default_penalty
        if offset is None:
            offset = getattr(prepared, "length_penalty_offset", None)
        if offset is None:
            offset = default_offset
        prepared.length_penalty_offset = offset
        prepared.max_new_tokens_over_source = over_source
        check_length_penalty(prepared.length_penalty, prepared.length_penalty_offset)
        check_over_source(over_source)
        if over_source is not None:
            if own.max_length is not None and not _holds_trainers_defaults(own):
                logger.warning_once(
                    f"`max_length` = {own.max_length} of the model's generation config is ignored "
                    "while its `max_new_tokens_over_source` is set. Set `max_new_tokens`, or pass "
                    "`max_length` to `generate`."
                )
            prepared.max_length = None
            prepared.max_new_tokens = None
        return prepared, model_kwargs

    def _prepare_generated_length(self, generation_config: Any, *args: Any, **kwargs: Any) -> Any:
        """Set the batch's output limit to the limit of its longest source.

        Each sentence still ends at its own limit; see `_limits`.
        """
        over_source = generation_config.max_new_tokens_over_source
        if over_source is not None:
            longest = kwargs["inputs_tensor"].shape[1] + over_source
            if self.config.position_encoding == "learned":
                # The last token is not an input of the decoder, so it needs no position.
                room = self.config.max_position_embeddings - kwargs["input_ids_length"] + 1
                longest = min(longest, room)
            generation_config.max_new_tokens = longest
        return super()._prepare_generated_length(generation_config, *args, **kwargs)  # type: ignore[misc]

    def _sample(  # type: ignore[override]  # other arguments are passed by name
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: Any,
        **kwargs: Any,
    ) -> Any:
        """Run greedy search or sampling. Each row ends at its own limit."""
        limits = self._limits(input_ids, generation_config, kwargs)
        if can_search(self, stopping_criteria, generation_config, kwargs):
            # On a CPU, inference mode saves time.
            with torch.inference_mode(input_ids.device.type == "cpu"), torch.no_grad():
                task = SearchTask.of(
                    self, input_ids, limits, logits_processor, generation_config, kwargs
                )
                found = GreedySearch(task, self._padding(generation_config)).run()
            sequences: Any = found.clone()  # callers get a normal, not an inference tensor
            if not generation_config.return_dict_in_generate:
                return sequences
            return GenerateEncoderDecoderOutput(sequences)
        stopping_criteria.append(SourceLengthCriteria(limits, input_ids.shape[1]))
        return super()._sample(  # type: ignore[misc]
            input_ids,
            logits_processor=LogitsProcessorList([CheckedScores(), *logits_processor]),
            stopping_criteria=stopping_criteria,
            generation_config=generation_config,
            **kwargs,
        )

    def _beam_search(  # type: ignore[override]  # other arguments are passed by name
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: Any,
        **kwargs: Any,
    ) -> Any:
        """Run beam search with the paper's score and stopping rule."""
        limits = self._limits(input_ids, generation_config, kwargs)
        rule = SearchRule(
            alpha=generation_config.length_penalty,
            offset=generation_config.length_penalty_offset,
            limits=limits.unsqueeze(1),
            num_wanted=generation_config.num_return_sequences,
            is_bounded=all(type(processor) in NEVER_POSITIVE for processor in logits_processor),
        )
        if can_search(self, stopping_criteria, generation_config, kwargs):
            # On a CPU, inference mode saves time.
            with torch.inference_mode(input_ids.device.type == "cpu"), torch.no_grad():
                task = SearchTask.of(
                    self, input_ids, limits, logits_processor, generation_config, kwargs
                )
                is_early = generation_config.early_stopping is True
                search = BeamSearch(task, rule, generation_config.num_beams, is_early)
                found = search.run(self._padding(generation_config))
            # Callers get normal tensors, not inference tensors.
            sequences, beams, scores = (each.clone() for each in found)
            if not generation_config.return_dict_in_generate:
                return sequences
            return GenerateBeamEncoderDecoderOutput(sequences, scores, beam_indices=beams)  # type: ignore[arg-type]
        arguments = {
            **kwargs,
            "stopping_criteria": stopping_criteria,
            "generation_config": generation_config,
        }
        return self._beam_search_of_transformers(rule, input_ids, logits_processor, **arguments)

    def _beam_search_of_transformers(
        self,
        rule: SearchRule,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        **arguments: Any,
    ) -> Any:
        """Run the beam search of transformers with `rule`.

        transformers passes its `length_penalty` to `_update_finished_beams` and
        `_check_early_stop_heuristic`. Both are overridden below, and take the rule instead of the
        number.

        Finished sequences are padded with `<pad>`. transformers would pad them with `</s>`, because
        it takes the id 0 of `<pad>` for a missing id. So this method makes transformers pad with
        -1, and then replaces -1 by the id of `<pad>`.
        """
        prompt_length = input_ids.shape[1]
        limits = rule.limits.squeeze(1)
        arguments["stopping_criteria"].append(SourceLengthCriteria(limits, prompt_length))
        config = arguments["generation_config"]
        padding = self._padding(config)
        config._pad_token_tensor = torch.tensor(-1)
        config.length_penalty = rule
        processors = LogitsProcessorList([CheckedScores(), *logits_processor])
        output: Any = super()._beam_search(  # type: ignore[misc]
            input_ids, logits_processor=processors, **arguments
        )
        scores = rule.scores[:, : rule.num_wanted].flatten()
        is_missing = scores == -torch.inf
        if torch.is_tensor(output):
            sequences = output
        else:
            sequences = output.sequences
            output.sequences_scores = scores
            output.beam_indices[is_missing] = -1
        sequences[is_missing, prompt_length:] = -1
        sequences.masked_fill_(sequences == -1, padding)
        return output

    def _limits(
        self, input_ids: torch.Tensor, config: Any, arguments: dict[str, Any]
    ) -> torch.Tensor:
        """Return each sentence's maximum number of generated tokens (B,)."""
        mask = arguments.get("attention_mask")
        encoded = arguments["encoder_outputs"][0]
        over_source = config.max_new_tokens_over_source
        longest = config.max_length - input_ids.shape[1]  # limit of the longest source
        limits = torch.full((len(encoded),), longest, device=encoded.device)
        if over_source is not None and mask is not None:
            source_lengths = (mask != 0).sum(dim=-1)
            limits = torch.minimum(source_lengths + over_source, limits)
        return limits[:: config.num_beams]

    def _padding(self, generation_config: Any) -> int:
        """Return the id that pads finished sequences."""
        pad = generation_config._pad_token_tensor
        if pad is None:
            return self.config.pad_token_id or 0
        return int(pad)

    def _update_finished_beams(  # type: ignore[override]  # other arguments are passed by name
        self, *, cur_len: int, decoder_prompt_len: int, length_penalty: SearchRule, **state: Any
    ) -> tuple[torch.Tensor, ...]:
        """Score hypotheses that end in this step: log-probability divided by GNMT's penalty.

        Hypotheses that do not end get the score -inf. transformers would add -1e9 to the scores of
        these hypotheses instead. But with a negative alpha, real scores can be lower than -1e9, and
        in fp32 the sum of a score and -1e9 is rounded to -1e9.
        """
        log_probs = state["topk_log_probs"]
        is_finished = state["is_sent_finished"]
        is_full = torch.all(is_finished, dim=-1, keepdim=True) & (state["early_stopping"] is True)
        ends = state["next_token_hits_stopping_criteria"] & state["top_num_beam_mask"]
        ends = ends & (log_probs > NO_HYPOTHESIS)
        ends = ends & state["is_early_stop_heuristic_unsatisfied"] & ~is_full
        penalty = length_penalty.penalty(cur_len + 1 - decoder_prompt_len)
        state["topk_log_probs"] = torch.where(ends, log_probs / penalty, -torch.inf)
        state["beam_scores"] = torch.where(is_finished, state["beam_scores"], -torch.inf)
        state["next_token_hits_stopping_criteria"] = ends
        # With a length penalty of 0.0, transformers divides the scores by 1.
        finished = super()._update_finished_beams(
            cur_len=cur_len, decoder_prompt_len=decoder_prompt_len, length_penalty=0.0, **state
        )
        length_penalty.scores = finished[1]
        return finished

    def _check_early_stop_heuristic(  # type: ignore[override]  # other arguments are passed by name
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
        """Return a (B, 1) mask: True for sentences that can still improve.

        See `SearchRule.can_improve`.
        """
        length = cur_len - decoder_prompt_len
        can_improve = length_penalty.can_improve(running_beam_scores, beam_scores, length)
        return is_early_stop_heuristic_unsatisfied & can_improve


def _holds_trainers_defaults(generation_config: Any) -> bool:
    """Return True if a config looks as if `Seq2SeqTrainer.evaluate` had filled in the defaults.

    In such a config, every default of transformers is set, and `max_length` has its default value.
    """
    defaults = generation_config._get_default_generation_params()
    for name, default in defaults.items():
        if default is not None and getattr(generation_config, name) is None:
            return False
    return bool(generation_config.max_length == defaults["max_length"])
