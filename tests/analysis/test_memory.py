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


def test_available_memory_is_what_the_system_tells(tmp_path, monkeypatch):
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB\n")
    monkeypatch.setattr(memory, "_MEMORY_INFO", told)
    monkeypatch.setattr(memory, "_CONTAINER_LIMIT", tmp_path / "missing")
    assert available_memory(CPU) == 5000 * 1024


@pytest.mark.parametrize(("limit", "expected"), [("max\n", 5000 * 1024), ("1000\n", 1000)])
def test_limit_of_a_container_counts_where_it_is_lower(limit, expected, tmp_path, monkeypatch):
    told, container = tmp_path / "meminfo", tmp_path / "memory.max"
    told.write_text("MemAvailable: 5000 kB\n")
    container.write_text(limit)
    monkeypatch.setattr(memory, "_MEMORY_INFO", told)
    monkeypatch.setattr(memory, "_CONTAINER_LIMIT", container)
    assert available_memory(CPU) == expected


def test_available_memory_is_unknown_where_the_system_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_MEMORY_INFO", tmp_path / "missing")
    monkeypatch.setattr(memory, "_CONTAINER_LIMIT", tmp_path / "missing")
    assert available_memory(CPU) is None
