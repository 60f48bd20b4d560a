# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention maps as a picture: a grid for each kind of attention, a row for each layer, a column for each head.

All lengths are in inches. Places are measured from the upper left corner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers.utils import logging

from .attention_maps import AttentionMaps, check_not_blank
from .drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from transformers import PreTrainedTokenizerBase

    from ..configuration_vaswani_transformer import VaswaniTransformerConfig

logger = logging.get_logger(__name__)

KINDS = ("encoder", "decoder", "cross")
MAX_TOKENS = 100  # of one side of a map
MAX_INCHES = 60  # of one side of the picture: 7,200 pixels

_LONGEST_LABEL = 18
_USUAL_SIDE = 12.0  # what the maps fill if that leaves their cells between these two sizes
_SMALLEST_CELL, _LARGEST_CELL = 0.13, 0.42
_POINTS_PER_INCH = 72
_TITLE_SIZE, _MAP_TITLE_SIZE, _AXIS_SIZE = 13, 10, 11
_TITLE_WEIGHT = "bold"
_TITLE, _MAP_TITLE, _AXIS_LABEL = 0.38, 0.27, 0.3  # heights of lines of text with the space around them
_GAP, _MARGIN, _TICK, _BAR = 0.16, 0.12, 0.07, 0.18
_BAR_HEIGHT, _BAR_AREA = 3.0, 1.0
_HALF_LETTER = 0.27  # from the base line to the middle of a small letter, in sizes of the font


# Of each kind its title, and what its rows and columns are.
_TEXTS = {
    "encoder": ("Encoder self-attention", "source token", "source token attended to"),
    "decoder": ("Decoder self-attention, masked", "target token fed", "target token attended to"),
    "cross": ("Encoder-decoder attention", "target token predicted", "source token attended to"),
}


@dataclass(frozen=True)
class _Grid:
    """The maps of one kind of attention that are drawn."""

    title: str
    row_label: str
    column_label: str
    row_tokens: list[str]
    column_tokens: list[str]
    weights: np.ndarray  # (layers, heads, rows, columns)
    layers: list[int]
    heads: list[int]


@dataclass(frozen=True)
class _Layout:
    """How large the parts of a grid are."""

    cell: float
    slot: tuple[float, float]  # of one map with its title and the space to the next, horizontally and vertically
    left: float  # what row tokens and their label take
    area: float  # height of the maps, and at least that of the label beside them
    bottom: float  # what column tokens and their label take
    width: float
    height: float


