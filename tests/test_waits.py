# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Forward, loss, backward and decoding step never make the host wait for a device."""

import copy
import itertools
import subprocess
import sys
from unittest import mock

import accelerator
import pytest
import torch
from accelerator import waits
from tiny import make_config, make_model
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from transformers import EncoderDecoderCache, StaticCache, masking_utils

from vaswani_transformer import VaswaniTransformerForConditionalGeneration
from vaswani_transformer import modeling_vaswani_transformer as modeling

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


# ---- without numbers: what would read one raises ----


# transformers and `can_fuse` would go other ways for fake tensors than for those of a device
@mock.patch.object(masking_utils, "is_tracing", mock.Mock(return_value=False))
@mock.patch.object(modeling, "can_fuse", mock.Mock(return_value=True))
def check_without_numbers(device, attention, return_logits, has_gradients=True):
    with torch.device("meta"):
        model = VaswaniTransformerForConditionalGeneration(
            make_config(dropout=0.1, attn_implementation=attention)
        )
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device=device).tie_weights()
        with pytest.raises(DataDependentOutputException):
            bool(torch.ones(1, device=device))
        inputs = {
            name: torch.empty_like(tensor, device=device)
            for name, tensor in training_inputs("cpu").items()
        }
        loss = model.train()(**inputs, label_smoothing_factor=0.1, return_logits=return_logits).loss
        assert loss.device == torch.device(device)
        if has_gradients:
            loss.backward()
        source = {
            "input_ids": inputs["input_ids"],
            "attention_mask": inputs["attention_mask"],
            "use_cache": True,
        }
        with torch.no_grad():
            cache = model(decoder_input_ids=inputs["labels"], **source).past_key_values
            model(decoder_input_ids=inputs["labels"][:, :1], past_key_values=cache, **source)


@BACKENDS
@pytest.mark.parametrize("return_logits", [True, False], ids=["logits", "fused"])
def test_no_number_is_asked_for(accel, monkeypatch, attention, return_logits):
    if accel.type == "cuda":
        pytest.skip("on a GPU the next test does it")
    # torch swaps no fake tensors
    monkeypatch.setattr(torch.__future__, "_swap_module_params_on_conversion", False)
    monkeypatch.setattr(accelerator, "_is_present", False)  # else torch makes real ones first
    check_without_numbers("accel:0", attention, return_logits)


@pytest.mark.heavy
@pytest.mark.skipif(
    not torch.backends.cuda.is_built(), reason="needs a CUDA build of torch; a GPU it does not need"
)
def test_no_number_is_asked_for_on_cuda():
    """In a process of its own: fake tensors change torch's guard of CUDA devices for good."""
    subprocess.run([sys.executable, __file__], check=True)


if __name__ == "__main__":
    for attention, return_logits in itertools.product(("eager", "sdpa"), (True, False)):
        # torch starts backward passes on CUDA only where there is a GPU
        check_without_numbers(
            "cuda:0", attention, return_logits, has_gradients=torch.cuda.is_available()
        )
