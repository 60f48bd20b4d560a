# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 trained here beside the paper's: each row's distance from base, and whether it has the paper's sign."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ..analysis.table_3 import Variation
from ..analysis.text_table import align_columns, wrap
from .variations import BASE, TrainedRow

_HEADER = (
    (
        *"row N d_model d_ff h d_k d_v P_drop eps_ls updates params seeds PPL BLEU".split(),
        *("PPL to", "paper's", "as the", "BLEU to", "paper's", "as the"),
    ),
    (*[""] * 14, "base", "", "paper?", "base", "", "paper?"),
)

# Quantiles 0.975 of Student's t with 1, 2, ... 9 degrees of freedom; beyond, its expansion about the normal one.
_T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL_QUANTILE = 1.959964


@dataclass(frozen=True)
class Figure:
    """What rows are compared by.

    Args:
        of_row: Its values in a row trained here, one for each seed.
        of_paper: Its value in a row of the paper.
    """

    of_row: Callable[[TrainedRow], Sequence[float]]
    of_paper: Callable[[Variation], float]


# Of logarithms a distance is a ratio; small ones are shares.
LOG_PERPLEXITY = Figure(
    lambda row: [math.log(value) for value in row.perplexities], lambda row: math.log(row.perplexity)
)
BLEU = Figure(lambda row: row.bleus, lambda row: row.bleu)


def format_variations(rows: Sequence[TrainedRow]) -> str:
    """Rows trained here as text, each with its distance from base beside the paper's.

    A distance has the paper's sign ("yes"), the other ("no"), or is one that chance alone reaches in one of 20
    comparisons ("unclear"): by a t-test with the standard deviation over seeds, which is taken to be the same in all
    rows and pooled over those that have several. Without seeds there is no verdict.

    Args:
        rows: As `train_variations` returns them; without base they are told without distances.
    """
    if not rows:
        return "No row is finished."
    base = next((row for row in rows if row.name == BASE), None)
    table = align_columns([*_HEADER, *(_cells(row, base, rows) for row in rows)])
    return f"{table}\n\n{wrap(_notes(rows, base))}"


def _cells(row: TrainedRow, base: TrainedRow | None, rows: Sequence[TrainedRow]) -> tuple[str, ...]:
    config, recipe = row.recipe.model_config(), row.recipe
    sizes = (config.num_encoder_layers, config.d_model, config.d_ff, config.num_heads, config.d_k, config.d_v)
    cells = [row.name, *map(str, sizes), f"{config.dropout:g}", f"{recipe.label_smoothing:g}"]
    cells += [f"{recipe.max_steps:,}", f"{row.num_parameters:,}", f"{len(row.bleus)}"]
    cells += [f"{math.exp(fmean(LOG_PERPLEXITY.of_row(row))):.2f}", f"{fmean(row.bleus):.1f}"]
    if base is None or row is base:
        return (*cells, *[""] * 6)
    perplexity, paper_perplexity = (100 * (math.exp(value) - 1) for value in distances(row, base, LOG_PERPLEXITY))
    bleu, paper_bleu = distances(row, base, BLEU)
    return (
        *cells,
        *(f"{perplexity:+.1f} %", f"{paper_perplexity:+.1f} %", _verdict(row, base, rows, LOG_PERPLEXITY)),
        *(f"{bleu:+.1f}", f"{paper_bleu:+.1f}", _verdict(row, base, rows, BLEU)),
    )


def distances(row: TrainedRow, base: TrainedRow, figure: Figure) -> tuple[float, float]:
    """How far a row's mean lies above base's, here and in the paper."""
    of_paper = figure.of_paper(row.variation) - figure.of_paper(base.variation)
    return fmean(figure.of_row(row)) - fmean(figure.of_row(base)), of_paper


def pooled_deviation(rows: Sequence[TrainedRow], figure: Figure) -> tuple[float, int]:
    """Standard deviation of a figure over seeds, one for all rows, and its degrees of freedom, 0 without seeds."""
    groups = [figure.of_row(row) for row in rows]
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum((value - fmean(group)) ** 2 for group in groups for value in group)
    return (math.sqrt(squares / freedom) if freedom else math.nan), freedom


def chance_bound(row: TrainedRow, base: TrainedRow, rows: Sequence[TrainedRow], figure: Figure) -> float:
    """Distance that two rows of one and the same model exceed in one of 20 comparisons; infinite without seeds."""
    deviation, freedom = pooled_deviation(rows, figure)
    if not freedom:
        return math.inf
    return t_quantile(freedom) * deviation * math.sqrt(1 / len(figure.of_row(row)) + 1 / len(figure.of_row(base)))


def t_quantile(freedom: int) -> float:
    """Quantile 0.975 of Student's t distribution with at least 1 degree of freedom."""
    if freedom <= len(_T_QUANTILES):
        return _T_QUANTILES[freedom - 1]
    z = _NORMAL_QUANTILE
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _verdict(row: TrainedRow, base: TrainedRow, rows: Sequence[TrainedRow], figure: Figure) -> str:
    bound = chance_bound(row, base, rows, figure)
    if math.isinf(bound):
        return ""
    own, paper = distances(row, base, figure)
    is_clear = abs(own) > bound
    if paper == 0:
        return "no" if is_clear else "yes"
    return ("yes" if own * paper > 0 else "no") if is_clear else "unclear"


def _notes(rows: Sequence[TrainedRow], base: TrainedRow | None) -> str:
    told = (
        "Perplexity per token and paper BLEU on the validation set, of the last update's weights, means over seeds; "
        f"{rows[0].search}."
    )
    if base is None:
        return f"{told} Row base is not finished, so there is nothing to compare with."
    (perplexity, freedom), (bleu, _) = (pooled_deviation(rows, figure) for figure in (LOG_PERPLEXITY, BLEU))
    paper = " The paper's distances are those of its own Table 3 (newstest2013, one seed as far as it says)."
    if not freedom:
        return (
            f"{told}{paper} One seed each: it is not known how far chance alone moves these figures, so nothing is "
            "said about directions. Train base with several seeds."
        )
    return (
        f"{told}{paper} Over seeds the perplexity has a standard deviation of {100 * perplexity:.1f} % and BLEU of "
        f"{bleu:.2f} ({freedom} degree{'s' if freedom > 1 else ''} of freedom). A distance is unclear where chance "
        "alone would reach it in one of 20 comparisons (t-test), so of 20 verdicts about one is chance; where the "
        "paper has no distance, yes means that ours is unclear, too."
    )
