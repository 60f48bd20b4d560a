# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention of every head of every layer in one pair of sentences, as weights and as a picture.

Shapes: N layers, H heads, S source length, T target length.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ..extras import requiring
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

KINDS = ("encoder", "decoder", "cross")
MAX_INCHES = 60  # of one side of a picture: 7,200 pixels
_LONGEST_LABEL = 18
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
# Of each kind its title, and what its rows and columns are.
_TEXTS = {
    "encoder": ("Encoder self-attention", "source token", "source token attended to"),
    "decoder": ("Decoder self-attention, masked", "target token fed", "target token attended to"),
    "cross": ("Encoder-decoder attention", "target token predicted", "source token attended to"),
}


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one pair; each row sums to 1.

    Row t of the decoder belongs to one step: it is fed `fed_tokens[t]` and predicts `predicted_tokens[t]`.

    Args:
        encoder: (N, H, S, S) from each source token to each, in the encoder.
        decoder: (N, H, T, T) from each target token fed to itself and those before it; 0 for those after it.
        cross: (N, H, T, S) from the step that predicts each target token to each source token.
        source_tokens: S readable tokens, `</s>` at the end.
        fed_tokens: T readable tokens, `<s>` and the target without `</s>`.
        predicted_tokens: T readable tokens, the target with `</s>`.
    """

    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    source_tokens: list[str]
    fed_tokens: list[str]
    predicted_tokens: list[str]


def attention_maps(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str,
) -> AttentionMaps:
    """Attention weights of all layers and heads while the model reads `source` and predicts `target`.

    They are computed without dropout and under every attention backend; the model is left as it was.

    Args:
        model: In train or eval mode.
        tokenizer: Saved with the model.
        source: Source sentence.
        target: Its translation, the model's or another.

    Raises:
        ValueError: A sentence is empty or blank.

    Example:
        >>> attention_maps(model, tokenizer, "A dog runs.", "Ein Hund rennt.").cross.shape
        (6, 8, 5, 5)

    Paper: section 3.2.3.
    """
    for name, text in (("source", source), ("target", target)):
        if not text.strip():
            raise ValueError(f"`{name}` must be a sentence, got {text!r}. Pass one with at least one word.")
    source_ids, source_tokens = readable_tokens(tokenizer, source)
    target_ids, target_tokens = readable_tokens(tokenizer, target)
    fed_ids = model.prepare_decoder_input_ids_from_labels(torch.tensor([target_ids], device=model.device))
    with _without_dropout(model), torch.inference_mode():
        outputs = model.model(
            input_ids=torch.tensor([source_ids], device=model.device),
            decoder_input_ids=fed_ids,
            use_cache=False,
            output_attentions=True,  # in this call, each attention computes as "eager" does
        )
    encoder, decoder, cross = (
        torch.cat(weights).cpu().double().numpy()
        for weights in (outputs.encoder_attentions, outputs.decoder_attentions, outputs.cross_attentions)
    )
    fed_tokens = [str(tokenizer.convert_ids_to_tokens(int(fed_ids[0, 0]))), *target_tokens[:-1]]
    return AttentionMaps(encoder, decoder, cross, source_tokens, fed_tokens, target_tokens)


def readable_tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], list[str]]:
    """Token ids of a text with `</s>`, and what a reader sees of each.

    A token is the part of the text that it stands for, without the space in front of a word; one that goes on with a
    word begins with "##", as in other packages. White space of its own is "␣", and tokens that share one character,
    bytes of it, carry their number: "日₁", "##日₂", "##日₃".
    """
    encoded = tokenizer(text, truncation=False, padding=False, verbose=False, return_offsets_mapping=True)
    ids: list[int] = encoded["input_ids"]
    spans: list[tuple[int, int]] = encoded["offset_mapping"]
    shares = [start < end_before <= end for (_, end_before), (start, end) in itertools.pairwise(spans)]
    numbers, tokens = _part_numbers(shares), []
    for token_id, (start, end), shares_before, number in zip(ids, spans, [False, *shares], numbers, strict=True):
        if token_id in tokenizer.all_special_ids:
            tokens.append(str(tokenizer.convert_ids_to_tokens(token_id)))
        else:
            begins = not shares_before and (start == 0 or text[start - 1].isspace() or text[start].isspace())
            tokens.append(_readable(text[start:end], begins) + number)
    return ids, tokens


def _readable(piece: str, begins: bool) -> str:
    """A piece of text as a reader sees it, after "##" unless it `begins` a word or is white space."""
    shown = (piece.strip() or piece or " ").replace(" ", "␣")
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)
    return shown if begins or not piece.strip() else f"##{shown}"


def _part_numbers(shares: Sequence[bool]) -> list[str]:
    """For each token its number among those that share a character, as a subscript; nothing for a whole one.

    Args:
        shares: For each token but the first, whether it shares a character with the one before it.
    """
    numbers, number = [], 0
    for with_previous, with_next in itertools.pairwise([False, *shares, False]):
        number = number + 1 if with_previous else 1
        numbers.append(str(number).translate(_SUBSCRIPTS) if with_previous or with_next else "")
    return numbers


@contextlib.contextmanager
def _without_dropout(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode; every module goes back to its own mode at the end."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:  # parents come first, so that children keep modes of their own
            module.train(mode)


# ---- the picture ----


class _Grid(NamedTuple):
    """The maps of one kind of attention that are drawn: weights (layers, heads, rows, columns)."""

    kind: str
    weights: np.ndarray
    row_tokens: list[str]
    column_tokens: list[str]
    layers: list[int]
    heads: list[int]


def draw_attention(
    maps: AttentionMaps,
    *,
    kinds: Sequence[str] = KINDS,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Figure:
    """Attention weights as colours from 0 to 1: a grid for each kind, a row for each layer, a column for each head.

    In each map rows attend to columns. In attention over the encoder a row is the target token that is predicted at
    that step, in the decoder's self-attention the one that is fed to it.

    Args:
        maps: From `attention_maps`.
        kinds: Which attention: "encoder" (self-attention), "decoder" (masked self-attention), "cross" (decoder over
            encoder).
        layers: Layers, from 0; None takes all.
        heads: Heads, from 0; None takes all.

    Raises:
        ValueError: A kind, layer or head does not exist, or there is too much to fit into a picture.

    Paper: section 3.2.3.
    """
    with requiring("viz", "to draw"):
        from matplotlib.figure import Figure

    grids = [_chosen_grid(maps, kind, layers, heads) for kind in sorted(set(kinds), key=KINDS.index)]
    figure = Figure(dpi=120, layout="constrained")
    num_rows = sum(len(grid.layers) * len(grid.row_tokens) for grid in grids)
    num_columns = max(len(grid.heads) * len(grid.column_tokens) for grid in grids)
    cell = min(max(12 / max(num_rows, num_columns), 0.13), 0.42)
    font = min(max(54 * cell, 7), 11)
    sizes = [_grid_size(grid, cell, font) for grid in grids]
    width, height = max(width for width, _ in sizes), sum(height for _, height in sizes)
    if max(width, height) > MAX_INCHES:
        raise ValueError(
            f"`kinds`, `layers` and `heads` must choose what fits into a picture of {MAX_INCHES} x {MAX_INCHES} "
            f"inches, got maps that take {width:.0f} x {height:.0f}. Choose fewer, or a shorter sentence."
        )
    figure.set_size_inches(width, height)
    parts: Any = [figure]
    if len(grids) > 1:
        parts = figure.subfigures(len(grids), 1, height_ratios=[height for _, height in sizes])
    for part, grid in zip(parts, grids, strict=True):
        _draw_grid(part, grid, font)
    return figure


def _chosen_grid(maps: AttentionMaps, kind: str, layers: Sequence[int] | None, heads: Sequence[int] | None) -> _Grid:
    weights, rows, columns = {
        "encoder": (maps.encoder, maps.source_tokens, maps.source_tokens),
        "decoder": (maps.decoder, maps.fed_tokens, maps.fed_tokens),
        "cross": (maps.cross, maps.predicted_tokens, maps.source_tokens),
    }[kind]
    stack, chosen = "encoder" if kind == "encoder" else "decoder", []
    for name, numbers, count in (("layers", layers, weights.shape[0]), ("heads", heads, weights.shape[1])):
        numbers = range(count) if numbers is None else numbers
        wrong = [number for number in numbers if not 0 <= number < count]
        if wrong or not numbers:
            got = wrong[0] if wrong else "none"
            raise ValueError(f"`{name}` must lie in [0, {count}), the {name} of the model's {stack}, got {got}.")
        chosen.append(sorted(set(numbers)))
    row_tokens, column_tokens = (
        [token if len(token) <= _LONGEST_LABEL else f"{token[: _LONGEST_LABEL - 1]}…" for token in side]
        for side in (rows, columns)
    )
    return _Grid(kind, weights[np.ix_(*chosen)], row_tokens, column_tokens, *chosen)


def _grid_size(grid: _Grid, cell: float, font: float) -> tuple[float, float]:
    """Width and height in inches that leave cells about this side beside tokens, titles and labels."""
    widest_row, widest_column = (
        0.8 * font / 72 * max(map(len, tokens)) for tokens in (grid.row_tokens, grid.column_tokens)
    )
    width = len(grid.heads) * (max(cell * len(grid.column_tokens), 1.2) + 0.16) + widest_row + 1.6
    height = len(grid.layers) * (max(cell * len(grid.row_tokens), 0.5) + 0.4) + widest_column + 1.1
    return max(width, 4.0), max(height, 3.0)


def _draw_grid(part: FigureBase, grid: _Grid, font: float) -> None:
    """All maps of one kind; row tokens beside the first column of maps, column tokens below the last row."""
    title, row_label, column_label = _TEXTS[grid.kind]
    panels = part.subplots(len(grid.layers), len(grid.heads), squeeze=False)
    style: dict[str, Any] = {"fontsize": font, "parse_math": False}
    axes: Axes
    for (row, column), axes in np.ndenumerate(panels):
        weights = grid.weights[row, column]
        image = axes.imshow(weights, vmin=0, vmax=1, cmap="Blues", aspect="auto", interpolation="none")
        axes.set_title(f"layer {grid.layers[row]}, head {grid.heads[column]}", fontsize=10)
        axes.tick_params(length=2, color="#999999")
        axes.set_xticks([])
        axes.set_yticks([])
        if row == len(grid.layers) - 1:
            axes.set_xticks(range(len(grid.column_tokens)), grid.column_tokens, rotation=90, **style)
        if column == 0:
            axes.set_yticks(range(len(grid.row_tokens)), grid.row_tokens, **style)
    part.colorbar(image, ax=panels, label="attention weight", aspect=30)
    part.suptitle(title, fontsize=13, weight="bold")
    part.supxlabel(column_label, fontsize=11)
    part.supylabel(row_label, fontsize=11)
