# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest

from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments


def make_arguments(tmp_path, **overrides):
    return VaswaniTransformerTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **overrides)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", None),
        ("warmup_steps", 4000),
        ("adam_beta1", 0.9),
        ("adam_beta2", 0.98),
        ("adam_epsilon", 1e-9),
        ("weight_decay", 0.0),
        ("max_grad_norm", 0.0),
        ("label_smoothing_factor", 0.1),
        ("max_source_tokens_per_batch", 25000),
        ("max_target_tokens_per_batch", 25000),
        ("num_averaged_snapshots", 5),
        ("ddp_broadcast_buffers", False),
    ],
)
def test_arguments_default_to_the_paper(tmp_path, name, value):
    assert getattr(make_arguments(tmp_path), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("warmup_steps", 0),
        ("warmup_steps", 0.1),
        ("label_smoothing_factor", 1.0),
        ("max_source_tokens_per_batch", 0),
        ("max_target_tokens_per_batch", -1),
        ("max_padded_tokens_per_device", 0),
        ("snapshot_steps", 0),
        ("num_averaged_snapshots", -1),
    ],
)
def test_arguments_refuse_values_out_of_range(tmp_path, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be .*got {value}"):
        make_arguments(tmp_path, **{name: value})


def test_arguments_accept_another_schedule_without_warmup(tmp_path):
    arguments = make_arguments(tmp_path, lr_scheduler_type="linear", warmup_steps=0, learning_rate=1e-3)
    assert arguments.warmup_steps == 0


@pytest.mark.parametrize(("metric", "greater"), [("sacrebleu", True), ("nll", False), ("eval_loss", False)])
def test_arguments_know_which_way_a_metric_is_better(tmp_path, metric, greater):
    assert make_arguments(tmp_path, metric_for_best_model=metric).greater_is_better is greater
