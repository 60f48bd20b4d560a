# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The end of a run as people read it."""

import pytest

from vaswani_transformer.training.recipes import get_recipe
from vaswani_transformer.training.summary import describe_results

RESULTS = {
    "train_steps": 8000,
    "train_pairs": 29000,
    "num_averaged_snapshots": 5,
    "best_checkpoint": None,
    "best_eval_step": 6000,
    "best_eval_sacrebleu": 38.123,
    "best_eval_perplexity": 5.4321,
    "best_eval_nll": 1.6924,
    "last_eval_sacrebleu": 37.5,
    "last_eval_perplexity": 5.5,
    "last_eval_nll": 1.7047,
    "average_eval_sacrebleu": 39.25,
    "average_eval_perplexity": 5.25,
    "average_eval_nll": 1.6582,
    "train_source_tokens": 3_000_000,
    "train_target_tokens": 5_000_000,
    "train_runtime": 4500.0,
    "train_tokens_per_second": 8e6 / 4500,
    "train_num_devices": 2,
    "train_flops_counted": 4e14,
    "train_flops_paper": 8e14,
}


def rows(folder, recipe="quickstart", **changes):
    """Lines of the summary by their first words."""
    title, *lines = describe_results(folder, get_recipe(recipe), {**RESULTS, **changes}).splitlines()
    width = max(len(line) - len(line.lstrip()) for line in lines)
    assert width == 2
    return title, {line[2:19].strip(): line[19:] for line in lines}


def test_summary_tells_best_and_average_with_bleu_of_both_cost_files_and_next_command(tmp_path):
    for name in ("model.safetensors", "train_results.json"):
        (tmp_path / name).touch()
    (tmp_path / "checkpoint-6000").mkdir()
    title, found = rows(tmp_path)
    assert title == "Trained quickstart: 8,000 updates on 29,000 pairs."
    assert found == {
        "best validation": "BLEU 38.12, perplexity 5.432, nll 1.6924, after 6,000 updates (checkpoint-6000)",
        "last validation": "BLEU 37.50, perplexity 5.500, nll 1.7047",
        "average": "BLEU 39.25, perplexity 5.250, nll 1.6582, of the last 5 snapshots; the model in the folder",
        "cost": "8,000,000 tokens in 1:15:00, 1,778 a second on 2 device(s); FLOPs 4.00e14 counted, 8.00e14 as in the "
        "paper's Table 2",
        "files": f"{tmp_path}: model.safetensors, train_results.json",
        "next": f"vaswani-transformer evaluate --model {tmp_path}",
    }


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, "average"),
        ({"num_averaged_snapshots": 0}, "last validation"),
        ({"num_averaged_snapshots": 0, "best_checkpoint": "run/checkpoint-6000"}, "best validation"),
    ],
)
def test_summary_says_which_model_was_kept(tmp_path, changes, kept):
    found = rows(tmp_path, **changes)[1]
    assert [name for name, text in found.items() if text.endswith("; the model in the folder")] == [kept]


def test_summary_warns_of_an_average_that_is_worse_than_what_it_was_made_of(tmp_path):
    assert "warning" not in rows(tmp_path)[1]
    assert rows(tmp_path, average_eval_nll=1.7048)[1]["warning"].startswith("the average is worse than the last")


def test_summary_says_why_a_training_ended_early(tmp_path):
    assert "stopped" not in rows(tmp_path, recipe="multi30k-tiny")[1]
    stopped = rows(tmp_path, recipe="multi30k-tiny", train_steps=7999)[1]["stopped"]
    assert stopped.startswith("before update 8,000, as 10 validations were not better")


def test_summary_says_when_the_best_validation_left_no_checkpoint(tmp_path):
    assert rows(tmp_path)[1]["best validation"].endswith("(no checkpoint kept)")


def test_summary_without_validations_and_test_set_asks_for_a_translation(tmp_path):
    bare = {key: value for key, value in RESULTS.items() if "eval" not in key}
    text = describe_results(tmp_path / "a run", get_recipe("multi30k-tiny"), bare)
    assert "validation" not in text
    assert text.endswith(f"vaswani-transformer translate --model '{tmp_path}/a run' --input FILE")
