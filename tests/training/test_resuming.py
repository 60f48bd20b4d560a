# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A training that stops and goes on is the one that never stopped: weights, logs and what they rest on."""

import json
import os
import shutil

import pytest
import safetensors.torch
import torch
from faults import without_times
from torch.utils._pytree import tree_map_only
from toy_language import SignalIn, build_trainer
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_callback import ExportableState

from vaswani_transformer.data import CleaningReport
from vaswani_transformer.training import resuming
from vaswani_transformer.training.averaging import list_snapshots
from vaswani_transformer.training.checkpoints import list_checkpoints

# 6 updates an epoch, a log line every 4, an evaluation every 6, a checkpoint every 3
COMMON = {"dropout": 0.1, "max_steps": 13, "logging_steps": 4, "eval_strategy": "steps", "eval_steps": 6}
COMMON |= {"save_strategy": "steps", "save_steps": 3, "predict_with_generate": False}


def result(trainer):
    """What must be equal, bit for bit."""
    return {
        "log": [without_times(line) for line in trainer.state.log_history],
        "weights": {name: tensor.tolist() for name, tensor in trainer.model.state_dict().items()},
        "optimizer": tree_map_only(torch.Tensor, torch.Tensor.tolist, trainer.optimizer.state_dict()),
        "schedule": trainer.lr_scheduler.state_dict(),
    }


@pytest.fixture(scope="module")
def make(tokenizer, dataset):
    def make(folder, train_dataset=dataset, **options):
        return build_trainer(
            tokenizer, train_dataset, folder, eval_dataset=dataset.select(range(6)), **{**COMMON, **options}
        )

    return make


@pytest.fixture(scope="module")
def whole(make, tmp_path_factory):
    trainer = make(tmp_path_factory.mktemp("whole"))
    output = trainer.train()
    assert output.training_loss == trainer.state.log_history[-1]["train_loss"]
    return result(trainer)


def interrupted(make, folder, callback, **options):
    with pytest.raises(KeyboardInterrupt):
        make(folder, extra={"callbacks": [callback]}, **options).train()


@pytest.mark.parametrize("step", [1, 4, 6, 7, 13])
def test_run_that_was_stopped_equals_the_one_that_was_not(make, whole, tmp_path, step):
    interrupted(make, tmp_path, SignalIn(step))
    resumed = make(tmp_path)
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed) == whole


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_run_with_bpe_dropout_that_was_stopped_equals_the_one_that_was_not(make, whole, tmp_path, workers):
    options = {"bpe_dropout": 0.3, "dataloader_num_workers": workers, "dataloader_persistent_workers": workers > 0}
    uninterrupted = make(tmp_path / "whole", **options)
    uninterrupted.train()
    interrupted(make, tmp_path / "parts", SignalIn(10), **options)  # in the second epoch
    resumed = make(tmp_path / "parts", **options)
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed) == result(uninterrupted)
    assert result(resumed)["weights"] != whole["weights"]


@pytest.mark.slow
def test_end_of_an_epoch_is_logged_evaluated_and_saved_though_the_run_stopped_there(make, tmp_path):
    options = {f"{kind}_strategy": "epoch" for kind in ("logging", "eval", "save")}
    uninterrupted = make(tmp_path / "whole", **options)
    uninterrupted.train()
    interrupted(make, tmp_path / "parts", SignalIn(6), **options)
    resumed = make(tmp_path / "parts", **options)
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed) == result(uninterrupted)


def test_loss_of_the_training_is_the_mean_over_all_updates(make, whole, tmp_path):
    trainer = make(tmp_path, logging_steps=1, eval_strategy="no")
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert whole["log"][-1]["train_loss"] == pytest.approx(sum(losses) / 13, rel=1e-6)


def test_resuming_a_finished_run_trains_no_further(make, whole, tmp_path):
    make(tmp_path).train()
    again = make(tmp_path)
    again.train(resume_from_checkpoint=True)
    assert (again.state.global_step, result(again)["weights"]) == (13, whole["weights"])


