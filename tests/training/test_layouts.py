# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The same training on any layout: processes x accumulation against one process on whole effective
batches.

Early gradients are compared in both precisions. What many updates lead to is compared in float64
alone: in float32 a ReLU near zero turns rounding of 1e-7 into 1e-3.
"""

from itertools import chain
from pathlib import Path

import processes
import pytest
import torch

SCRIPT = Path(__file__).with_name("layouts.py")
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
LAYOUTS = [(1, 4), (2, 2), (4, 1)]

pytestmark = [pytest.mark.multi_process, pytest.mark.slow]


def run(output_dir, num_processes, steps):
    """What the script leaves on one layout, by dtype."""
    status, _, errors = processes.run([SCRIPT, output_dir, steps], output_dir, num_processes)
    assert status == 0, errors[-3000:]
    found = {}
    for dtype in TOLERANCE:
        results = torch.load(output_dir / dtype / "results.pt", weights_only=True)
        seen = [
            torch.load(output_dir / dtype / f"seen_{rank}.pt", weights_only=True)
            for rank in range(num_processes)
        ]
        found[dtype] = {**results, "seen": seen, "steps": steps}
    assert results["world_size"] == num_processes
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One process on whole batches."""
    return run(tmp_path_factory.mktemp("whole"), 1, 1)


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: "x".join(map(str, layout)))
def layout(request, tmp_path_factory):
    """Another layout."""
    return run(tmp_path_factory.mktemp("layout"), *request.param)


@pytest.fixture
def exact(layout, whole):
    """Results of one layout and of one process on whole batches, in float64."""
    return layout["float64"], whole["float64"]


def distance(found, expected):
    """Largest relative distance of two sets of tensors, by the norm of each tensor."""
    return max(
        ((found[name] - expected[name]).norm() / expected[name].norm()).item() for name in expected
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_gradients_before_the_optimiser_equal_those_of_the_whole_batch(layout, whole, dtype):
    pairs = zip(layout[dtype]["gradients"], whole[dtype]["gradients"], strict=True)
    distances = [distance(*gradients) for gradients in pairs]
    assert len(distances) == 3
    assert max(distances) < TOLERANCE[dtype]


def test_weights_are_equal_after_twenty_updates_that_moved_them(exact):
    found, expected = exact
    moved = [
        (expected["weights"][name] - start).norm() / start.norm()
        for name, start in expected["before"].items()
    ]
    assert min(moved) > 0.01
    assert distance(found["weights"], expected["weights"]) < 1e-9


def test_logged_losses_are_equal(exact):
    found, expected = exact
    assert len(found["logs"]) == len(expected["logs"]) > 6
    for line, other in zip(found["logs"], expected["logs"], strict=True):
        assert line == pytest.approx(other, rel=1e-5)


def test_losses_and_perplexity_of_the_evaluation_are_equal(exact):
    found, expected = exact
    for name in ("eval_loss", "eval_nll", "eval_perplexity"):
        assert found["metrics"][name] == pytest.approx(expected["metrics"][name], rel=1e-9)


def test_every_update_has_the_pairs_of_the_whole_batch_and_no_pair_is_seen_twice(exact):
    found, expected = exact
    epoch = found["updates_per_epoch"]
    steps = found["steps"]
    updates = []
    for update in range(2 * epoch):
        parts = [rank["pairs"][update * steps : (update + 1) * steps] for rank in found["seen"]]
        updates.append(sorted(chain(*chain(*parts))))
    assert updates == [sorted(rows) for rows in expected["seen"][0]["pairs"][: 2 * epoch]]
    for first in (0, epoch):
        assert sorted(chain(*updates[first : first + epoch])) == list(range(60))


def test_processes_hold_unequal_numbers_of_tokens_in_each_of_the_first_updates(exact):
    found, _ = exact
    for update in range(3):
        steps = slice(update * found["steps"], (update + 1) * found["steps"])
        tokens = {sum(rank["tokens"][steps]) for rank in found["seen"]}
        assert found["world_size"] == 1 or len(tokens) > 1
