# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import pytest
import torch

from vaswani_transformer.analysis import memory
from vaswani_transformer.analysis.memory import available_memory, measure_peak_memory

CPU = torch.device("cpu")


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Writes files of a made-up system, by their path, with 5,000 kB free; it has nothing else."""
    monkeypatch.setattr(memory, "_MEMORY_INFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_PROCESS_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")

    def write(files):
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{content}\n")

    write({"meminfo": "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB"})
    return write


def group(folder, limit, current, inactive_file=0):
    """Files of a control group of version 2."""
    statistics = f"file {current}\ninactive_file {inactive_file}\nactive_file {current}"
    return {
        f"groups/{folder}memory.max": limit,
        f"groups/{folder}memory.current": current,
        f"groups/{folder}memory.stat": statistics,
    }


def group_of_version_1(folder, limit, usage, inactive_file=0):
    """Files of a control group of version 1; its own statistics do not count, those with the groups inside do."""
    return {
        f"groups/memory/{folder}memory.limit_in_bytes": limit,
        f"groups/memory/{folder}memory.usage_in_bytes": usage,
        f"groups/memory/{folder}memory.stat": f"inactive_file 1\ntotal_inactive_file {inactive_file}",
    }


def peak(run):
    return measure_peak_memory(run, CPU)


def test_peak_is_what_is_held_at_once():
    """1,000 and 500 numbers, and after them 1,200: never more than 1,500."""

    def run():
        first, second = torch.empty(1000), torch.empty(500)
        del first, second
        torch.empty(1200)

    assert peak(run) == 4 * 1500


def test_what_was_held_before_does_not_count():
    held = torch.empty(10_000)
    assert peak(lambda: held.relu_()) == 0
    assert peak(lambda: held[:100].clone()) == 4 * 100


def test_memory_of_nothing_is_zero():
    assert peak(lambda: None) == 0


def test_measuring_leaves_the_environment_alone():
    before = dict(os.environ)
    peak(lambda: torch.empty(10))
    assert dict(os.environ) == before


@pytest.mark.slow
def test_first_measuring_of_a_process_says_nothing():
    program = "import torch\nfrom vaswani_transformer.analysis.memory import measure_peak_memory\n"
    program += "print(measure_peak_memory(lambda: torch.empty(10), torch.device('cpu')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("40\n", "")


def test_available_memory_is_what_the_system_tells(system):
    assert available_memory(CPU) == 5000 * 1024


@pytest.mark.parametrize(
    ("limit", "current", "inactive_file", "expected"),
    [
        ("max", 900, 0, 5000 * 1024),
        (10**12, 900, 0, 5000 * 1024),
        (1000, 0, 0, 1000),
        (1000, 600, 0, 400),
        (1000, 600, 250, 650),
        (1000, 1100, 0, 0),
    ],
)
def test_what_a_container_leaves_counts_where_it_is_less(limit, current, inactive_file, expected, system):
    system({"cgroup": "0::/", **group("", limit, current, inactive_file)})
    assert available_memory(CPU) == expected


def test_container_without_statistics_counts(tmp_path, system):
    system({"cgroup": "0::/", **group("", 1000, 600, 250)})
    (tmp_path / "groups" / "memory.stat").unlink()
    assert available_memory(CPU) == 400


@pytest.mark.parametrize(("inner", "middle", "expected"), [(450, 900, 350), (2000, 900, 400), ("max", 900, 400)])
def test_smallest_of_nested_containers_counts(inner, middle, expected, system):
    system({"cgroup": "0::/jobs/mine", **group("jobs/mine/", inner, 100), **group("jobs/", middle, 500)})
    assert available_memory(CPU) == expected


def test_containers_beside_ones_own_do_not_count(system):
    system({"cgroup": "0::/jobs/mine", **group("jobs/mine/", 700, 100), **group("jobs/other/", 5, 0)})
    assert available_memory(CPU) == 600


def test_container_is_found_where_the_path_is_that_of_the_host(system):
    system({"cgroup": "0::/docker/1234", **group("", 1000, 600)})
    assert available_memory(CPU) == 400


@pytest.mark.parametrize("controllers", ["memory", "cpu,memory"])
def test_containers_of_version_1_count(controllers, system):
    groups = {**group_of_version_1("", 2**63 - 4096, 900), **group_of_version_1("mine/", 1000, 600, 250)}
    system({"cgroup": f"5:pids:/\n4:{controllers}:/mine\n0::/", **groups})
    assert available_memory(CPU) == 650


def test_available_memory_is_unknown_where_the_system_does_not_tell(tmp_path, system):
    (tmp_path / "meminfo").unlink()
    assert available_memory(CPU) is None
