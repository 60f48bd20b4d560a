# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 as it was trained: distances beside the paper's, and what of them is not chance."""

import math
import random
from statistics import fmean, stdev

import pytest

from vaswani_transformer.analysis.table_3 import VARIATIONS
from vaswani_transformer.training.recipes import get_recipe
from vaswani_transformer.training.variations import TrainedRow, scaled_variation
from vaswani_transformer.training.variations_report import (
    BLEU,
    LOG_PERPLEXITY,
    chance_bound,
    format_variations,
    pooled_deviation,
    t_quantile,
)

ROWS = {variation.name: variation for variation in VARIATIONS}


def trained_row(name, perplexities, bleus):
    recipe = scaled_variation(ROWS[name], get_recipe("multi30k-table3"))
    return TrainedRow(ROWS[name], recipe, 1_234_567, tuple(perplexities), tuple(bleus), "4 beams")


@pytest.fixture
def rows():
    """Base with three seeds, and rows on both sides of what chance does."""
    return [
        trained_row("base", (9.9, 10.0, 10.1), (29.9, 30.0, 30.1)),
        trained_row("A3", (9.0,), (30.1,)),  # the paper: -0.2 %, 0.0
        trained_row("C1", (12.0,), (27.0,)),  # the paper: worse in both
        trained_row("C5", (10.2,), (28.0,)),  # the paper: better in both
        trained_row("E", (11.0,), (29.0,)),  # the paper: 0.0 %, -0.1
    ]


def cells(rows, name):
    line = next(line for line in format_variations(rows).splitlines() if line.startswith(name))
    return [cell.strip() for cell in line.replace(" %", "").split("  ") if cell]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A3", ["-10.0", "-0.2", "yes", "+0.1", "+0.0", "yes"]),
        ("C1", ["+20.0", f"{100 * (6.11 / 4.92 - 1):+.1f}", "yes", "-3.0", "-2.1", "yes"]),
        ("C5", ["+2.0", f"{100 * (4.66 / 4.92 - 1):+.1f}", "unclear", "-2.0", "+0.2", "no"]),
        ("E", ["+10.0", "+0.0", "no", "-1.0", "-0.1", "yes"]),
    ],
)
def test_row_is_told_beside_the_papers_with_its_direction(rows, name, expected):
    assert cells(rows, name)[-6:] == expected


def test_base_is_the_mean_of_its_seeds(rows):
    geometric_mean = (9.9 * 10.0 * 10.1) ** (1 / 3)
    assert cells(rows, "base")[-3:] == ["3", f"{geometric_mean:.2f}", "30.0"]


def test_deviation_is_pooled_over_rows_with_several_seeds():
    rows = [trained_row("base", (9, 10, 11), (30, 31, 29)), trained_row("C1", (9, 12), (20, 24))]
    rows.append(trained_row("E", (5,), (5,)))
    by_hand = math.sqrt((2 * stdev((30, 31, 29)) ** 2 + stdev((20, 24)) ** 2) / 3)
    assert pooled_deviation(rows, BLEU) == (pytest.approx(by_hand), 3)


def density(x, freedom):
    """Of Student's t."""
    gammas = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2)
    return gammas / math.sqrt(freedom * math.pi) * (1 + x * x / freedom) ** (-(freedom + 1) / 2)


@pytest.mark.parametrize("freedom", [1, 2, 5, 9, 10, 15, 40])
def test_quantile_leaves_a_fortieth_of_the_distribution_above(freedom):
    quantile, steps = t_quantile(freedom), 20_000
    width = quantile / steps
    below = 0.5 + width * sum(density((step + 0.5) * width, freedom) for step in range(steps))
    assert below == pytest.approx(0.975, abs=2e-4)


def test_chance_passes_its_bound_in_one_of_twenty_comparisons():
    draw, passed = random.Random(0), 0
    for _ in range(1000):
        base, row = ([draw.gauss(30, 0.5) for _ in range(count)] for count in (3, 2))
        found = [trained_row("base", [10] * 3, base), trained_row("C1", [10] * 2, row)]
        passed += abs(fmean(base) - fmean(row)) > chance_bound(found[1], found[0], found, BLEU)
    assert passed / 1000 == pytest.approx(0.05, abs=0.02)


def test_without_seeds_nothing_is_said_about_directions(rows):
    text = format_variations([trained_row("base", (10.0,), (30.0,)), *rows[1:]])
    assert "nothing is said about directions" in text.replace("\n", " ")
    assert not {"yes", "no", "unclear"} & {*text.split("\n\n")[0].split()}


def test_bound_on_perplexity_is_one_of_ratios():
    rows = [trained_row("base", (9.0, 10.0), (30, 30)), trained_row("C1", (20.0,), (30,))]
    deviation = stdev((math.log(9.0), math.log(10.0)))
    expected = 12.706 * deviation * math.sqrt(1 + 1 / 2)
    assert chance_bound(rows[1], rows[0], rows, LOG_PERPLEXITY) == pytest.approx(expected)


def test_rows_without_base_are_told_without_distances(rows):
    text = format_variations(rows[1:3])
    assert "Row base is not finished" in text.replace("\n", " ")
    assert cells(rows[1:3], "C1")[-2:] == ["12.00", "27.0"]


def test_folder_without_a_finished_row_says_so():
    assert format_variations([]) == "No row is finished."