def test_intervals_that_change_at_a_resume_take_effect(make, tmp_path):
    interrupted(make, tmp_path, SignalIn(7))
    resumed = make(tmp_path, logging_steps=2, eval_steps=5, save_steps=1)
    resumed.train(resume_from_checkpoint=True)
    log = resumed.state.log_history
    assert [line["step"] for line in log if "loss" in line] == [4, 8, 10, 12]
    assert [line["step"] for line in log if "eval_loss" in line] == [6, 10, 13]
    assert [path.name for path in list_checkpoints(tmp_path)][-3:] == [f"checkpoint-{step}" for step in (11, 12, 13)]


@pytest.mark.slow
def test_early_stopping_counts_on_after_a_resume(make, tmp_path):
    def build(folder, callbacks=()):
        options = {"metric_for_best_model": "loss", "greater_is_better": True, "load_best_model_at_end": True}
        extra = {"callbacks": [EarlyStoppingCallback(2), *callbacks]}
        return make(folder, eval_steps=3, max_steps=50, extra=extra, **options)

    uninterrupted = build(tmp_path / "whole")
    uninterrupted.train()
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "parts", [SignalIn(7)]).train()
    resumed = build(tmp_path / "parts")
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == uninterrupted.state.global_step == 9
    assert resumed.state.best_model_checkpoint == str(tmp_path / "parts" / "checkpoint-3")
    again = build(tmp_path / "parts")
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 9


def test_callback_that_is_new_in_the_resumed_run_is_saved(make, tmp_path):
    interrupted(make, tmp_path, SignalIn(7))
    options = {"metric_for_best_model": "loss", "load_best_model_at_end": True, "save_steps": 6}
    resumed = make(tmp_path, extra={"callbacks": [EarlyStoppingCallback(9)]}, **options)
    resumed.train(resume_from_checkpoint=True)
    state = json.loads((tmp_path / "checkpoint-13" / "trainer_state.json").read_text(encoding="utf-8"))
    assert "EarlyStoppingCallback" in state["stateful_callbacks"]


def test_best_checkpoint_is_named_by_its_place(make, tmp_path):
    options = {"metric_for_best_model": "loss", "load_best_model_at_end": True, "save_steps": 6}
    make(tmp_path, **options).train()
    for checkpoint in list_checkpoints(tmp_path):
        state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        assert state["best_model_checkpoint"] in [str(path) for path in list_checkpoints(tmp_path)]


def test_resumed_copy_of_a_run_ends_with_its_own_best_weights(make, tmp_path):
    options = {
        "metric_for_best_model": "loss",
        "greater_is_better": True,
        "load_best_model_at_end": True,
        "save_steps": 6,
    }
    make(tmp_path / "run", **options).train()
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    shutil.copy(*(copy / f"checkpoint-{step}" / "model.safetensors" for step in (12, 6)))  # the original's is another
    trainer = make(copy, **options)
    trainer.train(resume_from_checkpoint=str(copy / "checkpoint-12"))
    assert trainer.state.best_model_checkpoint == str(copy / "checkpoint-6")
    trainer.save_model()
    assert (copy / "model.safetensors").read_bytes() == (copy / "checkpoint-6" / "model.safetensors").read_bytes()


def test_checkpoint_without_sums_is_resumed_with_the_same_weights(make, whole, tmp_path):
    interrupted(make, tmp_path, SignalIn(7))
    for name in ("manifest.json", "progress_0.json"):
        (tmp_path / "checkpoint-7" / name).unlink()
    resumed = make(tmp_path)
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed)["weights"] == whole["weights"]
    assert [line["step"] for line in resumed.state.log_history if "nll" in line] == [4, 8, 12]


