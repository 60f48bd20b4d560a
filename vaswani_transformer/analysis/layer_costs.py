# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of real layers over the length of the sequence, beside the orders of Table 1.

Shapes: B batch, n positions, d width of a position.
"""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..modeling_vaswani_transformer import MultiHeadAttention
from .complexity import CONVOLUTIONAL, RECURRENT, SELF_ATTENTION, LayerType, Order, Sizes, check_size
from .matrix_rate import synchronize
from .memory import available_memory, measure_peak_memory

logger = logging.getLogger(__name__)

NUM_HEADS = 8  # as in the base model
_SHORTEST_SECONDS = 0.02  # of what is timed at once: a clock's tick and a call's cost are nothing beside it
_BYTES = 4  # of a number in fp32
_GIB = 2**30


@dataclass(frozen=True)
class Contestant:
    """A layer that is measured: (B, n, d) -> (B, n, d).

    Args:
        kind: What it is, in a word.
        variant: Which of its kind.
        row: Its row of Table 1.
        build: Makes it, from sizes.
        multiplications: How many it takes for one sequence, all of them.
        memory: Order of what it holds at once, in n alone; Table 1 does not tell.
        channels_first: Whether it takes and gives (B, d, n).
    """

    kind: str
    variant: str
    row: LayerType
    build: Callable[[Sizes], nn.Module]
    multiplications: Order
    memory: Order
    channels_first: bool = False

    @property
    def name(self) -> str:
        """Kind and variant."""
        return f"{self.kind} ({self.variant})"


def _attention(backend: str) -> Callable[[Sizes], nn.Module]:
    def build(sizes: Sizes) -> nn.Module:
        config = VaswaniTransformerConfig(d_model=sizes.d, num_heads=NUM_HEADS)
        config._attn_implementation = backend
        return MultiHeadAttention(config)

    return build


def _convolution(sizes: Sizes) -> nn.Module:
    return nn.Conv1d(sizes.d, sizes.d, sizes.k, padding="same")


_IN_N, _IN_N_SQUARED = Order("n", lambda s: s.n), Order("n^2", lambda s: s.n**2)
# Projections of queries, keys, values and output; then scores and sums of values.
_ATTENTION = Order("4 n d^2 + 2 n^2 d", lambda s: 4 * s.n * s.d**2 + 2 * s.n**2 * s.d)
# Four gates, each from a position's input and from the state before it.
_LSTM = Order("8 n d^2", lambda s: 8 * s.n * s.d**2)

CONTESTANTS: tuple[Contestant, ...] = (
    Contestant("self-attention", "eager", SELF_ATTENTION, _attention("eager"), _ATTENTION, _IN_N_SQUARED),
    Contestant("self-attention", "sdpa", SELF_ATTENTION, _attention("sdpa"), _ATTENTION, _IN_N),
    Contestant("recurrent", "LSTM", RECURRENT, lambda s: nn.LSTM(s.d, s.d, batch_first=True), _LSTM, _IN_N),
    Contestant(
        "convolution",
        "Conv1d",
        CONVOLUTIONAL,
        _convolution,
        Order("k n d^2", CONVOLUTIONAL.complexity.value),
        _IN_N,
        channels_first=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class LayerCosts:
    """What the layers took, each by its name, at each length.

    Args:
        lengths: Positions, ascending.
        sizes: Of the layers; the lengths take the place of n.
        batch_size: Sequences at once.
        repeats: Timings of each layer at each length.
        backward: Whether the gradients were computed, too.
        device: Where, with its name or number of threads.
        timings: Time of a call, in each of the repeats.
        num_bytes: Peak of memory beyond the layer and its input.
    """

    lengths: tuple[int, ...]
    sizes: Sizes
    batch_size: int
    repeats: int
    backward: bool
    device: str
    timings: dict[str, tuple[tuple[float, ...], ...]]
    num_bytes: dict[str, tuple[int, ...]]

    @property
    def seconds(self) -> dict[str, tuple[float, ...]]:
        """Time of a call: the median of the repeats."""
        return {name: tuple(map(statistics.median, timings)) for name, timings in self.timings.items()}

    @property
    def fitted_lengths(self) -> tuple[int, ...]:
        """Their upper half, at least two, from which exponents are fitted."""
        return self.lengths[-max(2, math.ceil(len(self.lengths) / 2)) :]

    def exponent(self, values: Sequence[float]) -> float:
        """Exponent of n in values at all the lengths, fitted over their upper half."""
        lengths = self.fitted_lengths
        return fit_exponent(lengths, values[-len(lengths) :])

    def exponent_range(self, name: str) -> tuple[float, float]:
        """Lowest and highest exponent of a layer's time: of the median, the fastest and the slowest of the repeats."""
        timings = self.timings[name]
        exponents = [self.exponent([choose(times) for times in timings]) for choose in (statistics.median, min, max)]
        return min(exponents), max(exponents)

    def exponent_of(self, order: Order) -> float:
        """Exponent of n in a formula, fitted over the same lengths."""
        return self.exponent([order(replace(self.sizes, n=n)) for n in self.lengths])


