# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a training costs in floating-point operations: the paper's way (Table 2), and by counting them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from .text_table import align_columns, wrap

_PAPER_TOKENS_PER_UPDATE = 25_000  # on each side
_PAPER_NUM_DEVICES = 8
_P100_FLOPS_PER_SECOND = 9.5e12  # single precision, sustained, as the paper says


def paper_flops(device_seconds: float, flops_per_second: float) -> float:
    """Cost of a training the paper's way: time x number of devices x the rate one of them sustains.

    Args:
        device_seconds: Wall time of the training, idle or busy, times the number of devices.
        flops_per_second: Rate of one device in matrix multiplications; see `measure_matrix_rate`.

    Paper: Table 2, section 6.1.
    """
    return device_seconds * flops_per_second


def layer_parameters(config: VaswaniTransformerConfig) -> tuple[int, int]:
    """Parameters of the encoder's layers and of the decoder's, without embeddings and positions.

    Paper: section 3.
    """
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

    Args:
        config: The model's configuration.
        source_tokens: Real source tokens trained on, with `</s>`.
        target_tokens: Real target tokens trained on, with `</s>`.
    """
    encoder, decoder = layer_parameters(config)
    output = config.vocab_size * config.d_model
    return 6.0 * (encoder * source_tokens + (decoder + output) * target_tokens)


@dataclass(frozen=True, kw_only=True)
class TrainingCost:
    """Tokens, time and operations of a training, made or to come.

    Args:
        config: The model's configuration.
        num_steps: Updates.
        source_tokens: Real source tokens, with `</s>`, of all updates.
        target_tokens: Real target tokens, with `</s>`, of all updates.
        seconds: Wall time.
        device_seconds: Wall time x number of devices.
        flops_per_second: Matrix rate of one device; None if it is not known.
    """

    config: VaswaniTransformerConfig
    num_steps: int
    source_tokens: int
    target_tokens: int
    seconds: float
    device_seconds: float
    flops_per_second: float | None = None

    @property
    def tokens_per_second(self) -> float:
        """Real source and target tokens a second, over all devices."""
        return (self.source_tokens + self.target_tokens) / self.seconds

    @property
    def num_devices(self) -> float:
        """Devices; the mean over time where a training went on with another number of them."""
        return self.device_seconds / self.seconds

    @property
    def flops_paper(self) -> float | None:
        """Cost the paper's way; None without a matrix rate."""
        return None if self.flops_per_second is None else paper_flops(self.device_seconds, self.flops_per_second)

    @property
    def flops_counted(self) -> float:
        """Cost by counting operations."""
        return training_flops(self.config, self.source_tokens, self.target_tokens)

    @property
    def utilization(self) -> float | None:
        """Model FLOPs utilisation: the share of what the devices could have multiplied in this time that was needed.

        0 to about 1; None without a matrix rate.
        """
        return None if self.flops_paper is None else self.flops_counted / self.flops_paper


def estimate_cost(
    config: VaswaniTransformerConfig,
    *,
    max_steps: int,
    source_tokens_per_update: int,
    target_tokens_per_update: int,
    tokens_per_second: float,
    num_devices: int = 1,
    flops_per_second: float | None = None,
) -> TrainingCost:
    """What a training will cost at a speed that was measured, for example in the first minutes of it.

    Args:
        config: The model's configuration.
        max_steps: Updates.
        source_tokens_per_update: Real source tokens of an update.
        target_tokens_per_update: Real target tokens of an update.
        tokens_per_second: Real source and target tokens a second over all devices: `train_tokens_per_second` of a
            run's results.
        num_devices: Devices that reach this speed together.
        flops_per_second: Matrix rate of one of them: `train_matrix_flops_per_second` of a run's results; None if it
            is not known: then there is no cost the paper's way.

    Raises:
        ValueError: If a number is not finite and above 0.

    Example:
        >>> sizes = {"max_steps": 100_000, "source_tokens_per_update": 25_000, "target_tokens_per_update": 25_000}
        >>> print(format_cost(estimate_cost(VaswaniTransformerConfig(), **sizes, tokens_per_second=50_000)))
    """
    numbers = {
        "max_steps": max_steps,
        "source_tokens_per_update": source_tokens_per_update,
        "target_tokens_per_update": target_tokens_per_update,
        "tokens_per_second": tokens_per_second,
        "num_devices": num_devices,
        "flops_per_second": flops_per_second,
    }
    for name, value in numbers.items():
        check_positive(name, value)
    source_tokens, target_tokens = max_steps * source_tokens_per_update, max_steps * target_tokens_per_update
    seconds = (source_tokens + target_tokens) / tokens_per_second
    return TrainingCost(
        config=config,
        num_steps=max_steps,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        seconds=seconds,
        device_seconds=seconds * num_devices,
        flops_per_second=flops_per_second,
    )


