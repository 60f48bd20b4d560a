# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Importing the package adds few modules, and loading draws no random numbers; heavy tests measure
the times of importing and loading.
"""

import re
import subprocess
import sys

import benchmark_start_up as benchmark
import pytest
import torch
from cli_runs import train_arguments
from tiny import make_model
from transformers import AutoModelForSeq2SeqLM

NUM_RUNS = 5


NOT_NEEDED = (
    "accelerate evaluate sacrebleu sacremoses pandas pyarrow matplotlib ctranslate2 "
    "onnx onnxruntime onnxscript"
)
# Prints all imported modules, then those that our import adds to transformers'. Then imports other
# parts of the package while neither `datasets` nor a module of NOT_NEEDED can be imported, and
# tries to train while only `datasets` cannot.
PROGRAM = """
import sys
{theirs}
before = set(sys.modules)
{ours}
print(*sys.modules)
print(*(set(sys.modules) - before))
names = {not_needed!r}.split()
sys.modules.update(dict.fromkeys(["datasets", *names]))  # None makes an import fail
from vaswani_transformer.export import Translator, export_ctranslate2
from vaswani_transformer.cli import main
assert main(["recipes"]) == 0
for name in names:
    del sys.modules[name]
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory):
    """The process that runs PROGRAM and tries to train."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in ("train.en", "train.de"):
        (folder / name).write_text("A dog.\n")
    ours, theirs = benchmark._IMPORTS
    program = PROGRAM.format(ours=ours, theirs=theirs, not_needed=NOT_NEEDED)
    return subprocess.run(
        [sys.executable, "-c", program, *train_arguments()],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_import_adds_our_files_and_next_to_nothing_of_the_library(without_extras):
    lines = without_extras.stdout.splitlines()
    assert len(lines) >= 2, without_extras.stderr
    everything, added = ({*line.split()} for line in lines[:2])
    assert "vaswani_transformer" in everything
    assert not everything & {"datasets", "evaluate", "matplotlib", "sacrebleu", "peft", "pandas"}
    of_others = {name for name in added if name.split(".")[0] != "vaswani_transformer"}
    # html: Python's list of entities
    assert {name.split(".")[0] for name in of_others} <= {"html", "transformers"}
    assert len(of_others) <= 5


@pytest.mark.slow
def test_without_extras_the_command_starts_and_train_names_the_one_it_needs(without_extras):
    assert without_extras.returncode == 2
    assert re.search(r"run `pip install .*\[train\]", without_extras.stderr)


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
