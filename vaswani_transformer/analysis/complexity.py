# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 1 of the paper: operations of a layer, those that wait for each other, and its longest path, by layer type.

Sizes: n positions, d width of a position, k kernel of a convolution, r neighbourhood of restricted attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

from .text_table import align_columns, wrap

_LARGEST = 10**12
_MOST_DIGITS = 1e15  # numbers from here on are rounded where they are printed


@dataclass(frozen=True)
class Sizes:
    """Sizes that Table 1 speaks of; a `ValueError` names the one that is no whole number from 1 to 10^12.

    Args:
        n: Positions of the sequence.
        d: Width of a position's representation.
        k: Width of a convolution's kernel.
        r: Positions that restricted self-attention looks at; it counts up to n, since there are no more.

    Paper: section 4.
    """

    n: int = 1024
    d: int = 512
    k: int = 3
    r: int = 64

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            check_size(name, value)


def check_size(name: str, value: int) -> None:
    """Raises ValueError unless a size is a whole number from 1 to 10^12."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
        raise ValueError(f"`{name}` must be a whole number from 1 to 10^12, got {value}. Pass another value.")


@dataclass(frozen=True)
class Order:
    """An order of growth.

    Args:
        formula: As it is printed.
        value: What is inside the O, at given sizes: the number with all constant factors 1.
    """

    formula: str
    value: Callable[[Sizes], float]

    def __call__(self, sizes: Sizes) -> float:
        """The number at these sizes; infinite where no number of layers would do."""
        return self.value(sizes)


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1.

    Args:
        name: As the paper calls it.
        complexity: Operations of a layer.
        sequential_operations: Fewest operations that must wait for each other.
        maximum_path_length: Steps from an input to an output position, of those that lie farthest apart.

    Paper: Table 1.
    """

    name: str
    complexity: Order
    sequential_operations: Order
    maximum_path_length: Order


def _dilated_layers(sizes: Sizes) -> float:
    """Layers whose kernels, each k times as dilated as the one before, join all positions: log_k n, rounded up."""
    if sizes.k == 1 < sizes.n:
        return math.inf
    num_layers, reach = 1, sizes.k
    while reach < sizes.n:
        num_layers, reach = num_layers + 1, reach * sizes.k
    return num_layers


def _layers_of_width(n: int, width: int) -> float:
    """Layers of `width` contiguous positions over n of them: n / width, rounded up; a width of 1 joins nothing."""
    return math.inf if width == 1 < n else -(-n // width)


_CONSTANT = Order("O(1)", lambda sizes: 1)
_LINEAR = Order("O(n)", lambda sizes: sizes.n)

SELF_ATTENTION = LayerType("self-attention", Order("O(n^2 d)", lambda s: s.n**2 * s.d), _CONSTANT, _CONSTANT)
RECURRENT = LayerType("recurrent", Order("O(n d^2)", lambda s: s.n * s.d**2), _LINEAR, _LINEAR)
CONVOLUTIONAL = LayerType(
    "convolutional",
    Order("O(k n d^2)", lambda s: s.k * s.n * s.d**2),
    _CONSTANT,
    Order("O(log_k n)", _dilated_layers),
)
RESTRICTED_SELF_ATTENTION = LayerType(
    "self-attention, restricted",
    Order("O(r n d)", lambda s: min(s.r, s.n) * s.n * s.d),
    _CONSTANT,
    Order("O(n/r)", lambda s: _layers_of_width(s.n, s.r)),
)
TABLE_1: tuple[LayerType, ...] = (SELF_ATTENTION, RECURRENT, CONVOLUTIONAL, RESTRICTED_SELF_ATTENTION)

# What the text of section 4 adds on convolutions.
CONTIGUOUS_PATH_LENGTH = Order("O(n/k)", lambda s: _layers_of_width(s.n, s.k))
SEPARABLE_COMPLEXITY = Order("O(k n d + n d^2)", lambda s: s.k * s.n * s.d + s.n * s.d**2)

_HEADER = ("layer type", "complexity", "per layer", "sequential", "operations", "maximum", "path length")


def format_table_1(sizes: Sizes) -> str:
    """The table as text, each formula beside its number at these sizes, with what section 4 says about them.

    Example:
        >>> print(format_table_1(Sizes(n=70, d=512)))

    Paper: Table 1, section 4.
    """
    rows = [(layer.name, *_cells(layer, sizes)) for layer in TABLE_1]
    notes = (wrap(note) for note in _notes(sizes))
    return "\n".join([align_columns([_HEADER, *rows]), "", *notes])


def _cells(layer: LayerType, sizes: Sizes) -> list[str]:
    orders = (layer.complexity, layer.sequential_operations, layer.maximum_path_length)
    return [cell for order in orders for cell in (order.formula, _number(order(sizes)))]


def _number(value: float) -> str:
    """A whole number, rounded where it is very long; "none" for the infinite length of a path that does not exist."""
    if value == math.inf:
        return "none"
    return f"{value:,}" if value < _MOST_DIGITS else f"{value:.3e}".replace("e+", "e")


def _notes(sizes: Sizes) -> list[str]:
    named = ", ".join(f"{name} = {value:,}" for name, value in asdict(sizes).items())
    ratio = SELF_ATTENTION.complexity(sizes) / RECURRENT.complexity(sizes)
    notes = [
        f"Numbers: what is inside the O at {named}, with all constant factors 1; path lengths are rounded up.",
        f"Self-attention takes n / d = {ratio:.3g} times the operations of a recurrent layer: fewer as long as n < d.",
        "The path through convolutions is that of dilated kernels; contiguous ones take "
        f"{CONTIGUOUS_PATH_LENGTH.formula}: {_number(CONTIGUOUS_PATH_LENGTH(sizes))}. Separable convolutions take "
        f"{SEPARABLE_COMPLEXITY.formula} operations a layer: {_number(SEPARABLE_COMPLEXITY(sizes))}.",
    ]
    narrow = [name for name in ("k", "r") if getattr(sizes, name) == 1 < sizes.n]
    if narrow:
        notes.append(f"No path: layers with {' or '.join(f'{name} = 1' for name in narrow)} join no two positions.")
    return notes
