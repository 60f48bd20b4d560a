# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`translate` on 200,000 lines: every line in its place, and memory that does not grow."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

NUM_LINES = 200_000
# In the second half. Whoever kept 100,000 lines, their tokens or their translations would grow by
# 50 MiB and more; the allocator alone moves by some MiB with the shapes of batches.
GROWTH_MIB = 16


def resident_mib(process):
    """Memory of a running process; None when it has ended."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None


@pytest.mark.heavy
@pytest.mark.parametrize("way", ["file to file", "filter"])
def test_memory_stays_flat_over_200_000_lines(way, model_folder, corpus):
    vocabulary = "A dog runs in the park . Two women read a book .".split()
    generator = random.Random(0)
    # Lines of the same kind from first to last, or longer numbers alone would ask for more memory.
    lines = [
        f"{number:06} {' '.join(generator.sample(vocabulary, generator.randrange(1, 6)))}"
        for number in range(NUM_LINES)
    ]
    Path("in").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = "-m vaswani_transformer.cli translate --model model --device cpu --num-beams 1"
    words += " --max-new-tokens-over-source 0 --n-best 1"
    files = ["--input", "in", "--output", "out"] if way == "file to file" else []
    streams = {} if files else {"stdin": open("in", "rb"), "stdout": open("out", "wb")}  # noqa: SIM115
    process = subprocess.Popen(
        [sys.executable, *words.split(), *files],
        stderr=subprocess.DEVNULL,
        **streams,
    )
    written, seen = Path("out.part" if files else "out"), []
    try:
        while process.poll() is None:
            assert time.sleep(0.2) is None
            if (
                written.exists()
                and written.stat().st_size
                and (size := resident_mib(process)) is not None
            ):
                seen.append(size)
    finally:
        process.kill()
    assert process.returncode == 0
    with Path("out").open(encoding="utf-8") as found:
        assert [json.loads(line)["source"] for line in found] == lines
    half = len(seen) // 2
    quarter = half // 2
    assert max(seen[half:]) - max(seen[quarter:half]) < GROWTH_MIB
