# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A trainer or a machine dies: nothing hangs or is lost."""

import os
import signal
import sys
from pathlib import Path

import pytest
from faults import (
    COMMAND,
    check_same_end,
    finish,
    left_by,
    run,
    start,
    train_command,
    wait_until,
)

from vaswani_transformer.training.checkpoints import checkpoint_step, list_checkpoints

pytestmark = [pytest.mark.heavy, pytest.mark.multi_process]


def descendants(pid):
    """Processes that a process has started, and those that they have."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return ""


# ---- two that train ----


def torchrun(*options):
    """The command of two processes, on one machine or one of two."""
    layout = options or ("--standalone", "--nproc_per_node=2")
    training = [*COMMAND[1:], *train_command()[len(COMMAND) :]]
    return [sys.executable, "-m", "torch.distributed.run", *layout, *training]


def ranks_of(launcher):
    """The processes that a launcher has started."""
    return [
        child
        for child in descendants(launcher.pid)
        if "vaswani_transformer.cli" in command_line(child)
    ]


def wait_for(path, launcher):
    assert wait_until(path.exists, launcher, pause=0.01), f"ended before {path}"


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What two processes leave that nothing happened to."""
    return left_by(torchrun(), tmp_path_factory.mktemp("two"))


@pytest.mark.parametrize("victim", [0, 1, None])
def test_one_of_two_processes_is_killed_or_both_are_stopped_and_nothing_is_lost(
    workplace, two_ranks, victim
):
    launcher = start(torchrun(), workplace)
    wait_for(workplace / "run" / "checkpoint-10", launcher)
    ranks = ranks_of(launcher)
    if victim is None:
        os.kill(launcher.pid, signal.SIGTERM)
    else:
        os.kill(ranks[victim], signal.SIGKILL)
    status, errors = finish(launcher, workplace, timeout=60)
    assert status != 0 and (victim is None or "Signal 9 (SIGKILL)" in errors), errors[-3000:]
    assert all(not command_line(rank) for rank in ranks)
    stopped_after = checkpoint_step(list_checkpoints(workplace / "run")[-1])
    assert stopped_after % 10 == 0 and 10 <= stopped_after < 60
    assert run(torchrun(), workplace)[0] == 0
    check_same_end(workplace / "run", two_ranks)


def test_run_on_two_machines_that_loses_a_process_then_a_machine_loses_nothing(
    workplace, two_ranks, free_port
):
    layout = "--nnodes=2 --nproc-per-node=1 --max-restarts=1 --rdzv-id=toy --rdzv-backend=c10d"
    # Without it torch 2.13 gives restarted processes the store of those before, with their
    # addresses.
    new_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

    def launch():
        return [
            start(
                torchrun(*layout.split(), f"--rdzv-endpoint=localhost:{free_port}"),
                workplace,
                **new_store,
            )
            for _ in range(2)
        ]

    first, second = launch()
    wait_for(workplace / "run" / "recipe.json", first)
    os.kill(ranks_of(second)[0], signal.SIGKILL)
    assert not (workplace / "run" / "checkpoint-10").exists()  # both start anew by themselves
    wait_for(workplace / "run" / "checkpoint-10", first)
    orphans = ranks_of(second)
    for pid in (second.pid, *orphans):  # all of a machine
        os.kill(pid, signal.SIGKILL)
    os.kill(first.pid, signal.SIGTERM)  # as a scheduler does with the other machines of a job
    assert finish(first, workplace)[0] != 0
    assert not (workplace / "run" / "checkpoint-60").exists()
    second.wait()
    for launcher in launch():
        assert finish(launcher, workplace)[0] == 0
    check_same_end(workplace / "run", two_ranks)
