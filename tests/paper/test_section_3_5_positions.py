# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 3.5: what self-attention knows of order, and what the sinusoids are for."""

import math

import pytest
import torch
from tiny import make_model

from vaswani_transformer.modeling_vaswani_transformer import SinusoidalPositionalEncoding, sinusoids

FP32 = {"rtol": 0, "atol": 5e-7}  # encodings are at most 1, in fp32; a rotation adds two of them
OFFSETS = [1, 7, 50, 1000]


# ------------------------------------------------------------------------------ order of the tokens

ORDER = [3, 0, 4, 1, 2]


def test_encoder_tells_the_order_of_its_tokens():
    """The whole encoder adds positions by itself."""
    encoder, ids = make_model().double().model.encoder, torch.tensor([[11, 12, 13, 14, 15]])
    reordered, reference = (
        encoder(ids[:, ORDER]).last_hidden_state,
        encoder(ids).last_hidden_state[:, ORDER],
    )
    assert ((reordered - reference).abs().amax(-1) > 0.01).all()


def test_encoder_cannot_tell_the_order_when_its_positions_are_erased():
    encoder, ids = make_model().double().model.encoder, torch.tensor([[11, 12, 13, 14, 15]])
    encoder.embed_positions.table.zero_()
    reordered, reference = (
        encoder(ids[:, ORDER]).last_hidden_state,
        encoder(ids).last_hidden_state[:, ORDER],
    )
    torch.testing.assert_close(reordered, reference, rtol=0, atol=1e-12)


# -------------------------------------------------------------------------------------- the formula


def test_sines_and_cosines_are_interleaved():
    """PE(pos) = [sin pos, cos pos, sin(pos / 100), cos(pos / 100)] with d_model 4."""
    expected = [
        [0, 1, 0, 1],
        [0.841471, 0.540302, 0.01, 0.99995],
        [0.909297, -0.416147, 0.019999, 0.9998],
    ]
    torch.testing.assert_close(
        sinusoids(torch.arange(3), 4), torch.tensor(expected), rtol=0, atol=1e-6
    )


def wavelengths(d_model):
    """Of each pair of features: a turn, 2 pi, over the angle that the pair advances from one
    position to the next.
    """
    at_one = sinusoids(torch.tensor([1]), d_model)[0].double().view(-1, 2)
    return 2 * math.pi / torch.atan2(at_one[:, 0], at_one[:, 1])


def test_wavelengths_form_a_geometric_progression_from_2_pi():
    ratio = 10_000 ** (2 / 512)
    expected = torch.tensor([2 * math.pi * ratio**i for i in range(256)], dtype=torch.float64)
    torch.testing.assert_close(wavelengths(512), expected, rtol=1e-6, atol=0)


# -------------------------------------------------------------------- relative positions are linear


def rotation(offset, d_model):
    """Block-diagonal: the pair 2i turns by offset / 10000^(2i / d_model).

    Nothing in it depends on a position.
    """
    blocks = []
    for i in range(d_model // 2):
        angle = offset / 10_000 ** (2 * i / d_model)
        sin, cos = math.sin(angle), math.cos(angle)
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64))
    return torch.block_diag(*blocks)


@pytest.mark.parametrize("offset", OFFSETS)
def test_encoding_at_an_offset_is_one_linear_function_of_the_encoding(offset):
    """For every k one matrix takes PE(pos) to PE(pos + k), whatever pos."""
    positions = torch.arange(1000)
    moved = sinusoids(positions, 64).double() @ rotation(offset, 64).T
    torch.testing.assert_close(sinusoids(positions + offset, 64).double(), moved, **FP32)


@pytest.mark.parametrize("offset", [0, *OFFSETS])
def test_dot_product_of_two_encodings_depends_on_their_distance_alone(offset):
    """Sum over i of cos(k / 10000^(2i / d_model)); 64 products, each rounded by less than 2e-7."""
    positions = torch.arange(1000)
    products = (sinusoids(positions, 64).double() * sinusoids(positions + offset, 64).double()).sum(
        -1
    )
    expected = sum(math.cos(offset / 10_000 ** (2 * i / 64)) for i in range(32))
    torch.testing.assert_close(
        products, torch.full_like(products, expected), rtol=0, atol=64 * 2e-7
    )


# ------------------------------------------------------------------------------ no longest sentence


def test_encoding_beyond_the_table_is_the_formula():
    """Far beyond any sentence seen in training: positions 100,000 and 1,000,000 with a table of
    eight rows.
    """
    positions = torch.tensor([100_000, 1_000_000])
    got = SinusoidalPositionalEncoding(8, 16)(positions, num_positions=1_000_001)
    for row, position in zip(got, positions.tolist(), strict=True):
        angles = [position / 10_000 ** (2 * i / 16) for i in range(8)]
        expected = torch.tensor([[math.sin(angle), math.cos(angle)] for angle in angles]).flatten()
        torch.testing.assert_close(row, expected, rtol=0, atol=1e-6)


def test_table_of_an_encoding_is_fp32_and_never_saved():
    encoding = SinusoidalPositionalEncoding(5, 16).to(torch.bfloat16)
    assert encoding.table.dtype == torch.float32
    assert not encoding.state_dict()


def on_meta():
    with torch.device("meta"):
        return make_model()


def emptied_on_a_device(weights):
    return make_model(1).to_empty(device="cpu")


def emptied_from_meta(weights):
    return on_meta().to_empty(device="cpu")


def assigned(weights):
    model = on_meta()
    model.load_state_dict(weights, assign=True)
    return model


def assigned_and_moved(weights):
    return assigned(weights).to("cpu")


def halved_and_back(weights):
    return make_model(1).half().float()


def shared(weights):
    return make_model(1).share_memory()


@pytest.mark.parametrize(
    "materialise",
    [emptied_on_a_device, emptied_from_meta, assigned, assigned_and_moved, halved_and_back, shared],
)
def test_positions_are_right_however_a_model_is_materialised(materialise):
    """What `to_empty` leaves in memory is unknown; so that it is wrong, all new memory begins as
    NaN.
    """
    expected = make_model()
    torch.use_deterministic_algorithms(True)
    try:
        model = materialise(expected.state_dict())
    finally:
        torch.use_deterministic_algorithms(False)
    model.load_state_dict(expected.state_dict())
    ids = torch.tensor([[11, 12, 13]])
    assert torch.equal(
        model(ids, decoder_input_ids=ids).logits, expected(ids, decoder_input_ids=ids).logits
    )


def test_shared_memory_stays_shared():
    model = make_model().share_memory()
    assert all(tensor.is_shared() for tensor in [*model.parameters(), *model.buffers()])


# -------------------------------------------------------------------------------- learned positions


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_learned_positions_start_as_small_as_the_embeddings(stack):
    """Deviation d_model^-0.5, which 32,768 values meet to 2 %; then embeddings are scaled to 1,
    positions are not.
    """
    model = make_model(position_encoding="learned", max_position_embeddings=2048).model
    positions = getattr(model, stack).embed_positions
    assert positions.weight.std().item() == pytest.approx(16**-0.5, rel=0.02)
    assert torch.equal(positions(torch.arange(3), num_positions=3), positions.weight[:3])
