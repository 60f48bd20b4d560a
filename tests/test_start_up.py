# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What importing the package and loading a model cost, as counts; the times themselves are a heavy
test.
"""

import subprocess
import sys

import benchmark_start_up as benchmark
import pytest
import torch
from tiny import make_model
from transformers import AutoModelForSeq2SeqLM

NUM_RUNS = 5


@pytest.mark.slow
def test_import_adds_our_files_and_next_to_nothing_of_the_library():
    ours, theirs = benchmark._IMPORTS
    program = f"import sys\n{theirs}\nbefore = set(sys.modules)\n{ours}\nprint(*sys.modules)\n"
    program += "print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    everything, added = ({*line.split()} for line in done.stdout.splitlines()[-2:])
    assert "vaswani_transformer" in everything
    assert not everything & {"datasets", "evaluate", "matplotlib", "sacrebleu", "peft", "pandas"}
    of_others = {name for name in added if name.split(".")[0] != "vaswani_transformer"}
    # html: Python's list of entities
    assert {name.split(".")[0] for name in of_others} <= {"html", "transformers"}
    assert len(of_others) <= 5


def test_loading_draws_no_random_numbers(tmp_path):
    """Weights that are in the file are not initialised first."""
    make_model().save_pretrained(tmp_path)
    before = torch.get_rng_state()
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.heavy
def test_import_costs_little_more_than_the_library_alone():
    ours, theirs = (min(side) for side in benchmark.measure_import(NUM_RUNS)["cpu"])
    assert ours <= max(theirs + 0.3, 1.1 * theirs)


@pytest.mark.heavy
def test_loading_base_is_no_slower_than_marian_of_the_same_size():
    ours, theirs = (min(side) for side in benchmark.measure_loading(NUM_RUNS)["cpu"])
    assert ours <= theirs
