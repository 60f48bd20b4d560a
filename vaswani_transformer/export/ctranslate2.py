# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Export to CTranslate2, and the exact beam search of section 6.1 by CTranslate2.

CTranslate2 keeps the same beams as `generate`, but its length penalty is length^alpha and it stops after a number of
finished hypotheses. So the search here asks for log-probabilities, and for all hypotheses up to a horizon, a number of
tokens: the finished ones and, after the last step, the running ones. The stopping bound of `generate` then tells
whether a running hypothesis can still beat the finished ones. If so, the sentence is searched again with a longer
horizon, up to the limit of the sentence.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..evaluation import DECODING
from ..evaluation.loading import load_for_inference
from ..evaluation.translate import decoding_config
from ..extras import requiring
from ..files import read_json, writing_folder
from ..modeling_vaswani_transformer import MultiHeadAttention, VaswaniTransformerForConditionalGeneration, sinusoids
from ..search_vaswani_transformer import gnmt_length_penalty

try:
    from ctranslate2.converters import utils
    from ctranslate2.converters.transformers import ModelLoader
    from ctranslate2.specs import common_spec, transformer_spec
except ImportError:  # this module can be imported without the extra, but not used
    ModelLoader = object

logger = logging.getLogger(__name__)

# Key of an exported config.json: the description of the model for `Translator`.
DESCRIPTION = "vaswani_transformer"

# Sinusoids have no limit, but CTranslate2 computes them by another formula. So the export stores the paper's, in 4 MB
# for a base model.
MIN_POSITIONS = 2048

# Settings of generation that the export follows, and settings without effect on its results.
_FOLLOWED = {
    *(*DECODING, "max_new_tokens", "max_length", "longest_training_source", "use_cache", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("return_dict_in_generate", "num_return_sequences"),
}


# ---- export ----


def export_ctranslate2(model: str | Path, output_dir: str | Path, *, quantization: str = "float32") -> Path:
    """Export a trained model for CTranslate2 and return the output folder.

    `Translator` needs only this folder. The folder appears complete or not at all.

    Args:
        model: Folder of a model, or its id on the Hub.
        output_dir: Folder to make; it may exist if it is empty.
        quantization: Number format of the stored weights, by CTranslate2's names. int8 makes the model four times
            smaller.

    Raises:
        ValueError: The quantization is unknown, the output folder is not empty, the model is incomplete or not of this
            package, or its `d_k` differs from its `d_v`.

    Example:
        >>> export_ctranslate2("runs/quickstart", "runs/quickstart-int8", quantization="int8")
    """
    with requiring("export", "for its exports"):
        import ctranslate2  # noqa: F401
    with writing_folder(output_dir) as folder:
        loaded, tokenizer = load_for_inference(model, device="cpu")
        loaded.float()  # from bf16 weights, CTranslate2 would make int8_bfloat16 instead of int8
        spec = VaswaniTransformerLoader()(loaded, tokenizer)
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(folder))
        tokenizer.save_pretrained(folder)
    return Path(output_dir)


# ---- the loader ----


