# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch
from toy_language import check_same_weights, logged

from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments
from vaswani_transformer.training.train import training_arguments


def make_arguments(tmp_path, **overrides):
    return VaswaniTransformerTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **overrides)


PAPER = {
    "learning_rate": None,
    "warmup_steps": 4000,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "adam_epsilon": 1e-9,
    "weight_decay": 0.0,
    "max_grad_norm": 0.0,
    "label_smoothing_factor": 0.1,
    "max_source_tokens_per_batch": 25000,
    "max_target_tokens_per_batch": 25000,
    "num_averaged_snapshots": 5,
    "ddp_broadcast_buffers": False,
}


def test_arguments_default_to_the_paper(tmp_path):
    arguments = make_arguments(tmp_path)
    assert {name: getattr(arguments, name) for name in PAPER} == PAPER


@pytest.mark.parametrize("options", [{}, {"lr_scheduler_type": "linear"}, {"learning_rate": 1e-3}])
def test_arguments_refuse_the_papers_schedule_or_rate_without_warmup(tmp_path, options):
    for value in (0, -1, -0.5):
        with pytest.raises(ValueError, match=f"`warmup_steps` must be .*got {value}"):
            make_arguments(tmp_path, warmup_steps=value, **options)
    assert (
        make_arguments(
            tmp_path, lr_scheduler_type="linear", warmup_steps=0, learning_rate=1e-3
        ).warmup_steps
        == 0
    )


def set_in_the_call(arguments, **values):
    arguments.set_lr_scheduler("inverse_sqrt", **values)


def set_as_attributes(arguments, *, num_epochs=3, **values):
    for name, value in {"num_train_epochs": num_epochs, **values}.items():
        setattr(arguments, name, value)


@pytest.mark.parametrize("set_values", [set_in_the_call, set_as_attributes])
@pytest.mark.parametrize("length", [{"max_steps": 11}, {"num_epochs": 2, "max_steps": -1}])
def test_warmup_below_1_is_a_share_of_the_training_however_it_is_given(
    make_trainer, set_values, length
):
    trainer = make_trainer()
    set_values(trainer.args, warmup_steps=0.3, **length)
    trainer.train()
    updates = trainer.state.global_step
    warmup = math.ceil(0.3 * updates)  # as transformers counts it
    peak = (trainer.model.config.d_model * warmup) ** -0.5
    expected = [
        peak * min(step / warmup, math.sqrt(warmup / step)) for step in range(1, updates + 1)
    ]
    assert 1 < warmup < updates
    assert logged(trainer, "learning_rate") == pytest.approx(expected)


def test_training_refuses_a_schedule_that_was_set_without_warmup(make_trainer):
    trainer = make_trainer()
    trainer.args.set_lr_scheduler("inverse_sqrt", max_steps=4)
    with pytest.raises(ValueError, match="`warmup_steps` must be .*got 0"):
        trainer.train()


@pytest.mark.parametrize(
    ("metric", "greater"), [("sacrebleu", True), ("nll", False), ("eval_loss", False)]
)
def test_arguments_know_which_way_a_metric_is_better(tmp_path, metric, greater):
    assert make_arguments(tmp_path, metric_for_best_model=metric).greater_is_better is greater


# ---- arguments without effect ----

NO_EFFECT = {
    "per_device_train_batch_size": 32,
    "train_sampling_strategy": "sequential",
    "dataloader_drop_last": True,
    "lr_scheduler_kwargs": {"timescale": 7},
    "auto_find_batch_size": True,
    "dataloader_in_order": False,
    "eval_do_concat_batches": False,
}


class Endless(torch.utils.data.IterableDataset):
    """Rows that the library batches by sentences."""

    def __init__(self, rows):
        self.rows = list(rows)

    def __iter__(self):
        while True:
            yield from self.rows


def warned(caplog):
    """Arguments that warnings begin with."""
    return [
        each.message.split("`")[1] for each in caplog.records if "has no effect" in each.message
    ]


@pytest.mark.parametrize("is_stream", [False, True])
def test_arguments_without_effect_warn_once(trained, dataset, caplog, is_stream):
    options = {
        "train_dataset": dataset.to_iterable_dataset() if is_stream else dataset,
        "max_steps": 2,
    }
    check_same_weights(trained(**options), trained(**options, **NO_EFFECT))
    assert sorted(warned(caplog)) == sorted(NO_EFFECT)


def test_argument_does_not_warn_where_it_has_its_effect(make_trainer, dataset, caplog):
    options = {
        "per_device_train_batch_size": 3,
        "lr_scheduler_type": "linear",
        "learning_rate": 1e-3,
    }
    trainer = make_trainer(train_dataset=Endless(dataset), **options, lr_scheduler_kwargs={})
    assert next(iter(trainer.get_train_dataloader()))["input_ids"].shape[0] == 3
    make_trainer(
        lr_scheduler_type="cosine", lr_scheduler_kwargs={"num_cycles": 2.0}, learning_rate=1.0
    )
    assert warned(caplog) == []


def test_workers_are_started_as_asked(make_trainer):
    trainer = make_trainer(dataloader_num_workers=1, dataloader_multiprocessing_context="spawn")
    assert trainer.get_train_dataloader().multiprocessing_context.get_start_method() == "spawn"


def test_what_changes_batches_leaves_evaluations_whole_and_in_order(make_trainer, dataset):
    options = {"per_device_eval_batch_size": 5, "predict_with_generate": False}
    changed = {"train_sampling_strategy": "group_by_length", "eval_do_concat_batches": False}
    changed["dataloader_drop_last"] = True
    found, usual = (
        make_trainer(**options, **each).predict(dataset.select(range(23))) for each in (changed, {})
    )
    assert np.array_equal(found.label_ids, usual.label_ids)
    assert found.metrics["test_nll"] == pytest.approx(usual.metrics["test_nll"])


@pytest.mark.parametrize(
    ("report_to", "names"),
    [("tensorboard", ["tensorboard"]), (["none"], []), (["wandb", "mlflow"], ["wandb", "mlflow"])],
)
def test_report_to_takes_what_the_library_takes(report_to, names):
    assert training_arguments(Recipe(), "run", use_cpu=True, report_to=report_to).report_to == names
