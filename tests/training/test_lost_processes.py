# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""One of several processes dies: a data worker, a tokenising one, one of two that train. Nothing hangs or is lost."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from faults import (
    COMMAND,
    check_same_end,
    finish,
    left_by,
    read_errors,
    run,
    start,
    train_command,
    wait_until,
    write_corpus,
)

pytestmark = [pytest.mark.heavy, pytest.mark.multi_process]

SCRIPT = Path(__file__).with_name("interrupted.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


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


def steps_of(folder):
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))


def result(folder):
    """Log and weights of a run of the script."""
    return [(folder / name).read_bytes() for name in ("log.json",)] + [
        (folder / f"checkpoint-{steps_of(folder)[-1]}" / "model.safetensors").read_bytes()
    ]


def test_data_workers_leave_sigterm_to_the_main_process(tmp_path):
    options = {"max_steps": 200, "dataloader_num_workers": 2, "dataloader_prefetch_factor": 2}
    process = start([sys.executable, str(SCRIPT), str(tmp_path / "run"), json.dumps(options)], tmp_path)
    assert wait_until(lambda: steps_of(tmp_path / "run") and descendants(process.pid), process, pause=0.002)
    for worker in descendants(process.pid):
        os.kill(worker, signal.SIGTERM)  # as all processes of a group get it
    status, errors = finish(process, tmp_path, timeout=60)
    assert status == 0, errors[-3000:]


@pytest.mark.parametrize("num_killed", [1, 2])
def test_data_worker_that_is_killed_ends_the_run_with_its_last_checkpoint(tmp_path, num_killed):
    def command(folder, **options):
        given = {"max_steps": 200, "dataloader_num_workers": 2, "dataloader_prefetch_factor": 2, **options}
        return [sys.executable, str(SCRIPT), str(tmp_path / folder), json.dumps(given)]

    workers = {"dataloader_num_workers": 0, "dataloader_prefetch_factor": None}
    status, errors = run(command("whole", **workers), tmp_path)
    assert status == 0, errors[-3000:]
    process = start(command("run"), tmp_path)
    assert wait_until(lambda: steps_of(tmp_path / "run") and descendants(process.pid), process, pause=0.002)
    for worker in descendants(process.pid)[:num_killed]:
        os.kill(worker, signal.SIGKILL)
    status, errors = finish(process, tmp_path, timeout=60)
    assert status == 1
    assert re.search(r"DataLoader worker .*(killed by signal|exited unexpectedly)|ConnectionResetError", errors)
    status, errors = run(command("run"), tmp_path)
    assert status == 0, errors[-3000:]
    assert result(tmp_path / "run") == result(tmp_path / "whole")


@pytest.mark.parametrize("victim", [0, -1])  # one of them is the process that hands out the work
def test_tokenising_process_that_is_killed_ends_the_command_with_the_reason(tmp_path, victim):
    write_corpus(tmp_path, num_copies=20_000)
    options = {"max_steps": "2", "snapshot_steps": "1", "save_steps": "1"}
    shown = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "0"}
    process = start(train_command("run", "--num-proc", "2", **options), tmp_path, **shown)
    begun = re.compile(rf"num_proc=2.* [1-9]\d*/{4 * 20_000}")
    assert wait_until(lambda: begun.search(read_errors(tmp_path)), process, pause=0.002)
    os.kill(pool_of(process.pid)[victim], signal.SIGKILL)
    status, errors = finish(process, tmp_path, timeout=60)
    reasons = "subprocesses has abruptly died|Connection|EOFError|Broken pipe"
    assert status != 0 and re.search(reasons, errors), errors[-3000:]
    assert not (tmp_path / "run").exists()
    assert run(train_command("run", "--num-proc", "2", **options), tmp_path)[0] == 0
    assert run(train_command("whole", "--num-proc", "1", **options), tmp_path)[0] == 0
    weights = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("run", "whole")]
    assert weights[0] == weights[1]


def pool_of(pid):
    """Processes of a pool: children that are no tracker or server of multiprocessing."""
    helpers = ("resource_tracker", "forkserver", "main(")
    return [child for child in descendants(pid) if not any(name in command_line(child) for name in helpers)]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What two processes leave that nothing happened to."""
    return left_by(torchrun(), tmp_path_factory.mktemp("two"))


def torchrun():
    """The command of two processes."""
    return [*TORCHRUN, *COMMAND[1:], *train_command()[len(COMMAND) :]]


def ranks_of(pid):
    """The two processes that a launcher has started."""
    return [child for child in descendants(pid) if "vaswani_transformer.cli" in command_line(child)]


@pytest.mark.parametrize("victim", [0, 1])
def test_one_of_two_processes_that_is_killed_ends_both_and_loses_nothing(workplace, two_ranks, victim):
    process = start(torchrun(), workplace)
    assert wait_until(lambda: (workplace / "run" / "checkpoint-10").exists(), process, pause=0.01)
    ranks = ranks_of(process.pid)
    os.kill(ranks[victim], signal.SIGKILL)
    status, errors = finish(process, workplace, timeout=60)
    assert status != 0 and f"Signal {signal.SIGKILL} (SIGKILL)" in errors, errors[-3000:]
    assert all(not command_line(rank) for rank in ranks)
    assert run(torchrun(), workplace)[0] == 0
    check_same_end(workplace / "run", two_ranks)


def test_two_processes_that_get_sigterm_save_a_checkpoint_before_they_are_killed(workplace, two_ranks):
    process = start(torchrun(), workplace)
    assert wait_until(lambda: (workplace / "run" / "checkpoint-10").exists(), process, pause=0.01)
    os.kill(process.pid, signal.SIGTERM)
    finish(process, workplace, timeout=30)
    stopped_after = steps_of(workplace / "run")[-1]
    assert stopped_after % 10 == 0 and 10 <= stopped_after < 60
    assert run(torchrun(), workplace)[0] == 0
    check_same_end(workplace / "run", two_ranks)
