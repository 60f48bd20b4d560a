# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The same command makes the same bytes in every process."""

import itertools

import pytest
from faults import COMMAND, outcome, run, train_command, write_corpus

pytestmark = pytest.mark.heavy


def made(folder, *flags, **variables):
    """What training and translating leave, in bytes and without times."""
    folder.mkdir()
    write_corpus(folder)
    status, errors = run(train_command(f"run-{folder.name}", *flags), folder, **variables)
    assert status == 0, errors[-3000:]
    translate = f"translate --model run-{folder.name} --input train.en --output out.de"
    status, errors = run([*COMMAND, *translate.split()], folder, **variables)
    assert status == 0, errors[-3000:]
    left = outcome(folder / f"run-{folder.name}")
    return {**left, "translations": (folder / "out.de").read_bytes()}


def differing(first, second):
    return [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]


def test_three_processes_make_the_same_bytes(tmp_path):
    runs = [made(tmp_path / f"{seed}", PYTHONHASHSEED=str(seed)) for seed in (0, 1, 2)]
    assert [differing(*pair) for pair in itertools.combinations(runs, 2)] == [[], [], []]


def test_processes_that_tokenise_change_no_byte(tmp_path):
    runs = [made(tmp_path / num_proc, "--num-proc", num_proc) for num_proc in ("1", "2")]
    assert differing(*runs) == []
