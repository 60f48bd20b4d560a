# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 trained here beside the paper's: each row's distance from base, and whether it has the paper's sign."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from ..analysis.table_3 import VARIATIONS
from ..analysis.text_table import align_columns, wrap
from .variations import BASE, TrainedRow

_HEADER = (
    *(("row", ""), ("N", ""), ("d_model", ""), ("d_ff", ""), ("h", ""), ("d_k", ""), ("d_v", ""), ("P_drop", "")),
    *(("eps_ls", ""), ("updates", ""), ("params", ""), ("seeds", ""), ("PPL", ""), ("BLEU", "")),
    *(
        ("PPL to", "base"),
        ("paper's", ""),
        ("as the", "paper?"),
        ("BLEU to", "base"),
        ("paper's", ""),
        ("as the", "paper?"),
    ),
)

# Quantiles 0.975 of Student's t with 1, 2, ... 9 degrees of freedom; beyond, its expansion about the normal one.
_T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL_QUANTILE = 1.959964


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
    table = align_columns([*zip(*_HEADER, strict=True), *(_cells(row, base, rows) for row in rows)])
    return f"{table}\n\n{wrap(_notes(rows, base))}"


def _cells(row: TrainedRow, base: TrainedRow | None, rows: Sequence[TrainedRow]) -> tuple[str, ...]:
    config, recipe = row.recipe.model_config(), row.recipe
    sizes = (config.num_encoder_layers, config.d_model, config.d_ff, config.num_heads, config.d_k, config.d_v)
    cells = [row.name, *map(str, sizes), f"{config.dropout:g}", f"{recipe.label_smoothing:g}"]
    cells += [f"{recipe.max_steps:,}", f"{row.num_parameters:,}", f"{len(row.bleus)}"]
    cells += [f"{math.exp(fmean(log_perplexities(row))):.2f}", f"{fmean(bleus(row)):.1f}"]
    if base is None or row is base:
        return (*cells, *[""] * 6)
    perplexity, paper_perplexity = (100 * (math.exp(value) - 1) for value in distances(row, base, log_perplexities))
    bleu, paper_bleu = distances(row, base, bleus)
    return (
        *cells,
        *(f"{perplexity:+.1f} %", f"{paper_perplexity:+.1f} %", _verdict(row, base, rows, log_perplexities)),
        *(f"{bleu:+.1f}", f"{paper_bleu:+.1f}", _verdict(row, base, rows, bleus)),
    )


Figure = Callable[[TrainedRow], Sequence[float]]


def log_perplexities(row: TrainedRow) -> list[float]:
    """Natural logarithms of a row's perplexities, in which a distance is a ratio; small ones are shares."""
    return [math.log(perplexity) for perplexity in row.perplexities]


def bleus(row: TrainedRow) -> Sequence[float]:
    """A row's BLEU."""
    return row.bleus


def distances(row: TrainedRow, base: TrainedRow, figure: Figure) -> tuple[float, float]:
    """How far a row's mean lies above base's, here and in the paper."""
    paper, paper_base = row.variation, VARIATIONS[0]
    if figure is bleus:
        of_paper = round(paper.bleu - paper_base.bleu, 1)
    else:
        of_paper = math.log(paper.perplexity / paper_base.perplexity)
    return fmean(figure(row)) - fmean(figure(base)), of_paper


def pooled_deviation(rows: Sequence[TrainedRow], figure: Figure) -> tuple[float, int]:
    """Standard deviation of a figure over seeds, one for all rows, and its degrees of freedom, 0 without seeds."""
    groups = [figure(row) for row in rows]
    freedom = sum(len(group) - 1 for group in groups)
    squares = sum((value - fmean(group)) ** 2 for group in groups for value in group)
    return (math.sqrt(squares / freedom) if freedom else math.nan), freedom


def chance_bound(row: TrainedRow, base: TrainedRow, rows: Sequence[TrainedRow], figure: Figure) -> float:
    """Distance that two rows of one and the same model exceed in one of 20 comparisons; infinite without seeds."""
    deviation, freedom = pooled_deviation(rows, figure)
    if not freedom:
        return math.inf
    return t_quantile(freedom) * deviation * math.sqrt(1 / len(figure(row)) + 1 / len(figure(base)))


def t_quantile(freedom: int) -> float:
    """Quantile 0.975 of Student's t distribution with at least 1 degree of freedom."""
    if freedom <= len(_T_QUANTILES):
        return _T_QUANTILES[freedom - 1]
    z = _NORMAL_QUANTILE
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _verdict(row: TrainedRow, base: TrainedRow, rows: Sequence[TrainedRow], figure: Figure) -> str:
    own, paper = distances(row, base, figure)
    if pooled_deviation(rows, figure)[1] == 0:
        return ""
    is_clear = abs(own) > chance_bound(row, base, rows, figure)
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
    (perplexity, freedom), (bleu, _) = (pooled_deviation(rows, figure) for figure in (log_perplexities, bleus))
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
