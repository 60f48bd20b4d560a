# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Residual dropout (section 5.4) whose random numbers cost little on CPUs."""

from typing import Any

import torch
from torch import nn

_STEPS = 2**16  # a random number has 16 bits


class Dropout(nn.Dropout):
    """`nn.Dropout`; in training on CPUs with a mask of 16-bit random numbers, four of which are drawn at a time.

    There the rate is rounded to 1/65,536, and what is kept is scaled by the rounded rate, so that the mean is exact.
    The mask is kept for the backward pass in one byte an element instead of four.

    Paper: section 5.4.
    """

    def forward(self, input: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Same shape; elements are zero with probability `p`, the others are divided by 1 - p.

        `residual`, of the same shape, is added to that without further memory.
        """
        num_kept = round((1.0 - self.p) * _STEPS)
        if not self.training or input.device.type != "cpu" or torch.compiler.is_compiling() or num_kept in (0, _STEPS):
            dropped = super().forward(input)
            return dropped if residual is None else residual + dropped
        mask, scale = _random_mask(input, num_kept), _STEPS / num_kept
        output: torch.Tensor = _MaskedScale.apply(input, mask, scale, residual)
        return output


def _random_mask(like: torch.Tensor, num_kept: int) -> torch.Tensor:
    """Booleans in the shape of `like`, true with probability `num_kept` / 65,536."""
    words = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    return (words.view(torch.int16)[: like.numel()] < num_kept - _STEPS // 2).view(like.shape)


class _MaskedScale(torch.autograd.Function):
    """input * mask * scale, plus residual if there is one."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, mask: torch.Tensor, scale: float, residual: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(mask)
        ctx.scale, ctx.dtype = scale, input.dtype
        if residual is None:
            return (input * mask).mul_(scale)
        kept = mask.to(torch.promote_types(input.dtype, residual.dtype))
        return torch.addcmul(residual, input, kept, value=scale, out=kept)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return (grad * mask).mul_(ctx.scale).to(ctx.dtype), None, None, grad if ctx.needs_input_grad[3] else None


__all__ = ["Dropout"]
