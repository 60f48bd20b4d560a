# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Processes that die in the middle of a save, and runs that go on from what they left."""

import json
import signal
from pathlib import Path

import processes
import pytest
import torch

SCRIPT = Path(__file__).with_name("interrupted.py")
STEPS = 13

pytestmark = pytest.mark.slow


def run(output_dir, num_processes=1, **options):
    """Exit status and errors of a whole run of the script."""
    words = [SCRIPT, output_dir / "run", json.dumps({"max_steps": STEPS, **options})]
    status, _, errors = processes.run(words, output_dir, num_processes)
    return status, errors


def result(output_dir):
    """Weights and log of a finished run."""
    weights = torch.load(output_dir / "run" / "weights.pt", weights_only=True)
    log = json.loads((output_dir / "run" / "log.json").read_text(encoding="utf-8"))
    return {name: tensor.tolist() for name, tensor in weights.items()}, log


def check_that_it_goes_on(folder, whole, num_processes=1):
    for place in (folder, whole):
        status, errors = run(place, num_processes)
        assert status == 0, errors[-3000:]
    assert result(folder) == result(whole)
    assert not (folder / "run" / "_unfinished").exists()


@pytest.mark.parametrize(
    "inside",
    [
        "publish_checkpoint",
        *(
            pytest.param(name, marks=pytest.mark.heavy)
            for name in ("_save_optimizer_and_scheduler", "_save_sums", "rotate_checkpoints")
        ),
    ],
)
def test_run_killed_inside_a_save_goes_on_from_a_whole_checkpoint(tmp_path, tmp_path_factory, inside):
    assert run(tmp_path, inside=inside)[0] == -signal.SIGKILL
    found = "checkpoint-6" if inside == "rotate_checkpoints" else "checkpoint-3"
    assert (tmp_path / "run" / found / "manifest.json").is_file()
    check_that_it_goes_on(tmp_path, tmp_path_factory.mktemp("whole"))


@pytest.mark.multi_process
def test_two_processes_killed_inside_a_save_go_on_from_a_whole_checkpoint(tmp_path, tmp_path_factory):
    assert run(tmp_path, 2, inside="_save_sums")[0] != 0
    assert (tmp_path / "run" / "checkpoint-3" / "progress_1.json").is_file()
    check_that_it_goes_on(tmp_path, tmp_path_factory.mktemp("whole"), 2)
