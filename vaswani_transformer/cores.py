# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Threads that wait awake on a quiet machine, and asleep beside busy neighbours.

The threads of libgomp, torch's OpenMP on Linux, spin for milliseconds wherever they wait for each other. That is
fastest when each has a core, and costs two thirds of the speed when another process runs on the one awaited.
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
_SECONDS = 0.5  # between looks at the machine
_SPARE = 0.25  # cores that others may use without being neighbours: daemons, the clock's rounding


@contextlib.contextmanager
def share_cores() -> Iterator[None]:
    """Lets torch's threads sleep while they wait, as long as other processes need their cores; changes no result.

    Does nothing with one thread, without /proc/stat, or where the environment sets OMP_WAIT_POLICY or GOMP_SPINCOUNT.
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
    """Tells whether other processes, which use `others` cores, leave less than one for each of our threads."""
    return others + num_threads > num_cores + _SPARE


def seconds_used(stat: str, cores: Set[int]) -> float:
    """Returns the processor seconds that /proc/stat counts on some cores, of all processes since the start."""
    rows = (line.split() for line in stat.splitlines() if line.startswith("cpu"))
    used = (row[1:4] + row[6:8] for row in rows if row[0][3:].isdigit() and int(row[0][3:]) in cores)
    return sum(int(ticks) for row in used for ticks in row) / os.sysconf("SC_CLK_TCK")  # not idle, waiting or stolen


def _watch(ended: threading.Event, num_threads: int) -> None:
    cores, release = os.sched_getaffinity(0), threading.Event()
    release.set()
    wall, others = _times(cores)
    while not ended.wait(_SECONDS):
        (last_wall, last_others), (wall, others) = (wall, others), _times(cores)
        crowded = is_crowded((others - last_others) / (wall - last_wall), len(cores), num_threads)
        if crowded and release.is_set():
            # libgomp spins only while it has no more threads than cores, so idle pools of threads end it.
            release = threading.Event()
            for _ in range((len(cores) - num_threads) // (num_threads - 1) + 1):
                threading.Thread(target=_hold_pool, args=(release,), daemon=True).start()
        elif not crowded:
            release.set()
    release.set()


def _times(cores: Set[int]) -> tuple[float, float]:
    """Returns the time, and the processor seconds of all processes but this one on some cores."""
    return time.monotonic(), seconds_used(_STAT.read_text(), cores) - time.process_time()


def _hold_pool(release: threading.Event) -> None:
    torch.ones(2**17, device="cpu").neg_()  # large enough for all threads
    release.wait()
