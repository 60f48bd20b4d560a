# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A training that stops and goes on is the one that never stopped: weights, logs and what they rest
on.
"""

import json
import os
import shutil
import signal
from contextlib import nullcontext

import pytest
import safetensors.torch
import torch
import transformers.trainer
from faults import without_times
from torch.utils._pytree import tree_map_only
from toy_language import SignalIn, build_trainer, logged
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_callback import ExportableState

from vaswani_transformer.training import resuming
from vaswani_transformer.training.averaging import list_snapshots
from vaswani_transformer.training.checkpoints import list_checkpoints

# 6 updates an epoch, a log line every 4, an evaluation and a checkpoint every 6
COMMON = {
    "dropout": 0.1,
    "max_steps": 13,
    "logging_steps": 4,
    "eval_strategy": "steps",
    "eval_steps": 6,
    "save_strategy": "steps",
    "save_steps": 6,
    "predict_with_generate": False,
}
FIRST_IS_BEST = {
    "metric_for_best_model": "loss",
    "greater_is_better": True,
    "load_best_model_at_end": True,
}


def result(trainer):
    """What must be equal, bit for bit."""
    return {
        "log": [without_times(line) for line in trainer.state.log_history],
        "weights": {name: tensor.tolist() for name, tensor in trainer.model.state_dict().items()},
        "optimizer": tree_map_only(
            torch.Tensor, torch.Tensor.tolist, trainer.optimizer.state_dict()
        ),
        "schedule": trainer.lr_scheduler.state_dict(),
    }


@pytest.fixture(scope="module")
def make(tokenizer, dataset):
    def make(folder, train_dataset=dataset, callbacks=(), **options):
        options = {**COMMON, "eval_dataset": dataset.select(range(6)), **options}
        return build_trainer(
            tokenizer, train_dataset, folder, extra={"callbacks": [*callbacks]}, **options
        )

    return make


@pytest.fixture(scope="module")
def whole(make, tmp_path_factory):
    trainer = make(tmp_path_factory.mktemp("whole"))
    output = trainer.train()
    assert output.training_loss == trainer.state.log_history[-1]["train_loss"]
    return result(trainer)


@pytest.fixture(scope="module")
def every_update(make, tmp_path_factory):
    """The same training with a log line for every update."""
    folder = tmp_path_factory.mktemp("every_update")
    trainer = make(folder, logging_steps=1, eval_strategy="no", save_strategy="no")
    trainer.train()
    return trainer


@pytest.fixture
def interrupted(make, tmp_path):
    """Function that stops a training in an update."""

    def stop(step, number=signal.SIGINT, callbacks=(), **options):
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, callbacks=[*callbacks, SignalIn(step, number)], **options).train()

    return stop


@pytest.fixture
def resumed(make, tmp_path):
    """Function that resumes it, and leaves the library's functions as they were."""

    def resume(folder=tmp_path, checkpoint=True, **options):
        trainer = make(folder, **options)
        before = transformers.trainer.skip_first_batches
        trainer.train(resume_from_checkpoint=checkpoint)
        assert transformers.trainer.skip_first_batches is before
        return trainer

    return resume


@pytest.mark.parametrize(
    "step", [*(pytest.param(step, marks=pytest.mark.heavy) for step in (1, 6)), 4, 7, 13]
)
def test_run_that_was_stopped_equals_the_one_that_was_not(interrupted, resumed, whole, step):
    interrupted(step)
    assert result(resumed()) == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "options"),
    [
        (10, {"gradient_accumulation_steps": 2, "bpe_dropout": 0.3}),  # in the second epoch
        (
            10,
            {
                "bpe_dropout": 0.3,
                "dataloader_num_workers": 2,
                "dataloader_persistent_workers": True,
                "eval_strategy": "no",
            },
        ),
        (6, {f"{kind}_strategy": "epoch" for kind in ("logging", "eval", "save")}),
    ],
    ids=str,
)
def test_sigterm_leaves_no_trace_in_other_trainings(
    make, interrupted, resumed, tmp_path, step, options
):
    uninterrupted = make(tmp_path / "whole", **options)
    uninterrupted.train()
    interrupted(step, signal.SIGTERM, **options)
    assert result(resumed(**options)) == result(uninterrupted)


def test_loss_of_the_training_is_the_mean_over_all_updates(whole, every_update):
    assert whole["log"][-1]["train_loss"] == pytest.approx(
        sum(logged(every_update, "loss")) / 13, rel=1e-6
    )


