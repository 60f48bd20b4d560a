# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from vaswani_transformer.analysis import matrix_rate
from vaswani_transformer.analysis.matrix_rate import measure_matrix_rate


def timed_as(monkeypatch, *seconds):
    """Lets the products seem to take these times, one after the other; returns what is left of them."""
    left = list(seconds)
    monkeypatch.setattr(matrix_rate, "_time_product", lambda *matrices: left.pop(0))
    return left


def test_rate_is_the_median_after_the_warm_up(monkeypatch):
    timed_as(monkeypatch, 0.5, 0.1, 0.02, 0.2, 0.1)
    assert measure_matrix_rate("cpu") == pytest.approx(2 * 1024**3 / 0.1)


def test_measuring_stops_after_a_quarter_of_a_second(monkeypatch):
    left = timed_as(monkeypatch, 0.1, 0.2, 0.2, 0.2, 0.2)
    measure_matrix_rate("cpu")
    assert len(left) == 2


def test_measuring_stops_after_twenty_quick_products(monkeypatch):
    left = timed_as(monkeypatch, *[0.001] * 30)
    measure_matrix_rate("cpu")
    assert len(left) == 9


def test_a_slow_warm_up_counts_itself(monkeypatch):
    timed_as(monkeypatch, 4.0)
    assert measure_matrix_rate("cpu") == pytest.approx(2 * 1024**3 / 4.0)


def test_measuring_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    assert measure_matrix_rate("cpu") > 0
    assert torch.equal(before, torch.random.get_rng_state())
