# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 4, Table 1: self-attention costs O(n^2 d) a layer and joins any two positions by a path
of length one.
"""

import pytest
import torch
from tiny import make_model
from torch.utils.flop_counter import FlopCounterMode

from vaswani_transformer.modeling_vaswani_transformer import scaled_dot_product_attention


@pytest.fixture(params=["eager", "sdpa"])
def layers(request):
    """One encoder and one decoder layer in float64, with each attention backend."""
    model = make_model(attn_implementation=request.param).double().model
    return model.encoder.layers[0], model.decoder.layers[0]


def influence(function, length):
    """(L, S): the norm of the derivative of output position l with respect to input position s."""
    torch.manual_seed(0)
    states = torch.randn(length, 16, dtype=torch.float64)
    # (L, D, S, D)
    jacobian = torch.autograd.functional.jacobian(lambda x: function(x[None])[0], states)
    return jacobian.pow(2).sum(dim=(1, 3)).sqrt()


def test_every_position_reaches_every_other_in_one_encoder_layer(layers):
    """Maximum path length 1, at any distance: here 20 positions."""
    assert (influence(layers[0], 20) > 1e-4).all()


def test_no_later_target_token_reaches_a_prediction_through_the_whole_decoder():
    """With the mask that the model makes by itself, and through all its layers."""
    decoder = make_model().double().model.decoder
    source = torch.randn(1, 5, 16, dtype=torch.float64)
    reached = influence(
        lambda x: decoder(inputs_embeds=x, encoder_hidden_states=source).last_hidden_state, 8
    )
    assert ((reached > 1e-4) == torch.ones(8, 8).tril().bool()).all()
    assert not reached[torch.ones(8, 8).triu(1).bool()].any()


def test_every_source_position_reaches_every_target_position_in_a_decoder_layer(layers):
    target = torch.randn(1, 20, 16, dtype=torch.float64)
    assert (influence(lambda source: layers[1](target, source), 20) > 1e-4).all()


@pytest.mark.parametrize(("length", "width"), [(10, 16), (20, 16), (10, 32)])
def test_self_attention_takes_n_squared_d_multiplications_twice(length, width):
    """For the scores and for the sum of values; two operations for a multiplication and its
    addition.
    """
    states = torch.zeros(1, 1, length, width)
    with FlopCounterMode(display=False) as counter:
        scaled_dot_product_attention(torch.nn.Identity(), states, states, states, None, width**-0.5)
    assert counter.get_total_flops() == 2 * 2 * length**2 * width
