# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The picture of positions holds the formula's values."""

import math

import numpy as np
import pytest

from vaswani_transformer.analysis.positions import draw_positions, position_products

pytest.importorskip("matplotlib", reason="needs the extra [viz]")


def formula(distance, d_model):
    return sum(math.cos(distance / 10_000 ** (2 * i / d_model)) for i in range(d_model // 2))


@pytest.mark.parametrize("position", [0, 7])
def test_products_are_the_sum_of_cosines_of_the_distance(position):
    expected = [formula(other - position, 32) for other in range(20)]
    np.testing.assert_allclose(position_products(32, 20, position), expected, rtol=0, atol=32 * 2e-7)


def test_curve_is_the_sum_of_cosines_of_the_distance():
    line = draw_positions(64, 30).axes[1].get_lines()[0]
    assert line.get_xdata().tolist() == list(range(-15, 15))
    expected = [formula(distance, 64) for distance in range(-15, 15)]
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=64 * 2e-7)


def test_table_is_sine_and_cosine_interleaved():
    table = draw_positions(6, 5).axes[0].images[0].get_array()
    expected = [
        [(math.sin, math.cos)[j % 2](position / 10_000 ** (j // 2 * 2 / 6)) for j in range(6)] for position in range(5)
    ]
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("d_model", [7, 0, -2, 4098])
def test_impossible_width_is_refused(d_model):
    with pytest.raises(ValueError, match=rf"`d_model` must be even and lie in \[2, 4096\], got {d_model}"):
        draw_positions(d_model)


@pytest.mark.parametrize("length", [1, -5, 10_001])
def test_impossible_length_is_refused(length):
    with pytest.raises(ValueError, match=rf"`length` must lie in \[2, 10000\], got {length}"):
        draw_positions(8, length)
