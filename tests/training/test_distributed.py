# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""One process against two: the same counts, translations and resuming; for weights and losses see
test_layouts.py.
"""

import json
import re
from pathlib import Path

import processes
import pytest
import torch

SCRIPT = Path(__file__).with_name("two_processes.py")

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]


def start(output_dir, num_processes, **options):
    """Exit status and errors of one run of the script."""
    output_dir.mkdir(exist_ok=True)
    status, _, errors = processes.run(
        [SCRIPT, output_dir, json.dumps(options)], output_dir, num_processes
    )
    return status, errors


def run(output_dir, num_processes, **options):
    """Results and weights of one run of the script."""
    status, errors = start(output_dir, num_processes, **options)
    assert status == 0, errors[-3000:]
    results = json.loads((output_dir / "results.json").read_text(encoding="utf-8"))
    return results, torch.load(output_dir / "weights.pt", weights_only=True)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return run(tmp_path_factory.mktemp("one"), 1, max_steps=7, dtype="float64")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return run(tmp_path_factory.mktemp("two"), 2, max_steps=7, dtype="float64")


def test_two_processes_count_the_same_tokens_as_one(one, two):
    for name in ("train_source_tokens", "train_target_tokens"):
        assert two[0]["cost"][name] == one[0]["cost"][name]
    assert two[0]["total_flos"] == one[0]["total_flos"]


def test_two_processes_are_two_devices(two):
    cost = two[0]["cost"]
    seconds = (cost["train_source_tokens"] + cost["train_target_tokens"]) / cost[
        "train_tokens_per_second"
    ]
    assert (cost["train_num_devices"], cost["train_device_seconds"]) == (
        2,
        pytest.approx(2 * seconds),
    )
    assert cost["train_flops_paper"] == pytest.approx(
        2 * seconds * cost["train_matrix_flops_per_second"]
    )


def test_two_processes_return_one_translation_per_sentence_in_order(one, two):
    assert len(two[0]["texts"]) == 13
    assert two[0]["texts"] == one[0]["texts"]


@pytest.mark.parametrize(
    "stream",
    [False, pytest.param(True, marks=pytest.mark.heavy)],
    ids=["later-epoch", "stream"],
)
def test_two_processes_resume_bit_for_bit(tmp_path, stream):
    common = {
        "max_steps": 12,
        "dropout": 0.1,
        "save_strategy": "steps",
        "save_steps": 7,
        "stream": stream,
    }
    expected, whole = run(tmp_path / "whole", 2, **common)
    resumed, weights = run(
        tmp_path / "resumed", 2, resume=str(tmp_path / "whole" / "checkpoint-7"), **common
    )
    assert (resumed["total_flos"], resumed["nll"]) == (expected["total_flos"], expected["nll"])
    torch.testing.assert_close(weights, whole, rtol=0, atol=0)


def test_two_processes_save_models_alone(tmp_path):
    run(
        tmp_path,
        2,
        max_steps=6,
        save_strategy="steps",
        save_steps=1,
        save_only_model=True,
        save_total_limit=1,
    )
    assert {"model.safetensors", "progress_0.json", "progress_1.json"} <= {
        path.name for path in (tmp_path / "checkpoint-6").iterdir()
    }


@pytest.mark.parametrize("stream", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_two_processes_end_at_an_id_outside_the_vocabulary_which_both_name_unless_one_reads_it(
    tmp_path, stream
):
    status, errors = start(tmp_path, 2, max_steps=7, wrong_row=17, stream=stream)
    message = r"ValueError: `labels` must hold token ids in \[0, 290\), got 5000 in \["
    ranks = {*re.findall(rf"rank(\d)\]: {message}", errors)}
    assert status != 0
    assert ranks if stream else ranks == {"0", "1"}, errors[-3000:]