def fit_exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The p of c n^p that is closest to values at lengths n, by least squares of logarithms."""
    return statistics.linear_regression([math.log(n) for n in lengths], [math.log(value) for value in values]).slope


def measure_layers(
    lengths: Sequence[int],
    *,
    d: int = 512,
    k: int = 3,
    batch_size: int = 1,
    repeats: int = 5,
    device: torch.device | str | None = None,
    backward: bool = False,
) -> LayerCosts:
    """Time and memory of our attention with both of its usual backends, `nn.LSTM` and `nn.Conv1d`, in fp32.

    A time is the median of several, in each of which a layer runs as often as fills 20 ms. Layers and lengths take
    turns, so that what disturbs the machine for a while disturbs all of them. Memory is measured in a run of its own.

    Args:
        lengths: Positions of the sequences, at least two different numbers.
        d: Width of a position, of 8 heads together.
        k: Width of the convolution's kernel.
        batch_size: Sequences at once.
        repeats: Timings of each layer at each length.
        device: Name of a CPU or CUDA device; None takes a GPU if there is one.
        backward: Whether to compute the gradients of input and weights, too, as in training.

    Raises:
        ValueError: If a value is out of range, or needs more memory than there is.

    Example:
        >>> print(format_layer_costs(measure_layers([256, 512, 1024], d=128)))

    Paper: Table 1, section 4.
    """
    sizes, lengths, place = _checked_sizes(d, k), _checked_lengths(lengths), _checked_device(device)
    check_size("batch_size", batch_size)
    check_size("repeats", repeats)
    _check_memory(sizes, lengths, batch_size, place, num_copies=3 if backward else 2)
    with torch.set_grad_enabled(backward), _undisturbing():
        runs = _make_runs(sizes, lengths, batch_size, place, backward)
        timings = _measure_timings(runs, repeats, place)
        peaks = {key: measure_peak_memory(run, place) for key, run in runs.items()}
    return LayerCosts(
        lengths=lengths,
        sizes=sizes,
        batch_size=batch_size,
        repeats=repeats,
        backward=backward,
        device=_describe(place),
        timings=_by_name(timings, lengths),
        num_bytes=_by_name(peaks, lengths),
    )


# ---- what can be measured ----


def _checked_sizes(d: int, k: int) -> Sizes:
    sizes = Sizes(d=d, k=k)
    if d % NUM_HEADS:
        raise ValueError(
            f"`d` must be divisible by the {NUM_HEADS} heads that are measured, got {d}. Pass a multiple."
        )
    return sizes


def _checked_lengths(lengths: Sequence[int]) -> tuple[int, ...]:
    for length in lengths:
        check_size("lengths", length)
    different = tuple(sorted(set(lengths)))
    if len(different) < 2:
        got = " ".join(map(str, lengths)) or "none"
        raise ValueError(
            f"`lengths` must be at least two different numbers, got {got}. Pass more: an exponent is fitted to them."
        )
    return different


def _checked_device(device: torch.device | str | None) -> torch.device:
    """The device itself, or a GPU if there is one; refused where its memory cannot be measured."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if str(device).split(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f"`device` must be cpu or a CUDA device, got {device}. Memory is measured on these alone.")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"`device` must be a device of this machine, got {device} ({reason}). Pass cpu.") from error