def test_intervals_that_change_at_a_resume_take_effect(interrupted, resumed, tmp_path):
    interrupted(7)
    assert (tmp_path / "checkpoint-7").is_dir()
    log = resumed(logging_steps=2, eval_steps=5, save_steps=1).state.log_history
    assert [line["step"] for line in log if "loss" in line] == [4, 8, 10, 12]
    assert [line["step"] for line in log if "eval_loss" in line] == [6, 10, 13]
    assert [path.name for path in list_checkpoints(tmp_path)][-3:] == [
        f"checkpoint-{step}" for step in (11, 12, 13)
    ]


@pytest.mark.slow
def test_early_stopping_counts_on_after_a_resume(make, interrupted, resumed, tmp_path):
    options = {**FIRST_IS_BEST, "eval_steps": 3, "save_steps": 3, "max_steps": 50}
    uninterrupted = make(tmp_path / "whole", callbacks=[EarlyStoppingCallback(2)], **options)
    uninterrupted.train()
    interrupted(7, callbacks=[EarlyStoppingCallback(2)], **options)
    for _ in range(2):  # what has stopped early stays where it is
        again = resumed(callbacks=[EarlyStoppingCallback(2)], **options)
        assert again.state.global_step == uninterrupted.state.global_step == 9
        assert again.state.best_model_checkpoint == str(tmp_path / "checkpoint-3")


def test_callback_that_is_new_in_the_resumed_run_is_saved(interrupted, resumed, tmp_path):
    interrupted(7)
    resumed(callbacks=[EarlyStoppingCallback(9)], **FIRST_IS_BEST)
    state = json.loads(
        (tmp_path / "checkpoint-13" / "trainer_state.json").read_text(encoding="utf-8")
    )
    assert "EarlyStoppingCallback" in state["stateful_callbacks"]


def test_resumed_copy_of_a_run_ends_with_its_own_best_weights(make, resumed, tmp_path):
    make(tmp_path / "run", **FIRST_IS_BEST).train()
    for checkpoint in list_checkpoints(tmp_path / "run"):
        state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        assert state["best_model_checkpoint"] == str(tmp_path / "run" / "checkpoint-6")
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    # the original's is another
    shutil.copy(*(copy / f"checkpoint-{step}" / "model.safetensors" for step in (12, 6)))
    trainer = resumed(copy, str(copy / "checkpoint-12"), **FIRST_IS_BEST)
    assert trainer.state.best_model_checkpoint == str(copy / "checkpoint-6")
    trainer.save_model()
    assert (copy / "model.safetensors").read_bytes() == (
        copy / "checkpoint-6" / "model.safetensors"
    ).read_bytes()


# of transformers' own trainer, and of ours on two devices
@pytest.mark.parametrize("num_processes", [0, 2])
def test_sums_start_at_a_checkpoint_of_another_number_of_processes(
    interrupted, resumed, whole, every_update, tmp_path, caplog, num_processes
):
    interrupted(6)
    checkpoint = tmp_path / "checkpoint-6"
    (checkpoint / "manifest.json").unlink()
    sums = (checkpoint / "progress_0.json").read_text(encoding="utf-8")
    (checkpoint / "progress_0.json").unlink()
    for rank in range(num_processes):
        (checkpoint / f"progress_{rank}.json").write_text(sums, encoding="utf-8")
    trainer = resumed()
    assert result(trainer)["weights"] == whole["weights"]
    assert "means of updates after 6." in caplog.text
    for name in ("loss", "nll"):
        expected = logged(every_update, name)
        assert logged(trainer, name)[1] == pytest.approx(sum(expected[6:8]) / 2, rel=1e-6)
    losses = logged(every_update, "loss")
    assert trainer.state.log_history[-1]["train_loss"] == pytest.approx(
        sum(losses[6:]) / 7, rel=1e-6
    )


def test_stream_is_resumed_with_its_number_of_processes(interrupted, resumed, dataset, tmp_path):
    options = {"train_dataset": dataset.to_iterable_dataset(num_shards=3), "eval_strategy": "no"}
    interrupted(6, **options)
    checkpoint = tmp_path / "checkpoint-6"
    (checkpoint / "manifest.json").unlink()
    sums = (checkpoint / "progress_0.json").read_text(encoding="utf-8")
    (checkpoint / "progress_1.json").write_text(sums, encoding="utf-8")
    with pytest.raises(ValueError, match="as many processes as it had, 2, got 1. Start 2."):
        resumed(**options)


