# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Cores shared with other processes: torch's waiting threads spin on an idle machine, and sleep on
a busy one.

libgomp, torch's OpenMP library on Linux, lets threads spin for milliseconds when they wait for each
other. That is fastest if each thread has a core. But it costs two thirds of the speed if they wait
for a thread whose core runs another process.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Set
from pathlib import Path

import torch

_STAT = Path("/proc/stat")
_SECONDS = 0.5  # between two checks of the load
_SPARE = 0.25  # cores that others may use without effect, for daemons and rounding of the clock


@contextlib.contextmanager
def share_cores() -> Iterator[None]:
    """Let torch's waiting threads sleep while other processes need their cores. Results do not
    change.

    It does nothing with one thread, without /proc/stat, or if the environment sets OMP_WAIT_POLICY
    or GOMP_SPINCOUNT.
    """
    is_set = os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
    if torch.get_num_threads() == 1 or is_set or not _STAT.exists():
        yield
        return
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(ended, torch.get_num_threads()), daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_crowded(others: float, num_cores: int, num_threads: int) -> bool:
    """Return True if other processes, which use `others` cores, leave less than one core for each
    of our threads.
    """
    return others + num_threads > num_cores + _SPARE


def seconds_used(stat: str, cores: Set[int]) -> float:
    """Return the CPU seconds of all processes on some cores since the system started, from
    /proc/stat's content.
    """
    rows = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    used = (
        row[1:4] + row[6:8] for row in rows if row[0][3:].isdigit() and int(row[0][3:]) in cores
    )
    # not idle, iowait or steal
    return sum(int(ticks) for row in used for ticks in row) / os.sysconf("SC_CLK_TCK")


def _watch(ended: threading.Event, num_threads: int) -> None:
    """Check the load until `ended` is set, and hold idle pools of threads while the cores are
    crowded.
    """
    cores, release = os.sched_getaffinity(0), threading.Event()
    release.set()
    wall, others = _times(cores)
    while not ended.wait(_SECONDS):
        (last_wall, last_others), (wall, others) = (wall, others), _times(cores)
        crowded = is_crowded((others - last_others) / (wall - last_wall), len(cores), num_threads)
        if crowded and release.is_set():
            # libgomp does not spin while it has more threads than cores. Idle pools of threads add
            # as many as needed.
            release = threading.Event()
            for _ in range((len(cores) - num_threads) // (num_threads - 1) + 1):
                threading.Thread(target=_hold_pool, args=(release,), daemon=True).start()
        elif not crowded:
            release.set()
    release.set()


def _times(cores: Set[int]) -> tuple[float, float]:
    """Return the time, and the CPU seconds of all other processes on some cores."""
    return time.monotonic(), seconds_used(_STAT.read_text(), cores) - time.process_time()


def _hold_pool(release: threading.Event) -> None:
    """Start a pool of OpenMP threads, and keep it idle until `release` is set."""
    torch.ones(2**17, device="cpu").neg_()  # large enough for all threads
    release.wait()