def _check_memory(
    sizes: Sizes, lengths: Sequence[int], batch_size: int, device: torch.device, num_copies: int
) -> None:
    """Refuses what would not fit, before any of it is made.

    Eager attention holds its weights and the scores they come from, backward the gradients of both and the weights.
    """
    num_scores = num_copies * NUM_HEADS * lengths[-1] ** 2
    parts = {
        ("d", sizes.d): ("attention and LSTM hold 16 d^2 weights", 16 * sizes.d**2),
        ("k", sizes.k): ("the convolution holds k d^2 weights", sizes.k * sizes.d**2),
        ("lengths", lengths[-1]): (
            f"eager attention holds {num_copies} x {NUM_HEADS} heads x n^2 numbers, each sequence",
            batch_size * (num_scores + lengths[-1] * sizes.d),
        ),
    }
    available = available_memory(device)
    if available is None or _BYTES * sum(count for _, count in parts.values()) <= available:
        return
    (name, value), (what, count) = max(parts.items(), key=lambda part: part[1][1])
    raise ValueError(
        f"`{name}` must leave what is measured within the {available / _GIB:,.1f} GiB that are free on {device}, got "
        f"{value}: {what}, {_BYTES * count / _GIB:,.1f} GiB. Pass a smaller one."
    )


def _describe(device: torch.device) -> str:
    if device.type == "cpu":
        num_threads = torch.get_num_threads()
        return f"CPU, {num_threads} thread{'s' if num_threads > 1 else ''}"
    return torch.cuda.get_device_name(device)


# ---- measuring ----

_Key = tuple[int, str]  # length, name of a contestant


@contextlib.contextmanager
def _undisturbing() -> Iterator[None]:
    """Leaves the random state as it was, and torch's warning of copies for even kernels unsaid."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using padding='same' with even kernel lengths")
        yield


def _make_runs(
    sizes: Sizes, lengths: Sequence[int], batch_size: int, device: torch.device, backward: bool
) -> dict[_Key, Callable[[], None]]:
    """A call of each layer at each length; all lengths share a layer."""
    layers = [contestant.build(sizes).to(device).train(backward) for contestant in CONTESTANTS]
    runs = {}
    for length in lengths:
        for contestant, layer in zip(CONTESTANTS, layers, strict=True):
            shape = (sizes.d, length) if contestant.channels_first else (length, sizes.d)
            states = torch.randn(batch_size, *shape).to(device).requires_grad_(backward)
            runs[length, contestant.name] = _make_run(layer, states, backward)
    return runs


def _make_run(layer: nn.Module, states: torch.Tensor, backward: bool) -> Callable[[], None]:
    inputs = [states, *layer.parameters()]
    gradient = torch.ones_like(states) if backward else None

    def run() -> None:
        output = layer(states)
        output = output[0] if isinstance(output, tuple) else output
        if backward:
            torch.autograd.grad(output, inputs, gradient)

    return run


def _measure_timings(
    runs: dict[_Key, Callable[[], None]], repeats: int, device: torch.device
) -> dict[_Key, tuple[float, ...]]:
    """Time of each call in each round; a round times every one of them."""
    logger.info(f"measuring {len(runs)} layers and lengths: warm-up, then {repeats} rounds")
    num_calls = {key: _num_calls(run, device) for key, run in runs.items()}
    timings: dict[_Key, list[float]] = {key: [] for key in runs}
    for index in range(repeats):
        for key, run in runs.items():
            timings[key].append(_time(run, num_calls[key], device) / num_calls[key])
        logger.info(f"round {index + 1} of {repeats} done")
    return {key: tuple(times) for key, times in timings.items()}


def _num_calls(run: Callable[[], None], device: torch.device) -> int:
    """Calls that take at least 20 ms, found by trying after a warm-up."""
    run()
    num_calls = 1
    while (seconds := _time(run, num_calls, device)) < _SHORTEST_SECONDS:
        wanted = 1.2 * num_calls * _SHORTEST_SECONDS / max(seconds, 1e-9)
        num_calls = math.ceil(min(max(wanted, 2 * num_calls), 10 * num_calls))
    return num_calls


def _time(run: Callable[[], None], num_calls: int, device: torch.device) -> float:
    """Seconds of some calls together."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(num_calls):
        run()
    synchronize(device)
    return time.perf_counter() - start


def _by_name(values: dict[_Key, Any], lengths: Sequence[int]) -> dict[str, tuple[Any, ...]]:
    return {each.name: tuple(values[length, each.name] for length in lengths) for each in CONTESTANTS}
