# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Export models to CTranslate2, and run exactly the paper's beam search with CTranslate2.

`generate` runs the paper's beam search (section 6.1). CTranslate2 keeps the same beams as
`generate` in each step. But CTranslate2's own length penalty is length^alpha, and CTranslate2 stops
after a fixed number of finished hypotheses. So the search of this module has three stages:

1. CTranslate2 searches up to a horizon, a number of tokens. It returns all hypotheses with their
   log-probabilities. Some are finished, and others are still running after the last step.
2. The hypotheses are scored with GNMT's length penalty.
3. The stopping rule of `generate` tells whether a running hypothesis can still beat the finished
   ones. If so, the sentence is searched again with a longer horizon, at most up to the maximum
   output length of the sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import GenerationConfig, PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME

from ..beam_search_vaswani_transformer import gnmt_length_penalty
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..extras import requiring
from ..files import read_json_if_any, writing_folder
from ..modeling_vaswani_transformer import (
    MultiHeadAttention,
    VaswaniTransformerForConditionalGeneration,
)
from . import DECODING
from .loading import load_for_inference
from .translate import decoding_config

try:
    from ctranslate2.converters.transformers import BartLoader
    from ctranslate2.specs import common_spec, transformer_spec
except ImportError:  # this module can be imported without the extra, but not used
    BartLoader = object

# Key in the config.json of an export. Its value holds the config of the model and the generation
# config. `Translator` reads both configs.
DESCRIPTION = "vaswani_transformer"

# If an export has no table of positions, CTranslate2 computes sinusoids by another formula than the
# paper's. So the export stores a table of the paper's sinusoids, 4 MB for a base model.
MIN_POSITIONS = 2048

# Keys of a generation config that the search below supports, or that do not change the results of
# the search.
_FOLLOWED = {
    *DECODING,
    "max_new_tokens",
    "max_length",
    "num_return_sequences",
    "return_dict_in_generate",
    "longest_training_source",
    "use_cache",
    "transformers_version",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
}


# ---- export ----


def export_ctranslate2(
    model: str | Path, output_dir: str | Path, *, quantization: str = "float32"
) -> Path:
    """Export a trained model for CTranslate2 and return the output folder.

    `Translator` needs only this folder. If the export fails, no incomplete folder remains.

    Args:
        model: Folder of a model, or its id on the Hub.
        output_dir: Folder to create; it may exist if it is empty.
        quantization: CTranslate2's name of the number format of the stored weights. int8 makes a
            base model about four times smaller.

    Raises:
        ImportError: CTranslate2 is not installed.
        ValueError: The quantization is unknown, the output folder is not empty, the model is
            incomplete or not of this package, its `d_k` differs from its `d_v`, or its generation
            config has settings that CTranslate2 cannot follow.

    Example:
        >>> export_ctranslate2("runs/quickstart", "runs/quickstart-int8", quantization="int8")
    """
    with requiring("export", "for its exports"):
        import ctranslate2  # noqa: F401
    with writing_folder(output_dir) as folder:
        loaded, tokenizer = load_for_inference(model, device="cpu")
        write_export(loaded, tokenizer, folder, quantization)
    return Path(output_dir)


def write_export(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str = "float32",
) -> None:
    """Write a model and its tokenizer in CTranslate2's format into an empty folder.

    The model is converted to fp32 in place.
    """
    model.float()  # with bf16 weights, CTranslate2 would turn int8 into int8_bfloat16
    spec = VaswaniTransformerLoader()(model, tokenizer)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    tokenizer.save_pretrained(folder)


# ---- the loader ----


