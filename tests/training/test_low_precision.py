# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trainings in bf16 and fp16, as far as a CPU has them."""

import pytest
import torch
from toy_language import logged
from transformers import TrainerCallback


@pytest.mark.heavy
def test_200_updates_in_bf16_end_within_half_a_percent_of_fp32(trained):
    """Of a loss that falls from 5.7 to 2.3, at a rate at which rounding does not decide what comes
    next.
    """
    options = {"max_steps": 200, "logging_steps": 50, "warmup_steps": 1000}
    losses = [logged(trained(bf16=bf16, **options), "loss") for bf16 in (False, True)]
    assert losses[0][-1] < 2.7 and losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.005)


class Notes(TrainerCallback):
    """Notes the scale of the loss and the weights after each update."""

    def __init__(self):
        self.trainer, self.scales, self.weights = None, [], []

    def on_step_end(self, args, state, control, **kwargs):
        self.scales.append(self.trainer.accelerator.scaler.get_scale())
        self.weights.append(self.trainer.model.lm_head.weight.detach().clone())


@pytest.mark.parametrize("optimiser", ["adamw_torch", "adamw_torch_fused"])
def test_updates_that_overflow_in_fp16_are_skipped_and_the_training_goes_on(
    make_trainer, optimiser
):
    """accelerate has fp16 on accelerators alone: it gets torch's scaler for CPUs."""
    notes = Notes()
    options = {
        "max_steps": 10,
        "logging_steps": 5,
        "optim": optimiser,
        "extra": {"callbacks": [notes]},
    }
    notes.trainer = trainer = make_trainer(fp16=True, **options)
    trainer.accelerator.native_amp = True
    trainer.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    notes.weights.append(trainer.model.lm_head.weight.detach().clone())
    trainer.train()
    is_halved = [
        after < before
        for before, after in zip([2.0**24, *notes.scales], notes.scales, strict=False)
    ]
    is_same = [torch.equal(*pair) for pair in zip(notes.weights, notes.weights[1:], strict=False)]
    assert is_halved == is_same == sorted(is_same, reverse=True) and 2 < sum(is_same) < 8
    assert all(each.isfinite().all() for each in notes.weights)
    assert logged(trainer, "loss")[-1] < 6 and logged(trainer, "grad_norm")[-1] < 10
