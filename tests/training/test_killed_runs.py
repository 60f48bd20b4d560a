# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The command `train --resume`, killed at any moment and repeated until it is done: the end is the same."""

import os
import random
import shutil
import signal
import time

import pytest
from faults import COMMAND, check_same_end, finish, outcome, run, start, train_command, wait_until, write_corpus

pytestmark = pytest.mark.heavy

LARGER = {"d_model": "128", "d_ff": "512"}  # weights of 2 MB, whose writing takes a while
SECONDS_OF_A_RUN = 8


def names(folder):
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def is_new(path, since):
    """Whether a file or folder was written after a moment: what an earlier process left does not count."""
    try:
        return path.stat().st_mtime > since
    except FileNotFoundError:
        return False


def any_new(folder, since, ending=""):
    return any(name.endswith(ending) and is_new(folder / name, since) for name in names(folder))


# What a process is doing, as the run's folder shows.
PHASES = {
    "writes a snapshot": lambda run, since: any_new(run / "snapshots", since, ".part"),
    "writes a checkpoint": lambda run, since: any_new(run / "_unfinished", since),
    "publishes a checkpoint": lambda run, since: any(
        is_new(path, since) for path in run.glob("_unfinished/*/manifest.json*")
    ),
    "averages": lambda run, since: is_new(run / "_unfinished" / "model" / "model.safetensors.part", since),
    "writes the final model": lambda run, since: is_new(run / "_unfinished" / "model", since),
    "writes results and card": lambda run, since: is_new(run / "model.safetensors", since),
}


def kill(process, number=signal.SIGKILL):
    process.send_signal(number)
    process.wait(60)


def test_run_killed_ten_times_ends_as_the_undisturbed_one(tmp_path):
    write_corpus(tmp_path)
    command, run_folder, generator, kills = train_command(**LARGER), tmp_path / "run", random.Random(0), []
    assert run(train_command("whole", **LARGER), tmp_path)[0] == 0
    expected = outcome(tmp_path / "whole")
    for phase in ["starts", "trains", *PHASES, "trains", "trains"]:
        since = time.time()
        process = start(command, tmp_path)
        if phase in PHASES:
            wait_until(lambda: PHASES[phase](run_folder, since), process)  # noqa: B023
        else:
            process.join(generator.uniform(0, 2 if phase == "starts" else SECONDS_OF_A_RUN))
        kill(process)
        kills += [phase] * (process.returncode == -signal.SIGKILL)
        if process.returncode == 0:
            check_same_end(run_folder, expected)
            shutil.rmtree(run_folder)
    assert run(command, tmp_path)[0] == 0
    check_same_end(run_folder, expected)
    print(f"{len(kills)} kills of a process that {', '.join(kills)}")
    assert len(kills) >= 5


@pytest.mark.parametrize("moment", ["a folder", "model.safetensors.part"])
def test_average_that_is_killed_leaves_no_weights_and_is_refused_or_made_again(workplace, moment):
    assert run(train_command(**LARGER), workplace)[0] == 0
    average = [*COMMAND, "average", "run", "--output-dir"]
    assert run([*average, "whole"], workplace)[0] == 0
    target = workplace / "out" / (moment if moment != "a folder" else "")
    for _ in range(20):  # the weights are written in milliseconds
        process = start([*average, "out"], workplace)
        was_seen = wait_until(target.exists, process)
        kill(process)
        if was_seen and not (workplace / "out" / "model.safetensors").exists():
            break
        shutil.rmtree(workplace / "out")  # too late
    assert not (workplace / "out" / "model.safetensors").exists()
    status, errors = run([*average, "out"], workplace)
    if status != 0:
        assert "`--output-dir` must be a new or empty folder, got out" in errors
        shutil.rmtree(workplace / "out")
        assert run([*average, "out"], workplace)[0] == 0
    weights = [(workplace / folder / "model.safetensors").read_bytes() for folder in ("whole", "out")]
    assert weights[0] == weights[1]


def stop_and_check(workplace, process, status, expected, command):
    """Sends SIGTERM as schedulers do, which kill after 30 seconds, and repeats the command to its end."""
    os.killpg(process.pid, signal.SIGTERM)
    assert finish(process, workplace, timeout=30)[0] in status
    assert run(command, workplace)[0] == 0
    check_same_end(workplace / "run", expected)


def test_sigterm_in_the_training_saves_a_checkpoint(workplace, undisturbed):
    process = start(train_command(), workplace)
    assert wait_until(lambda: (workplace / "run" / "checkpoint-10").exists(), process)
    os.killpg(process.pid, signal.SIGTERM)
    status, errors = finish(process, workplace, timeout=30)
    assert status == 130
    stopped_after = int(errors.split("Stopped after update ")[1].split(",")[0])
    assert 10 <= stopped_after < 60 and (workplace / "run" / f"checkpoint-{stopped_after}" / "manifest.json").is_file()
    assert run(train_command(), workplace)[0] == 0
    check_same_end(workplace / "run", undisturbed)


def test_sigterm_while_data_are_prepared_loses_nothing(workplace, undisturbed):
    process = start(train_command(), workplace)
    assert wait_until(lambda: names(workplace / "cache"), process)
    stop_and_check(workplace, process, {-signal.SIGTERM}, undisturbed, train_command())


@pytest.mark.parametrize("file", ["model.safetensors", "train_results.json"])
def test_sigterm_at_the_end_loses_nothing(workplace, undisturbed, file):
    process = start(train_command(), workplace)
    assert wait_until(lambda: (workplace / "run" / file).exists(), process)
    stop_and_check(workplace, process, {-signal.SIGTERM, 0}, undisturbed, train_command())
