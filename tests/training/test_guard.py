# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The guard: what stops a training, what does not, and what it names."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerControl, TrainerState

from vaswani_transformer.training.callbacks import DivergenceGuard

NORMAL = {"fp16": False, "logging_nan_inf_filter": False, "world_size": 1, "output_dir": "run"}
NOTHING = {"num_averaged_snapshots": 0, "snapshot_steps": 1}


def arguments(**changes):
    return SimpleNamespace(**{**NORMAL, **NOTHING, **changes})


def breaks_gradients_at(trainer, update):
    """Makes every gradient of the output projection nan from one update on."""
    trainer.model.lm_head.weight.register_hook(
        lambda gradient: gradient * math.nan if trainer.state.global_step >= update - 1 else gradient
    )


def test_gradient_that_is_no_number_stops_before_the_weights_change_and_names_the_checkpoint(make_trainer, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 2, "logging_steps": 100}
    trainer = make_trainer(max_steps=9, num_averaged_snapshots=9, snapshot_steps=1, **options)
    breaks_gradients_at(trainer, 4)
    with pytest.raises(
        ValueError, match=r"`grad_norm` must stay a finite number, got nan at update 4\..*checkpoint-2"
    ):
        trainer.train()
    assert all(tensor.isfinite().all() for tensor in trainer.model.state_dict().values())
    assert [path.name for path in (tmp_path / "run" / "snapshots").iterdir()][-1:] != ["step-00000004.safetensors"]


def test_message_says_that_there_is_no_checkpoint_yet(make_trainer):
    trainer = make_trainer(max_steps=9)
    breaks_gradients_at(trainer, 1)
    with pytest.raises(ValueError, match="holds no good checkpoint yet"):
        trainer.train()


def test_checkpoints_of_later_updates_are_not_named(make_trainer, tmp_path):
    (tmp_path / "run" / "checkpoint-500").mkdir(parents=True)
    trainer = make_trainer(max_steps=9)
    breaks_gradients_at(trainer, 2)
    with pytest.raises(ValueError, match="holds no good checkpoint yet"):
        trainer.train()


@pytest.mark.parametrize("remove", ["callback", "filter"])
def test_guard_can_be_removed(make_trainer, remove):
    trainer = make_trainer(max_steps=2, logging_nan_inf_filter=remove == "filter")
    if remove == "callback":
        trainer.remove_callback(DivergenceGuard)
    breaks_gradients_at(trainer, 1)
    trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.parametrize("sums", [[math.nan, 1.0], [1.0, math.inf]], ids=["loss", "grad_norm"])
@pytest.mark.parametrize("flag", ["should_log", "should_evaluate", "should_save", "snapshot"])
def test_sums_kept_on_a_device_are_read_before_anything_is_measured_or_written(flag, sums):
    guard, control = DivergenceGuard(), TrainerControl()
    guard._sums = torch.tensor(sums)
    guard.on_step_end(arguments(), TrainerState(global_step=4), control)
    args = arguments(num_averaged_snapshots=5, snapshot_steps=2) if flag == "snapshot" else arguments()
    if flag != "snapshot":
        setattr(control, flag, True)
    with pytest.raises(ValueError, match=r"must stay a finite number, got (nan|inf) by update 4\."):
        guard.on_step_end(args, TrainerState(global_step=4), control)


def test_sums_are_read_when_the_last_update_is_made():
    guard = DivergenceGuard()
    guard._sums = torch.tensor([1.0, math.nan])
    with pytest.raises(ValueError, match="`grad_norm`"):
        guard.on_log(arguments(), TrainerState(global_step=4), TrainerControl(), logs={"train_runtime": 1.0})


def test_gradients_that_overflow_in_fp16_are_the_loss_scalers_business():
    guard = DivergenceGuard()
    for _ in range(60):
        guard.watch(arguments(fp16=True), TrainerState(), torch.tensor(2.0), torch.tensor(math.inf), False)


def test_fifty_skipped_updates_in_a_row_stop_and_fewer_do_not():
    guard, state = DivergenceGuard(), TrainerState()
    for was_skipped in [True] * 49 + [False] + [True] * 49:
        guard.watch(arguments(fp16=True), state, torch.tensor(2.0), torch.tensor(math.inf), was_skipped)
    with pytest.raises(ValueError, match="overflows in 50 updates in a row"):
        guard.watch(arguments(fp16=True), state, torch.tensor(2.0), torch.tensor(math.inf), True)


def test_loss_that_is_no_number_stops_in_fp16_too():
    with pytest.raises(ValueError, match="`loss` must stay a finite number, got inf"):
        DivergenceGuard().watch(arguments(fp16=True), TrainerState(), torch.tensor(math.inf), None, False)


def test_loss_that_rises_for_long_does_not_stop():
    log = [{"step": step, "loss": 4.0 if step <= 1000 else 6.0} for step in range(50, 3001, 50)]
    state = TrainerState(global_step=3000, max_steps=9000, log_history=log)
    args = arguments(get_warmup_steps=lambda max_steps: 1000)
    DivergenceGuard().on_log(args, state, TrainerControl(), logs={"loss": 6.0})