def test_resume_warns_of_another_precision_and_of_no_missing_weights(
    make, resumed, tmp_path, library_log
):
    make(tmp_path, max_steps=3, bf16=True).train()
    library_log.clear()
    resumed(max_steps=4)
    assert "bf16 was True in the run to resume, and is False now." in library_log.text
    assert "missing keys" not in library_log.text


def test_resuming_draws_no_batch_that_was_trained_on(make, interrupted, tmp_path, monkeypatch):
    interrupted(13)
    trainer = make(tmp_path, max_steps=14)
    drawn = []
    split = trainer.train_batches._split
    monkeypatch.setattr(
        trainer.train_batches, "_split", lambda batch: drawn.append(batch) or split(batch)
    )
    trainer.train(resume_from_checkpoint=True)
    # update 14 is the fourth of the third epoch's five; one batch is made ahead
    assert len(drawn) == 2


# ---- failures ----


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optimizer.pt", "manifest.json"])
def test_full_disk_while_saving_leaves_the_last_checkpoint(
    make, resumed, whole, tmp_path, monkeypatch, name
):
    def full(write):
        def save(*args, **kwargs):
            if any(str(value).endswith(f"checkpoint-6/{name}") for value in args):
                raise OSError(28, "No space left on device")
            return write(*args, **kwargs)

        return save

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full(torch.save))
        patch.setattr(os, "replace", full(os.replace))
        with pytest.raises(OSError, match="No space left"):
            make(tmp_path, save_steps=3).train()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-3"]
    assert result(resumed()) == whole


def test_full_disk_at_a_snapshot_leaves_no_half_of_one(make, tmp_path, monkeypatch):
    def full(weights, path, **kwargs):
        path.write_bytes(b"half")
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("vaswani_transformer.training.averaging.save_file", full)
    with pytest.raises(safetensors.SafetensorError, match="No space left"):
        make(tmp_path, snapshot_steps=5, num_averaged_snapshots=2).train()
    assert not list((tmp_path / "snapshots").iterdir())


def test_callbacks_may_save_no_attributes(make, resumed, tmp_path):
    class Mine(TrainerCallback, ExportableState):
        def state(self):
            return {"args": {"n": 3}}

    make(tmp_path, max_steps=4, callbacks=[Mine()]).train()
    assert resumed(max_steps=6, callbacks=[Mine()]).state.global_step == 6


# ---- snapshots ----


@pytest.mark.slow
def test_snapshots_after_the_checkpoint_do_not_change_the_average_of_a_shorter_run(
    make, interrupted, resumed, tmp_path
):
    class DieAfter13(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 13:
                raise ZeroDivisionError

    options = {"snapshot_steps": 2, "num_averaged_snapshots": 2, "save_steps": 100}
    make(tmp_path / "whole", max_steps=8, **options).train()
    interrupted(6, max_steps=100, **options)
    with pytest.raises(ZeroDivisionError):
        resumed(max_steps=100, callbacks=[DieAfter13()], **options)
    assert [path.stem[-2:] for path in list_snapshots(tmp_path)] == ["04", "06", "10", "12"]
    resumed(max_steps=8, **options)
    expected, found = (
        {path.name: path.read_bytes() for path in list_snapshots(run)[-2:]}
        for run in (tmp_path / "whole", tmp_path)
    )
    assert found == expected


def test_process_that_does_not_save_clears_nothing(trained, monkeypatch):
    trainer = trained(max_steps=1)
    cleared = []
    monkeypatch.setattr(type(trainer.args), "should_save", False)
    monkeypatch.setattr(resuming, "clear_staging", cleared.append)
    trainer._save_checkpoint(trainer.model, None)
    assert cleared == []


def test_several_processes_agree_to_stop_every_ten_updates(trained, monkeypatch):
    trainer = trained(max_steps=1)
    monkeypatch.setattr(type(trainer.args), "world_size", 2)
    monkeypatch.setattr(trainer.accelerator, "reduce", lambda requests, how: requests + 1)
    for trainer.state.global_step in (9, 10):
        assert trainer._agree_to_stop() is (trainer.state.global_step == 10)


def test_an_evaluation_keeps_the_random_state_of_its_own_device(make, monkeypatch, tmp_path):
    """On a GPU also the GPU's, which dropout and sampling share."""
    trainer = make(tmp_path)
    kept = []
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext(kept.append(devices)))
    monkeypatch.setattr(transformers.Trainer, "_evaluate", lambda *_: None)
    for device in ("cpu", "cuda:1"):
        monkeypatch.setattr(type(trainer.args), "device", torch.device(device))
        trainer._evaluate()
    assert kept == [[], [torch.device("cuda", 1)]]