def draw_attention(
    maps: AttentionMaps,
    *,
    kinds: Sequence[str] = KINDS,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Figure:
    """Attention weights as colours from 0 to 1, on one scale for all maps.

    Rows attend to columns. In attention over the encoder a row is the target token that is predicted at that step, in
    the decoder's self-attention the one that is fed to it. Grids lie below each other, or side by side where one head
    is drawn.

    Args:
        maps: From `attention_maps`.
        kinds: Which attention: "encoder" (self-attention), "decoder" (masked self-attention), "cross" (decoder over
            encoder).
        layers: Layers, from 0; None takes all.
        heads: Heads, from 0; None takes all.

    Raises:
        ImportError: If matplotlib is missing.
        ValueError: A kind, layer or head does not exist, a sentence has more tokens than can be read in a map, or the
            picture would be too large.

    Paper: section 3.2.3.
    """
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong or not kinds:
        raise ValueError(
            f"`kinds` must be one or more of {', '.join(KINDS)}, got {wrong[0] if wrong else 'none'}. Name what to "
            "draw."
        )
    _check_num_tokens("source", len(maps.source_tokens))
    _check_num_tokens("target", len(maps.predicted_tokens))
    grids = [_chosen_grid(maps, kind, layers, heads) for kind in KINDS if kind in kinds]
    with new_figure() as figure:
        _draw(figure, _with_drawable_tokens(grids))
    return figure


def check_sentence(name: str, text: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises ValueError for a sentence without words or too long to be drawn; `name` is what errors call it."""
    check_not_blank(name, text)
    _check_num_tokens(name, count_tokens(text, tokenizer))


def count_tokens(text: str, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens of a sentence's map, with `</s>`."""
    return len(tokenizer(text, truncation=False, verbose=False)["input_ids"])


def check_choice(
    config: VaswaniTransformerConfig, kinds: Sequence[str], layers: Sequence[int] | None, heads: Sequence[int] | None
) -> None:
    """Raises ValueError for layers or heads that a model of that config lacks in one of the kinds of attention."""
    for kind in kinds:
        num_layers = config.num_encoder_layers if kind == "encoder" else config.num_decoder_layers
        _chosen("layers", layers, num_layers, kind)
        _chosen("heads", heads, config.num_heads, kind)


def _check_num_tokens(name: str, num_tokens: int) -> None:
    if num_tokens > MAX_TOKENS:
        raise ValueError(
            f"`{name}` must have at most {MAX_TOKENS} tokens to be drawn, got {num_tokens} with </s>. Maps of longer "
            "sentences cannot be read: pass a shorter one."
        )


def _chosen(name: str, numbers: Sequence[int] | None, count: int, kind: str) -> list[int]:
    """The layers or heads to draw, in their order."""
    if numbers is None:
        return list(range(count))
    wrong = [number for number in numbers if not 0 <= number < count]
    if wrong or not numbers:
        stack = "encoder" if kind == "encoder" else "decoder"
        raise ValueError(
            f"`{name}` must lie in [0, {count}), the {name} of the model's {stack}, got "
            f"{wrong[0] if wrong else 'none'}. Count from 0, or leave it out for all."
        )
    return sorted(set(numbers))


def _chosen_grid(maps: AttentionMaps, kind: str, layers: Sequence[int] | None, heads: Sequence[int] | None) -> _Grid:
    weights, rows, columns = {
        "encoder": (maps.encoder, maps.source_tokens, maps.source_tokens),
        "decoder": (maps.decoder, maps.fed_tokens, maps.fed_tokens),
        "cross": (maps.cross, maps.predicted_tokens, maps.source_tokens),
    }[kind]
    num_layers, num_heads = weights.shape[:2]
    layers, heads = _chosen("layers", layers, num_layers, kind), _chosen("heads", heads, num_heads, kind)
    return _Grid(*_TEXTS[kind], rows, columns, weights[np.ix_(layers, heads)], layers, heads)


# ------------------------------------------------------------------------------------------------------ tokens


def _with_drawable_tokens(grids: list[_Grid]) -> list[_Grid]:
    """The grids with short tokens of characters that the font has; others become "□" and are named once."""
    tokens = {token for grid in grids for token in (*grid.row_tokens, *grid.column_tokens)}
    missing = sorted(_missing_characters("".join(tokens)))
    if missing:
        shown = " ".join(missing[:10]) + (" ..." if len(missing) > 10 else "")
        logger.warning(
            f"The font of the picture lacks {len(missing)} of the characters ({shown}), drawn as □. Name a font that "
            'has them in matplotlib\'s settings, for example "font.family: Noto Sans CJK JP" in a file matplotlibrc.'
        )
    table = str.maketrans(dict.fromkeys(missing, "□"))

    def drawable(tokens: Iterable[str]) -> list[str]:
        return [_shortened(token.translate(table)) for token in tokens]

    return [
        replace(grid, row_tokens=drawable(grid.row_tokens), column_tokens=drawable(grid.column_tokens))
        for grid in grids
    ]


def _shortened(token: str) -> str:
    return token if len(token) <= _LONGEST_LABEL else f"{token[: _LONGEST_LABEL - 1]}…"


def _missing_characters(text: str) -> set[str]:
    """Characters that no font has which matplotlib would draw them with."""
    import matplotlib
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[name]))) for name in matplotlib.rcParams["font.family"]]
    return {each for each in set(text) if not any(font.get_char_index(ord(each)) for font in fonts)}


# ------------------------------------------------------------------------------------------------------ layout


