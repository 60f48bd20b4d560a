# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention of the original Transformer (section 3.2), under any of the library's backends.

Shapes: B batch, S source length, L any length, D d_model, H heads, K d_k (or d_v). A mask says True (or 0.0 where it
is added to scores) for "attend".
"""

from typing import Any

import torch
from torch import nn
from transformers import EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .configuration_vaswani_transformer import VaswaniTransformerConfig
from .linear_vaswani_transformer import Linear

_LARGEST_FLASH_HEAD = 256

# Takes the place of a model's configuration where masks are made: masks that "eager" and "sdpa" read.
_DENSE_MASKS = VaswaniTransformerConfig.from_preset("base", attn_implementation="sdpa")


def _is_flash(backend: str | None) -> bool:
    return "flash" in (backend or "")  # flash_attention_2 and its successors, or such a kernel from the Hub


def check_flash_head_sizes(config: VaswaniTransformerConfig, backend: str | None) -> None:
    """Raises ValueError where `backend` is flash attention and cannot run heads of these sizes."""
    if _is_flash(backend) and not config.d_v <= config.d_k <= _LARGEST_FLASH_HEAD:
        raise ValueError(
            f"`attn_implementation` must be sdpa, eager or flex_attention for heads of d_k {config.d_k} and d_v "
            f"{config.d_v}, got {backend!r}. Flash attention needs d_v <= d_k <= {_LARGEST_FLASH_HEAD}."
        )


def _backend(config: VaswaniTransformerConfig, output_attentions: bool | None, is_masked_cross: bool) -> str:
    """The configured backend, unless it has no weights to give or would be wrong.

    It would be flash attention over padded sources: the library's wrapper then drops the target tokens that stand
    where the source has padding.
    """
    if output_attentions:
        return "eager"
    backend = config._attn_implementation or "eager"
    return "sdpa" if is_masked_cross and _is_flash(backend) else backend


def mask_config(
    config: VaswaniTransformerConfig, output_attentions: bool | None, is_cross: bool = False
) -> VaswaniTransformerConfig:
    """What the library's mask functions are given as `config`, which tells them what kind of mask the layers read.

    Where `_backend` leaves the configured one, that is a boolean mask.
    """
    return _DENSE_MASKS if output_attentions or (is_cross and _is_flash(config._attn_implementation)) else config


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
    """softmax(q k^T / sqrt(d_k)) v, written out: the "eager" backend, which also returns the weights.

    Args:
        module: The attention layer: `training` decides on dropout, `is_causal` on what a missing mask means.
        q: (B, H, L, K) queries.
        k: (B, H, S, K) keys.
        v: (B, H, S, d_v) values.
        attention_mask: Broadcastable to (B, H, L, S), True: attend, or added to the scores; None: all, or the past.
        scaling: 1 / sqrt(d_k).
        dropout: Rate on the weights.

    Returns:
        Output (B, L, H, d_v) and weights (B, H, L, S).

    Paper: section 3.2.1, equation 1.
    """
    scores = torch.matmul(q, k.transpose(-2, -1)) * scaling
    if attention_mask is None and q.shape[2] > 1 and getattr(module, "is_causal", False):
        attention_mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(weights, v).transpose(1, 2).contiguous(), weights


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    The heads' W_i^Q stand side by side in `q_proj`, as do W_i^K in `k_proj` and W_i^V in `v_proj`; W^O is `out_proj`.

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
        self.layer_idx, self.is_causal = layer_idx, is_causal
        self.d_k, self.d_v = config.d_k, config.d_v
        self.scaling, self.dropout = config.d_k**-0.5, config.attention_dropout
        bias = config.attention_bias
        self.q_proj = Linear(config.d_model, config.num_heads * config.d_k, bias=bias)
        self.k_proj = Linear(config.d_model, config.num_heads * config.d_k, bias=bias)
        self.v_proj = Linear(config.d_model, config.num_heads * config.d_v, bias=bias)
        self.out_proj = Linear(config.num_heads * config.d_v, config.d_model, bias=bias)
        together = [self.k_proj, self.v_proj] if is_cross else [self.q_proj, self.k_proj, self.v_proj]
        for projection in together:  # one matrix for the initialisation
            projection.init_fan_out = sum(each.out_features for each in together)

    def forward(
        self,
        hidden_states: torch.Tensor,
        key_value_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Queries from `hidden_states` (B, L, D); keys and values from `key_value_states` (B, S, D) or the former.

        Returns:
            (B, L, D) and the weights (B, H, L, S): with `output_attentions` under any backend, else of "eager" alone.
        """
        q = self._split_heads(self.q_proj(hidden_states), self.d_k)
        k, v = self._keys_and_values(hidden_states, key_value_states, past_key_values)
        is_masked_cross = key_value_states is not None and attention_mask is not None
        backend = _backend(self.config, kwargs.get("output_attentions"), is_masked_cross)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(backend, scaled_dot_product_attention)
        if attention_mask is None and self.is_causal and not _is_flash(backend):
            attention_mask = self._mask_of_the_past(q, k, past_key_values, backend)
        dropout = self.dropout if self.training else 0.0
        out, weights = attend(self, q, k, v, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs)
        return self.out_proj(out.flatten(2)), weights  # (B, L, H, K) -> (B, L, D)

    def _keys_and_values(
        self,
        hidden_states: torch.Tensor,
        key_value_states: torch.Tensor | None,
        past_key_values: EncoderDecoderCache | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values (B, H, S, K) of self- or cross-attention, through the cache if there is one."""
        is_cross = key_value_states is not None
        if is_cross and past_key_values is not None and past_key_values.is_updated.get(self.layer_idx):
            layer: Any = past_key_values.cross_attention_cache.layers[self.layer_idx]
            return layer.keys, layer.values
        states = hidden_states if key_value_states is None else key_value_states
        k = self._split_heads(self.k_proj(states), self.d_k)
        v = self._split_heads(self.v_proj(states), self.d_v)
        if past_key_values is None:
            return k, v
        if not is_cross:
            return past_key_values.self_attention_cache.update(k, v, self.layer_idx)
        k, v = past_key_values.cross_attention_cache.update(k, v, self.layer_idx)
        past_key_values.is_updated[self.layer_idx] = True
        return k, v

    def _mask_of_the_past(
        self, q: torch.Tensor, k: torch.Tensor, past_key_values: EncoderDecoderCache | None, backend: str
    ) -> torch.Tensor | None:
        """Causal mask (B, 1, L, S) to add to scores; None where the backend itself takes no mask for this one."""
        length, size = q.shape[2], k.shape[2]
        cache = None if past_key_values is None else past_key_values.self_attention_cache
        num_keys = length if cache is None else cache.get_seq_length(self.layer_idx)  # a tensor of static caches
        is_known = length == 1 or (length == size and backend != "flex_attention")
        if is_known and not torch.is_tensor(num_keys):
            return None
        newest = torch.arange(length, device=q.device) + (num_keys - length)
        is_future = torch.arange(size, device=q.device) > newest.unsqueeze(1)
        return q.new_zeros(len(q), 1, length, size).masked_fill_(is_future, torch.finfo(q.dtype).min)

    @staticmethod
    def _split_heads(states: torch.Tensor, width: int) -> torch.Tensor:
        return states.view(*states.shape[:-1], -1, width).transpose(1, 2)  # (B, L, H * K) -> (B, H, L, K)


__all__ = ["MultiHeadAttention", "check_flash_head_sizes", "mask_config", "scaled_dot_product_attention"]
