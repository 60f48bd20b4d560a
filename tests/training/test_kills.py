# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Processes that die in the middle of a save, and runs that go on from what they left."""

import json

import processes
import pytest
from faults import SCRIPT, left_by_script

pytestmark = pytest.mark.slow


def run(output_dir, num_processes, **options):
    """Exit status and errors of a whole run of the script."""
    words = [SCRIPT, output_dir / "run", json.dumps({"max_steps": 13, **options})]
    status, _, errors = processes.run(words, output_dir, num_processes)
    return status, errors


@pytest.mark.parametrize(
    ("num_processes", "inside", "found"),
    [
        (1, "publish_checkpoint", "checkpoint-3/manifest.json"),
        pytest.param(
            1, "rotate_checkpoints", "checkpoint-6/manifest.json", marks=pytest.mark.heavy
        ),
        pytest.param(
            2, "_save_sums", "checkpoint-3/progress_1.json", marks=pytest.mark.multi_process
        ),
    ],
)
def test_run_killed_inside_a_save_goes_on_from_a_whole_checkpoint(
    tmp_path, tmp_path_factory, num_processes, inside, found
):
    assert run(tmp_path, num_processes, inside=inside)[0] != 0
    assert (tmp_path / "run" / found).is_file()
    whole = tmp_path_factory.mktemp("whole")
    for place in (tmp_path, whole):
        status, errors = run(place, num_processes)
        assert status == 0, errors[-3000:]
    assert left_by_script(tmp_path / "run") == left_by_script(whole / "run")
    assert not (tmp_path / "run" / "_unfinished").exists()
