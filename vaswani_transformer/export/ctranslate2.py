# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""CTranslate2: trained models as folders for it, section 6.1's exact search by it.

CTranslate2 keeps the beams that `generate` keeps, but divides by length^alpha and stops at a number of finished
hypotheses. So it is asked for log-probabilities, and for all that it finds within a number of tokens, its horizon: the
finished hypotheses, and the running ones of the last step. These tell whether a better one can come, by the bound at
which `generate` stops. Where one can, the sentence is searched again with a farther horizon, at last its own limit.

Shapes: D d_model, H heads, K d_k (or d_v), V vocabulary.
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
except ImportError:  # without the extra this module can be imported, not used
    ModelLoader = object

logger = logging.getLogger(__name__)

# The key of an exported config.json that tells what `Translator` has to know of the model.
DESCRIPTION = "vaswani_transformer"

# Sinusoids have no end, but CTranslate2's own are of another formula, so the paper's are stored: 4 MB of a base model.
MIN_POSITIONS = 2048

# Settings of a search that CTranslate2 follows, and those that change nothing it finds.
_FOLLOWED = {
    *(*DECODING, "max_new_tokens", "max_length", "longest_training_source", "use_cache", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("return_dict_in_generate", "num_return_sequences"),
}


# ---- export ----


def export_ctranslate2(model: str | Path, output_dir: str | Path, *, quantization: str = "float32") -> Path:
    """Writes a trained model as a folder that CTranslate2 reads, and `Translator` with nothing else, and returns it.

    The folder appears whole or not at all.

    Args:
        model: Folder of a model, or its id on the Hub.
        output_dir: Folder to make; it may exist if it is empty.
        quantization: How weights are stored: as CTranslate2 names it. In int8 the model is a quarter as large.

    Raises:
        ValueError: There is no such quantization, the output folder holds something, the model is not one of this
            package or not complete, or its `d_k` is not its `d_v`.

    Example:
        >>> export_ctranslate2("runs/quickstart", "runs/quickstart-int8", quantization="int8")
    """
    with requiring("export", "for its exports"):
        import ctranslate2  # noqa: F401
    with writing_folder(output_dir) as folder:
        loaded, tokenizer = load_for_inference(model, device="cpu")
        loaded.float()  # CTranslate2 makes int8_bfloat16 of bf16's int8
        spec = VaswaniTransformerLoader()(loaded, tokenizer)
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(folder))
        tokenizer.save_pretrained(folder)
    return Path(output_dir)


# ---- the loader ----