def check_positive(name: str, value: float | None) -> None:
    """Raises ValueError for a number that is not finite and above 0; None, which is not known, passes."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ValueError(f"`{name}` must be a finite number above 0, got {value}. Pass another value.")


# ---- beside the paper ----


@dataclass(frozen=True)
class PaperTraining:
    """A training of the paper, on 8 P100.

    Args:
        preset: Name of its model in `PRESETS`.
        max_steps: Updates.
        seconds_per_step: Time of an update as the paper gives it.
        seconds: Time of the training as the paper gives it.
        flops: Its cost as Table 2 prints it.

    Paper: section 5.2, Table 2.
    """

    preset: str
    max_steps: int
    seconds_per_step: float
    seconds: float
    flops: float

    @property
    def cost(self) -> TrainingCost:
        """The training's cost, from its time and from full updates of 25,000 source and 25,000 target tokens."""
        tokens = self.max_steps * _PAPER_TOKENS_PER_UPDATE
        return TrainingCost(
            config=VaswaniTransformerConfig.from_preset(self.preset),
            num_steps=self.max_steps,
            source_tokens=tokens,
            target_tokens=tokens,
            seconds=self.seconds,
            device_seconds=_PAPER_NUM_DEVICES * self.seconds,
            flops_per_second=_P100_FLOPS_PER_SECOND,
        )

    @property
    def printed_flops(self) -> str:
        """Its cost in the digits of Table 2."""
        return f"{self.flops:.1e}".replace("e+", "e")

    def __str__(self) -> str:
        """How the printed figure comes about."""
        by_steps = self.max_steps * self.seconds_per_step
        flops, flops_by_steps = (
            paper_flops(_PAPER_NUM_DEVICES * seconds, _P100_FLOPS_PER_SECOND) for seconds in (self.seconds, by_steps)
        )
        return (
            f"The paper's {self.preset}: {format_hours(self.seconds)} h x {_PAPER_NUM_DEVICES} P100 x "
            f"{_P100_FLOPS_PER_SECOND / 1e12} TFLOP/s = {format_flops(flops)}, which Table 2 prints "
            f"as {self.printed_flops}; by its time a step, {self.max_steps:,} x {self.seconds_per_step} s = "
            f"{format_hours(by_steps)} h, it is {format_flops(flops_by_steps)}."
        )


PAPER_TRAININGS: tuple[PaperTraining, ...] = (
    PaperTraining("base", max_steps=100_000, seconds_per_step=0.4, seconds=12 * 3600, flops=3.3e18),
    PaperTraining("big", max_steps=300_000, seconds_per_step=1.0, seconds=3.5 * 86_400, flops=2.3e19),
)


def paper_trainings(config: VaswaniTransformerConfig) -> tuple[PaperTraining, ...]:
    """The paper's training of a model of these sizes; all of them where it trained none in Table 2."""
    same = tuple(training for training in PAPER_TRAININGS if _sizes(training.cost.config) == _sizes(config))
    return same or PAPER_TRAININGS


def _sizes(config: VaswaniTransformerConfig) -> tuple[int, ...]:
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    return (config.d_model, config.d_ff, config.num_heads, config.d_k, config.d_v, *layers)


def cost_table(cost: TrainingCost) -> list[tuple[str, ...]]:
    """A training's cost beside the paper's as rows of text: what is told, this training, the paper's (one or two)."""
    papers = paper_trainings(cost.config)
    header = ("", "this training", *(f"the paper's {training.preset}" for training in papers))
    columns = [_figures(cost), *(_figures(training.cost) for training in papers)]
    rows = [(label, *(column[label] for column in columns)) for label in columns[0]]
    printed = ("FLOPs, as Table 2 prints them", "", *(training.printed_flops for training in papers))
    return [header, *rows, printed]


def _figures(cost: TrainingCost) -> dict[str, str]:
    """What a training cost, as text by name."""
    rate, flops, share = cost.flops_per_second, cost.flops_paper, cost.utilization
    return {
        "updates": f"{cost.num_steps:,}",
        "source tokens": f"{cost.source_tokens:,}",
        "target tokens": f"{cost.target_tokens:,}",
        "tokens, both sides": f"{cost.source_tokens + cost.target_tokens:,}",
        "tokens a second": f"{cost.tokens_per_second:,.0f}",
        "hours": format_hours(cost.seconds),
        "devices": f"{cost.num_devices:.3g}",
        "device hours": format_hours(cost.device_seconds),
        "matrix rate of a device, TFLOP/s": "unknown" if rate is None else f"{rate / 1e12:.3g}",
        "FLOPs, device seconds x matrix rate": "unknown" if flops is None else format_flops(flops),
        "FLOPs, counted": format_flops(cost.flops_counted),
        "model FLOPs utilisation": "unknown" if share is None else f"{share:.1%}",
    }


def format_flops(flops: float) -> str:
    """A number of operations as the paper writes it, with one more digit: 3.28e18."""
    return f"{flops:.2e}".replace("e+", "e")


def format_hours(seconds: float) -> str:
    """Hours of a time in seconds, to three digits."""
    hours = seconds / 3600
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.3g}"


def format_cost(cost: TrainingCost) -> str:
    """A training's cost beside the paper's row of Table 2 as text, with how the figures come about."""
    papers = paper_trainings(cost.config)
    notes = [str(training) for training in papers]
    notes.append(
        "Counted: 6 x (encoder parameters x source tokens + (decoder parameters + V x d_model) x target tokens), "
        "without padding; for the paper with 25,000 tokens a side and 37,000 entries. Utilisation: counted / the "
        "paper's way."
    )
    notes.append("Updates count as full; those of a real corpus hold a few per cent fewer tokens on one side or both.")
    if len(papers) > 1:
        notes.append("Table 2 has no model of these sizes; the paper's trainings are shown for comparison.")
    if cost.flops_per_second is None:
        notes.append(
            "Without the matrix rate of the device there is no figure the paper's way; every training measures it "
            "(`train_matrix_flops_per_second` in train_results.json)."
        )
    return "\n".join([align_columns(cost_table(cost)), "", *(wrap(note) for note in notes)])
