# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Forward, loss, backward and decoding step never make the host wait for a device."""

import copy

import pytest
import torch
from accelerator import waits
from tiny import make_model
from transformers import EncoderDecoderCache, StaticCache

SOURCE = torch.randint(3, 300, (4, 9), generator=torch.Generator().manual_seed(1))
LABELS = SOURCE.flip(1)[:, :7].clone()
MASK = torch.ones_like(SOURCE)
MASK[0, 6:], LABELS[1, 4:] = 0, -100
BACKENDS = pytest.mark.parametrize("attention", ["eager", "sdpa"])


def training_inputs(device, **options):
    target_mask = LABELS.ne(-100).long()
    inputs = {
        "input_ids": SOURCE,
        "attention_mask": MASK,
        "labels": LABELS,
        "decoder_attention_mask": target_mask,
    }
    return {name: tensor.to(device) for name, tensor in inputs.items()} | options


def train_step(model, inputs):
    loss = model(**inputs).loss
    loss.backward()
    return loss.detach().cpu(), [parameter.grad.cpu() for parameter in model.parameters()]


@BACKENDS
@pytest.mark.parametrize("return_logits", [True, False], ids=["logits", "fused"])
def test_loss_and_gradients_are_those_of_the_cpu_and_nothing_waits(accel, attention, return_logits):
    on_host = make_model(attn_implementation=attention)
    model = copy.deepcopy(on_host).to(accel)
    expected = train_step(
        on_host, training_inputs("cpu", label_smoothing_factor=0.1, return_logits=return_logits)
    )
    inputs = training_inputs(accel, label_smoothing_factor=0.1, return_logits=return_logits)
    with waits() as found:
        model(**inputs).loss.backward()
    assert found == []
    model.zero_grad()
    torch.testing.assert_close(train_step(model, inputs), expected, rtol=1e-5, atol=1e-6)


@BACKENDS
@pytest.mark.parametrize("is_static", [False, True])
@torch.no_grad()
def test_decoding_step_waits_for_nothing(accel, attention, is_static):
    model = make_model(attn_implementation=attention).to(accel)
    mask, encoded = (
        MASK.to(accel),
        model.get_encoder()(SOURCE.to(accel), attention_mask=MASK.to(accel)),
    )
    given = {"encoder_outputs": encoded, "attention_mask": mask, "use_cache": True}
    first, second = LABELS[:, :3].to(accel), LABELS[:, 2:3].to(accel)
    caches = [StaticCache(model.config, max_cache_len=length) for length in (6, 9)]
    cache = EncoderDecoderCache(*caches) if is_static else None
    cache = model(decoder_input_ids=first, past_key_values=cache, **given).past_key_values
    with waits() as found:
        model(decoder_input_ids=second, past_key_values=cache, **given)
    assert found == []
