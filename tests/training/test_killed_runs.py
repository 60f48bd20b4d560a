# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The command `train --resume`, killed at any moment and repeated until it is done: the end is the
same.
"""

import os
import random
import shutil
import signal
import time

import pytest
from faults import check_same_end, finish, outcome, run, start, train_command, wait_until

pytestmark = pytest.mark.heavy

LARGER = {"d_model": "128", "d_ff": "512"}  # weights of 2 MB, whose writing takes a while
SECONDS_OF_A_RUN = 8

# What a process is doing, by the newest files in the run's folder.
PHASES = {
    "writes a snapshot": "snapshots/*.part",
    "writes a checkpoint": "_unfinished/*",
    "publishes a checkpoint": "_unfinished/*/manifest.json*",
    "averages": "_unfinished/model/model.safetensors.part",
    "writes the final model": "_unfinished/model",
    "writes results and card": "model.safetensors",
}


def any_new(folder, pattern, since):
    """Whether a file was written after a moment: what an earlier process left does not count."""
    try:
        return any(path.stat().st_mtime > since for path in folder.glob(pattern))
    except FileNotFoundError:
        return False


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(60)


def test_run_killed_ten_times_ends_as_the_undisturbed_one(workplace):
    command, run_folder, generator, kills = (
        train_command(**LARGER),
        workplace / "run",
        random.Random(0),
        [],
    )
    assert run(train_command("whole", **LARGER), workplace)[0] == 0
    expected = outcome(workplace / "whole")
    for phase in ["starts", "trains", *PHASES, "trains", "trains"]:
        since = time.time()
        process = start(command, workplace)
        if phase in PHASES:
            wait_until(lambda: any_new(run_folder, PHASES[phase], since), process)  # noqa: B023
        else:
            process.join(generator.uniform(0, 2 if phase == "starts" else SECONDS_OF_A_RUN))
        kill(process)
        kills += [phase] * (process.returncode == -signal.SIGKILL)
        if process.returncode == 0:
            check_same_end(run_folder, expected)
            shutil.rmtree(run_folder)
    assert run(command, workplace)[0] == 0
    check_same_end(run_folder, expected)
    print(f"{len(kills)} kills of a process that {', '.join(kills)}")
    assert len(kills) >= 5


@pytest.mark.parametrize(
    ("sign", "statuses"),
    [
        ("cache/*", {-signal.SIGTERM}),
        ("run/checkpoint-10", {130}),
        ("run/model.safetensors", {-signal.SIGTERM, 0}),
        ("run/train_results.json", {-signal.SIGTERM, 0}),
    ],
)
def test_sigterm_loses_nothing_and_in_the_training_saves_a_checkpoint(
    workplace, undisturbed, sign, statuses
):
    process = start(train_command(), workplace)
    assert wait_until(lambda: list(workplace.glob(sign)), process)
    os.killpg(process.pid, signal.SIGTERM)
    status, errors = finish(process, workplace, timeout=30)  # after which schedulers kill
    assert status in statuses
    if status == 130:
        stopped_after = int(errors.split("Stopped after update ")[1].split(",")[0])
        assert 10 <= stopped_after < 60
        assert (workplace / "run" / f"checkpoint-{stopped_after}" / "manifest.json").is_file()
    assert run(train_command(), workplace)[0] == 0
    check_same_end(workplace / "run", undisturbed)
