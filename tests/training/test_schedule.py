# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from vaswani_transformer.training.schedule import (
    create_paper_schedule,
    paper_peak_learning_rate,
    warmup_inverse_sqrt_factor,
)


@pytest.mark.parametrize(
    ("step", "expected"), [(1, 1.7469e-07), (4000, 6.9877e-04), (16000, 3.4939e-04)]
)
def test_schedule_of_the_base_model_has_the_papers_values(step, expected):
    ours = paper_peak_learning_rate(512, 4000) * warmup_inverse_sqrt_factor(step, 4000)
    assert ours == pytest.approx(expected, rel=1e-4)


def test_scheduler_runs_the_first_update_as_step_one_and_halves_the_peak_at_four_times_the_warmup():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler, rates = create_paper_schedule(optimizer, 4), []
    for _ in range(16):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, (4 / 5) ** 0.5])
    assert rates[-1] == pytest.approx(0.5)
