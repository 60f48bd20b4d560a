# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Threads that sleep beside busy neighbours."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from vaswani_transformer import cli, cores

# Processor seconds of 100 short products with pauses of 5 ms between, as the threads wait: spinning
# or asleep.
WAITING = """
import os, sys, time, torch
from vaswani_transformer import cores
torch.set_num_threads(2)
cores._SECONDS, cores.is_crowded = 0.05, lambda others, num_cores, num_threads: crowded
result = torch.randn(64, 64).mul(2).sum()

def waiting():
    before = time.process_time()
    for _ in range(100):
        torch.ones(2**17).neg_()
        time.sleep(0.005)
    return time.process_time() - before

def num_threads():
    return len(os.listdir("/proc/self/task"))

crowded = True
for _ in range(2):
    print(waiting(), num_threads())
    with cores.share_cores():
        time.sleep(0.3)
        print(waiting(), num_threads())
        crowded = False
        time.sleep(0.3)
        print(waiting(), num_threads())
        crowded = True
"""


@pytest.mark.parametrize(
    ("others", "num_cores", "num_threads", "crowded"),
    [
        (0.0, 2, 2, False),
        (0.1, 2, 2, False),  # daemons
        (0.67, 2, 2, True),  # one neighbour and two spinning threads share two cores
        (0.9, 2, 1, False),
        (1.9, 2, 1, True),
        (1.0, 64, 64, True),
        (30.0, 64, 16, False),
        (60.0, 64, 16, True),
    ],
)
def test_a_machine_is_crowded_when_others_leave_no_core_for_a_thread(
    others, num_cores, num_threads, crowded
):
    assert cores.is_crowded(others, num_cores, num_threads) is crowded


def test_time_is_counted_on_our_cores_and_not_where_they_idle_or_are_taken_by_the_host():
    ticks = os.sysconf("SC_CLK_TCK")
    rows = {0: [1, 2, 3, 1000, 1000, 4, 5, 1000, 1000, 1000], 1: [7] + [0] * 9, 10: [50] + [0] * 9}
    lines = [
        f"cpu{core} " + " ".join(str(ticks * value) for value in row) for core, row in rows.items()
    ]
    stat = "\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *lines, "intr 1 2 3", "ctxt 4"])
    assert cores.seconds_used(stat, {0}) == 1 + 2 + 3 + 4 + 5
    assert cores.seconds_used(stat, {0, 1}) == 15 + 7
    assert cores.seconds_used(stat, {10}) == 50


@pytest.fixture
def two_threads(monkeypatch):
    """As on a machine where nothing is set and torch computes with two threads."""
    for each in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.parametrize("case", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "one thread", "no count"])
def test_nothing_watches_where_it_is_set_or_useless_or_impossible(
    case, two_threads, monkeypatch, tmp_path
):
    if case == "one thread":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    elif case == "no count":
        monkeypatch.setattr(cores, "_STAT", tmp_path / "none")
    else:
        monkeypatch.setenv(case, "1")
    before = threading.active_count()
    with cores.share_cores():
        assert threading.active_count() == before


def test_the_command_shares_its_cores(two_threads, monkeypatch):
    watched = []
    monkeypatch.setattr(cores, "_watch", lambda *args: watched.append(args))
    assert cli.main(["recipes"]) == 0
    assert [num_threads for _, num_threads in watched] == [2]


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is torch's OpenMP on Linux alone")
def test_threads_sleep_while_the_machine_is_crowded_and_spin_again_afterwards():
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    environment.pop("OMP_WAIT_POLICY", None)
    done = subprocess.run(
        [sys.executable, "-c", WAITING], env=environment, check=True, capture_output=True, text=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    seconds, threads = [
        [kind(row[place]) for row in rows] for place, kind in enumerate((float, int))
    ]
    for first in (0, 3):
        before, asleep, again = seconds[first : first + 3]
        assert asleep < 0.5 * min(before, again)
        # the pool is gone, the watch goes later
        assert threads[first + 1] > threads[first + 2] > threads[first]
    assert threads[3] == threads[0]
