# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws what a model's heads attend to in a pair of sentences, as the paper's Figures 3 to 5; needs
the extra viz.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.inference.translate import translate

sys.path.append(str(Path(__file__).parents[1] / "space"))

from maps import attention_maps

# Title, row label and column label of each kind of attention.
KINDS = {
    "encoder": ("Encoder self-attention", "source token", "source token attended to"),
    "decoder": ("Decoder self-attention, masked", "target token fed", "target token attended to"),
    "cross": ("Encoder-decoder attention", "target token predicted", "source token attended to"),
}
MAX_INCHES = 60  # of one side of a picture: 7,200 pixels
LONGEST_LABEL = 18


class Grid(NamedTuple):
    """The maps of one kind of attention: weights (layers, heads, rows, columns)."""

    kind: str
    weights: np.ndarray
    row_tokens: list[str]
    column_tokens: list[str]
    layers: list[int]
    heads: list[int]


def draw_attention(maps, kinds=KINDS, layers=None, heads=None):
    """Attention weights as colors from 0 to 1: a grid for each kind, a row for each layer, a column
    for each head.

    In each map, rows attend to columns.

    Args:
        maps: What `attention_maps` returns.
        kinds: Keys of `KINDS`.
        layers: Layers, from 0; None draws all.
        heads: Heads, from 0; None draws all.
    """
    grids = [choose_grid(maps, kind, layers, heads) for kind in KINDS if kind in kinds]
    num_rows = sum(len(grid.layers) * len(grid.row_tokens) for grid in grids)
    num_columns = max(len(grid.heads) * len(grid.column_tokens) for grid in grids)
    cell = min(max(12 / max(num_rows, num_columns), 0.13), 0.42)
    font = min(max(54 * cell, 7), 11)
    widths, heights = zip(*(grid_size(grid, cell, font) for grid in grids), strict=True)
    width, height = max(widths), sum(heights)
    if max(width, height) > MAX_INCHES:
        raise ValueError(
            f"The picture must fit into {MAX_INCHES} x {MAX_INCHES} inches, got maps that take "
            f"{width:.0f} x {height:.0f}. Choose fewer kinds, layers or heads, or a shorter "
            "sentence."
        )
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    parts = figure.subfigures(len(grids), 1, height_ratios=heights, squeeze=False)
    for part, grid in zip(parts.flat, grids, strict=True):
        draw_grid(part, grid, font)
    return figure


def choose_grid(maps, kind, layers, heads):
    weights, rows, columns = maps[kind]
    layers = layers or list(range(weights.shape[0]))
    heads = heads or list(range(weights.shape[1]))
    return Grid(
        kind, weights[np.ix_(layers, heads)], shortened(rows), shortened(columns), layers, heads
    )


def shortened(tokens):
    return [
        token if len(token) <= LONGEST_LABEL else f"{token[: LONGEST_LABEL - 1]}…"
        for token in tokens
    ]


def grid_size(grid, cell, font):
    """Width and height in inches: cells of about this side, with tokens, titles and labels around
    them.
    """
    letter = 0.8 * font / 72
    width = len(grid.heads) * (max(cell * len(grid.column_tokens), 1.2) + 0.16) + 1.6
    height = len(grid.layers) * (max(cell * len(grid.row_tokens), 0.5) + 0.4) + 1.1
    width += letter * max(map(len, grid.row_tokens))
    height += letter * max(map(len, grid.column_tokens))
    return max(width, 4.0), max(height, 3.0)


def draw_grid(part, grid, font):
    """All maps of one kind: row tokens left of the first column of maps, column tokens below the
    last row.
    """
    title, row_label, column_label = KINDS[grid.kind]
    panels = part.subplots(len(grid.layers), len(grid.heads), squeeze=False)
    style = {"fontsize": font, "parse_math": False}
    for (row, column), axes in np.ndenumerate(panels):
        weights = grid.weights[row, column]
        image = axes.imshow(
            weights, vmin=0, vmax=1, cmap="Blues", aspect="auto", interpolation="none"
        )
        axes.set_title(f"layer {grid.layers[row]}, head {grid.heads[column]}", fontsize=10)
        axes.tick_params(length=2, color="#999999")
        axes.set(xticks=[], yticks=[])
        if row == len(grid.layers) - 1:
            axes.set_xticks(
                range(len(grid.column_tokens)), grid.column_tokens, rotation=90, **style
            )
        if column == 0:
            axes.set_yticks(range(len(grid.row_tokens)), grid.row_tokens, **style)
    part.colorbar(image, ax=panels, label="attention weight", aspect=30)
    part.suptitle(title, fontsize=13, weight="bold")
    part.supxlabel(column_label, fontsize=11)
    part.supylabel(row_label, fontsize=11)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="folder of a model, or its id on the Hub")
    parser.add_argument("--source", required=True, help="sentence that the model reads")
    parser.add_argument(
        "--target", help="its translation (default: the model's own, which is then printed)"
    )
    parser.add_argument(
        "--kind", nargs="+", choices=list(KINDS), default=list(KINDS), help="default: all"
    )
    parser.add_argument("--layers", type=int, nargs="+", help="layers, from 0 (default: all)")
    parser.add_argument("--heads", type=int, nargs="+", help="heads, from 0 (default: all)")
    parser.add_argument("--device")
    parser.add_argument("--output", required=True, help="the picture, .png or .svg")
    args = parser.parse_args()
    model, tokenizer = load_for_inference(args.model, device=args.device)
    target = args.target
    if target is None:
        target = next(translate(model, tokenizer, [args.source]))
        print(target)
    maps = attention_maps(model, tokenizer, args.source, target)
    draw_attention(maps, args.kind, args.layers, args.heads).savefig(args.output)
    print(f"written to {args.output}")


if __name__ == "__main__":
    main()
