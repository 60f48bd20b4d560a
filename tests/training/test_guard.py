# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A loss or gradient that is no finite number: what stops, before what, and what it names."""

import math
from types import SimpleNamespace

import pytest
import torch

from vaswani_transformer.training.averaging import list_snapshots


def breaks_gradients_at(trainer, update):
    """Makes every gradient of the output projection nan from one update on."""
    trainer.model.lm_head.weight.register_hook(
        lambda gradient: (
            gradient * math.nan if trainer.state.global_step >= update - 1 else gradient
        )
    )


def test_gradient_that_is_no_number_stops_before_the_weights_change_and_names_the_checkpoint(
    make_trainer, tmp_path
):
    options = {"save_strategy": "steps", "save_steps": 2, "logging_steps": 100}
    trainer = make_trainer(max_steps=9, num_averaged_snapshots=9, snapshot_steps=1, **options)
    breaks_gradients_at(trainer, 4)
    with pytest.raises(
        ValueError, match=r"`grad_norm` must .* got nan after 3 updates\..*checkpoint-2"
    ):
        trainer.train()
    assert all(tensor.isfinite().all() for tensor in trainer.model.state_dict().values())
    assert [path.stem for path in list_snapshots(tmp_path / "run")] == [
        f"step-{step:08d}" for step in (1, 2, 3)
    ]


def test_loss_that_is_no_number_stops_before_a_checkpoint(make_trainer, tmp_path):
    trainer = make_trainer(save_strategy="steps", save_steps=1)
    with torch.no_grad():
        trainer.model.lm_head.weight.fill_(math.nan)
    with pytest.raises(
        ValueError, match="`loss` must stay a finite number, got nan after 0 updates"
    ):
        trainer.train()
    assert not list((tmp_path / "run").glob("checkpoint-*"))


def test_filter_of_the_library_turns_the_search_off(make_trainer):
    trainer = make_trainer(max_steps=2, logging_nan_inf_filter=True)
    breaks_gradients_at(trainer, 1)
    trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.parametrize("due", ["should_log", "should_evaluate", "should_save", "_stop_requested"])
def test_sums_kept_on_a_device_are_read_before_anything_is_measured_or_written(
    make_trainer, monkeypatch, due
):
    trainer = make_trainer(max_steps=1)
    trainer._tr_loss, trainer._grad_norms = torch.tensor(1.0), torch.tensor(math.nan)
    monkeypatch.setattr(trainer, "_get_grad_norm", None)
    trainer.control = SimpleNamespace(should_log=False, should_evaluate=False, should_save=False)
    trainer._maybe_log_save_evaluate(trainer._tr_loss, None, trainer.model, None, 0, None, 0.0)
    setattr(trainer if due == "_stop_requested" else trainer.control, due, True)
    with pytest.raises(ValueError, match="`grad_norm`.*There is no good checkpoint yet"):
        trainer._maybe_log_save_evaluate(trainer._tr_loss, None, trainer.model, None, 0, None, 0.0)


def test_gradients_that_overflow_in_fp16_are_the_loss_scalers_business_and_losses_are_not(
    make_trainer,
):
    trainer = make_trainer(fp16=True)
    overflown = torch.tensor(math.inf)
    trainer._tr_loss = torch.tensor(2.0)
    trainer._get_grad_norm(trainer.model, overflown)
    trainer._tr_loss = overflown
    with pytest.raises(ValueError, match="`loss` must stay a finite number, got inf"):
        trainer._get_grad_norm(trainer.model, overflown)
