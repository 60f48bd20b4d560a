# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Processes that die at any moment, and runs that go on from what they left."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("interrupted.py")
STEPS = 13

pytestmark = pytest.mark.slow


def start(output_dir, num_processes=1, **options):
    """The script as a process in a session of its own, which `options` may end before its time."""
    command = [sys.executable, str(SCRIPT), str(output_dir), json.dumps({"max_steps": STEPS, **options})]
    if num_processes > 1:
        command[1:1] = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={num_processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[2])}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)


def run(output_dir, num_processes=1, **options):
    """Exit status and errors of a whole run of the script."""
    process = start(output_dir, num_processes, **options)
    errors = process.communicate(timeout=900)[1]
    return process.returncode, errors


def result(output_dir):
    """Weights and log of a finished run."""
    weights = torch.load(output_dir / "weights.pt", weights_only=True)
    log = json.loads((output_dir / "log.json").read_text(encoding="utf-8"))
    return {name: tensor.tolist() for name, tensor in weights.items()}, log


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Function that gives the result of a run nobody disturbed."""
    found = {}

    def get(num_processes, **options):
        key = num_processes, *options.values()
        if key not in found:
            folder = tmp_path_factory.mktemp("whole")
            status, errors = run(folder, num_processes, **options)
            assert status == 0, errors[-3000:]
            found[key] = result(folder)
        return found[key]

    return get


def check_that_it_goes_on(folder, expected, num_processes, **options):
    status, errors = run(folder, num_processes, **options)
    assert status == 0, errors[-3000:]
    assert result(folder) == expected
    assert not (folder / "_unfinished").exists()


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
def test_run_killed_inside_a_save_goes_on_from_a_whole_checkpoint(tmp_path, whole, inside):
    assert run(tmp_path, inside=inside)[0] == -signal.SIGKILL
    found = "checkpoint-6" if inside == "rotate_checkpoints" else "checkpoint-3"
    assert (tmp_path / found / "manifest.json").is_file()
    check_that_it_goes_on(tmp_path, whole(1), 1)


@pytest.mark.multi_process
def test_two_processes_killed_inside_a_save_go_on_from_a_whole_checkpoint(tmp_path, whole):
    assert run(tmp_path, 2, inside="_save_sums")[0] != 0
    assert (tmp_path / "checkpoint-3" / "progress_1.json").is_file()
    check_that_it_goes_on(tmp_path, whole(2), 2)


@pytest.mark.heavy
@pytest.mark.multi_process
def test_two_processes_stopped_by_one_of_them_go_on_between_two_log_lines(tmp_path, whole):
    options = {"max_steps": 23}
    assert run(tmp_path, 2, number=signal.SIGTERM, step=7, **options)[0] != 0
    assert (tmp_path / "checkpoint-10" / "manifest.json").is_file()
    check_that_it_goes_on(tmp_path, whole(2, **options), 2, **options)


@pytest.mark.heavy
@pytest.mark.parametrize("num_processes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_run_stopped_at_random_moments_equals_the_one_that_was_not(tmp_path, whole, num_processes, number):
    options, generator = {"max_steps": 200}, random.Random(num_processes)
    expected = whole(num_processes, **options)
    started = time.monotonic()
    for _ in range(6):
        process = start(tmp_path, num_processes, **options)
        before = {path.name for path in tmp_path.iterdir()}
        while process.poll() is None and {path.name for path in tmp_path.iterdir()} <= before:
            time.sleep(0.05)  # until it has made updates of its own
        time.sleep(generator.uniform(0, 3))
        if process.poll() is None:
            os.killpg(process.pid, number)
        process.communicate(timeout=300)
        assert time.monotonic() - started < 3000
    check_that_it_goes_on(tmp_path, expected, num_processes, **options)


@pytest.mark.heavy
def test_run_on_a_full_disk_says_so_and_goes_on_when_there_is_room(small_disk, whole):
    folder = small_disk(700)
    status, errors = run(folder, save_total_limit=5)
    assert status == 1
    assert "No space left" in errors
    assert list(folder.glob("checkpoint-*"))
    small_disk(50_000, "-o", "remount")
    check_that_it_goes_on(folder, whole(1, save_total_limit=5), 1, save_total_limit=5)