def test_another_precision_than_before_is_told(make, tmp_path, caplog):
    make(tmp_path, max_steps=3, bf16=True).train()
    make(tmp_path, max_steps=4).train(resume_from_checkpoint=True)
    assert "bf16 was True in the run to resume, and is False now." in caplog.text


def test_sums_of_another_number_of_processes_are_shared(make, whole, tmp_path):
    interrupted(make, tmp_path, SignalIn(7))
    checkpoint = tmp_path / "checkpoint-7"
    (checkpoint / "manifest.json").unlink()
    progress = json.loads((checkpoint / "progress_0.json").read_text(encoding="utf-8"))
    for rank, part in ((0, 0.25), (1, 0.75)):  # losses are averaged over processes, nll is summed
        shares = {
            "loss_since_log": 2 * part * progress["loss_since_log"],
            "nll_since_log": part * progress["nll_since_log"],
        }
        (checkpoint / f"progress_{rank}.json").write_text(json.dumps({**progress, **shares}), encoding="utf-8")
    resumed = make(tmp_path)
    resumed.train(resume_from_checkpoint=True)
    lines = [next(line for line in log if line["step"] == 8) for log in (resumed.state.log_history, whole["log"])]
    assert [lines[0][name] for name in ("loss", "nll")] == pytest.approx([lines[1][name] for name in ("loss", "nll")])


def test_resuming_draws_no_batch_that_was_trained_on(make, tmp_path, monkeypatch):
    interrupted(make, tmp_path, SignalIn(13))
    resumed = make(tmp_path, max_steps=14)
    drawn = []
    split = resumed.train_batches._split
    monkeypatch.setattr(resumed.train_batches, "_split", lambda batch: drawn.append(batch) or split(batch))
    resumed.train(resume_from_checkpoint=True)
    assert len(drawn) == 2  # update 14 is the fourth of the third epoch's five; one batch is made ahead


# ---- failures ----


def test_resume_warns_of_no_missing_weights(make, tmp_path, library_log):
    make(tmp_path, max_steps=3).train()
    library_log.clear()
    make(tmp_path, max_steps=4).train(resume_from_checkpoint=True)
    assert "missing keys" not in library_log.text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "progress_0.json", "manifest.json"])
def test_full_disk_while_saving_leaves_the_last_checkpoint(make, whole, tmp_path, monkeypatch, name):
    def full(write):
        def save(*args, **kwargs):
            if any(name in str(value) and "checkpoint-6" in str(value) for value in args):
                if not name.endswith(".json"):
                    (tmp_path / "_unfinished" / "checkpoint-6" / name).write_bytes(b"half")
                raise OSError(28, "No space left on device")
            return write(*args, **kwargs)

        return save

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full(torch.save))
        patch.setattr(safetensors.torch, "save_file", full(safetensors.torch.save_file))
        patch.setattr("transformers.modeling_utils.safe_save_file", full(safetensors.torch.save_file))
        patch.setattr(os, "replace", full(os.replace))
        with pytest.raises(OSError, match="No space left"):
            make(tmp_path).train()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-3"]
    resumed = make(tmp_path)
    resumed.train(resume_from_checkpoint=True)
    assert result(resumed) == whole


def test_failure_while_saving_shows_as_it_is(make, tmp_path, monkeypatch):
    failure = RuntimeError("an optimizer state that cannot be pickled")

    def fail(*args, **kwargs):
        raise failure

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(RuntimeError) as raised:
        make(tmp_path).train()
    assert raised.value is failure
    assert failure.args == ("an optimizer state that cannot be pickled",)


def test_full_disk_at_a_snapshot_leaves_no_half_of_one(make, tmp_path, monkeypatch):
    def full(weights, path, **kwargs):
        path.write_bytes(b"half")
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("vaswani_transformer.training.averaging.save_file", full)
    with pytest.raises(safetensors.SafetensorError, match="No space left"):
        make(tmp_path, snapshot_steps=5, num_averaged_snapshots=2).train()
    assert not list((tmp_path / "snapshots").iterdir())


