# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 5.4: dropout and label smoothing."""

import math

import pytest
import torch
from tiny import make_model

from vaswani_transformer.loss_vaswani_transformer import translation_loss

# ------------------------------------------------------------------- residual dropout (section 5.4)


def drop_everything(module):
    """Dropout of rate 1 in the module's own dropout, in training mode."""
    module.train()
    module.dropout.p = 1.0
    return module


def test_dropout_applies_to_each_sublayers_output_before_it_is_added():
    """With everything dropped only the residual path is left:

    LayerNorm(LayerNorm(x)) in the encoder.
    """
    layer = drop_everything(make_model().double().model.encoder.layers[0])
    states = torch.randn(2, 5, 16, dtype=torch.float64)
    expected = layer.final_layer_norm(layer.self_attn_layer_norm(states))
    torch.testing.assert_close(layer(states), expected, rtol=0, atol=1e-12)


def test_dropout_applies_to_all_three_sublayers_of_the_decoder():
    layer = drop_everything(make_model().double().model.decoder.layers[0])
    states, source = (
        torch.randn(2, 5, 16, dtype=torch.float64),
        torch.randn(2, 7, 16, dtype=torch.float64),
    )
    expected = layer.final_layer_norm(
        layer.encoder_attn_layer_norm(layer.self_attn_layer_norm(states))
    )
    torch.testing.assert_close(layer(states, source), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_dropout_applies_to_the_sum_of_embeddings_and_positions(stack):
    """In both stacks: with everything dropped the first layer sees zeros, the positions gone as
    well.
    """
    model, seen, ids = make_model(), [], torch.tensor([[11, 12, 13]])
    drop_everything(getattr(model.model, stack)).layers[0].register_forward_pre_hook(
        lambda m, a: seen.append(a[0])
    )
    model(ids, decoder_input_ids=ids)
    assert not seen[0].any()


# -------------------------------------------------------------------- label smoothing (section 5.4)

EPSILON = 0.1
LABEL = torch.tensor([[3]])
# The right token keeps 1 - epsilon and gets its share of the mass spread over all ten tokens.
SMOOTHED = [0.01, 0.01, 0.01, 0.91, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01]


def loss_and_nll(probabilities, requires_grad=False):
    logits = (
        torch.tensor(probabilities, dtype=torch.float64)
        .log()
        .view(1, 1, -1)
        .requires_grad_(requires_grad)
    )
    return *translation_loss(logits, LABEL, label_smoothing_factor=EPSILON), logits


def test_smoothed_loss_is_least_at_the_smoothed_distribution():
    """Its gradient is zero there, and the loss is convex in the logits."""
    loss, _, logits = loss_and_nll(SMOOTHED, requires_grad=True)
    loss.backward()
    torch.testing.assert_close(logits.grad, torch.zeros(1, 1, 10).double(), rtol=0, atol=1e-12)


def test_least_smoothed_loss_is_the_entropy_of_the_smoothed_distribution():
    expected = -0.91 * math.log(0.91) - 9 * 0.01 * math.log(0.01)
    assert loss_and_nll(SMOOTHED)[0].item() == pytest.approx(expected, abs=1e-12)


def test_label_smoothing_hurts_perplexity():
    """The model that the smoothed loss asks for has perplexity 1 / 0.91; a surer one would do
    better, at more loss.
    """
    loss, nll, _ = loss_and_nll(SMOOTHED)
    surer_loss, surer_nll, _ = loss_and_nll([0.001] * 3 + [0.991] + [0.001] * 6)
    assert nll.exp().item() == pytest.approx(1 / 0.91)
    assert surer_nll < nll
    assert surer_loss > loss


def test_perplexity_of_an_even_guess_is_the_size_of_the_vocabulary():
    _, nll, _ = loss_and_nll([0.1] * 10)
    assert nll.exp().item() == pytest.approx(10)
