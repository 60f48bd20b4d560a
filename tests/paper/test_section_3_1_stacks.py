# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 3.1: stacks of post-norm layers; LayerNorm looks at one token, BatchNorm at the batch."""

import pytest
import torch
from tiny import make_model
from torch import nn

STACKS = ["encoder", "decoder"]


@pytest.fixture
def model():
    """A seeded tiny model in float64, at its initialisation."""
    return make_model().double()


def outputs(model):
    ids = torch.randint(3, 300, (3, 5))
    out = model.model(ids, decoder_input_ids=ids.flip(1))
    return {"encoder": out.encoder_last_hidden_state, "decoder": out.last_hidden_state}


def naive_layer_norm(x):
    """Each token's own mean and variance, over its features; gain and bias are 1 and 0 at
    initialisation.
    """
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (((x - mean) ** 2).mean(-1, keepdim=True) + 1e-6).sqrt()


def test_encoder_layer_is_post_norm(model):
    """LayerNorm(x + Sublayer(x)): self-attention, then feed-forward (section 3.1)."""
    layer, x = model.model.encoder.layers[0], torch.randn(2, 5, 16).double()
    attended = naive_layer_norm(x + layer.self_attn(x)[0])
    expected = naive_layer_norm(attended + layer.feed_forward(attended))
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


def test_decoder_layer_is_post_norm(model):
    """Self-attention, attention over the encoder's output, feed-forward, each normalised after
    adding.
    """
    layer, x, source = (
        model.model.decoder.layers[0],
        torch.randn(2, 5, 16).double(),
        torch.randn(2, 7, 16).double(),
    )
    x1 = naive_layer_norm(x + layer.self_attn(x)[0])
    x2 = naive_layer_norm(x1 + layer.encoder_attn(x1, key_value_states=source)[0])
    expected = naive_layer_norm(x2 + layer.feed_forward(x2))
    torch.testing.assert_close(layer(x, source), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("stack", STACKS)
def test_output_of_a_stack_is_its_last_layers_output(model, stack):
    """No final LayerNorm (Figure 1)."""
    last = []
    getattr(model.model, stack).layers[-1].register_forward_hook(
        lambda module, args, output: last.append(output)
    )
    assert outputs(model)[stack] is last[0]


def test_layers_hold_every_layer_norm_there_is(model):
    """Two in an encoder layer, three in a decoder layer, none on the embeddings and none after the
    stacks.
    """
    names = [name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)]
    assert len(names) == 2 * 2 + 2 * 3
    assert all(".layers." in name for name in names)


class TokenBatchNorm(nn.BatchNorm1d):
    """BatchNorm in the place of a LayerNorm: statistics of each feature over all tokens of the
    batch.
    """

    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x)


def encode_alone_and_among_others(encoder, neighbours):
    """One sentence's states alone, and in a batch with longer sentences or behind padding, as in
    training.
    """
    sentence, others = torch.randint(3, 300, (1, 5)), torch.randint(3, 300, (3, 5))
    alone = encoder(sentence).last_hidden_state[0]
    if neighbours == "sentences":
        return alone, encoder(torch.cat([sentence, others])).last_hidden_state[0]
    padded = nn.functional.pad(sentence, (0, 4))
    return alone, encoder(padded, (padded != 0).long()).last_hidden_state[0, :5]


@pytest.mark.parametrize("neighbours", ["sentences", "padding"])
def test_layer_norms_statistics_do_not_depend_on_the_batch(model, neighbours):
    """In training mode, where a normalisation over the batch would look at it."""
    encoder = model.model.encoder.train()
    alone, among_others = encode_alone_and_among_others(encoder, neighbours)
    torch.testing.assert_close(among_others, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("neighbours", ["sentences", "padding"])
def test_batch_norms_statistics_depend_on_the_batch(model, neighbours):
    """The comparison above would find it: the same layers with BatchNorm where LayerNorm was."""
    encoder = model.model.encoder.train()
    for layer in encoder.layers:
        layer.self_attn_layer_norm, layer.final_layer_norm = TokenBatchNorm(16), TokenBatchNorm(16)
    alone, among_others = encode_alone_and_among_others(encoder.double(), neighbours)
    assert (among_others - alone).abs().max() > 0.1


class Identity(torch.autograd.Function):
    """A node of autograd's graph that changes nothing, as sharding libraries put one before every
    layer.
    """

    @staticmethod
    def forward(ctx, states):
        return states.view_as(states)

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_gradients_of_the_encoder_are_bit_equal_when_each_decoder_layer_is_wrapped():
    """Sums of floats depend on their order: what comes back from all decoder layers must add up in
    one order.
    """
    gradients = []
    for is_wrapped in (False, True):
        model = make_model(num_decoder_layers=4, d_model=64, d_ff=128)
        if is_wrapped:
            for layer in model.model.decoder.layers:
                layer.register_forward_pre_hook(
                    lambda module, args: (args[0], Identity.apply(args[1]), *args[2:])
                )
        source, target = torch.arange(3, 51).view(2, 24), torch.arange(51, 91).view(2, 20)
        model(source, labels=target).loss.backward()
        gradients.append([parameter.grad for parameter in model.model.encoder.layers.parameters()])
    assert all(torch.equal(plain, wrapped) for plain, wrapped in zip(*gradients, strict=True))
