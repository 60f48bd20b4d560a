# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from tables import cost_table, estimate_cost, format_cost, paper_trainings
from tiny import SMALLEST, make_config

from vaswani_transformer import (
    VaswaniTransformerConfig,
    VaswaniTransformerForConditionalGeneration,
)
from vaswani_transformer.analysis.cost import layer_parameters, training_flops
from vaswani_transformer.recipe import Recipe, get_recipe

CONFIGS = {
    "plain": {},
    "attention_bias": {"attention_bias": True, "d_k": 3, "d_v": 5},
    "unlike_heads": {"d_k": 3, "d_v": 5},
    "unlike_stacks": {"num_encoder_layers": 1, "num_decoder_layers": 3},
    "learned_positions": {"position_encoding": "learned"},
}
RECIPE = Recipe(
    vocab_size=300,
    **SMALLEST,
    max_steps=10,
    max_source_tokens_per_batch=300,
    max_target_tokens_per_batch=200,
)
SPEED = {"tokens_per_second": 50.0, "num_devices": 4, "flops_per_second": 1e9}


def as_dict(table):
    return {row[0]: row[1:] for row in table}


@pytest.mark.parametrize("name", CONFIGS)
def test_training_flops_are_six_for_each_weight_and_token_that_meet(name):
    config = make_config(**CONFIGS[name])
    with torch.device("meta"):
        model = VaswaniTransformerForConditionalGeneration(config)
    stacks = model.model.encoder, model.model.decoder
    counted = tuple(sum(p.numel() for p in stack.layers.parameters()) for stack in stacks)
    assert layer_parameters(config) == counted
    naive = 6 * (7 * counted[0] + 11 * (counted[1] + model.lm_head.weight.numel()))
    assert training_flops(config, source_tokens=7, target_tokens=11) == naive


def test_estimate_follows_from_tokens_and_speed():
    cost = estimate_cost(RECIPE, **SPEED)
    assert (cost.source_tokens, cost.target_tokens, cost.seconds, cost.device_seconds) == (
        3000,
        2000,
        100.0,
        400.0,
    )
    assert (cost.tokens_per_second, cost.num_devices) == (50.0, 4.0)
    counted = training_flops(RECIPE.model_config(), 3000, 2000)
    assert (cost.flops_counted, cost.flops_paper, cost.utilization) == (
        counted,
        4e11,
        counted / 4e11,
    )


def test_estimate_without_a_matrix_rate_has_no_figure_the_papers_way():
    cost = estimate_cost(RECIPE, **{**SPEED, "flops_per_second": None})
    assert (cost.flops_paper, cost.utilization) == (None, None)
    assert "`train_matrix_flops_per_second`" in format_cost(cost)


def test_a_model_of_the_papers_sizes_is_shown_beside_its_own_row_and_another_beside_both():
    big = VaswaniTransformerConfig.from_preset("big", vocab_size=32_000, dropout=0.25)
    for config, presets in ((big, ["big"]), (make_config(), ["base", "big"])):
        assert [training.preset for training in paper_trainings(config)] == presets


def test_cost_is_printed_beside_the_papers():
    speed = {"tokens_per_second": 200_000.0, "num_devices": 2, "flops_per_second": 1e14}
    cost = estimate_cost(get_recipe("paper-base-en-de"), **speed)
    table = as_dict(cost_table(cost))
    assert table["tokens, both sides"] == ("5,000,000,000", "5,000,000,000")
    assert table["hours"] == ("6.94", "12")  # 5e9 / 2e5 / 3600
    assert table["device hours"] == ("13.9", "96")
    assert table["FLOPs, device seconds x matrix rate"] == ("5.00e18", "3.28e18")
    assert table["FLOPs, counted"][0] == table["FLOPs, counted"][1]
