# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 5: the learning rate, dropout and label smoothing."""

import math

import pytest
import torch
from tiny import make_model

from vaswani_transformer import VaswaniTransformerConfig
from vaswani_transformer.loss_vaswani_transformer import translation_loss
from vaswani_transformer.training.schedule import create_paper_schedule, paper_peak_learning_rate

# ---------------------------------------------------------------------------------------- the rate (section 5.3)


def rate_at(step, preset):
    """The rate of the update with this number, from the real scheduler and 4,000 updates of warm-up."""
    peak = paper_peak_learning_rate(VaswaniTransformerConfig.from_preset(preset).d_model, 4000)
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler = create_paper_schedule(optimizer, 4000)
    return peak * scheduler.lr_lambdas[0](step - 1)


# By hand: 512^-0.5 = 0.04419417, 1024^-0.5 = 0.03125; 4000^-1.5 = 3.952847e-06, 4000^-0.5 = 0.01581139,
# 100000^-0.5 = 0.003162278, 300000^-0.5 = 0.001825742.
@pytest.mark.parametrize(
    ("preset", "step", "expected"),
    [
        ("base", 1, 1.746928e-07),
        ("base", 2000, 3.493856e-04),
        ("base", 4000, 6.987712e-04),
        ("base", 100_000, 1.397542e-04),
        ("big", 4000, 4.941059e-04),
        ("big", 300_000, 5.705444e-05),
    ],
)
def test_learning_rate_is_that_of_equation_3(preset, step, expected):
    """At the first update, half-way up, at the peak and at the last update of both models."""
    assert rate_at(step, preset) == pytest.approx(expected, rel=1e-6)


# ------------------------------------------------------------------------------------ residual dropout (section 5.4)


def drop_everything(module):
    """Dropout of rate 1 in the module's own dropout, in training mode."""
    module.train()
    module.dropout.p = 1.0
    return module


def test_dropout_applies_to_each_sublayers_output_before_it_is_added():
    """With everything dropped only the residual path is left: LayerNorm(LayerNorm(x)) in the encoder."""
    layer = drop_everything(make_model().double().model.encoder.layers[0])
    states = torch.randn(2, 5, 16, dtype=torch.float64)
    expected = layer.final_layer_norm(layer.self_attn_layer_norm(states))
    torch.testing.assert_close(layer(states), expected, rtol=0, atol=1e-12)


def test_dropout_applies_to_all_three_sublayers_of_the_decoder():
    layer = drop_everything(make_model().double().model.decoder.layers[0])
    states, source = torch.randn(2, 5, 16, dtype=torch.float64), torch.randn(2, 7, 16, dtype=torch.float64)
    expected = layer.final_layer_norm(layer.encoder_attn_layer_norm(layer.self_attn_layer_norm(states)))
    torch.testing.assert_close(layer(states, source), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_dropout_applies_to_the_sum_of_embeddings_and_positions(stack):
    """In both stacks: with everything dropped the first layer sees zeros, the positions gone as well."""
    model, seen, ids = make_model(), [], torch.tensor([[11, 12, 13]])
    drop_everything(getattr(model.model, stack)).layers[0].register_forward_pre_hook(lambda m, a: seen.append(a[0]))
    model(ids, decoder_input_ids=ids)
    assert not seen[0].any()


# ------------------------------------------------------------------------------------ label smoothing (section 5.4)

EPSILON = 0.1
LABEL = torch.tensor([[3]])
# The right token keeps 1 - epsilon and gets its share of the mass spread over all ten tokens.
SMOOTHED = [0.01, 0.01, 0.01, 0.91, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01]


def loss_and_nll(probabilities, requires_grad=False):
    logits = torch.tensor(probabilities, dtype=torch.float64).log().view(1, 1, -1).requires_grad_(requires_grad)
    return *translation_loss(logits, LABEL, label_smoothing=EPSILON), logits


def test_smoothed_loss_is_least_at_the_smoothed_distribution():
    """Its gradient is zero there, and the loss is convex in the logits."""
    loss, _, logits = loss_and_nll(SMOOTHED, requires_grad=True)
    loss.backward()
    torch.testing.assert_close(logits.grad, torch.zeros(1, 1, 10).double(), rtol=0, atol=1e-12)


def test_least_smoothed_loss_is_the_entropy_of_the_smoothed_distribution():
    expected = -0.91 * math.log(0.91) - 9 * 0.01 * math.log(0.01)
    assert loss_and_nll(SMOOTHED)[0].item() == pytest.approx(expected, abs=1e-12)


def test_label_smoothing_hurts_perplexity():
    """The model that the smoothed loss asks for has perplexity 1 / 0.91; a surer one would do better, at more loss."""
    loss, nll, _ = loss_and_nll(SMOOTHED)
    surer_loss, surer_nll, _ = loss_and_nll([0.001] * 3 + [0.991] + [0.001] * 6)
    assert nll.exp().item() == pytest.approx(1 / 0.91)
    assert surer_nll < nll
    assert surer_loss > loss


def test_perplexity_of_an_even_guess_is_the_size_of_the_vocabulary():
    _, nll, _ = loss_and_nll([0.1] * 10)
    assert nll.exp().item() == pytest.approx(10)
