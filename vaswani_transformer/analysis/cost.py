# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""FLOPs of a training, counted from the model and measured on the devices.

`scripts/paper/tables.py` prints the paper's tables next to the figures of this package.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..cpu_kernels_vaswani_transformer import linear


def layer_parameters(config: VaswaniTransformerConfig) -> tuple[int, int]:
    """Return two totals: the number of parameters in all encoder layers, and in all decoder layers.

    Embeddings are not counted.
    """
    d, f, h = config.d_model, config.d_ff, config.num_heads
    attention = 2 * d * h * config.d_k + 2 * d * h * config.d_v
    if config.attention_bias:
        attention += 2 * h * config.d_k + h * config.d_v + d
    feed_forward, norm = 2 * d * f + f + d, 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return config.num_encoder_layers * encoder_layer, config.num_decoder_layers * decoder_layer


def training_flops(
    config: VaswaniTransformerConfig, source_tokens: float, target_tokens: float
) -> float:
    """Return the FLOPs of a training, counted from the parameters and the numbers of tokens.

    The count is 6 x (encoder parameters x source tokens + (decoder parameters + V x d_model) x
    target tokens). For each token, a weight of a layer takes one multiplication and one addition in
    the forward pass, and two of each in the backward pass. The output projection has V x d_model
    weights. Embeddings and positions are looked up, not multiplied.

    There are two simplifications. The products of queries with keys, and of attention weights with
    values, are left out. The keys and values of encoder-decoder attention are counted once per
    target token instead of once per source token.

    Args:
        config: Sizes of the model.
        source_tokens: Source tokens of the whole training, without padding.
        target_tokens: Target tokens of the whole training, without padding.
    """
    encoder, decoder = layer_parameters(config)
    output = config.vocab_size * config.d_model
    return 6.0 * (encoder * source_tokens + (decoder + output) * target_tokens)


def measure_cost(trainer: Any) -> dict[str, Any]:
    """Return the cost of a trainer's whole training, including the parts before a resume.

    All processes must call this function.

    Returns:
        The figures of `CostCallback.metrics` and of `measure_devices`, and these:

        - `train_code`: Versions of this package that ran the training.
        - `train_flops_paper`: Device seconds x measured FLOP/s of a device, as in Table 2.
        - `train_flops_counted`: Result of `training_flops`.
        - `train_model_flops_utilization`: `train_flops_counted` divided by `train_flops_paper`.

        The dictionary is empty if no tokens were counted.

    Paper: Table 2 multiplies the time, the number of devices and the FLOP/s that one device
    sustains.
    """
    counts = trainer.cost.metrics()
    if not counts:
        return {}
    devices = measure_devices(trainer)
    flops = counts["train_device_seconds"] * devices["train_matrix_flops_per_second"]
    counted = training_flops(
        trainer.model.config, counts["train_source_tokens"], counts["train_target_tokens"]
    )
    return {
        **counts,
        "train_code": ", then ".join(trainer.cost.code_versions),
        **devices,
        "train_flops_paper": flops,
        "train_flops_counted": counted,
        "train_model_flops_utilization": counted / flops,
    }


def measure_devices(trainer: Any) -> dict[str, Any]:
    """Measure the devices of a trainer, in at most about a second.

    All processes must call this function.

    Returns:
        - `train_num_devices`: Number of devices, one per process.
        - `train_device`: Name and precision of this process's device.
        - `train_matrix_flops_per_second`: FLOP/s of one device in this precision, as the mean over
          all processes.
    """
    args = trainer.args
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else torch.float32
    rate = torch.tensor(measure_matrix_rate(args.device, dtype), device=args.device)
    name = args.device.type.upper()
    if name == "CUDA":
        name = torch.cuda.get_device_name(args.device)
    elif name == "CPU":
        name = f"CPU with {torch.get_num_threads()} thread(s)"
    return {
        "train_num_devices": args.world_size,
        "train_device": f"{name}, {str(dtype).removeprefix('torch.')}",
        "train_matrix_flops_per_second": trainer.accelerator.reduce(rate, "mean").item(),
    }


def measure_matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Measure the FLOP/s of a device in square matrix products, with the kernels of the model.

    The matrices are 1,024 x 1,024 on a CPU and 8,192 x 8,192 on other devices. They hold random
    numbers, because some devices multiply zeros faster. The rate is computed from the median time
    of a product. After one product to warm up, products are timed for a quarter of a second, at
    most 20 of them.

    Paper: Table 2 uses the sustained rate of one GPU.
    """
    side = 1024 if device.type == "cpu" else 8192
    generator = torch.Generator(device).manual_seed(0)  # torch's global generator stays unchanged
    first, second = (
        torch.randn(side, side, device=device, generator=generator).to(dtype) for _ in range(2)
    )
    seconds: list[float] = []
    while sum(seconds[1:]) < 0.25 and sum(seconds) < 1 and len(seconds) <= 20:
        start = time.perf_counter()
        linear(first, second)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        seconds.append(time.perf_counter() - start)
    return 2 * side**3 / statistics.median(seconds[1:] or seconds)
