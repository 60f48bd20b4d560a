# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sinusoidal positions as a picture. Shapes: L length, D d_model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..modeling_vaswani_transformer import sinusoids
from .drawing import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_D_MODEL, _MAX_LENGTH = 4096, 10_000


def position_products(d_model: int, length: int, position: int = 0) -> torch.Tensor:
    """(L,) dot products of the encoding of one position with those of positions 0 to `length` - 1, in float64.

    They depend on the distance alone: the sum over i of cos(distance / 10000^(2i / d_model)), d_model / 2 at none.

    Args:
        d_model: Width of the model, even.
        length: Number of positions.
        position: The one that is compared with all.

    Paper: section 3.5.
    """
    table = sinusoids(torch.arange(length), d_model).double()
    return table @ sinusoids(torch.tensor([position]), d_model)[0].double()


def draw_positions(d_model: int = 128, length: int = 100) -> Figure:
    """The table of sinusoids, beside how much the encoding of the middle position has in common with the others.

    Args:
        d_model: Width of the model, even.
        length: Number of positions, from 0.

    Raises:
        ImportError: If matplotlib is missing.
        ValueError: `d_model` is odd or below 2, `length` is below 2, or one of them is too large to be seen.

    Paper: section 3.5.
    """
    if d_model % 2 or not 2 <= d_model <= _MAX_D_MODEL:
        raise ValueError(f"`d_model` must be even and lie in [2, {_MAX_D_MODEL}], got {d_model}. The paper uses 512.")
    if not 2 <= length <= _MAX_LENGTH:
        raise ValueError(f"`length` must lie in [2, {_MAX_LENGTH}], got {length}. Pass a number of positions.")
    with new_figure(13, 5.4) as figure:
        table, products = figure.subplots(1, 2, width_ratios=(5, 4))
        _draw_table(table, sinusoids(torch.arange(length), d_model))
        _draw_products(products, d_model, length)
    return figure


def _draw_table(axes: Axes, table: torch.Tensor) -> None:
    """Encodings (L, D) as colours from -1 to 1."""
    image = axes.imshow(table.numpy(), vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="none")
    axes.grid(False)
    axes.locator_params(integer=True)
    axes.set(xlabel="feature", ylabel="position", title="Sinusoids: sine in even features, cosine in odd ones")
    axes.figure.colorbar(image, ax=axes, ticks=(-1, 0, 1), pad=0.02)


def _draw_products(axes: Axes, d_model: int, length: int) -> None:
    """Dot products over the distance from the middle position."""
    middle = length // 2
    products = position_products(d_model, length, middle)
    axes.plot(range(-middle, length - middle), products, color=COLORS[0], linewidth=1.8)
    axes.locator_params(axis="x", integer=True)
    title = f"Dot product with the encoding of position {middle}"
    axes.set(xlabel="distance", ylabel="dot product", title=title)
