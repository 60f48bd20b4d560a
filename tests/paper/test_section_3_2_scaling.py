# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 3.2.1: why the scores are divided by the square root of d_k (footnote 4)."""

import math

import pytest
import torch
from tiny import make_config

from vaswani_transformer.modeling_vaswani_transformer import (
    MultiHeadAttention,
    scaled_dot_product_attention,
)

WIDTHS = [4, 64, 512]


def paper_scaling(d_k):
    """What the real layer multiplies its scores by."""
    return MultiHeadAttention(make_config(d_k=d_k, d_v=4)).scaling


def attention(q, k, v, scaling, bias=None):
    return scaled_dot_product_attention(torch.nn.Identity(), q, k, v, bias, scaling)


def score_variance(d_k, scaling, num_samples):
    """Variance of the real function's scores of independent unit-variance q and k.

    The score is read off the weights: a second key of zeros has the score 0.
    """
    torch.manual_seed(d_k)
    q, k = torch.randn(2, num_samples, 1, 1, d_k, dtype=torch.float64)
    k = torch.nn.functional.pad(k, (0, 0, 0, 1))
    _, weights = attention(q, k, k, scaling)
    return (weights[..., 0] / weights[..., 1]).log().var().item()


def five_sigma(d_k, num_samples):
    """Relative error of a sample variance: a product of two normals has excess kurtosis 6, the sum
    of d_k 6 / d_k.
    """
    return 5 * math.sqrt((2 + 6 / d_k) / num_samples)


@pytest.mark.parametrize("d_k", WIDTHS)
def test_variance_of_q_dot_k_is_d_k_and_that_of_scaled_scores_one(d_k):
    tolerance = five_sigma(d_k, 4000)
    assert score_variance(d_k, 1.0, 4000) == pytest.approx(d_k, rel=tolerance)
    assert score_variance(d_k, paper_scaling(d_k), 4000) == pytest.approx(1.0, rel=tolerance)


def median_gradient(d_k, scaling):
    """Median over 500 queries with 8 keys each of the gradient's norm at the real softmax's input.

    A bias of zeros is added to the scores where a mask would be: its gradient is that of the
    scores.
    """
    torch.manual_seed(0)
    q, k = (
        torch.randn(500, 1, 1, d_k, dtype=torch.float64),
        torch.randn(500, 1, 8, d_k, dtype=torch.float64),
    )
    bias = torch.zeros(500, 1, 1, 8, dtype=torch.float64, requires_grad=True)
    out, _ = attention(q, k, torch.randn(500, 1, 8, 8, dtype=torch.float64), scaling, bias)
    (gradient,) = torch.autograd.grad(out, bias, grad_outputs=torch.randn_like(out))
    return gradient.flatten(1).norm(dim=1).median().item()


def test_gradient_of_the_softmax_vanishes_as_d_k_grows_without_scaling():
    gradients = [median_gradient(d_k, 1.0) for d_k in WIDTHS]
    assert gradients[0] > 3 * gradients[1] > 30 * gradients[2]
    assert gradients[2] < 1e-3


def test_gradient_of_the_softmax_does_not_depend_on_d_k_with_scaling():
    gradients = [median_gradient(d_k, paper_scaling(d_k)) for d_k in WIDTHS]
    assert max(gradients) < 1.25 * min(gradients)
    assert min(gradients) > 0.5


@pytest.mark.parametrize(("scaling", "expected"), [(1 / 8, 0.8808 * 0.1192), (1.0, math.exp(-16))])
def test_gradient_at_scores_112_and_96_is_that_of_the_logistic_function(scaling, expected):
    """p (1 - p): a tenth with p = 0.88, a ten-millionth without the division by 8."""
    keys = (
        torch.tensor([112 / 64, 96 / 64], dtype=torch.float64).view(1, 1, 2, 1).expand(1, 1, 2, 64)
    )
    bias = torch.zeros(1, 1, 1, 2, dtype=torch.float64, requires_grad=True)
    _, weights = attention(torch.ones(1, 1, 1, 64, dtype=torch.float64), keys, keys, scaling, bias)
    (gradient,) = torch.autograd.grad(weights[0, 0, 0, 0], bias)
    assert gradient[0, 0, 0, 0].item() == pytest.approx(expected, rel=1e-3)
