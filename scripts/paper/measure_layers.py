# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures time and memory of real layers over the length of the sequence, beside the orders of
Table 1.

Our attention with both of its usual backends, nn.LSTM and nn.Conv1d, in fp32. A time is the median
of several, in each of which a layer runs as often as fills 20 ms; layers and lengths take turns, so
that what disturbs the machine for a while disturbs all of them. Shapes: B batch, n positions, d
width of a position.
"""

import argparse
import math
import os
import statistics
import time

import torch
from tables import CONVOLUTIONAL, RECURRENT, SELF_ATTENTION, Sizes, align_columns, wrap
from torch import nn

from vaswani_transformer import VaswaniTransformerConfig
from vaswani_transformer.modeling_vaswani_transformer import MultiHeadAttention

NUM_HEADS = 8  # as in the base model
# For each layer its row of Table 1, and all of its multiplications: for attention the projections,
# then scores and sums of values; for the LSTM four gates, each from a position's input and from the
# state before it.
LAYERS = {
    "attention, eager": (SELF_ATTENTION, lambda n, d, k: 4 * n * d**2 + 2 * n**2 * d),
    "attention, sdpa": (SELF_ATTENTION, lambda n, d, k: 4 * n * d**2 + 2 * n**2 * d),
    "LSTM": (RECURRENT, lambda n, d, k: 8 * n * d**2),
    "Conv1d": (CONVOLUTIONAL, lambda n, d, k: k * n * d**2),
}


def make_layer(name, d, k):
    if name == "LSTM":
        return nn.LSTM(d, d, batch_first=True)
    if name == "Conv1d":
        return nn.Conv1d(d, d, k, padding="same")
    config = VaswaniTransformerConfig(d_model=d, num_heads=NUM_HEADS)
    config._attn_implementation = name.split()[-1]
    return MultiHeadAttention(config)


def make_run(name, layer, n, d, batch_size, device, backward):
    """A call of a layer at one length."""
    shape = (d, n) if name == "Conv1d" else (n, d)
    states = torch.randn(batch_size, *shape, device=device).requires_grad_(backward)
    inputs, gradient = [states, *layer.parameters()], torch.ones_like(states)

    def run():
        output = layer(states)
        output = output[0] if isinstance(output, tuple) else output
        if backward:
            torch.autograd.grad(output, inputs, gradient)

    return run


def time_calls(run, num_calls, device):
    """Seconds of some calls together."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    start = time.perf_counter()
    for _ in range(num_calls):
        run()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - start


def peak_memory(run, device):
    """Bytes that a computation holds at its peak, beyond what was allocated before.

    On a CPU they are summed from the profiler's record of each allocation and release, on a GPU the
    allocator counts them. What libraries take by themselves, such as the buffers of MKL, is in
    neither.
    """
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # it writes to stderr when it starts and stops
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        run()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    peak = allocated = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        allocated += event.nbytes()  # below 0 for a release
        peak = max(peak, allocated)
    return peak


def measure_layers(lengths, *, d=512, k=3, batch_size=1, repeats=5, device="cpu", backward=False):
    """Seconds of a call in each repeat, and bytes of memory: both by layer, then length."""
    device, seconds = torch.device(device), {}
    with torch.set_grad_enabled(backward):
        layers = {name: make_layer(name, d, k).to(device).train(backward) for name in LAYERS}
        runs = {
            (name, n): make_run(name, layers[name], n, d, batch_size, device, backward)
            for n in lengths
            for name in LAYERS
        }
        num_calls = {}
        for key, run in runs.items():
            run()  # warms up
            num_calls[key] = math.ceil(0.02 / max(time_calls(run, 1, device), 1e-6))
        for _ in range(repeats):
            for key, run in runs.items():
                seconds.setdefault(key, []).append(
                    time_calls(run, num_calls[key], device) / num_calls[key]
                )
        memory = {key: peak_memory(run, device) for key, run in runs.items()}
    return tuple(
        {name: {n: values[name, n] for n in lengths} for name in LAYERS}
        for values in (seconds, memory)
    )


def fit_exponent(values):
    """The p of c n^p closest to values by length over the upper half of these, by least squares in
    logarithms.
    """
    fitted = sorted(values)[-max(2, math.ceil(len(values) / 2)) :]
    return statistics.linear_regression(
        [math.log(n) for n in fitted], [math.log(values[n]) for n in fitted]
    ).slope