def test_callbacks_may_save_no_attributes(make, tmp_path):
    class Mine(TrainerCallback, ExportableState):
        def state(self):
            return {"args": {"n": 3}}

    options = {"extra": {"callbacks": [Mine()]}, "save_steps": 2}
    make(tmp_path, max_steps=4, **options).train()
    assert make(tmp_path, max_steps=6, **options).train(resume_from_checkpoint=True).global_step == 6


def test_library_functions_are_its_own_again_after_a_resume(make, tmp_path):
    import transformers.trainer

    before = transformers.trainer.skip_first_batches
    interrupted(make, tmp_path, SignalIn(7))
    make(tmp_path).train(resume_from_checkpoint=True)
    assert transformers.trainer.skip_first_batches is before


# ---- snapshots ----


@pytest.mark.slow
def test_snapshots_after_the_checkpoint_do_not_change_the_average_of_a_shorter_run(make, tmp_path):
    options = {"snapshot_steps": 2, "num_averaged_snapshots": 2, "save_steps": 100}
    whole = make(tmp_path / "whole", max_steps=8, **options)
    whole.train()
    interrupted(make, tmp_path / "parts", SignalIn(6), max_steps=100, **options)
    dying = make(tmp_path / "parts", max_steps=100, extra={"callbacks": [DieAfter(13)]}, **options)
    with pytest.raises(ZeroDivisionError):
        dying.train(resume_from_checkpoint=True)
    assert [path.stem[-2:] for path in list_snapshots(tmp_path / "parts")] == ["04", "06", "10", "12"]
    make(tmp_path / "parts", max_steps=8, **options).train(resume_from_checkpoint=True)
    paths = [list_snapshots(tmp_path / folder)[-2:] for folder in ("whole", "parts")]
    assert [path.name for path in paths[0]] == [path.name for path in paths[1]]
    assert [path.read_bytes() for path in paths[0]] == [path.read_bytes() for path in paths[1]]


class DieAfter(TrainerCallback):
    """Ends a run without a checkpoint."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise ZeroDivisionError


# ---- streams ----


class Stream:
    """Endless batches of one data set, with the interface of a loader that knows its place."""

    report = CleaningReport(0, {})

    def __init__(self, batches):
        self.batches, self.place = batches, 0

    def __iter__(self):
        while True:
            self.place += 1
            yield self.batches[(self.place - 1) % len(self.batches)]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2])
def test_stream_goes_on_at_the_place_in_the_checkpoint(tokenizer, dataset, tmp_path, monkeypatch, steps):
    def build(folder, **options):
        options = {**COMMON, "gradient_accumulation_steps": steps, "eval_strategy": "no", **options}
        trainer = build_trainer(tokenizer, dataset.to_iterable_dataset(), folder, **options)
        rows = [[dataset[index] for index in range(start, start + 5)] for start in range(0, 60, 5)]
        trainer._train_loader = Stream([trainer.data_collator(batch) for batch in rows])
        monkeypatch.setattr(trainer, "get_train_dataloader", lambda: trainer._train_loader)
        return trainer

    monkeypatch.setattr(resuming, "skip_first_batches", None)
    uninterrupted = build(tmp_path / "whole")
    uninterrupted.train()
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "parts", extra={"callbacks": [SignalIn(7)]}).train()
    resumed = build(tmp_path / "parts")
    resumed.train(resume_from_checkpoint=True)
    assert resumed._train_loader.place == 13 * steps
    assert result(resumed) == result(uninterrupted)


def test_process_that_does_not_save_clears_nothing(make_trainer, monkeypatch):
    trainer, cleared = make_trainer(max_steps=1), []
    trainer.train()
    monkeypatch.setattr(type(trainer.args), "should_save", False)
    monkeypatch.setattr(resuming, "clear_staging", cleared.append)
    trainer._save_checkpoint(trainer.model, None)
    assert cleared == []
