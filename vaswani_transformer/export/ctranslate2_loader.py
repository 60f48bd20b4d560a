# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How CTranslate2's `TransformersConverter` reads our models: registered when this is imported.

Shapes: D d_model, H heads, K d_k (or d_v), V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from ctranslate2.converters import utils
from ctranslate2.converters.transformers import ModelLoader, register_loader
from ctranslate2.specs import common_spec, transformer_spec
from torch import nn
from transformers import PreTrainedTokenizerBase

from ..attention_vaswani_transformer import MultiHeadAttention
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..positions_vaswani_transformer import sinusoids
from .ctranslate2_files import DESCRIPTION

# Sinusoids have no end, but CTranslate2's own are of another formula, so the paper's are stored: 4 MB of a base model.
MIN_POSITIONS = 2048


@register_loader("VaswaniTransformerConfig")
class VaswaniTransformerLoader(ModelLoader):  # type: ignore[misc]  # ctranslate2 has no types
    """Our model as CTranslate2's specification of a post-norm Transformer."""

    architecture_name = "AutoModelForSeq2SeqLM"

    def get_model_class(self, config: VaswaniTransformerConfig, model_class: type) -> type:
        """The package's class, whether or not the converter trusts the code in the model's folder."""
        return VaswaniTransformerForConditionalGeneration

    def __call__(
        self, model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> transformer_spec.TransformerSpec:
        """The specification with weights, configuration and vocabulary.

        Raises:
            ValueError: The checkpoint lacks tensors or holds unknown ones, or its vocabulary lacks entries of the
                tokenizer.
        """
        model.check_loaded_weights()
        model.check_tokenizer(tokenizer)
        return super().__call__(model, tokenizer)

    def get_model_spec(self, model: VaswaniTransformerForConditionalGeneration) -> transformer_spec.TransformerSpec:
        """The specification with weights."""
        config = model.config
        sizes = {
            "num_heads": config.num_heads,
            "pre_norm": False,
            "activation": common_spec.Activation.RELU,
            "head_dim": max(config.d_k, config.d_v),
        }
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
        """Self-attention and feed-forward layer, which layers of both stacks have."""
        self._set_attention(spec.self_attention, layer.self_attn, is_self=True)
        self.set_layer_norm(spec.self_attention.layer_norm, layer.self_attn_layer_norm)
        self.set_linear(spec.ffn.linear_0, layer.fc1)
        self.set_linear(spec.ffn.linear_1, layer.fc2)
        self.set_layer_norm(spec.ffn.layer_norm, layer.final_layer_norm)

    def _set_attention(self, spec: Any, attention: MultiHeadAttention, *, is_self: bool) -> None:
        """Fused projections; heads are as wide as the wider of d_k and d_v, the rest of the other being zeros."""
        width, spec.queries_scale = max(attention.d_k, attention.d_v), attention.scaling
        q = _padded_heads(attention.q_proj, attention.d_k, width)
        k = _padded_heads(attention.k_proj, attention.d_k, width)
        v = _padded_heads(attention.v_proj, attention.d_v, width)
        *fused, output = spec.linear
        for linear, projections in zip(fused, [[q, k, v]] if is_self else [[q], [k, v]], strict=True):
            utils.fuse_linear(linear, projections)
        self.set_linear(output, attention.out_proj)
        output.weight = _with_padding(attention.out_proj.weight.T, attention.d_v, width).T.contiguous()

    def get_vocabulary(
        self, model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> list[str]:
        """A name for each row of the embedding; rows that the tokenizer does not know get made-up ones."""
        names = {index: token for token, index in tokenizer.get_vocab().items()}
        return [names.get(index, f"<unused {index}>") for index in range(model.config.vocab_size)]

    def set_vocabulary(self, spec: transformer_spec.TransformerSpec, tokens: list[str]) -> None:
        """One vocabulary for both sides."""
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)

    def set_config(
        self, config: Any, model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        """Special tokens (the tokenizer itself ends a source with `</s>`), epsilon, and what `Translator` reads."""
        names = self.get_vocabulary(model, tokenizer)
        config.bos_token = config.decoder_start_token = names[_token_id(model, "decoder_start_token_id")]
        config.eos_token = names[_token_id(model, "eos_token_id")]
        config.unk_token = tokenizer.unk_token or tokenizer.pad_token  # must be one; byte-level BPE needs none
        config.layer_norm_epsilon = model.config.layer_norm_eps
        description = {
            "vocab_size": model.config.vocab_size,
            "num_positions": num_positions(model.config),
            "position_encoding": model.config.position_encoding,
        }
        config.add_attribute(DESCRIPTION, description)


def _token_id(model: VaswaniTransformerForConditionalGeneration, name: str) -> int:
    """A special token, of several the first: the generation config's, else the config's."""
    ids = getattr(model.generation_config, name)
    ids = getattr(model.config, name) if ids is None else ids
    return int(ids[0] if isinstance(ids, list) else ids)


def num_positions(config: VaswaniTransformerConfig) -> int:
    """Tokens of a source or a target for which an export stores positions: its limit."""
    is_learned = config.position_encoding == "learned"
    return config.max_position_embeddings if is_learned else max(MIN_POSITIONS, config.max_position_embeddings)


def _padded_heads(projection: nn.Linear, head_size: int, width: int) -> common_spec.LinearSpec:
    """A projection to heads of `head_size`, with zeros behind each head to `width`."""
    spec = common_spec.LinearSpec()
    spec.weight = _with_padding(projection.weight, head_size, width)
    if projection.bias is not None:
        spec.bias = _with_padding(projection.bias, head_size, width)
    return spec


def _with_padding(rows: torch.Tensor, head_size: int, width: int) -> torch.Tensor:
    """(H * K, ...) as (H * width, ...), zeros behind the K rows of each head."""
    heads = rows.detach().unflatten(0, (-1, head_size))
    padding = heads.new_zeros(heads.shape[0], width - head_size, *heads.shape[2:])
    return torch.cat([heads, padding], dim=1).flatten(0, 1)