class VaswaniTransformerLoader(ModelLoader):  # type: ignore[misc]  # ctranslate2 has no types
    """Converts a model of this package into CTranslate2's specification of a post-norm Transformer."""

    def get_model_spec(self, model: VaswaniTransformerForConditionalGeneration) -> transformer_spec.TransformerSpec:
        """Return the specification with the weights of the model."""
        config = model.config
        if config.d_k != config.d_v:
            raise ValueError(
                f"`model` must have heads of one width for CTranslate2, got `d_k` {config.d_k} and `d_v` "
                f"{config.d_v}. Use the model itself."
            )
        sizes = {"num_heads": config.num_heads, "head_dim": config.d_k}
        sizes |= {"pre_norm": False, "activation": common_spec.Activation.RELU}
        encoder = transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, **sizes)
        decoder = transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, **sizes)
        self._set_embeddings(encoder, encoder.embeddings[0], model.model.encoder)
        self._set_embeddings(decoder, decoder.embeddings, model.model.decoder)
        for spec, layer in zip(encoder.layer, model.model.encoder.layers, strict=True):
            self._set_layer(spec, layer)
        for spec, layer in zip(decoder.layer, model.model.decoder.layers, strict=True):
            self._set_layer(spec, layer)
            self._set_attention(spec.attention, layer.encoder_attn, is_self=False)
            self.set_layer_norm(spec.attention.layer_norm, layer.encoder_attn_layer_norm)
        self.set_linear(decoder.projection, model.lm_head)
        return transformer_spec.TransformerSpec(encoder, decoder)

    def _set_embeddings(self, stack_spec: Any, embeddings_spec: Any, stack: Any) -> None:
        stack_spec.scale_embeddings = stack.embed_scale
        self.set_embeddings(embeddings_spec, stack.embed_tokens)
        if stack.config.position_encoding == "learned":
            stack_spec.position_encodings.encodings = stack.embed_positions.weight
        else:
            positions = torch.arange(num_positions(stack.config))
            stack_spec.position_encodings.encodings = sinusoids(positions, stack.config.d_model)

    def _set_layer(self, spec: Any, layer: Any) -> None:
        """Set the self-attention and feed-forward weights of an encoder or decoder layer."""
        self._set_attention(spec.self_attention, layer.self_attn, is_self=True)
        self.set_layer_norm(spec.self_attention.layer_norm, layer.self_attn_layer_norm)
        self.set_linear(spec.ffn.linear_0, layer.fc1)
        self.set_linear(spec.ffn.linear_1, layer.fc2)
        self.set_layer_norm(spec.ffn.layer_norm, layer.final_layer_norm)

    def _set_attention(self, spec: Any, attention: MultiHeadAttention, *, is_self: bool) -> None:
        """Set the projections of an attention, fused as CTranslate2 needs them."""
        spec.queries_scale = attention.scaling
        projections = [self._linear(each) for each in (attention.q_proj, attention.k_proj, attention.v_proj)]
        if is_self:
            utils.fuse_linear(spec.linear[0], projections)
        else:
            utils.fuse_linear(spec.linear[0], projections[:1])
            utils.fuse_linear(spec.linear[1], projections[1:])
        self.set_linear(spec.linear[-1], attention.out_proj)

    def _linear(self, projection: nn.Linear) -> common_spec.LinearSpec:
        spec = common_spec.LinearSpec()
        self.set_linear(spec, projection)
        return spec

    def get_vocabulary(
        self, model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> list[str]:
        """Return a name for each row of the embedding: its token, or a made-up name if the tokenizer has none."""
        names = {index: token for token, index in tokenizer.get_vocab().items()}
        return [names.get(index, f"<unused {index}>") for index in range(model.config.vocab_size)]

    def set_vocabulary(self, spec: transformer_spec.TransformerSpec, tokens: list[str]) -> None:
        """Register one vocabulary for both sides."""
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)

    def set_config(
        self, config: Any, model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        """Set the special tokens, the epsilon of layer norm and the description of the model."""
        names = self.get_vocabulary(model, tokenizer)
        description = describe(model)
        decoding = decoding_config(model)
        config.decoder_start_token = names[decoding.decoder_start_token_id]
        config.bos_token = config.decoder_start_token
        config.eos_token = names[description["ends"][0]]
        config.unk_token = tokenizer.unk_token or tokenizer.pad_token  # CTranslate2 needs one; byte-level BPE has none
        config.layer_norm_epsilon = model.config.layer_norm_eps
        config.add_attribute(DESCRIPTION, description)


def describe(model: VaswaniTransformerForConditionalGeneration) -> dict[str, Any]:
    """Return the description of a model for `Translator`; warn of settings that have no effect in an export."""
    own = model.generation_config.to_diff_dict()
    ignored = [f"{name}={value!r}" for name, value in own.items() if name not in _FOLLOWED and value]
    if ignored:
        logger.warning(f"The model asks for {', '.join(ignored)}, which have no effect in the export.")
    decoding: Any = decoding_config(model)
    ends = decoding.eos_token_id
    max_new_tokens = decoding.max_new_tokens
    if max_new_tokens is None and decoding.max_length is not None:
        max_new_tokens = decoding.max_length - 1
    return {
        "position_encoding": model.config.position_encoding,
        "num_positions": num_positions(model.config),
        "longest_training_source": getattr(decoding, "longest_training_source", None),
        "ends": ends if isinstance(ends, list) else [ends],
        "num_beams": decoding.num_beams,
        "length_penalty": decoding.length_penalty,
        "length_penalty_offset": decoding.length_penalty_offset,
        "max_new_tokens_over_source": decoding.max_new_tokens_over_source,
        "max_new_tokens": max_new_tokens,
    }


def num_positions(config: VaswaniTransformerConfig) -> int:
    """Return the number of positions of an export: the maximum length of a source or target."""
    is_learned = config.position_encoding == "learned"
    return config.max_position_embeddings if is_learned else max(MIN_POSITIONS, config.max_position_embeddings)


# ---- files of an export ----


def read_description(folder: Path) -> dict[str, Any]:
    """Read the description of an exported model. Raise ValueError if the folder is not an export."""
    path = folder / CONFIG_NAME
    content = read_json(path) if path.is_file() else {}
    description: dict[str, Any] = content.get(DESCRIPTION, {})
    if "num_beams" not in description:
        raise ValueError(
            f"`folder` must be an export of a model by this version, got {folder}. Make one: vaswani-transformer "
            "export --model DIR --to ctranslate2 --output-dir NEW."
        )
    return description


# ---- search ----

# The first horizon is the longest source of a batch plus _OVER_SOURCE tokens. Each next one is _GROWTH times as long.
_OVER_SOURCE = 5
_GROWTH = 1.5

_NO_PENALTY = 1e-30  # with 0, CTranslate2 may stop at the first hypothesis


@dataclass(frozen=True)
class Decoding:
    """Settings of the search. With `is_over_source`, the source length is added to `max_new_tokens`."""

    num_beams: int
    num_best: int
    length_penalty: float
    length_penalty_offset: float
    max_new_tokens: int
    is_over_source: bool

    def limit(self, source: list[int]) -> int:
        """Return the maximum number of output tokens for a source, `</s>` included."""
        return self.max_new_tokens + (len(source) if self.is_over_source else 0)

    def score(self, log_prob: float, length: int) -> float:
        """Return GNMT's score of a hypothesis of `length` tokens."""
        return log_prob / float(gnmt_length_penalty(max(length, 1), self.length_penalty, self.length_penalty_offset))


@dataclass(frozen=True)
class Found:
    """A hypothesis: token ids (with `</s>` if it is finished), log-probability and GNMT score."""

    tokens: list[int]
    log_prob: float
    score: float


class Search:
    """Beam search by a `ctranslate2.Translator`.

    Args:
        engine: The `ctranslate2.Translator`.
        names: Token of each id.
        ends: Token ids that end an output.
        num_positions: Maximum length of an output.
    """

    def __init__(self, engine: Any, names: list[str], ends: list[int], num_positions: int) -> None:
        self.engine = engine
        self.names = names
        self.ends = set(ends)
        self.num_positions = num_positions
        self.ids = {name: index for index, name in enumerate(names)}

    def __call__(self, sources: list[list[int]], decoding: Decoding) -> list[list[Found]]:
        """Return the best hypotheses of each source of a batch, best first. Sources are token ids with `</s>`."""
        limits = [min(decoding.limit(source), self.num_positions) for source in sources]
        best: list[list[Found]] = [[] for _ in sources]
        horizon = max(map(len, sources)) + _OVER_SOURCE
        open_indices = list(range(len(sources)))
        while open_indices:
            unsettled = []
            for steps in sorted({min(limits[index], horizon) for index in open_indices}):
                indices = [index for index in open_indices if min(limits[index], horizon) == steps]
                results = self._search([sources[index] for index in indices], steps, decoding)
                for index, found in zip(indices, results, strict=True):
                    complete = [one for one in found if steps == limits[index] or self._is_finished(one)]
                    best[index] = sorted(complete, key=lambda one: -one.score)[: decoding.num_best]
                    if not self._is_settled(best[index], found, steps, limits[index], decoding):
                        unsettled.append(index)
            open_indices = unsettled
            horizon = round(_GROWTH * horizon)
        return best

    def _is_settled(self, best: list[Found], found: list[Found], steps: int, limit: int, decoding: Decoding) -> bool:
        """Return True if no longer hypothesis can still enter the best; see `SearchRule.can_improve`."""
        if steps == limit:
            return True
        if decoding.num_beams == 1:
            return bool(best)
        running = [one.log_prob for one in found if not self._is_finished(one)]
        if not running:  # all hypotheses of the last step finished, so the next beams are less probable than these
            running = [min((one.log_prob for one in found if len(one.tokens) == steps), default=0.0)]
        best_length = limit if decoding.length_penalty >= 0 else steps + 1
        return len(best) == decoding.num_best and decoding.score(max(running), best_length) <= best[-1].score

    def _is_finished(self, one: Found) -> bool:
        return bool(one.tokens) and one.tokens[-1] in self.ends

    def _search(self, sources: list[list[int]], steps: int, decoding: Decoding) -> list[list[Found]]:
        """Return all hypotheses that CTranslate2 finds in `steps` steps, finished or still running."""
        is_greedy = decoding.num_beams == 1
        most = 1 if is_greedy else decoding.num_beams * (steps + 1)  # more than can finish, to prevent an early stop
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
            min_decoding_length=0,  # the default of 1 forbids empty outputs and so raises all other scores
        )
        return [
            [
                Found([self.ids[token] for token in tokens], log_prob, decoding.score(log_prob, len(tokens)))
                for tokens, log_prob in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]
