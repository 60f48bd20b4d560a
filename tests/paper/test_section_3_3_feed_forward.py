# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 3.3: the position-wise feed-forward network, equation 2."""

import pytest
import torch
from tiny import make_model


@pytest.fixture
def layer():
    """A real layer in float64 whose biases are not zero."""
    layer = make_model().double().model.encoder.layers[0]
    with torch.no_grad():
        layer.fc1.bias.normal_()
        layer.fc2.bias.normal_()
    return layer


@pytest.fixture
def states():
    torch.manual_seed(1)
    return torch.randn(2, 5, 16, dtype=torch.float64)


def test_feed_forward_is_equation_2(layer, states):
    """max(0, x W1 + b1) W2 + b2."""
    w1, w2 = layer.fc1.weight.T, layer.fc2.weight.T
    expected = torch.clamp(states @ w1 + layer.fc1.bias, min=0) @ w2 + layer.fc2.bias
    torch.testing.assert_close(layer.feed_forward(states), expected, rtol=0, atol=1e-12)


def test_feed_forward_treats_each_position_separately_and_identically(layer, states):
    alone = torch.stack([layer.feed_forward(states[:, position]) for position in range(5)], dim=1)
    torch.testing.assert_close(layer.feed_forward(states), alone, rtol=0, atol=1e-12)


def test_feed_forward_is_two_convolutions_with_kernel_size_1(layer, states):
    hidden = torch.conv1d(
        states.transpose(1, 2), layer.fc1.weight[..., None], layer.fc1.bias
    ).relu()
    expected = torch.conv1d(hidden, layer.fc2.weight[..., None], layer.fc2.bias).transpose(1, 2)
    torch.testing.assert_close(layer.feed_forward(states), expected, rtol=0, atol=1e-12)
