# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Memory of a long training, whose batches have ever new shapes."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("long_training.py")
UPDATES = 2000

pytestmark = pytest.mark.heavy


def resident_memory(output_dir, updates, **variables):
    """MiB that a training takes after every 10 updates."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **variables,
    }
    command = [sys.executable, str(SCRIPT), str(output_dir), str(updates)]
    printed = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=1200
    ).stdout
    return [float(line.split()[2]) for line in printed.splitlines() if line.startswith("resident ")]


def test_memory_is_flat_over_2000_updates(tmp_path):
    memory = resident_memory(tmp_path, UPDATES)
    quarter = len(memory) // 4
    quarters = [statistics.mean(memory[index * quarter :][:quarter]) for index in range(4)]
    print(
        "resident MiB, mean of each quarter:",
        *(f"{value:.0f}" for value in quarters),
        f"peak {max(memory):.0f}",
    )
    # The model takes 1 MiB: what leaked a copy of it, or 10 KiB, with each update would add 10 MiB
    # in a quarter.
    assert quarters[3] - quarters[2] < 5
    assert quarters[3] - quarters[1] < 10
