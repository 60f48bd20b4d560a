# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's learning-rate schedule as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.drawing import COLORS, LINE_STYLES, new_figure
from .schedule import paper_peak_learning_rate, warmup_inverse_sqrt_factor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NUM_POINTS = 1000


def draw_schedules(
    d_models: Sequence[int] = (512,), warmup_steps: Sequence[int] = (4000,), max_steps: int = 100_000
) -> Figure:
    """Learning rate of each update, a curve for each width (colour) with each warm-up (line style).

    Behind their peaks all curves of a width run on the same line: an earlier one is drawn wider and lighter, and shows
    on both sides of a later one.

    Args:
        d_models: Widths of the model, up to six.
        warmup_steps: Updates of the linear warm-up, up to four choices.
        max_steps: Last update that is drawn.

    Raises:
        ImportError: If matplotlib is missing.
        ValueError: A number is out of range, or there are more curves than can be told apart.

    Paper: section 5.3, equation 3.
    """
    widths = _checked("d_model", d_models, len(COLORS))
    warmups = _checked("warmup_steps", warmup_steps, len(LINE_STYLES))
    if max_steps < 2:
        raise ValueError(f"`max_steps` must be at least 2, got {max_steps}. The paper trains for 100000.")
    with new_figure() as figure:
        axes = figure.subplots()
        for (i, d_model), (j, warmup) in product(enumerate(widths), enumerate(warmups)):
            peak, steps = paper_peak_learning_rate(d_model, warmup), _steps(warmup, max_steps)
            rates = [peak * warmup_inverse_sqrt_factor(step, warmup) for step in steps]
            label = f"d_model {d_model:,}, warm-up {warmup:,}: peak {peak:.2e}".replace("e-0", "e-")
            style: dict[str, Any] = {"color": COLORS[i], "linestyle": LINE_STYLES[j], **_layer(len(warmups) - 1 - j)}
            axes.plot(steps, rates, label=label, **style)
        axes.set(xlabel="updates", ylabel="learning rate", title="Learning rate of section 5.3", ylim=(0, None))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        axes.legend()
    return figure


def _layer(num_above: int) -> dict[str, float]:
    """How wide and how light a curve is that has so many others above it."""
    return {"linewidth": 1.8 + 2.6 * num_above, "alpha": 1 / (1 + num_above)}


def _checked(name: str, numbers: Sequence[int], most: int) -> list[int]:
    """The different ones among `numbers`, each at least 1, in their order."""
    different = list(dict.fromkeys(numbers))
    if wrong := [number for number in different if number < 1]:
        raise ValueError(f"`{name}` must be at least 1, got {wrong[0]}. Pass whole numbers from 1.")
    if not 1 <= len(different) <= most:
        raise ValueError(f"`{name}` must be 1 to {most} different numbers, got {len(different)}. Draw fewer curves.")
    return different


def _steps(warmup_steps: int, max_steps: int) -> list[int]:
    """Updates to draw: the first, the last, that of the peak, and enough between them for a smooth curve."""
    steps = set(np.linspace(1, max_steps, min(max_steps, _NUM_POINTS)).round().astype(int).tolist())
    return sorted(steps | ({warmup_steps} if warmup_steps <= max_steps else set()))
