# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measured time and memory of layers as text and as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .complexity import RESTRICTED_SELF_ATTENTION
from .drawing import COLORS, LINE_STYLES, new_figure
from .layer_costs import CONTESTANTS, NUM_HEADS, Contestant, LayerCosts
from .text_table import align_columns, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIB = 2**20
_TICK_DISTANCE = 1 / 8  # of the axis, at least: closer labels would touch each other


def format_layer_costs(costs: LayerCosts) -> str:
    """A table of times and one of memory, with the exponents of n in both, measured and by formula.

    Paper: Table 1.
    """
    header = [
        ("n", *(contestant.kind for contestant in CONTESTANTS)),
        ("", *(contestant.variant for contestant in CONTESTANTS)),
    ]
    milliseconds, mebibytes = _in_units(costs)
    times = [
        *_rows(costs, milliseconds),
        ("exponent, measured", *_exponents(lambda each: costs.exponent(milliseconds[each.name]))),
        *([("its range", *_ranges(costs))] if costs.repeats > 1 else []),
        ("of all multiplications", *_exponents(lambda each: costs.exponent_of(each.multiplications))),
        ("of Table 1", *_exponents(lambda each: costs.exponent_of(each.row.complexity))),
    ]
    memory = [
        *_rows(costs, mebibytes),
        ("exponent, measured", *_exponents(lambda each: costs.exponent(mebibytes[each.name]))),
        ("expected of large n", *_exponents(lambda each: costs.exponent_of(each.memory))),
    ]
    notes = (wrap(note) for note in _notes(costs))
    return "\n".join(
        [
            f"Time in milliseconds: {describe(costs)}, median of {costs.repeats}",
            align_columns([*header, *times]),
            "",
            "Memory in MiB: the peak beyond the layer's own weights and its input",
            align_columns([*header, *memory]),
            "",
            *notes,
        ]
    )


def describe(costs: LayerCosts) -> str:
    """What was run, and where."""
    what = "forward and backward" if costs.backward else "forward"
    return f"{what}, d = {costs.sizes.d:,}, k = {costs.sizes.k:,}, batch {costs.batch_size:,}, fp32, {costs.device}"


def _in_units(costs: LayerCosts) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Milliseconds and MiB, by name of the layer."""
    milliseconds = {name: [1e3 * value for value in values] for name, values in costs.seconds.items()}
    return milliseconds, {name: [value / _MIB for value in values] for name, values in costs.num_bytes.items()}


def _rows(costs: LayerCosts, values: dict[str, list[float]]) -> list[tuple[str, ...]]:
    columns = [values[contestant.name] for contestant in CONTESTANTS]
    return [
        (f"{length:,}", *map(_figure, row))
        for length, row in zip(costs.lengths, zip(*columns, strict=True), strict=True)
    ]


def _figure(value: float) -> str:
    """Three digits, or the whole number where there are more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def _exponents(exponent: Callable[[Contestant], float]) -> list[str]:
    return [f"{exponent(contestant):.2f}" for contestant in CONTESTANTS]


def _ranges(costs: LayerCosts) -> list[str]:
    ranges = (costs.exponent_range(contestant.name) for contestant in CONTESTANTS)
    return [f"{low:.2f} to {high:.2f}" for low, high in ranges]


def _note_on_fit(costs: LayerCosts) -> str:
    """How the exponents are found, and how far they can be trusted."""
    fitted = costs.fitted_lengths
    note = f"Exponents p of n^p: least squares in logarithms over n = {fitted[0]:,} to {fitted[-1]:,}."
    if costs.repeats > 1:
        note += " The range is that of fits to the median, the fastest and the slowest of the repeats at each length."
    else:
        note += " How far chance moves those of the time, a single timing does not tell."
    if len(fitted) < 3:
        note += " These are two lengths, through which any n^p passes: whether it describes others is not shown."
    return note


def _notes(costs: LayerCosts) -> list[str]:
    attention = CONTESTANTS[0]
    return [
        _note_on_fit(costs),
        f"Self-attention takes {attention.multiplications.formula} multiplications. Table 1 leaves out the first "
        f"term, that of the projections, which weighs more until n = 2 d = {2 * costs.sizes.d:,}. What eager does to "
        "its n^2 weights besides, such as the softmax, takes time and none of these multiplications.",
        f"Table 1 does not speak of memory. The attention has {NUM_HEADS} heads; eager holds all n^2 weights of each, "
        "sdpa, the model's default, makes them block by block. On CPUs the LSTM and the convolution may hold copies "
        "of their own weights in another order, too, however short the sequence; where they do, it lowers their "
        "exponents.",
        f'"{RESTRICTED_SELF_ATTENTION.name}" is not part of the package: it has a formula and no measurement.',
    ]


# ---- the picture ----


def draw_layer_costs(costs: LayerCosts) -> Figure:
    """Time and memory over n on logarithmic axes, a curve for each layer, with the slopes of n and n^2.

    Raises:
        ImportError: If matplotlib is missing.

    Paper: Table 1.
    """
    with new_figure() as figure:
        panels = figure.subplots(1, 2)
        units = zip(_in_units(costs), ("milliseconds", "MiB"), ("Time", "Peak of memory"), strict=True)
        for axes, (values, unit, title) in zip(panels, units, strict=True):
            _draw_slopes(axes, costs.fitted_lengths, values)
            for index, contestant in enumerate(CONTESTANTS):
                axes.plot(costs.lengths, values[contestant.name], label=contestant.name, **_line(index))
            axes.set(xscale="log", yscale="log", xlabel="n, positions", ylabel=unit, title=title)
            _label_axes(axes, costs.lengths)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(CONTESTANTS), frameon=False)
        figure.suptitle(f"Layers of Table 1: {describe(costs)}", fontsize=12)
    return figure


def _line(index: int) -> dict[str, object]:
    style = {"color": COLORS[index], "linestyle": LINE_STYLES[index]}
    return {"linewidth": 1.8, "marker": "o", "markersize": 4, "zorder": 3, **style}


def _draw_slopes(axes: Axes, lengths: Sequence[int], values: dict[str, list[float]]) -> None:
    """Grey lines that grow as n and as n^2 over the lengths of the fit, from a point below the curves."""
    start = min(column[-len(lengths)] for column in values.values()) / 2
    for exponent, name in ((1, "n"), (2, "n²")):
        ends = (start, start * (lengths[-1] / lengths[0]) ** exponent)
        axes.plot((lengths[0], lengths[-1]), ends, color="#aaaaaa", linewidth=0.8, zorder=1)
        axes.annotate(
            name, (lengths[-1], ends[-1]), xytext=(4, 0), textcoords="offset points", va="center", color="#666666"
        )


def _label_axes(axes: Axes, lengths: Sequence[int]) -> None:
    """Ticks at the lengths themselves, those that leave room for their labels, and plain numbers."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(spread_ticks(lengths)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1,) if high / low > 1000 else (1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")


def spread_ticks(lengths: Sequence[int]) -> list[int]:
    """Some of the ascending lengths, the longest among them, at an eighth of the axis from each other or more."""
    apart = math.log(lengths[-1] / lengths[0]) * _TICK_DISTANCE
    ticks = [lengths[-1]]
    for length in reversed(lengths):
        if math.log(ticks[-1] / length) >= apart:
            ticks.append(length)
    return ticks
