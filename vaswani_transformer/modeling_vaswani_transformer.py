# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The original Transformer, in the order of section 3 of "Attention Is All You Need" (2017).

Shapes: B batch, S source length, T target length, L any length, D d_model, H heads, K d_k (or d_v),
F d_ff, V vocabulary. In a boolean mask, True means "attend". In an additive mask, 0.0 means
"attend".
"""

import copy
import math
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.generic import (
    TransformersKwargs,
    can_return_tuple,
    merge_with_config_defaults,
)
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_vaswani_transformer import VaswaniTransformerConfig
from .cpu_kernels_vaswani_transformer import Dropout, Linear, is_int8
from .generation_vaswani_transformer import VaswaniTransformerGenerationMixin
from .incremental_decoder_vaswani_transformer import DecoderProjections
from .loss_vaswani_transformer import (
    IGNORE_INDEX,
    VaswaniTransformerLMOutput,
    can_fuse,
    fused_translation_loss,
    translation_loss,
)

if TYPE_CHECKING:
    # `save_pretrained` copies into the checkpoint every file that a relative import names. These
    # two imports serve only this purpose.
    from .pipeline_vaswani_transformer import VaswaniTransformerTranslationPipeline  # noqa: F401
    from .tokenization_vaswani_transformer import VaswaniTransformerTokenizer  # noqa: F401


# ---------------------------------------------------------------------------------- attention (3.2)

# Name of the cache in transformers' outputs and mask functions: `cache` since 5.24.
_CACHE_NAME = "past_key_values"
if "cache" in BaseModelOutputWithPastAndCrossAttentions.__dataclass_fields__:
    _CACHE_NAME = "cache"

# A config for which transformers' mask functions return dense masks.
_DENSE_MASKS = VaswaniTransformerConfig.from_preset("base", attn_implementation="sdpa")


def _is_flash(backend: str | None) -> bool:
    """Return True if an attention backend is one of the flash attentions or flash kernels."""
    return "flash" in (backend or "")


def mask_config(
    config: VaswaniTransformerConfig, output_attentions: bool | None, is_cross: bool = False
) -> VaswaniTransformerConfig:
    """Return the config that transformers' mask functions need to make the right type of mask.

    The mask functions make the type that the config's attention backend reads. But a call that
    returns attention weights needs dense masks with every backend, and cross-attention needs dense
    masks with a flash backend.
    """
    needs_dense_mask = output_attentions or (is_cross and _is_flash(config._attn_implementation))
    if needs_dense_mask:
        return _DENSE_MASKS
    return config


def may_read(attention_mask: torch.Tensor | None) -> bool:
    """Return True if the mask is None or on the CPU, so that reading it costs no device sync."""
    return attention_mask is None or attention_mask.device.type == "cpu"


def scaled_dot_product_attention(
    module: nn.Module,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return softmax(q k^T / sqrt(d_k)) v and the attention weights. This is the "eager" backend.

    Args:
        module: The attention layer. If there is no mask, the layer's `is_causal` decides whether a
            query attends to all keys or only to those up to its own position.
        q: (B, H, L, K) queries.
        k: (B, H, S, K) keys.
        v: (B, H, S, d_v) values.
        attention_mask: Boolean or additive mask, broadcastable to (B, H, L, S), or None.
        scaling: 1 / sqrt(d_k).
        dropout: Dropout rate of the weights in training.
        **kwargs: Arguments of other backends, which are ignored here.

    Returns:
        Output (B, L, H, d_v) and weights (B, H, L, S).

    Deviation: scores masked by a boolean mask become the lowest finite number instead of minus
    infinity. Their weights are also 0, except in a row in which everything is masked: there, all
    weights are equal instead of NaN.

    Paper: section 3.2.1, equation 1.
    """
    scores = torch.matmul(q, k.transpose(-2, -1)) * scaling

    if attention_mask is None and q.shape[2] > 1 and getattr(module, "is_causal", False):
        all_pairs = scores.new_ones(scores.shape[-2:], dtype=torch.bool)
        attention_mask = all_pairs.tril(k.shape[2] - q.shape[2])
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        scores = scores + attention_mask

    weights = nn.functional.softmax(scores, dim=-1)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, v).transpose(1, 2).contiguous()
    return output, weights


