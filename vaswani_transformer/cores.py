# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Share the cores with other processes: torch's waiting threads spin only on an idle machine.

libgomp is torch's OpenMP library on Linux. While its threads wait for each other, they spin for
milliseconds. Spinning is the fastest way to wait if each thread has a core to itself. But if
another process takes the core of one thread, the other threads spin until that thread gets its core
back. Then torch loses two thirds of its speed.
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
# Number of cores that other processes may use before torch's threads sleep. It is not 0, because
# daemons use some time and CPU times are rounded.
_SPARE = 0.25


@contextlib.contextmanager
def share_cores() -> Iterator[None]:
    """In a `with` block, let torch's waiting threads sleep while other processes need their cores.

    Results do not change. This context manager has no effect if torch has one thread, if there is
    no /proc/stat, or if the environment sets OMP_WAIT_POLICY or GOMP_SPINCOUNT.
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
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_crowded(others: float, num_cores: int, num_threads: int) -> bool:
    """Return True if other processes leave less than one core for each of our threads.

    Args:
        others: Number of cores that other processes use, on average since the last check.
        num_cores: Number of cores that this process may use.
        num_threads: Number of torch's threads.
    """
    return others + num_threads > num_cores + _SPARE


def seconds_used(stat: str, cores: Set[int]) -> float:
    """Return the CPU seconds of all processes on the given cores since the system started.

    `stat` is the content of /proc/stat.
    """
    names = {f"cpu{core}" for core in cores}
    ticks = 0
    for line in stat.splitlines():
        columns = line.split()
        if columns and columns[0] in names:
            used = columns[1:4] + columns[6:8]  # without the columns idle, iowait and steal
            ticks += sum(int(column) for column in used)
    return ticks / os.sysconf("SC_CLK_TCK")


def _watch(ended: threading.Event, num_threads: int) -> None:
    """Keep idle thread pools alive while the cores are crowded, until `ended` is set.

    The extra threads of these pools stop libgomp from spinning, because libgomp does not spin while
    it has more threads than cores.
    """
    cores = os.sched_getaffinity(0)
    release = threading.Event()
    release.set()
    last_wall, last_others = _times(cores)
    while not ended.wait(_SECONDS):
        wall, others = _times(cores)
        cores_of_others = (others - last_others) / (wall - last_wall)
        last_wall = wall
        last_others = others

        crowded = is_crowded(cores_of_others, len(cores), num_threads)
        if crowded and release.is_set():
            # Each idle pool adds `num_threads - 1` threads.
            release = threading.Event()
            num_pools = (len(cores) - num_threads) // (num_threads - 1) + 1
            for _ in range(num_pools):
                threading.Thread(target=_hold_pool, args=(release,), daemon=True).start()
        elif not crowded:
            release.set()
    release.set()


def _times(cores: Set[int]) -> tuple[float, float]:
    """Return the current time, and the CPU seconds of all other processes on the given cores."""
    return time.monotonic(), seconds_used(_STAT.read_text(), cores) - time.process_time()


def _hold_pool(release: threading.Event) -> None:
    """Start a pool of OpenMP threads, and keep it idle until `release` is set."""
    torch.ones(2**17, device="cpu").neg_()  # large enough to use all threads
    release.wait()