def _cell_size(grids: list[_Grid], beside: bool) -> float:
    """Side of the square of one weight: the more there are, the smaller."""
    widths = [len(grid.heads) * len(grid.column_tokens) for grid in grids]
    heights = [len(grid.layers) * len(grid.row_tokens) for grid in grids]
    cells = max(sum(widths), *heights) if beside else max(*widths, sum(heights))
    return min(max(_USUAL_SIDE / cells, _SMALLEST_CELL), _LARGEST_CELL)


def _token_size(cell: float) -> float:
    """Size in points of tokens beside cells of that size."""
    return min(max(cell * _POINTS_PER_INCH * 0.75, 7), 11)


def _measure(figure: Figure, grid: _Grid, cell: float) -> _Layout:
    """How large a grid becomes; texts that are wider than what they stand beside make room."""

    def widest(texts: Iterable[str], size: float, **style: str) -> float:
        return max(_text_width(figure, text, fontsize=size, **style) for text in set(texts))

    slot = (
        max(cell * len(grid.column_tokens), widest([_map_title(grid, -1, -1)], _MAP_TITLE_SIZE)) + _GAP,
        cell * len(grid.row_tokens) + _MAP_TITLE,
    )
    left = _AXIS_LABEL + widest(grid.row_tokens, _token_size(cell)) + _TICK
    bottom = _TICK + widest(grid.column_tokens, _token_size(cell)) + _AXIS_LABEL
    texts = max(widest([grid.title], _TITLE_SIZE, weight=_TITLE_WEIGHT), widest([grid.column_label], _AXIS_SIZE))
    width = left + max(len(grid.heads) * slot[0] - _GAP, texts)
    area = max(len(grid.layers) * slot[1], widest([grid.row_label], _AXIS_SIZE))
    return _Layout(cell, slot, left, area, bottom, width, height=_TITLE + area + bottom)


def _aligned(layouts: list[_Layout]) -> list[_Layout]:
    """The layouts of grids below each other, whose maps begin at one left edge."""
    left = max(layout.left for layout in layouts)
    return [replace(layout, left=left, width=layout.width + left - layout.left) for layout in layouts]


def _text_width(figure: Figure, text: str, **style: Any) -> float:
    drawn = figure.text(0, 0, text, parse_math=False, **style)
    width = drawn.get_window_extent().width / figure.dpi
    drawn.remove()
    return width


def _places(layouts: list[_Layout], beside: bool) -> Iterator[tuple[float, float]]:
    """Upper left corner of each grid."""
    x = y = _MARGIN
    for layout in layouts:
        yield x, y
        if beside:
            x += layout.width + 2 * _GAP
        else:
            y += layout.height + 2 * _GAP


def _picture_size(
    grids: list[_Grid], layouts: list[_Layout], places: list[tuple[float, float]]
) -> tuple[float, float]:
    """Width and height; raises ValueError where one of them is too large."""
    scale = _MARGIN + _TITLE + _MAP_TITLE + _BAR_HEIGHT + _MARGIN
    width = max(x + layout.width for layout, (x, _) in zip(layouts, places, strict=True)) + _MARGIN + _BAR_AREA
    height = max(*(y + layout.height + _MARGIN for layout, (_, y) in zip(layouts, places, strict=True)), scale)
    if max(width, height) > MAX_INCHES:
        count = sum(len(grid.layers) * len(grid.heads) for grid in grids)
        raise ValueError(
            f"`kinds`, `layers` and `heads` must choose what fits into a picture of {MAX_INCHES} x {MAX_INCHES} "
            f"inches, got {count} maps that take {width:.0f} x {height:.0f}. Choose fewer, or a shorter sentence."
        )
    return width, height


# ----------------------------------------------------------------------------------------------------- drawing


def _map_title(grid: _Grid, row: int, column: int) -> str:
    return f"layer {grid.layers[row]}, head {grid.heads[column]}"


