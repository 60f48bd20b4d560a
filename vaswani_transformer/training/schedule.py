# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's learning-rate schedule: linear warm-up, then the inverse square root of the step.

Paper: section 5.3, lr = d_model^-0.5 * min(step^-0.5, step * warmup^-1.5).
"""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def paper_peak_learning_rate(d_model: int, warmup_steps: int) -> float:
    """Return the peak learning rate of the paper's schedule, reached at step `warmup_steps`.

    Args:
        d_model: Width of the model.
        warmup_steps: Number of updates of the warm-up.

    Paper: section 5.3, equation 3. At step = warmup, the learning rate is (d_model * warmup)^-0.5,
    which is 6.99e-4 for the base model.
    """
    return float((d_model * warmup_steps) ** -0.5)


def warmup_inverse_sqrt_factor(step: int, warmup_steps: int) -> float:
    """Return an update's learning rate as a fraction of the peak, in (0, 1].

    Args:
        step: Number of the update, from 1.
        warmup_steps: Number of updates of the warm-up.
    """
    return min(step / warmup_steps, math.sqrt(warmup_steps / step))


def create_paper_schedule(optimizer: Optimizer, warmup_steps: int) -> LambdaLR:
    """Return a scheduler with the paper's schedule. The optimizer's learning rate is the peak.

    The first update is number 1, as in the paper, so no update has a learning rate of zero. Call
    the scheduler's `step()` once after every update.

    Args:
        optimizer: Optimizer with the peak learning rate.
        warmup_steps: Number of updates of the warm-up.
    """
    return LambdaLR(
        optimizer,
        lambda finished_updates: warmup_inverse_sqrt_factor(finished_updates + 1, warmup_steps),
    )
