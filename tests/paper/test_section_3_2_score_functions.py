# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 3.2.1: the dot product among the score functions of its time. A comparison, not an option
of the model.

dot         q . k                     this paper, divided by sqrt(d_k)
general     q W k                     Luong et al. 2015
concat      v . tanh(W [q; k])        Luong et al. 2015
additive    v . tanh(W_q q + W_k k)   Bahdanau et al. 2015
"""

import math

import pytest
import torch
from tiny import make_config

from vaswani_transformer.modeling_vaswani_transformer import (
    MultiHeadAttention,
)


def general(q, k, w):
    return torch.stack([torch.stack([query @ w @ key for key in k]) for query in q])


@pytest.mark.parametrize("head", [0, 1])
def test_heads_score_is_a_general_one_of_low_rank(head):
    """(x W^Q)(y W^K)^T = x W y^T with W = W^Q W^K^T, whose rank is d_k at most, over sqrt(d_k)."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(make_config(attn_implementation="eager")).double()
    x, y = torch.randn(3, 16, dtype=torch.float64), torch.randn(4, 16, dtype=torch.float64)
    rows = slice(8 * head, 8 * head + 8)
    w = layer.q_proj.weight[rows].T @ layer.k_proj.weight[rows]
    expected = (general(x, y, w) / math.sqrt(8)).softmax(-1)
    _, weights = layer(x[None], key_value_states=y[None])
    torch.testing.assert_close(weights[0, head], expected, rtol=0, atol=1e-12)
    assert torch.linalg.matrix_rank(w) == 8


def test_attention_has_four_matrices_and_nothing_to_choose():
    """No vector v and no further W: the model's score is the dot product."""
    names = {name for name, _ in MultiHeadAttention(make_config()).named_parameters()}
    assert names == {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"}