class VaswaniTransformerLoader(ModelLoader):  # type: ignore[misc]  # ctranslate2 has no types
    """Our model as CTranslate2's specification of a post-norm Transformer."""

    def get_model_spec(self, model: VaswaniTransformerForConditionalGeneration) -> transformer_spec.TransformerSpec:
        """Makes the specification with weights."""
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
        """Sets self-attention and feed-forward layer, which layers of both stacks have."""
        self._set_attention(spec.self_attention, layer.self_attn, is_self=True)
        self.set_layer_norm(spec.self_attention.layer_norm, layer.self_attn_layer_norm)
        self.set_linear(spec.ffn.linear_0, layer.fc1)
        self.set_linear(spec.ffn.linear_1, layer.fc2)
        self.set_layer_norm(spec.ffn.layer_norm, layer.final_layer_norm)

    def _set_attention(self, spec: Any, attention: MultiHeadAttention, *, is_self: bool) -> None:
        """Sets fused projections."""
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
        """Names each row of the embedding; rows that the tokenizer does not know get made-up names."""
        names = {index: token for token, index in tokenizer.get_vocab().items()}
        return [names.get(index, f"<unused {index}>") for index in range(model.config.vocab_size)]

    def set_vocabulary(self, spec: transformer_spec.TransformerSpec, tokens: list[str]) -> None:
        """Registers one vocabulary for both sides."""
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)

    def set_config(
        self, config: Any, model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        """Sets special tokens (the tokenizer itself ends a source with `</s>`), epsilon, and the description."""
        names = self.get_vocabulary(model, tokenizer)
        description = describe(model)
        decoding = decoding_config(model)
        config.decoder_start_token = names[decoding.decoder_start_token_id]
        config.bos_token = config.decoder_start_token
        config.eos_token = names[description["ends"][0]]
        config.unk_token = tokenizer.unk_token or tokenizer.pad_token  # must be one; byte-level BPE needs none
        config.layer_norm_epsilon = model.config.layer_norm_eps
        config.add_attribute(DESCRIPTION, description)


def describe(model: VaswaniTransformerForConditionalGeneration) -> dict[str, Any]:
    """Return what `Translator` has to know of a model; warns of settings of its search that CTranslate2 has not."""
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
    """Counts the tokens of a source or a target for which an export stores positions: its limit."""
    is_learned = config.position_encoding == "learned"
    return config.max_position_embeddings if is_learned else max(MIN_POSITIONS, config.max_position_embeddings)


# ---- files of an export ----


def read_description(folder: Path) -> dict[str, Any]:
    """Reads what the loader wrote of the model; raises ValueError for a folder that is not an export."""
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

# Horizons in tokens: of the first search, over the longest source of a batch; and how much farther each next one is.
_OVER_SOURCE, _GROWTH = 5, 1.5

_NO_PENALTY = 1e-30  # CTranslate2 takes 0 for leave to stop at the first hypothesis


@dataclass(frozen=True)
class Decoding:
    """Settings of the search; `is_over_source` counts the limit beyond the source's tokens."""

    num_beams: int
    num_best: int
    length_penalty: float
    length_penalty_offset: float
    max_new_tokens: int
    is_over_source: bool

    def limit(self, source: list[int]) -> int:
        """Returns the largest number of output tokens of a source, `</s>` included."""
        return self.max_new_tokens + (len(source) if self.is_over_source else 0)

    def score(self, log_prob: float, length: int) -> float:
        """Returns GNMT's score of a hypothesis of `length` tokens."""
        return log_prob / float(gnmt_length_penalty(max(length, 1), self.length_penalty, self.length_penalty_offset))


@dataclass(frozen=True)
class Found:
    """A hypothesis: its token ids with `</s>` where it has one, and its GNMT score, `log_prob` by the penalty."""

    tokens: list[int]
    log_prob: float
    score: float


class Search:
    """Beam search by a `ctranslate2.Translator`; `names` are the vocabulary's, `ends` the ids that end an output."""

    def __init__(self, engine: Any, names: list[str], ends: list[int], num_positions: int) -> None:
        self.engine, self.names, self.ends, self.num_positions = engine, names, set(ends), num_positions
        self.ids = {name: index for index, name in enumerate(names)}

    def __call__(self, sources: list[list[int]], decoding: Decoding) -> list[list[Found]]:
        """Finds the best hypotheses of each source of a batch, best first; sources are ids that end in `</s>`."""
        limits = [min(decoding.limit(source), self.num_positions) for source in sources]
        best: list[list[Found]] = [[] for _ in sources]
        horizon = max(map(len, sources)) + _OVER_SOURCE
        open_places = list(range(len(sources)))
        while open_places:
            still_open = []
            for steps in sorted({min(limits[place], horizon) for place in open_places}):
                places = [place for place in open_places if min(limits[place], horizon) == steps]
                results = self._search([sources[place] for place in places], steps, decoding)
                for place, found in zip(places, results, strict=True):
                    complete = [one for one in found if steps == limits[place] or self._is_finished(one)]
                    best[place] = sorted(complete, key=lambda one: -one.score)[: decoding.num_best]
                    if not self._is_settled(best[place], found, steps, limits[place], decoding):
                        still_open.append(place)
            open_places, horizon = still_open, round(_GROWTH * horizon)
        return best

    def _is_settled(self, best: list[Found], found: list[Found], steps: int, limit: int, decoding: Decoding) -> bool:
        """Tells whether no longer hypothesis can come among the best; see `SearchRule.can_improve`."""
        if steps == limit:
            return True
        if decoding.num_beams == 1:
            return bool(best)
        running = [one.log_prob for one in found if not self._is_finished(one)]
        if not running:  # all that was chosen last has finished: what goes on is less probable than any of it
            running = [min((one.log_prob for one in found if len(one.tokens) == steps), default=0.0)]
        best_length = limit if decoding.length_penalty >= 0 else steps + 1
        return len(best) == decoding.num_best and decoding.score(max(running), best_length) <= best[-1].score

    def _is_finished(self, one: Found) -> bool:
        return bool(one.tokens) and one.tokens[-1] in self.ends

    def _search(self, sources: list[list[int]], steps: int, decoding: Decoding) -> list[list[Found]]:
        """Finds all that CTranslate2 can in a number of steps: finished, and running after the last."""
        is_greedy = decoding.num_beams == 1
        most = 1 if is_greedy else decoding.num_beams * (steps + 1)  # more than can finish, so that it does not stop
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
            min_decoding_length=0,  # its default of 1 forbids an empty output and raises all other scores by that
        )
        return [
            [
                Found([self.ids[token] for token in tokens], log_prob, decoding.score(log_prob, len(tokens)))
                for tokens, log_prob in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]
