# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Memory that a computation takes from torch's allocators, and memory that a device has left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

_MEMORY_INFO = Path("/proc/meminfo")
_PROCESS_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Files of a control group with its limit and what is taken of it, and the entry of memory.stat with the part of that
# which is cached files that nobody uses: the kernel gives them up when memory is asked for.
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
_QUIET_PROFILER = {"KINETO_LOG_LEVEL": "6"}  # it writes to stderr when it starts and stops


def measure_peak_memory(run: Callable[[], None], device: torch.device) -> int:
    """Bytes that a computation holds at its peak, beyond what was allocated when it began.

    On a CPU they are summed from the profiler's record of each allocation and release, on a GPU the allocator counts
    them. What libraries take by themselves, such as the buffers of MKL, is in neither.

    Args:
        run: The computation; its result should be dropped, not returned.
        device: Where it runs: a CPU or a CUDA device.
    """
    if device.type == "cpu":
        return _peak_on_cpu(run)
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _peak_on_cpu(run: Callable[[], None]) -> int:
    with _default_environment(_QUIET_PROFILER), torch.autograd.profiler.profile(profile_memory=True) as profile:
        run()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    peak = allocated = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        allocated += event.nbytes()  # below 0 for a release
        peak = max(peak, allocated)
    return peak


@contextlib.contextmanager
def _default_environment(values: dict[str, str]) -> Iterator[None]:
    """Sets environment variables that are not set, and removes them again."""
    missing = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def available_memory(device: torch.device) -> int | None:
    """Bytes that can be taken on a device without pushing anything out; None where the system does not tell.

    On a CPU the limits of containers count, too: what each control group that holds the process, of version 1 or 2,
    leaves of its own.
    """
    if device.type != "cpu":
        return torch.cuda.mem_get_info(device)[0]
    amounts = list(_left_in_groups())
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = _MEMORY_INFO.read_text(encoding="ascii").splitlines()
        amounts.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    return min(amounts, default=None)


def _left_in_groups() -> Iterator[int]:
    """Bytes that each control group leaves which holds this process and has a limit, from the outermost inwards."""
    try:
        lines = _PROCESS_GROUPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = _GROUPS, _VERSION_2
        elif "memory" in controllers.split(","):
            root, names = _GROUPS / "memory", _VERSION_1
        else:
            continue
        # In a container the path may be that of the host; then its outer groups alone are found, the root among them.
        parts = path.strip("/").split("/")
        for depth in range(len(parts) + 1):
            with contextlib.suppress(OSError, ValueError):  # no such group, or "max", which is no limit
                yield _left_in_group(root.joinpath(*parts[:depth]), names)


def _left_in_group(folder: Path, names: tuple[str, str, str]) -> int:
    """Bytes that a control group leaves of its limit."""
    limit, taken = (int((folder / name).read_text(encoding="ascii")) for name in names[:2])
    cached = 0
    with contextlib.suppress(OSError):
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        cached = int(statistics.get(names[2], 0))
    return max(0, limit - taken + cached)