def _draw(figure: Figure, grids: list[_Grid]) -> None:
    """Makes the figure as large as the grids need and draws them."""
    figure.set_layout_engine("none")
    beside = all(len(grid.heads) == 1 for grid in grids)
    cell = _cell_size(grids, beside)
    layouts = [_measure(figure, grid, cell) for grid in grids]
    layouts = layouts if beside else _aligned(layouts)
    places = list(_places(layouts, beside))
    width, height = _picture_size(grids, layouts, places)
    figure.set_size_inches(width, height)
    for grid, layout, place in zip(grids, layouts, places, strict=True):
        _draw_grid(figure, grid, layout, *place)
    _draw_scale(figure, width - _BAR_AREA, _MARGIN + _TITLE + _MAP_TITLE)


def _draw_grid(figure: Figure, grid: _Grid, layout: _Layout, left: float, top: float) -> None:
    """All maps of one kind; row tokens beside the first column of maps, column tokens below the last row."""
    x, y = left + layout.left, top + _TITLE
    rows, columns = len(grid.layers), len(grid.heads)
    size = layout.cell * len(grid.column_tokens), layout.cell * len(grid.row_tokens)
    for row in range(rows):
        for column in range(columns):
            corner = x + column * layout.slot[0], y + row * layout.slot[1] + _MAP_TITLE
            axes = _add_axes(figure, *corner, *size)
            axes.imshow(grid.weights[row, column], vmin=0, vmax=1, cmap="Blues", aspect="auto", interpolation="none")
            axes.set_title(_map_title(grid, row, column), fontsize=_MAP_TITLE_SIZE, pad=4)
            _label_tokens(axes, grid, layout, is_left=column == 0, is_lowest=row == rows - 1)
    _write(figure, grid.title, x, top + _TITLE / 2, ha="left", va="center", fontsize=_TITLE_SIZE, weight=_TITLE_WEIGHT)
    middle = x + size[0] / 2 if columns == 1 else x + (columns * layout.slot[0] - _GAP) / 2
    below = y + rows * layout.slot[1] + layout.bottom - _AXIS_LABEL / 2
    style = {"va": "center", "fontsize": _AXIS_SIZE}
    _write(figure, grid.column_label, middle, below, ha="center", **style)
    _write(figure, grid.row_label, left, y + layout.area / 2, ha="left", rotation=90, **style)


def _label_tokens(axes: Axes, grid: _Grid, layout: _Layout, is_left: bool, is_lowest: bool) -> None:
    """Tokens at the rows of maps on the left and at the columns of the lowest maps."""
    from matplotlib.transforms import ScaledTranslation

    size = _token_size(layout.cell)
    half = _HALF_LETTER * size / _POINTS_PER_INCH
    axes.grid(False)
    axes.spines[:].set(visible=True, color="#999999", linewidth=0.6)
    axes.tick_params(length=2, pad=2, color="#999999", labelsize=size)
    axes.set_xticks(range(len(grid.column_tokens)) if is_lowest else [])
    axes.set_yticks(range(len(grid.row_tokens)) if is_left else [])
    style: dict[str, Any] = {"parse_math": False, "rotation_mode": "anchor", "ha": "right", "va": "baseline"}
    columns = axes.set_xticklabels(grid.column_tokens, rotation=90, **style) if is_lowest else []
    rows = axes.set_yticklabels(grid.row_tokens, **style) if is_left else []
    for labels, right, up in ((columns, half, 0.0), (rows, 0.0, -half)):
        for label in labels:  # one base line for all, with or without tall letters
            label.set_transform(label.get_transform() + ScaledTranslation(right, up, axes.figure.dpi_scale_trans))


def _draw_scale(figure: Figure, left: float, top: float) -> None:
    """The colours of all maps."""
    axes = _add_axes(figure, left, top, _BAR, _BAR_HEIGHT)
    image = next(each.images[0] for each in figure.axes if each.images)
    figure.colorbar(image, cax=axes, label="attention weight")
    axes.grid(False)


def _add_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    whole = figure.get_size_inches()
    return figure.add_axes((left / whole[0], 1 - (top + height) / whole[1], width / whole[0], height / whole[1]))


def _write(figure: Figure, text: str, left: float, top: float, **style: Any) -> None:
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - top / height, text, **style)
