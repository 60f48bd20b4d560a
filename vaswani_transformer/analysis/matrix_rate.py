# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The rate at which a device multiplies matrices, measured."""

from __future__ import annotations

import statistics
import time

import torch

from ..cpu_kernels_vaswani_transformer import linear

# Side of the square matrices: large enough that starting a kernel costs nothing beside it, small enough to be quick.
_CPU_SIDE, _ACCELERATOR_SIDE = 1024, 8192
_SECONDS, _MAX_SECONDS, _MAX_REPEATS = 0.25, 1.0, 20


def measure_matrix_rate(device: torch.device | str, dtype: torch.dtype = torch.float32) -> float:
    """FLOPs a second that a device sustains in square matrix products of one dtype, as torch is set up now.

    The matrices (1,024 a side on a CPU, 8,192 on an accelerator) hold normal numbers, since some devices multiply
    zeros faster. After a warm-up, up to 20 products are timed one by one for a quarter of a second, and the median
    counts; where the warm-up takes more than a second, it counts itself. A product of n x n matrices is 2 n^3
    operations. A CPU is one device, measured with the threads that torch uses; where others use it too, it shows.

    Args:
        device: The device.
        dtype: The dtype in which products are computed, under autocast its own.

    Returns:
        The rate, in FLOP/s.

    Paper: Table 2 multiplies by the sustained rate of one GPU.
    """
    device = torch.device(device)
    side = _CPU_SIDE if device.type == "cpu" else _ACCELERATOR_SIDE
    generator = torch.Generator(device).manual_seed(0)  # of its own: the state of the training's is left alone
    first, second = (torch.randn(side, side, device=device, generator=generator).to(dtype) for _ in range(2))
    seconds = [_time_product(first, second)]
    while sum(seconds[1:]) < _SECONDS and sum(seconds) < _MAX_SECONDS and len(seconds) <= _MAX_REPEATS:
        seconds.append(_time_product(first, second))
    return 2 * side**3 / statistics.median(seconds[1:] or seconds)


def _time_product(first: torch.Tensor, second: torch.Tensor) -> float:
    """Seconds of one matrix product, by the library that the model multiplies with."""
    synchronize(first.device)
    start = time.perf_counter()
    linear(first, second)
    synchronize(first.device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Waits for what an accelerator was given to do; a CPU does it at once."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
