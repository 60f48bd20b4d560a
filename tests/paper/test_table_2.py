# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 2: what the models cost, the paper's way and by counting operations."""

import pytest
from tables import PAPER_TRAININGS, estimate_cost, paper_flops

from vaswani_transformer.recipe import get_recipe

TRAININGS = {training.preset: training for training in PAPER_TRAININGS}


@pytest.mark.parametrize("preset", TRAININGS)
def test_printed_flops_are_training_time_by_eight_devices_by_their_rate(preset):
    training, hours = TRAININGS[preset], {"base": 12, "big": 84}[preset]
    flops = paper_flops(hours * 3600 * 8, 9.5e12)
    assert training.cost.flops_paper == flops
    assert (
        f"{flops:.1e}" == f"{training.flops:.1e}" == {"base": "3.3e+18", "big": "2.3e+19"}[preset]
    )


@pytest.mark.parametrize("preset", TRAININGS)
def test_paper_training_is_that_of_the_recipe(preset):
    training = TRAININGS[preset]
    recipe = get_recipe(f"paper-{preset}-en-de", source_language=None, target_language=None)
    assert training.max_steps == recipe.max_steps
    assert training.cost.source_tokens == recipe.max_steps * recipe.max_source_tokens_per_batch
    assert training.cost.config.to_dict() == recipe.model_config().to_dict()


@pytest.mark.parametrize(("preset", "share"), [("base", 0.288), ("big", 0.419)])
def test_papers_devices_were_used_to_a_third(preset, share):
    """Counted by hand: base has 18.9M and 25.2M in its layers and 18.9M in its output, big four
    times the layers.
    """
    d, f, layers = {"base": (512, 2048, 6), "big": (1024, 4096, 6)}[preset]
    attention, feed_forward = 4 * d * d, 2 * d * f + f + d
    encoder, decoder = (
        layers * (attention + feed_forward + 4 * d),
        layers * (2 * attention + feed_forward + 6 * d),
    )
    steps = TRAININGS[preset].max_steps
    counted = 6 * 25_000 * steps * (encoder + decoder + 37_000 * d)
    assert TRAININGS[preset].cost.flops_counted == counted
    assert TRAININGS[preset].cost.utilization == pytest.approx(share, abs=5e-4)


@pytest.mark.parametrize("preset", TRAININGS)
def test_time_of_a_step_and_of_the_whole_training_agree_to_a_tenth(preset):
    training = TRAININGS[preset]
    assert training.max_steps * training.seconds_per_step == pytest.approx(
        training.seconds, rel=0.1
    )


def test_recipe_at_the_papers_speed_costs_what_the_paper_says():
    speed = 100_000 * 50_000 / (12 * 3600)  # tokens of both sides a second
    recipe = get_recipe("paper-base-en-de")
    cost = estimate_cost(recipe, tokens_per_second=speed, num_devices=8, flops_per_second=9.5e12)
    assert (cost.num_steps, cost.seconds / 3600) == (100_000, pytest.approx(12))
    assert f"{cost.flops_paper:.1e}" == "3.3e+18"
    assert cost.flops_counted == TRAININGS["base"].cost.flops_counted