def format_layers(seconds, memory, *, d, k):
    """A table of times and one of memory, with the exponents of n, measured and by formula."""
    lengths = sorted(next(iter(memory.values())))
    medians = {name: {n: statistics.median(seconds[name][n]) for n in lengths} for name in LAYERS}
    choices = (statistics.median, min, max)
    ranges = {
        name: sorted(
            fit_exponent({n: choose(seconds[name][n]) for n in lengths}) for choose in choices
        )
        for name in LAYERS
    }
    header = ("n", *LAYERS)
    times = [
        *((f"{n:,}", *(f"{1e3 * medians[name][n]:#.3g}" for name in LAYERS)) for n in lengths),
        ("exponent, measured", *(f"{fit_exponent(medians[name]):.2f}" for name in LAYERS)),
        ("its range", *(f"{ranges[name][0]:.2f} to {ranges[name][-1]:.2f}" for name in LAYERS)),
        (
            "of all multiplications",
            *(_exponent(count, lengths, d, k) for _, count in LAYERS.values()),
        ),
        ("of Table 1", *(_exponent(_order(row), lengths, d, k) for row, _ in LAYERS.values())),
    ]
    peaks = [
        *((f"{n:,}", *(f"{memory[name][n] / 2**20:#.3g}" for name in LAYERS)) for n in lengths),
        ("exponent, measured", *(f"{fit_exponent(memory[name]):.2f}" for name in LAYERS)),
    ]
    notes = (
        "Exponents p of n^p: least squares in logarithms over the upper half of the lengths; the "
        "range is that of fits to the median, the fastest and the slowest of the repeats. "
        "Self-attention takes 4 n d^2 + 2 n^2 d multiplications; Table 1 leaves out the first "
        "term, the projections, which weighs more until n = 2 d. Eager attention holds all n^2 "
        f"weights of {NUM_HEADS} heads, sdpa makes them block by block. Restricted self-attention "
        "has a formula and no layer here."
    )
    return "\n".join(
        [
            "Time in milliseconds",
            align_columns([header, *times]),
            "",
            "Memory in MiB: the peak beyond the layer's own weights and its input",
            align_columns([header, *peaks]),
            "",
            wrap(notes),
        ]
    )


def _order(row):
    return lambda n, d, k: row.complexity(Sizes(n=n, d=d, k=k))


def _exponent(count, lengths, d, k):
    return f"{fit_exponent({n: count(n, d, k) for n in lengths}):.2f}"


def draw_layers(seconds, memory, title):
    """Time and memory over n on logarithmic axes, a curve for each layer, with the slopes of n and
    n^2.
    """
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    medians = {
        name: {n: 1e3 * statistics.median(times) for n, times in seconds[name].items()}
        for name in LAYERS
    }
    mebibytes = {name: {n: count / 2**20 for n, count in memory[name].items()} for name in LAYERS}
    for axes, values, unit in zip(
        panels, (medians, mebibytes), ("milliseconds", "MiB, peak"), strict=True
    ):
        for name, style in zip(LAYERS, ("-", "--", "-.", ":"), strict=True):
            axes.plot(
                values[name].keys(),
                values[name].values(),
                style,
                marker="o",
                markersize=4,
                label=name,
            )
        lengths = sorted(values["LSTM"])
        start = min(min(column.values()) for column in values.values()) / 2
        for power in (1, 2):
            axes.plot(
                lengths,
                [start * (n / lengths[0]) ** power for n in lengths],
                color="#aaaaaa",
                linewidth=0.8,
            )
        axes.set(xscale="log", yscale="log", xlabel="n, positions", ylabel=unit)
    panels[0].legend(frameon=False)
    figure.suptitle(f"{title}; grey: n and n²")
    return figure


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--d", type=int, default=512, help="width of a position, a multiple of 8")
    parser.add_argument("--k", type=int, default=3, help="width of the convolution's kernel")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--backward", action="store_true", help="with the gradients, as in training"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", help="also draw a picture, .png or .svg (needs the extra viz)")
    args = parser.parse_args()
    if len(set(args.lengths)) < 2:
        parser.error("--lengths must have two different numbers or more.")
    options = {key: value for key, value in vars(args).items() if key not in ("lengths", "output")}
    seconds, memory = measure_layers(args.lengths, **options)
    print(
        f"{'forward and backward' if args.backward else 'forward'}, d = {args.d}, k = {args.k}, "
        f"batch {args.batch_size}, fp32, {args.device}, median of {args.repeats}"
    )
    print(format_layers(seconds, memory, d=args.d, k=args.k))
    if args.output:
        draw_layers(seconds, memory, f"Layers of Table 1 at d = {args.d}").savefig(args.output)
        print(f"written: {args.output}")


if __name__ == "__main__":
    main()
