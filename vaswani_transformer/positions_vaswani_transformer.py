# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Positions of the original Transformer. Shapes: L length, D d_model."""

import math
from typing import Any

import torch
from torch import nn


def sinusoids(position_ids: torch.Tensor, d_model: int) -> torch.Tensor:
    """Sinusoidal positions: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same.

    Args:
        position_ids: (L,) positions, from 0.
        d_model: Width of the model, even.

    Returns:
        (L, D) in fp32. Angles are computed in float64 where the device has it: in fp32 those of position 1,000 would
        be off by 1e-4.

    Paper: section 3.5.
    """
    dtype = torch.float32 if position_ids.device.type == "mps" else torch.float64
    pair = torch.arange(0, d_model, 2, device=position_ids.device, dtype=dtype)
    angles = position_ids.to(dtype).unsqueeze(-1) * torch.exp(pair * (-math.log(10_000.0) / d_model))  # (L, D/2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()  # (L, D), interleaved


class SinusoidalPositionalEncoding(nn.Module):
    """Fixed sinusoids: a table that never grows, and the formula itself beyond it.

    Paper: section 3.5.
    """

    table: torch.Tensor

    def __init__(self, num_positions: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoids(torch.arange(num_positions), d_model), persistent=False)

    def values(self, device: torch.device | str) -> torch.Tensor:
        """What the table must hold: (rows, D) in fp32."""
        return sinusoids(torch.arange(self.table.shape[0], device=device), self.d_model)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> nn.Module:
        """Fills a table that moved anew: `to_empty` leaves memory as it is, and another dtype would round it."""
        if self.table.is_meta:
            self.table = self.values("cpu")  # or `fn` would find nothing to move
        before = self.table
        super()._apply(fn, *args, **kwargs)
        if self.table is not before:
            self.table = self.values(self.table.device)
        return self

    def forward(self, position_ids: torch.Tensor, num_positions: int) -> torch.Tensor:
        """Encodings (L, D) in fp32 of `position_ids` (L,), all of them below `num_positions`."""
        if num_positions <= self.table.shape[0] and self.table.device == position_ids.device:  # else it is on meta
            return self.table[position_ids]
        return sinusoids(position_ids, self.d_model)


class LearnedPositionalEncoding(nn.Embedding):
    """Learned positions, limited to `max_position_embeddings`.

    Paper: section 3.5, Table 3 row E.
    """

    def forward(  # type: ignore[override]  # called as the sinusoids are
        self, position_ids: torch.Tensor, num_positions: int
    ) -> torch.Tensor:
        """Encodings (L, D) of `position_ids` (L,), all of them below `num_positions`.

        Raises:
            ValueError: There are more positions than were learned.
        """
        if num_positions > self.num_embeddings:
            raise ValueError(
                f"Sequence length must be at most `max_position_embeddings` = {self.num_embeddings} with learned "
                f'positions, got {num_positions}. Shorten the input or use position_encoding="sinusoidal".'
            )
        return super().forward(position_ids)
