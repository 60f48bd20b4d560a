# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The picture of the schedule holds the values of equation 3."""

import itertools

import pytest

from vaswani_transformer.training.schedule_drawing import draw_schedules

pytest.importorskip("matplotlib", reason="needs the extra [viz]")


def lines(*args):
    return draw_schedules(*args).axes[0].get_lines()


def test_curve_is_equation_3():
    (line,) = lines([512], [4000], 100_000)
    expected = [512**-0.5 * min(step**-0.5, step * 4000**-1.5) for step in line.get_xdata().tolist()]
    assert line.get_ydata().tolist() == pytest.approx(expected, rel=1e-12)


def test_curve_goes_from_the_first_to_the_last_update_by_way_of_the_peak():
    (line,) = lines([512], [4321], 100_000)
    steps = line.get_xdata().tolist()
    assert (steps[0], steps[-1], 4321 in steps) == (1, 100_000, True)


def test_curve_ends_before_a_peak_that_comes_later():
    assert lines([512], [4000], 50)[0].get_xdata().tolist() == list(range(1, 51))


def test_each_width_is_drawn_with_each_warm_up():
    labels = [line.get_label() for line in lines([512, 1024], [4000, 8000, 4000])]
    assert labels == [
        "d_model 512, warm-up 4,000: peak 6.99e-4",
        "d_model 512, warm-up 8,000: peak 4.94e-4",
        "d_model 1,024, warm-up 4,000: peak 4.94e-4",
        "d_model 1,024, warm-up 8,000: peak 3.49e-4",
    ]


def test_colour_tells_the_width_and_style_the_warm_up():
    looks = [(line.get_color(), line.get_linestyle()) for line in lines([512, 1024], [4000, 8000])]
    assert looks[0][0] == looks[1][0] != looks[2][0]
    assert looks[0][1] == looks[2][1] != looks[1][1]


def test_earlier_warm_up_is_seen_on_both_sides_of_a_later_one():
    """They are the same curve behind the later peak."""
    drawn = itertools.pairwise(lines([512], [4000, 8000, 16_000, 32_000]))
    assert all(under.get_linewidth() >= over.get_linewidth() + 2 for under, over in drawn)


def test_earlier_warm_up_is_lighter_than_a_later_one():
    drawn = itertools.pairwise(lines([512], [4000, 8000, 16_000, 32_000]))
    assert all(under.get_alpha() < over.get_alpha() for under, over in drawn)


def test_one_warm_up_is_drawn_as_usual():
    assert [(line.get_linewidth(), line.get_alpha()) for line in lines([512, 1024], [4000])] == [(1.8, 1)] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([512, 0], [4000]), "`d_model` must be at least 1, got 0"),
        (([512], [-1]), "`warmup_steps` must be at least 1, got -1"),
        (([512], [4000], 1), "`max_steps` must be at least 2, got 1"),
        ((range(1, 8), [4000]), "`d_model` must be 1 to 6 different numbers, got 7"),
        (([512], range(1, 6)), "`warmup_steps` must be 1 to 4 different numbers, got 5"),
        (([], [4000]), "`d_model` must be 1 to 6 different numbers, got 0"),
    ],
)
def test_impossible_numbers_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_schedules(*arguments)