class MultiHeadAttention(nn.Module):
    """Multi-head attention.

    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O
    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)

    `q_proj` holds W_i^Q of all heads side by side. `k_proj` and `v_proj` do the same for W_i^K and
    W_i^V. `out_proj` is W^O.

    Paper: section 3.2.2.
    """

    def __init__(
        self,
        config: VaswaniTransformerConfig,
        layer_idx: int = 0,
        is_causal: bool = False,
        is_cross: bool = False,
    ) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.d_k = config.d_k
        self.d_v = config.d_v
        self.scaling = config.d_k**-0.5
        self.dropout = config.attention_dropout

        bias = config.attention_bias
        self.q_proj = Linear(config.d_model, config.num_heads * config.d_k, bias=bias)
        self.k_proj = Linear(config.d_model, config.num_heads * config.d_k, bias=bias)
        self.v_proj = Linear(config.d_model, config.num_heads * config.d_v, bias=bias)
        self.out_proj = Linear(config.num_heads * config.d_v, config.d_model, bias=bias)
        # Projections of the same states are initialized as parts of one matrix.
        together = [self.k_proj, self.v_proj]
        if not is_cross:
            together.append(self.q_proj)
        fan_out = sum(projection.out_features for projection in together)
        for projection in together:
            projection.init_fan_out = fan_out

    def forward(
        self,
        hidden_states: torch.Tensor,
        key_value_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        cache: EncoderDecoderCache | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend from `hidden_states` (B, L, D) to `key_value_states` (B, S, D).

        Without `key_value_states`, the hidden states attend to themselves. `past_key_values` is the
        same as `cache`, under the name that transformers used before 5.24.

        Returns:
            Output (B, L, D) and attention weights (B, H, L, S). The weights are None if the backend
            does not return them.
        """
        if cache is None:
            cache = past_key_values
        q = self._split_heads(self.q_proj(hidden_states), self.d_k)
        k, v = self._keys_and_values(hidden_states, key_value_states, cache)

        backend = self.config._attn_implementation or "eager"
        if kwargs.get("output_attentions"):
            backend = "eager"
        elif _is_flash(backend) and key_value_states is not None and attention_mask is not None:
            # transformers' flash wrapper would apply the source's padding mask to the target, too.
            backend = "sdpa"
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(backend, scaled_dot_product_attention)
        dropout = self.dropout if self.training else 0.0
        out, weights = attend(
            self, q, k, v, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs
        )
        return self.out_proj(out.flatten(2)), weights  # (B, L, H, K) -> (B, L, D)

    def _keys_and_values(
        self,
        hidden_states: torch.Tensor,
        key_value_states: torch.Tensor | None,
        cache: EncoderDecoderCache | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys (B, H, S, K) and values (B, H, S, d_v).

        If there is a cache, the new keys and values are added to the cache, and the result also
        contains the earlier keys and values. With a cache, keys and values of the encoder's output
        are computed once and then reused.
        """
        is_cross = key_value_states is not None
        if is_cross and cache is not None and cache.is_updated.get(self.layer_idx):
            layer: Any = cache.cross_attention_cache.layers[self.layer_idx]
            return layer.keys, layer.values
        states = hidden_states if key_value_states is None else key_value_states
        k = self._split_heads(self.k_proj(states), self.d_k)
        v = self._split_heads(self.v_proj(states), self.d_v)
        if cache is None:
            return k, v
        if not is_cross:
            return cache.self_attention_cache.update(k, v, self.layer_idx)
        k, v = cache.cross_attention_cache.update(k, v, self.layer_idx)
        cache.is_updated[self.layer_idx] = True
        return k, v

    @staticmethod
    def _split_heads(states: torch.Tensor, width: int) -> torch.Tensor:
        # (B, L, H * K) -> (B, H, L, K)
        return states.view(*states.shape[:-1], -1, width).transpose(1, 2)


# ---------------------------------------------------------------------------------- positions (3.5)


def sinusoids(position_ids: torch.Tensor, d_model: int) -> torch.Tensor:
    """Return the sinusoidal encodings of positions.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    Angles are computed in float64. Angles in fp32 would change the encodings of position 1,000 by
    up to 6e-5. MPS has no float64, so the angles for MPS are computed on the CPU.

    Args:
        position_ids: (L,) positions, from 0.
        d_model: Width of the model, even.

    Returns:
        (L, D) in fp32, on the device of `position_ids`.

    Paper: section 3.5.
    """
    device = position_ids.device
    if device.type == "mps":
        position_ids = position_ids.cpu()
    positions = position_ids.double()
    pair = torch.arange(0, d_model, 2, device=positions.device, dtype=torch.float64)
    frequencies = torch.exp(pair * (-math.log(10_000.0) / d_model))
    angles = positions.unsqueeze(-1) * frequencies  # (L, D/2)
    encodings = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # interleaved
    return encodings.float().to(device)


class SinusoidalPositionalEncoding(nn.Module):
    """Fixed sinusoidal encodings of positions.

    The encodings of the first `num_positions` positions are in a table. Those of later positions
    are computed in each call.

    Paper: section 3.5.
    """

    table: torch.Tensor

    def __init__(self, num_positions: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        table = sinusoids(torch.arange(num_positions), d_model)
        self.register_buffer("table", table, persistent=False)

    def values(self, device: torch.device | str) -> torch.Tensor:
        """Compute the table, (num_positions, D) in fp32, on a device."""
        return sinusoids(torch.arange(self.table.shape[0], device=device), self.d_model)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> nn.Module:
        """Move or cast the module as torch does, then recompute the table.

        Otherwise the table would be uninitialized after `to_empty`, and rounded after a cast.
        """
        if self.table.is_meta:
            self.table = self.values("cpu")  # `fn` cannot move a meta tensor
        before = self.table
        super()._apply(fn, *args, **kwargs)
        if self.table is not before:
            self.table = self.values(self.table.device)
        return self

    def forward(self, position_ids: torch.Tensor, num_positions: int) -> torch.Tensor:
        """Return the encodings (L, D) in fp32 of `position_ids` (L,).

        All positions must be below `num_positions`.
        """
        is_on_device = self.table.device == position_ids.device  # False if the table is on "meta"
        if num_positions <= self.table.shape[0] and is_on_device:
            return self.table[position_ids]
        return sinusoids(position_ids, self.d_model)


class LearnedPositionalEncoding(nn.Embedding):
    """Learned encodings of the first `max_position_embeddings` positions.

    Paper: section 3.5, Table 3 row E.
    """

    def forward(  # type: ignore[override]  # the signature of the sinusoids
        self, position_ids: torch.Tensor, num_positions: int
    ) -> torch.Tensor:
        """Return the encodings (L, D) of `position_ids` (L,), all below `num_positions`.

        Raises:
            ValueError: `num_positions` is larger than `max_position_embeddings`.
        """
        if num_positions > self.num_embeddings:
            raise ValueError(
                "Sequence length must be at most `max_position_embeddings` = "
                f"{self.num_embeddings} with learned positions, got {num_positions}. Shorten the "
                'input or use position_encoding="sinusoidal".'
            )
        return super().forward(position_ids)


# ---------------------------------------------------------- feed-forward and layers (3.1, 3.3, 5.4)


class PostNormLayer(GradientCheckpointingLayer):
    """Base of the encoder's and the decoder's layers: the feed-forward sub-layer and "Add & Norm".

    Paper: sections 3.1, 3.3 and 5.4.
    """

    def __init__(self, config: VaswaniTransformerConfig) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.activation_dropout = Dropout(config.activation_dropout)
        self.fc1 = Linear(config.d_model, config.d_ff)
        self.fc2 = Linear(config.d_ff, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return FFN(x) = max(0, x W1 + b1) W2 + b2 for each position of x (B, L, D).

        Paper: equation 2.
        """
        hidden = self.activation_dropout(nn.functional.relu(self.fc1(x)))
        output: torch.Tensor = self.fc2(hidden)
        return output

    def add_and_norm(
        self, x: torch.Tensor, sublayer: torch.Tensor, norm: nn.LayerNorm
    ) -> torch.Tensor:
        """Return LayerNorm(x + Dropout(Sublayer(x))), (B, L, D).

        `sublayer` is Sublayer(x). It has the shape of x, (B, L, D).
        """
        output: torch.Tensor = norm(self.dropout(sublayer, residual=x))
        return output


class EncoderLayer(PostNormLayer):
    """Encoder layer: self-attention, then feed-forward.

    Paper: section 3.1.
    """

    def __init__(self, config: VaswaniTransformerConfig, layer_idx: int) -> None:
        super().__init__(config)
        self.self_attn = MultiHeadAttention(config, layer_idx)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> torch.Tensor:
        """Apply the layer to (B, S, D); the result has the same shape."""
        attended, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        hidden_states = self.add_and_norm(hidden_states, attended, self.self_attn_layer_norm)
        return self.add_and_norm(
            hidden_states, self.feed_forward(hidden_states), self.final_layer_norm
        )


class DecoderLayer(PostNormLayer):
    """Decoder layer: masked self-attention, attention over the encoder's output, then feed-forward.

    `IncrementalDecoder._layer` has its own code for the same computation. Change both together.

    Paper: section 3.1.
    """

    def __init__(self, config: VaswaniTransformerConfig, layer_idx: int) -> None:
        super().__init__(config)
        self.self_attn = MultiHeadAttention(config, layer_idx, is_causal=True)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.encoder_attn = MultiHeadAttention(config, layer_idx, is_cross=True)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        # Passed by position, because reentrant checkpointing gives keyword arguments no gradients.
        encoder_hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Apply the layer to (B, T, D) and the encoder's output (B, S, D). The result is (B, T, D).

        The cache is passed in `kwargs`.
        """
        # `view_as` adds an autograd node. This node sums the layer's own gradients with respect to
        # the encoder's output, before the gradients of other layers are added. So DDP and FSDP2 add
        # all these gradients in the same order, and their sums are rounded alike.
        encoder_hidden_states = encoder_hidden_states.view_as(encoder_hidden_states)
        attended, _ = self.self_attn(hidden_states, attention_mask=attention_mask, **kwargs)
        hidden_states = self.add_and_norm(hidden_states, attended, self.self_attn_layer_norm)
        attended, _ = self.encoder_attn(
            hidden_states, encoder_hidden_states, encoder_attention_mask, **kwargs
        )
        hidden_states = self.add_and_norm(hidden_states, attended, self.encoder_attn_layer_norm)
        return self.add_and_norm(
            hidden_states, self.feed_forward(hidden_states), self.final_layer_norm
        )


# ----------------------------------------------------------------------- loading and initialization


class VaswaniTransformerPreTrainedModel(PreTrainedModel):
    """Base of all models of this file: loading, checks and initialization.

    The initialization is not in the paper. As in the authors' code of 2017, embeddings are
    normal(0, d_model^-0.5), biases are zero and projections are Glorot uniform. Projections of the
    same states count as one matrix: W^Q, W^K and W^V of self-attention are one matrix, and so are
    W^K and W^V of the attention over the encoder's output.
    """

    config: VaswaniTransformerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["EncoderLayer", "DecoderLayer"]
    _skip_keys_device_placement = ["past_key_values", "cache"]
    _supports_sdpa = _supports_flex_attn = _supports_flash_attn = True
    _can_compile_fullgraph = True

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """Load a model as transformers does, but only from safetensors.

        To load other files, pass `use_safetensors=False`. The names of missing and unexpected
        tensors are kept for `check_loaded_weights`.

        Raises:
            ValueError: `quantization_config` asks for the int8 quantization of version 0.2.0 of
                this package.
        """
        kwargs.setdefault("use_safetensors", True)
        if kwargs.get("quantization_config") == {"quant_method": "vaswani_int8"}:  # int8 of 0.2.0
            raise ValueError(
                "int8 is an option of `load_for_inference` since 0.3.0: load_for_inference(..., "
                "int8=True)."
            )
        model, info = cast(Any, super().from_pretrained(*args, output_loading_info=True, **kwargs))

        # transformers may report a tied tensor by several names. `named_parameters` and
        # `named_buffers` give only one name.
        own = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
        model._loading_info = {
            "missing_keys": sorted(own.intersection(info["missing_keys"])),
            "unexpected_keys": sorted(info["unexpected_keys"]),
        }

        if model.can_generate():
            lacks_generation_config = model.generation_config._from_model_config
            if lacks_generation_config:
                model._set_default_generation()
                model.set_default_search()
        if output_loading_info:
            return model, info
        return model

    def check_loaded_weights(self) -> None:
        """Raise ValueError if the checkpoint lacked tensors or held unknown ones.

        `from_pretrained` only warns of such tensors.
        """
        info: dict[str, list[str]] = getattr(self, "_loading_info", {})
        problems = []
        for key, names in info.items():
            if names:
                problems.append(f"{key.removesuffix('_keys')} {', '.join(names)}")
        if problems:
            got = "; ".join(problems)
            raise ValueError(
                f"Checkpoint {self.name_or_path} must hold exactly this model's tensors, got "
                f"{got[:999]}. Its translations may be wrong: save it again, or load it with its "
                "own class."
            )

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Raise ValueError if the tokenizer has entries that this model lacks."""
        num_entries = max(len(tokenizer), 1 + max(tokenizer.get_vocab().values(), default=0))
        if num_entries > self.config.vocab_size:
            raise ValueError(
                f"`tokenizer` must have at most the {self.config.vocab_size} entries of the "
                f"model's vocabulary, got {num_entries}. Use the tokenizer that was saved with "
                "this model, or call model.resize_token_embeddings(len(tokenizer)) and train the "
                "new entries."
            )

    def _resize_token_embeddings(
        self, new_num_tokens: int, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> Any:
        """Resize the embeddings as transformers does.

        If the embeddings are untied, also resize the decoder's embeddings, because transformers
        does not.
        """
        decoder = getattr(self.base_model, "decoder", None)
        if decoder is not None and not self.config.tie_word_embeddings:
            old = decoder.embed_tokens
            new = self._get_resized_embeddings(
                old, new_num_tokens, pad_to_multiple_of, mean_resizing
            )
            decoder.embed_tokens = new.requires_grad_(old.weight.requires_grad)
        return super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialize the parameters and buffers of `module`, without those of its children."""
        if isinstance(module, nn.Embedding) or module is getattr(self, "lm_head", None):
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.Linear):
            fan_out = getattr(module, "init_fan_out", module.out_features)
            bound = math.sqrt(6 / (module.in_features + fan_out))
            init.uniform_(module.weight, -bound, bound)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, SinusoidalPositionalEncoding):
            init.copy_(module.table, module.values(module.table.device))


# --------------------------------------------------------------------------- stacks (3.1, 3.4, 3.5)


class _Stack(VaswaniTransformerPreTrainedModel):
    """Base of encoder and decoder: embeddings, positions and dropout before the layers."""

    def __init__(self, config: VaswaniTransformerConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        encoding: type[nn.Module] = SinusoidalPositionalEncoding
        if config.position_encoding == "learned":
            encoding = LearnedPositionalEncoding
        self.embed_positions = encoding(config.max_position_embeddings, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.embed_scale = math.sqrt(config.d_model)
        self.gradient_checkpointing = False

    def _token_embeddings(
        self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None
    ) -> torch.Tensor:
        """Return unscaled embeddings (B, L, D).

        Raises:
            ValueError: Both inputs are given, or neither is.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError(
                f"{type(self).__name__} needs either ids or embeddings. For the decoder's ids pass "
                "`labels`, or, if a trainer smooths labels, collate with "
                "DataCollatorForSeq2Seq(tokenizer, model=model)."
            )
        if inputs_embeds is not None:
            return inputs_embeds
        embeddings: torch.Tensor = self.embed_tokens(input_ids)
        return embeddings

    def _embed(self, inputs_embeds: torch.Tensor, cache: Any = None) -> torch.Tensor:
        """Return Dropout(embeddings * sqrt(d_model) + positions), (B, L, D).

        With a cache, the first position is the one after the last position in the cache.
        """
        length = inputs_embeds.shape[1]
        start = 0 if cache is None else cache.get_seq_length()
        position_ids = torch.arange(length, device=inputs_embeds.device) + start
        if torch.is_tensor(start):
            # The length of a static cache is a tensor, and reading that tensor would be a sync. The
            # capacity of the cache is an upper bound for the positions.
            num_positions = cache.layers[0].max_cache_len
        else:
            num_positions = start + length
        positions = self.embed_positions(position_ids, num_positions).to(inputs_embeds)
        states: torch.Tensor = self.dropout(inputs_embeds * self.embed_scale + positions)
        return states


# To resolve negative indices of the encoder's hidden states, transformers needs the number of
# encoder layers. `num_hidden_layers_key` names the field of the config that holds this number.
# transformers before 5.23 has no such option and always uses the number of decoder layers.
_ENCODER_DEPTH: dict[str, Any] = {}
if "num_hidden_layers_key" in OutputRecorder.__dataclass_fields__:
    _ENCODER_DEPTH["num_hidden_layers_key"] = "num_encoder_layers"


class VaswaniTransformerEncoder(_Stack):
    """Encoder: embeddings with positions, then a stack of encoder layers.

    No LayerNorm follows the stack.

    Paper: section 3.1, Figure 1 left.
    """

    _can_record_outputs = {
        "hidden_states": OutputRecorder(EncoderLayer, index=0, **_ENCODER_DEPTH),
        "attentions": OutputRecorder(MultiHeadAttention, index=1),
    }

    def __init__(self, config: VaswaniTransformerConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(
            [EncoderLayer(config, index) for index in range(config.num_encoder_layers)]
        )
        self.post_init()

    @merge_with_config_defaults  # type: ignore[untyped-decorator]  # of transformers
    @capture_outputs  # type: ignore[untyped-decorator]  # of transformers
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """Encode source sentences, and return `last_hidden_state` (B, S, D).

        The arguments are those of `VaswaniTransformerModel`.
        """
        embeddings = self._token_embeddings(input_ids, inputs_embeds)
        mask = create_bidirectional_mask(
            config=mask_config(self.config, kwargs.get("output_attentions")),
            inputs_embeds=embeddings,
            attention_mask=attention_mask,
            allow_is_bidirectional_skip=may_read(attention_mask),
        )
        hidden_states = self._embed(embeddings)
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask, **kwargs)
        return BaseModelOutput(last_hidden_state=hidden_states)


class VaswaniTransformerDecoder(_Stack):
    """Decoder: embeddings with positions, then a stack of decoder layers.

    No LayerNorm follows the stack.

    Paper: section 3.1, Figure 1 right.
    """

    _can_record_outputs = {
        "hidden_states": DecoderLayer,
        "attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="encoder_attn"),
    }

    def __init__(self, config: VaswaniTransformerConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(
            [DecoderLayer(config, index) for index in range(config.num_decoder_layers)]
        )
        self.post_init()

    @merge_with_config_defaults  # type: ignore[untyped-decorator]  # of transformers
    @capture_outputs  # type: ignore[untyped-decorator]  # of transformers
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        cache: EncoderDecoderCache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode target tokens against the encoder's output.

        Return `last_hidden_state` (B, T, D) and the cache. The arguments that are not listed here
        are those of `VaswaniTransformerModel`.

        Args:
            input_ids: (B, T) target tokens.
            attention_mask: (B, cached + T), 1 for "attend", 0 for padding. It includes the tokens
                in the cache.
            encoder_hidden_states: (B, S, D) output of the encoder.
            encoder_attention_mask: (B, S) mask of the source.
            inputs_embeds: (B, T, D) embeddings before scaling, instead of `input_ids`.
            use_cache: Whether to make a cache if none is passed. None means that the config
                decides.
        """
        embeddings = self._token_embeddings(input_ids, inputs_embeds)
        if cache is None:
            cache = past_key_values
        if use_cache and cache is None:
            cache = EncoderDecoderCache(
                DynamicCache(config=self.config), DynamicCache(config=self.config)
            )
        self_attention_cache: Any = None
        if cache is not None:
            self_attention_cache = cache.self_attention_cache

        output_attentions = kwargs.get("output_attentions")
        causal_mask = create_causal_mask(
            config=mask_config(self.config, output_attentions),
            inputs_embeds=embeddings,
            attention_mask=attention_mask,
            allow_is_causal_skip=may_read(attention_mask),
            **{_CACHE_NAME: self_attention_cache},
        )
        cross_mask = create_bidirectional_mask(
            config=mask_config(self.config, output_attentions, is_cross=True),
            inputs_embeds=embeddings,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
            allow_is_bidirectional_skip=may_read(encoder_attention_mask),
        )
        hidden_states = self._embed(embeddings, self_attention_cache)
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                encoder_hidden_states,
                attention_mask=causal_mask,
                encoder_attention_mask=cross_mask,
                **{_CACHE_NAME: cache},
                **kwargs,
            )
        return BaseModelOutputWithPastAndCrossAttentions(hidden_states, cache)


# ----------------------------------------------------------------------------- model and head (3.4)


class VaswaniTransformerModel(VaswaniTransformerPreTrainedModel):
    """Encoder and decoder over one shared embedding, without the output projection.

    With `tie_word_embeddings=False` there is no `shared`: encoder, decoder and output projection
    each have their own matrix, and `get_input_embeddings` returns the encoder's.

    Paper: section 3, Figure 1.
    """

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: VaswaniTransformerConfig) -> None:
        super().__init__(config)
        if config.tie_word_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = VaswaniTransformerEncoder(config)
        self.decoder = VaswaniTransformerDecoder(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the encoder's embedding.

        If the embeddings are tied, its weight is the shared weight.
        """
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: Any) -> None:
        """Replace the encoder's embedding, and the decoder's if the embeddings are tied."""
        self.encoder.embed_tokens = value
        if self.config.tie_word_embeddings:
            self.decoder.embed_tokens = value
            self.shared = value

    @can_return_tuple  # type: ignore[untyped-decorator]  # of transformers
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Any, ...] | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        cache: EncoderDecoderCache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Encode the source and decode the target prefix.

        Args:
            input_ids: (B, S) source tokens.
            attention_mask: (B, S), 1 for "attend", 0 for padding; None means no padding.
            decoder_input_ids: (B, T) target tokens shifted right, starting with `<s>`.
            decoder_attention_mask: (B, cached + T), 1 for "attend", 0 for padding, in addition to
                the causal mask.
            encoder_outputs: The encoder's output for this source from an earlier call. If it is
                given, the encoder does not run.
            past_key_values: Same as `cache`, under the name that transformers used before 5.24.
            inputs_embeds: (B, S, D) embeddings before scaling, instead of `input_ids`.
            decoder_inputs_embeds: (B, T, D) embeddings before scaling, instead of
                `decoder_input_ids`.
            use_cache: Whether to return a cache. None means that the config decides.
            cache: Cache of earlier decoding steps. It is extended in place.
            **kwargs: Options of transformers, for example `output_attentions`.

        Returns:
            `last_hidden_state` (B, T, D), the cache, `encoder_last_hidden_state` (B, S, D), and the
            outputs that `kwargs` request.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                **kwargs,
            )
        encoded: Any = encoder_outputs
        if isinstance(encoded, tuple):
            encoded = BaseModelOutput(*encoded)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            cache=cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            decoder_outputs.last_hidden_state,
            getattr(decoder_outputs, _CACHE_NAME),
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )


class _LossKwargs(TransformersKwargs, total=False):
    """Keyword arguments of the translation model's `forward` that must not appear in its signature.

    If an argument in the signature has "label" in its name, transformers' trainers take the
    argument for a column of labels.
    """

    label_smoothing_factor: float


class VaswaniTransformerForConditionalGeneration(
    VaswaniTransformerPreTrainedModel, VaswaniTransformerGenerationMixin
):
    """The translation model: the original Transformer with its output projection.

    The projection shares its matrix with the embeddings, unless `tie_word_embeddings` is False.

    By default `generate` of a loaded model decodes as in section 6.1: beam size 4, length penalty
    0.6, at most 50 tokens more than the source. A model built from a configuration decodes greedily
    until `set_default_search` is called. `VaswaniTransformerTrainer` calls this method.

    Example:
        >>> model = AutoModelForSeq2SeqLM.from_pretrained("path/to/checkpoint")
        >>> tokenizer = AutoTokenizer.from_pretrained("path/to/checkpoint")
        >>> batch = tokenizer(["A dog runs."], return_tensors="pt")
        >>> tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)

    Paper: sections 3.4 and 6.1.
    """

    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}
    accepts_loss_kwargs = True

    def __init__(self, config: VaswaniTransformerConfig) -> None:
        super().__init__(config)
        self.model = VaswaniTransformerModel(config)
        self.lm_head = Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()
        self._set_default_generation()

    def train(self, mode: bool = True) -> Self:
        """Set the mode as torch does, and drop the copies of weights that the search has made.

        The copies miss some writes through `.data`; see `DecoderProjections`.
        """
        DecoderProjections.drop(self)
        trained: Self = super().train(mode)
        return trained

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast as torch does, and drop the copies of weights that the search has made.

        If the copies were kept, they would still occupy memory on the old device.
        """
        DecoderProjections.drop(self)
        moved: Self = super()._apply(*args, **kwargs)
        return moved

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Save as transformers does, with search settings in the generation config.

        If the model's generation config chooses no search, the saved generation config gets the
        search settings of section 6.1. If the embeddings of a tied model differ, for example after
        peft has merged trained copies of the embeddings, the model becomes untied.

        Raises:
            ValueError: The model is in int8, so its weights are packed for this CPU.
        """
        if is_int8(self):
            raise ValueError("A model in int8 cannot be saved. Load it without `int8` to save it.")
        tied_names = ("shared.weight", "embed_tokens.weight", "lm_head.weight")
        parameters = self.named_parameters(remove_duplicate=False)
        embeddings = {parameter for name, parameter in parameters if name.endswith(tied_names)}
        if hasattr(self.model, "shared") and len(embeddings) > 1:
            self.config.tie_word_embeddings = False
            weights = dict(kwargs.get("state_dict") or self.state_dict())
            weights.pop("model.shared.weight", None)
            # Of two weights in the same memory, transformers would save only one. So copy them.
            kwargs["state_dict"] = {name: weight.clone() for name, weight in weights.items()}
        own = self.generation_config
        self.generation_config = copy.deepcopy(own)
        self.set_default_search()
        if self.generation_config.num_beams == 1 and self.generation_config.length_penalty != 1.0:
            # transformers refuses to save a length penalty with a single beam.
            self.generation_config.length_penalty = None
        try:
            super().save_pretrained(*args, **kwargs)
        finally:
            self.generation_config = own

    @can_return_tuple  # type: ignore[untyped-decorator]  # of transformers
    def forward(  # type: ignore[misc]  # `num_items_in_batch` is one of TransformersKwargs, too
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Any, ...] | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        return_logits: bool = True,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Unpack[_LossKwargs],
    ) -> VaswaniTransformerLMOutput:
        """Score target sentences, and compute their loss if `labels` are given.

        The arguments that are not listed here are those of `VaswaniTransformerModel`.

        Args:
            decoder_input_ids: (B, T) target shifted right. If None, it is made from `labels`.
            labels: (B, T) target tokens that end with `</s>` and have no `<s>`. Tokens with -100
                are ignored.
            use_cache: Whether to return a cache. If this is None, no cache is returned with
                `labels`, and without `labels` the config decides.
            num_items_in_batch: Divisor of the summed loss. None means the number of real target
                tokens (not -100) in this call.
            return_logits: If False, loss and output projection are fused and no logits are
                returned. This saves most of the memory of training. False has no effect without
                `labels`, or if a hook or adapter changes the projection.
            logits_to_keep: Number of last positions for which logits are computed, or the indices
                of positions. 0 means all positions. `logits_to_keep` is ignored if `labels` are
                given.
            **kwargs: `label_smoothing_factor` (default 0.0; the paper uses 0.1), and the `kwargs`
                of `VaswaniTransformerModel`.

        Returns:
            `logits` (B, T, V), `loss` in nats per token, `nll` (the loss before label smoothing, or
            None if labels are not smoothed), and the usual fields of transformers.

        Raises:
            TypeError: `label_smoothing_factor` is passed as `smoothing` or `label_smoothing`.
                Without this error, the value would be ignored.

        Paper: sections 3.4 and 5.4.
        """
        label_smoothing_factor = kwargs.pop("label_smoothing_factor", 0.0)
        for old_name in ("smoothing", "label_smoothing"):
            if old_name in kwargs:
                raise TypeError(f"`{old_name}` must be passed as `label_smoothing_factor`.")
        if labels is not None:
            labels = labels.long()
            use_cache = bool(use_cache)
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        states = outputs.last_hidden_state
        logits = loss = nll = None
        if labels is None:
            kept: Any = logits_to_keep
            if isinstance(logits_to_keep, int):
                kept = slice(-logits_to_keep, None)
            logits = self.lm_head(states[:, kept])  # (B, T, D) -> (B, T, V)
        elif return_logits or not can_fuse(self.lm_head):
            logits = self.lm_head(states)  # (B, T, D) -> (B, T, V)
            loss, nll = translation_loss(logits, labels, label_smoothing_factor, num_items_in_batch)
        else:
            weight = self.lm_head.weight
            loss, nll = fused_translation_loss(
                states, weight, labels, label_smoothing_factor, num_items_in_batch
            )
        others = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return VaswaniTransformerLMOutput(loss=loss, logits=logits, nll=nll, **others)

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Return the decoder's inputs (B, T): the labels shifted right, beginning with `<s>`.

        Each -100 in the labels becomes padding. The collators of transformers call this method.
        """
        start: Any = self.config.decoder_start_token_id
        padding = self.config.pad_token_id or 0
        previous = labels[:, :-1]
        shifted = labels.new_full(labels.shape, start)
        shifted[:, 1:] = previous.masked_fill(previous == IGNORE_INDEX, padding)
        return shifted


VaswaniTransformerModel.register_for_auto_class("AutoModel")
VaswaniTransformerForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")

__all__ = [
    "VaswaniTransformerDecoder",
    "VaswaniTransformerEncoder",
    "VaswaniTransformerForConditionalGeneration",
    "VaswaniTransformerModel",
    "VaswaniTransformerPreTrainedModel",
]