class VaswaniTransformerLoader(BartLoader):  # type: ignore[misc]  # ctranslate2 has no types
    """Converts a model into CTranslate2's specification of a post-norm Transformer.

    The layers of this package have the same names as those of Bart, so CTranslate2's converter of
    Bart copies most of the weights.
    """

    def get_model_spec(
        self, model: VaswaniTransformerForConditionalGeneration
    ) -> transformer_spec.TransformerSpec:
        """Return the specification with the weights of the model."""
        config = model.config
        self._num_positions = num_positions(config)
        if config.d_k != config.d_v:
            raise ValueError(
                f"`model` must have heads of one width for CTranslate2, got `d_k` {config.d_k} and "
                f"`d_v` {config.d_v}. Use the model without CTranslate2."
            )
        sizes = {
            "num_heads": config.num_heads,
            "head_dim": config.d_k,
            "pre_norm": False,
            "activation": common_spec.Activation.RELU,
        }
        encoder = transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, **sizes)
        decoder = transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, **sizes)
        self.set_encoder(encoder, model.model.encoder)
        self.set_decoder(decoder, model.model.decoder)
        self.set_linear(decoder.projection, model.lm_head)
        return transformer_spec.TransformerSpec(encoder, decoder)

    def set_position_encodings(self, spec: Any, module: nn.Module) -> None:
        """Set the table of positions, learned or sinusoidal."""
        positions = torch.arange(self._num_positions)
        spec.encodings = module(positions, self._num_positions)

    def set_attention(
        self, spec: Any, attention: MultiHeadAttention, self_attention: bool = False
    ) -> None:
        """Set the projections of an attention sub-layer, and the scale applied to its queries."""
        super().set_attention(spec, attention, self_attention)
        spec.queries_scale = attention.scaling

    def get_vocabulary(
        self, model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> list[str]:
        """Return a token for each row of the embedding.

        Rows without a token get a name such as `<unused 7>`.
        """
        names = {index: token for token, index in tokenizer.get_vocab().items()}
        return [names.get(index, f"<unused {index}>") for index in range(model.config.vocab_size)]

    def set_config(
        self,
        config: Any,
        model: VaswaniTransformerForConditionalGeneration,
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        """Write the special tokens, LayerNorm's epsilon and the model's configs into `config`.

        `read_configs` reads the model's configs back.
        """
        names = self.get_vocabulary(model, tokenizer)
        decoding = decoding_config(model)
        _check_settings(model)
        config.decoder_start_token = names[decoding.decoder_start_token_id]
        config.bos_token = config.decoder_start_token
        config.eos_token = names[ends_of(decoding)[0]]
        # CTranslate2 requires an unknown token, although byte-level BPE has none.
        config.unk_token = tokenizer.unk_token or tokenizer.pad_token
        config.layer_norm_epsilon = model.config.layer_norm_eps
        description = {
            "config": model.config.to_diff_dict(),
            "generation_config": decoding.to_diff_dict(),
        }
        config.add_attribute(DESCRIPTION, description)


def _check_settings(model: VaswaniTransformerForConditionalGeneration) -> None:
    """Raise ValueError if the model's generation config has settings other than `_FOLLOWED`."""
    others = []
    # `Seq2SeqTrainer` writes the defaults of transformers into the config.
    defaults = model.generation_config._get_default_generation_params()
    for name, value in model.generation_config.to_diff_dict().items():
        if value and value != defaults.get(name) and name not in _FOLLOWED:
            others.append(f"{name}={value!r}")
    if others:
        raise ValueError(
            "`model` must have search settings that CTranslate2 can follow, got "
            f"{', '.join(others)} in its generation config. Set them to None there, or use the "
            "model without CTranslate2."
        )


def ends_of(decoding: GenerationConfig) -> list[int]:
    """Return the token ids that end an output."""
    ends: Any = decoding.eos_token_id
    if isinstance(ends, list):
        return ends
    return [ends]


def num_positions(config: VaswaniTransformerConfig) -> int:
    """Return the number of positions of an export: the maximum length of a source or an output."""
    if config.position_encoding == "learned":
        return config.max_position_embeddings
    return max(MIN_POSITIONS, config.max_position_embeddings)


# ---- files of an export ----


def read_configs(folder: Path) -> tuple[VaswaniTransformerConfig, GenerationConfig]:
    """Return the config of an exported model and its generation config.

    Raises:
        ValueError: The folder is not an export by this version.
    """
    description = read_json_if_any(folder / CONFIG_NAME).get(DESCRIPTION, {})
    if "generation_config" not in description:
        raise ValueError(
            f"`model` must be a model or an export by this version, got {folder}. Export the model "
            "again: vaswani-transformer export --model DIR --to ctranslate2 --output-dir NEW."
        )
    generation_config = GenerationConfig(**description["generation_config"])
    return VaswaniTransformerConfig(**description["config"]), generation_config


# ---- search ----

# The first horizon is the length of the longest source in the batch plus _OVER_SOURCE tokens. Each
# later horizon is _GROWTH times the previous one.
_OVER_SOURCE = 5
_GROWTH = 1.5

_NO_PENALTY = 1e-30  # if it were 0, CTranslate2 might stop at the first hypothesis


@dataclass(frozen=True)
class Decoding:
    """Settings of the search.

    If `is_over_source` is true, an output may have `max_new_tokens` tokens more than its source.
    """

    num_beams: int
    num_best: int
    length_penalty: float
    length_penalty_offset: float
    max_new_tokens: int
    is_over_source: bool

    @classmethod
    def of(cls, config: Any) -> Decoding:
        """Return the settings of a generation config."""
        limit = config.max_new_tokens_over_source
        is_over_source = limit is not None
        if limit is None:
            limit = config.max_new_tokens
        if limit is None:
            limit = config.max_length - 1  # `max_length` counts `<s>`, `max_new_tokens` does not
        return cls(
            num_beams=config.num_beams,
            num_best=config.num_return_sequences or 1,
            length_penalty=config.length_penalty,
            length_penalty_offset=config.length_penalty_offset,
            max_new_tokens=limit,
            is_over_source=is_over_source,
        )

    def limit(self, source: list[int]) -> int:
        """Return the maximum number of output tokens for a source, `</s>` included."""
        if self.is_over_source:
            return len(source) + self.max_new_tokens
        return self.max_new_tokens

    def score(self, log_prob: float, length: int) -> float:
        """Return GNMT's score of a hypothesis of `length` tokens."""
        length = max(length, 1)
        penalty = gnmt_length_penalty(length, self.length_penalty, self.length_penalty_offset)
        return log_prob / float(penalty)


@dataclass(frozen=True)
class Found:
    """A hypothesis with its token ids, log-probability and GNMT score.

    A finished hypothesis ends in `</s>`.
    """

    tokens: list[int]
    log_prob: float
    score: float


class CTranslate2Search:
    """Beam search by a `ctranslate2.Translator`.

    Args:
        translator: The `ctranslate2.Translator`.
        names: Vocabulary: the token for each token id.
        ends: Token ids that end an output.
        num_positions: Maximum length of an output.
    """

    def __init__(
        self, translator: Any, names: list[str], ends: list[int], num_positions: int
    ) -> None:
        self.translator = translator
        self.names = names
        self.ends = set(ends)
        self.num_positions = num_positions
        self.ids = {name: index for index, name in enumerate(names)}

    def __call__(self, sources: list[list[int]], decoding: Decoding) -> list[list[Found]]:
        """Return the best hypotheses for each source of a batch, best first.

        Sources are token ids with `</s>`.
        """
        limits = [min(decoding.limit(source), self.num_positions) for source in sources]
        best: list[list[Found]] = [[] for _ in sources]
        horizon = max(map(len, sources)) + _OVER_SOURCE
        open_indices = list(range(len(sources)))
        while open_indices:
            by_steps: dict[int, list[int]] = {}
            for index in open_indices:
                steps = min(limits[index], horizon)
                by_steps.setdefault(steps, []).append(index)
            unsettled = []
            for steps, indices in sorted(by_steps.items()):
                results = self._search([sources[index] for index in indices], steps, decoding)
                for index, found in zip(indices, results, strict=True):
                    limit = limits[index]
                    best[index] = self._best(found, steps, limit, decoding)
                    if not self._is_settled(best[index], found, steps, limit, decoding):
                        unsettled.append(index)
            open_indices = unsettled
            horizon = round(_GROWTH * horizon)
        return best

    def _best(self, found: list[Found], steps: int, limit: int, decoding: Decoding) -> list[Found]:
        """Return the best finished hypotheses. At the limit, running ones count as finished."""
        complete = found
        if steps < limit:
            complete = [one for one in found if self._is_finished(one)]
        return sorted(complete, key=lambda one: -one.score)[: decoding.num_best]

    def _is_settled(
        self, best: list[Found], found: list[Found], steps: int, limit: int, decoding: Decoding
    ) -> bool:
        """Return True if further steps cannot change the best hypotheses.

        See `SearchRule.can_improve`.
        """
        if steps == limit:
            return True
        if decoding.num_beams == 1:
            return bool(best)
        running = [one.log_prob for one in found if not self._is_finished(one)]
        if not running:
            # All beams of the last step have finished. A longer search would continue with
            # candidates that are less probable than all of these beams. So the lowest
            # log-probability of these beams is an upper bound for the candidates.
            last_step = [one.log_prob for one in found if len(one.tokens) == steps]
            running = [min(last_step, default=0.0)]
        # the length that gives the highest score
        best_length = limit if decoding.length_penalty >= 0 else steps + 1
        best_possible = decoding.score(max(running), best_length)
        return len(best) == decoding.num_best and best_possible <= best[-1].score

    def _is_finished(self, one: Found) -> bool:
        return bool(one.tokens) and one.tokens[-1] in self.ends

    def _search(
        self, sources: list[list[int]], steps: int, decoding: Decoding
    ) -> list[list[Found]]:
        """Return all hypotheses that CTranslate2 has after `steps` steps, finished or running."""
        num_hypotheses = 1
        if decoding.num_beams > 1:
            # CTranslate2 stops when `num_hypotheses` hypotheses have finished. This number is too
            # large to be reached within `steps` steps. So CTranslate2 never stops early.
            num_hypotheses = decoding.num_beams * (steps + 1)
        results = self.translator.translate_batch(
            [[self.names[index] for index in source] for source in sources],
            beam_size=decoding.num_beams,
            patience=num_hypotheses / decoding.num_beams,
            num_hypotheses=num_hypotheses,
            length_penalty=_NO_PENALTY,
            return_scores=True,
            end_token=[self.names[end] for end in self.ends],
            return_end_token=True,
            max_input_length=0,  # never truncate
            max_decoding_length=steps,
            # The default value of 1 would forbid empty outputs. The probability of empty outputs
            # would then be spread over all other outputs, and raise the scores of those outputs.
            min_decoding_length=0,
        )
        all_found = []
        for result in results:
            found = []
            for names, log_prob in zip(result.hypotheses, result.scores, strict=True):
                tokens = [self.ids[name] for name in names]
                found.append(Found(tokens, log_prob, decoding.score(log_prob, len(tokens))))
            all_found.append(found)
        return all_found
