# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The FLOPs of a training.

`scripts/paper/tables.py` prints the paper's tables beside our figures.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..cpu_kernels_vaswani_transformer import linear
from ..extras import gone


def layer_parameters(config: VaswaniTransformerConfig) -> tuple[int, int]:
    """Parameters of the encoder's layers and of the decoder's, without embeddings and positions."""
    d, f, h = config.d_model, config.d_ff, config.num_heads
    attention = 2 * d * h * config.d_k + 2 * d * h * config.d_v
    if config.attention_bias:
        attention += 2 * h * config.d_k + h * config.d_v + d
    feed_forward, norm = 2 * d * f + f + d, 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return config.num_encoder_layers * encoder_layer, config.num_decoder_layers * decoder_layer


def training_flops(config: VaswaniTransformerConfig, source_tokens: float, target_tokens: float) -> float:
    """Operations that training a model on so many tokens takes, counted from its parameters.

    6 x (encoder parameters x source tokens + (decoder parameters + V x d_model) x target tokens): every weight of a
    layer multiplies and adds once a token in the forward pass and twice in the backward pass. The output projection
    counts as V x d_model; embeddings and positions are looked up, not multiplied. Padding does not count. Products
    of queries, keys and values with each other are left out, and the keys and values of the encoder-decoder attention
    are counted by target instead of source tokens.
    """
    encoder, decoder = layer_parameters(config)
    output = config.vocab_size * config.d_model
    return 6.0 * (encoder * source_tokens + (decoder + output) * target_tokens)


def measure_cost(trainer: Any) -> dict[str, Any]:
    """Cost of a training of `VaswaniTransformerTrainer`, over all its resumes; every process calls it.

    Returns:
        The counts of `CostCallback.metrics`; `train_code`, versions of this package; those of `measure_devices`;
        `train_flops_paper`, `train_flops_counted` and `train_model_flops_utilization`, the second over the first.
        Empty where no token was counted.

    Paper: Table 2 multiplies the time, the number of devices and the matrix rate that one of them sustains.
    """
    counts = trainer.cost.metrics()
    if not counts:
        return {}
    devices = measure_devices(trainer)
    flops = counts["train_device_seconds"] * devices["train_matrix_flops_per_second"]
    counted = training_flops(trainer.model.config, counts["train_source_tokens"], counts["train_target_tokens"])
    return {
        **counts,
        "train_code": ", then ".join(trainer.cost.code_versions),
        **devices,
        "train_flops_paper": flops,
        "train_flops_counted": counted,
        "train_model_flops_utilization": counted / flops,
    }


def measure_devices(trainer: Any) -> dict[str, Any]:
    """Measures the devices that a trainer computes on, in well under a second; every process calls it.

    Returns:
        `train_num_devices`; `train_device`, its name and the precision; `train_matrix_flops_per_second`, the rate of
        one of them in it, a mean over processes.
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
    """FLOP/s of a device in square matrix products (1,024 a side on a CPU, else 8,192), with the model's kernels.

    The median of up to 20 products within a quarter of a second, after one that warms up. The matrices hold normal
    numbers, since some devices multiply zeros faster.

    Paper: Table 2 multiplies by the sustained rate of one GPU.
    """
    side = 1024 if device.type == "cpu" else 8192
    generator = torch.Generator(device).manual_seed(0)  # leaves the state of the training's alone
    first, second = (torch.randn(side, side, device=device, generator=generator).to(dtype) for _ in range(2))
    seconds: list[float] = []
    while sum(seconds[1:]) < 0.25 and sum(seconds) < 1 and len(seconds) <= 20:
        start = time.perf_counter()
        linear(first, second)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        seconds.append(time.perf_counter() - start)
    return 2 * side**3 / statistics.median(seconds[1:] or seconds)


__getattr__ = gone(
    __name__,
    "CONTIGUOUS_PATH_LENGTH CONVOLUTIONAL LayerType Order RECURRENT RESTRICTED_SELF_ATTENTION SELF_ATTENTION "
    "SEPARABLE_COMPLEXITY Sizes TABLE_1 Table3Row VARIATIONS Variation paper_flops table_3",
    "Use scripts/paper/tables.py of the repository.",
)
