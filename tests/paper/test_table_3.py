# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3: the sizes of the models."""

import pytest
import torch

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration

# Millions of parameters as printed; the vocabulary behind them is only "about 37,000".
PRINTED = {"base": 65, "big": 213}


def counted_by_hand(config):
    """Weights of the paper's equations: no biases in attention, one shared embedding."""
    d, f, h = config.d_model, config.d_ff, config.num_heads
    attention = 2 * d * h * config.d_k + 2 * d * h * config.d_v
    feed_forward = 2 * d * f + f + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    embedding = config.vocab_size * d
    return embedding + config.num_encoder_layers * encoder_layer + config.num_decoder_layers * decoder_layer


@pytest.mark.parametrize("name", PRINTED)
def test_parameter_count_is_that_of_the_equations_and_near_the_printed_one(name):
    config = VaswaniTransformerConfig.from_preset(name)
    with torch.device("meta"):
        model = VaswaniTransformerForConditionalGeneration(config)
    assert model.num_parameters() == counted_by_hand(config)
    assert model.num_parameters() / 1e6 == pytest.approx(PRINTED[name], rel=0.04)
