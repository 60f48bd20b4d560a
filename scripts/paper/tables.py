# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Prints the paper's tables beside our figures: table1, table3, and what a recipe costs beside
Table 2.

What layers really take is measured by measure_layers.py, the speed of this machine by
measure_speed.py; the rows of Table 3 are trained by train_table3.py.
"""

import argparse
import math
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration
from vaswani_transformer.analysis.cost import training_flops
from vaswani_transformer.recipe import get_recipe


def align_columns(rows):
    """Rows of cells as lines of aligned columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def wrap(text):
    return textwrap.fill(text, 119)


# ---- Table 1 ----


@dataclass(frozen=True)
class Sizes:
    """Sizes that Table 1 speaks of.

    Args:
        n: Positions of the sequence.
        d: Width of a position's representation.
        k: Width of a convolution's kernel.
        r: Positions that restricted self-attention looks at; it counts up to n, since there are no
            more.

    Paper: section 4.
    """

    n: int = 1024
    d: int = 512
    k: int = 3
    r: int = 64


@dataclass(frozen=True)
class Order:
    """An order of growth, constant factors 1; infinite where no number of layers would do."""

    formula: str
    value: Callable[[Sizes], float]

    def __call__(self, sizes: Sizes) -> float:
        """The number at these sizes."""
        return self.value(sizes)


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1: operations of a layer, how many of them must wait for each other, steps
    between positions.
    """

    name: str
    complexity: Order
    sequential_operations: Order
    maximum_path_length: Order


def _dilated_layers(sizes: Sizes) -> float:
    """Layers whose kernels, each k times as dilated as the one before, join all positions: log_k n,
    rounded up.
    """
    if sizes.k == 1 < sizes.n:
        return math.inf
    num_layers, reach = 1, sizes.k
    while reach < sizes.n:
        num_layers, reach = num_layers + 1, reach * sizes.k
    return num_layers


def _layers_of_width(n: int, width: int) -> float:
    """Layers of `width` contiguous positions over n of them: n / width, rounded up; a width of 1
    joins nothing.
    """
    return math.inf if width == 1 < n else -(-n // width)


_CONSTANT = Order("O(1)", lambda sizes: 1)
_LINEAR = Order("O(n)", lambda sizes: sizes.n)

SELF_ATTENTION = LayerType(
    "self-attention", Order("O(n^2 d)", lambda s: s.n**2 * s.d), _CONSTANT, _CONSTANT
)
RECURRENT = LayerType("recurrent", Order("O(n d^2)", lambda s: s.n * s.d**2), _LINEAR, _LINEAR)
CONVOLUTIONAL = LayerType(
    "convolutional",
    Order("O(k n d^2)", lambda s: s.k * s.n * s.d**2),
    _CONSTANT,
    Order("O(log_k n)", _dilated_layers),
)
RESTRICTED_SELF_ATTENTION = LayerType(
    "self-attention, restricted",
    Order("O(r n d)", lambda s: min(s.r, s.n) * s.n * s.d),
    _CONSTANT,
    Order("O(n/r)", lambda s: _layers_of_width(s.n, s.r)),
)
TABLE_1: tuple[LayerType, ...] = (
    SELF_ATTENTION,
    RECURRENT,
    CONVOLUTIONAL,
    RESTRICTED_SELF_ATTENTION,
)

# What the text of section 4 adds on convolutions.
CONTIGUOUS_PATH_LENGTH = Order("O(n/k)", lambda s: _layers_of_width(s.n, s.k))
SEPARABLE_COMPLEXITY = Order("O(k n d + n d^2)", lambda s: s.k * s.n * s.d + s.n * s.d**2)


def format_table_1(sizes):
    """The table as text, each formula beside its number at these sizes, with what section 4 says
    about them.
    """
    rows = [
        (
            "layer type",
            "complexity",
            "per layer",
            "sequential",
            "operations",
            "maximum",
            "path length",
        )
    ]
    for layer in TABLE_1:
        orders = (layer.complexity, layer.sequential_operations, layer.maximum_path_length)
        rows.append(
            (
                layer.name,
                *(cell for order in orders for cell in (order.formula, _number(order(sizes)))),
            )
        )
    named = ", ".join(f"{name} = {value:,}" for name, value in asdict(sizes).items())
    ratio = SELF_ATTENTION.complexity(sizes) / RECURRENT.complexity(sizes)
    notes = [
        f"Numbers: what is inside the O at {named}, with all constant factors 1; path lengths are "
        "rounded up.",
        f"Self-attention takes n / d = {ratio:.3g} times the operations of a recurrent layer: "
        "fewer as long as n < d.",
        "The path through convolutions is that of dilated kernels; contiguous ones take "
        f"{CONTIGUOUS_PATH_LENGTH.formula}: {_number(CONTIGUOUS_PATH_LENGTH(sizes))}. Separable "
        f"convolutions take {SEPARABLE_COMPLEXITY.formula} operations a layer: "
        f"{_number(SEPARABLE_COMPLEXITY(sizes))}.",
    ]
    if narrow := [name for name in ("k", "r") if getattr(sizes, name) == 1 < sizes.n]:
        notes.append(
            f"No path: layers with {' or '.join(f'{name} = 1' for name in narrow)} join no two "
            "positions."
        )
    return "\n".join([align_columns(rows), "", *map(wrap, notes)])


def _number(value):
    return "none" if value == math.inf else f"{value:,}"


# ---- Table 2 ----


def paper_flops(device_seconds, flops_per_second):
    """Cost of a training the paper's way: time x number of devices x the matrix rate one of them
    sustains.

    Paper: Table 2, section 6.1.
    """
    return device_seconds * flops_per_second


@dataclass(frozen=True, kw_only=True)
class TrainingCost:
    """Tokens, time and operations of a training, made or to come.

    Args:
        config: The model's configuration.
        num_steps: Updates.
        source_tokens: Real source tokens, with `</s>`, of all updates; `target_tokens` likewise.
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
    def tokens_per_second(self):
        """Real source and target tokens a second, over all devices."""
        return (self.source_tokens + self.target_tokens) / self.seconds

    @property
    def num_devices(self):
        """Devices; the mean over time where a resumed training had another number of them."""
        return self.device_seconds / self.seconds

    @property
    def flops_paper(self):
        """Cost the paper's way; None without a matrix rate."""
        return (
            None
            if self.flops_per_second is None
            else paper_flops(self.device_seconds, self.flops_per_second)
        )

    @property
    def flops_counted(self):
        """Cost by counting operations."""
        return training_flops(self.config, self.source_tokens, self.target_tokens)

    @property
    def utilization(self):
        """Model FLOPs utilization, 0 to about 1: counted operations over what the devices could
        have multiplied.
        """
        return None if self.flops_paper is None else self.flops_counted / self.flops_paper


@dataclass(frozen=True)
class PaperTraining:
    """A training of the paper on 8 P100 that sustain 9.5 TFLOP/s each; `flops` is its cost as Table
    2 prints it.

    Paper: section 5.2, Table 2.
    """

    preset: str
    max_steps: int
    seconds_per_step: float
    seconds: float
    flops: float

    @property
    def cost(self):
        """The training's cost, from its time and from full updates of 25,000 source and 25,000
        target tokens.
        """
        return TrainingCost(
            config=VaswaniTransformerConfig.from_preset(self.preset),
            num_steps=self.max_steps,
            source_tokens=self.max_steps * 25_000,
            target_tokens=self.max_steps * 25_000,
            seconds=self.seconds,
            device_seconds=8 * self.seconds,
            flops_per_second=9.5e12,
        )


PAPER_TRAININGS = (
    PaperTraining("base", max_steps=100_000, seconds_per_step=0.4, seconds=12 * 3600, flops=3.3e18),
    PaperTraining(
        "big", max_steps=300_000, seconds_per_step=1.0, seconds=3.5 * 86_400, flops=2.3e19
    ),
)


def estimate_cost(recipe, *, tokens_per_second, num_devices=1, flops_per_second=None):
    """The cost of a recipe at a measured speed, with full batches.

    Args:
        recipe: The recipe.
        tokens_per_second: Real source and target tokens a second over all devices:
            `train_tokens_per_second` of a run's train_results.json.
        num_devices: Devices that reach this speed together.
        flops_per_second: Matrix rate of one of them: `train_matrix_flops_per_second`; None if it is
            not known.
    """
    source_tokens = recipe.max_steps * recipe.max_source_tokens_per_batch
    target_tokens = recipe.max_steps * recipe.max_target_tokens_per_batch
    seconds = (source_tokens + target_tokens) / tokens_per_second
    return TrainingCost(
        config=recipe.model_config(),
        num_steps=recipe.max_steps,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        seconds=seconds,
        device_seconds=seconds * num_devices,
        flops_per_second=flops_per_second,
    )


def paper_trainings(config):
    """The paper's training of a model of these sizes; all where it trained none in Table 2."""

    def sizes(config):
        layers = (config.num_encoder_layers, config.num_decoder_layers)
        return (config.d_model, config.d_ff, config.num_heads, config.d_k, config.d_v, *layers)

    same = tuple(
        training for training in PAPER_TRAININGS if sizes(training.cost.config) == sizes(config)
    )
    return same or PAPER_TRAININGS


def cost_table(cost):
    """A training's cost beside the paper's as rows of text: what is told, this training, the
    paper's (one or two).
    """
    papers = paper_trainings(cost.config)
    columns = [_figures(each) for each in (cost, *(training.cost for training in papers))]
    return [
        ("", "this training", *(f"the paper's {training.preset}" for training in papers)),
        *((label, *(column[label] for column in columns)) for label in columns[0]),
        (
            "FLOPs, as Table 2 prints them",
            "",
            *(f"{each.flops:.1e}".replace("e+", "e") for each in papers),
        ),
    ]


def _figures(cost):
    is_known = cost.flops_per_second is not None
    return {
        "updates": f"{cost.num_steps:,}",
        "source tokens": f"{cost.source_tokens:,}",
        "target tokens": f"{cost.target_tokens:,}",
        "tokens, both sides": f"{cost.source_tokens + cost.target_tokens:,}",
        "tokens a second": f"{cost.tokens_per_second:,.0f}",
        "hours": _hours(cost.seconds),
        "devices": f"{cost.num_devices:.3g}",
        "device hours": _hours(cost.device_seconds),
        "matrix rate of a device, TFLOP/s": f"{cost.flops_per_second / 1e12:.3g}"
        if is_known
        else "unknown",
        "FLOPs, device seconds x matrix rate": _flops(cost.flops_paper) if is_known else "unknown",
        "FLOPs, counted": _flops(cost.flops_counted),
        "model FLOPs utilization": f"{cost.utilization:.1%}" if is_known else "unknown",
    }


def _flops(flops):
    return f"{flops:.2e}".replace("e+", "e")


def _hours(seconds):
    hours = seconds / 3600
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.3g}"


def format_cost(cost):
    """A training's cost beside the paper's row of Table 2, with how the figures come about."""
    notes = []
    for training in (papers := paper_trainings(cost.config)):
        by_steps = training.max_steps * training.seconds_per_step
        notes.append(
            f"The paper's {training.preset}: {_hours(training.seconds)} h x 8 P100 x 9.5 TFLOP/s = "
            f"{_flops(training.cost.flops_paper)}, which Table 2 prints as {training.flops:.1e}; "
            f"by its time a step, {training.max_steps:,} x {training.seconds_per_step} s = "
            f"{_hours(by_steps)} h, it is "
            f"{_flops(paper_flops(8 * by_steps, 9.5e12))}.".replace("e+", "e")
        )
    notes.append(
        "Counted: 6 x (encoder parameters x source tokens + (decoder parameters + V x d_model) x "
        "target tokens), without padding; for the paper with 25,000 tokens a side and 37,000 "
        "entries. Utilization: counted / the paper's way. Updates count as full; those of a real "
        "corpus hold a few per cent fewer tokens."
    )
    if len(papers) > 1:
        notes.append(
            "Table 2 has no model of these sizes; the paper's trainings are shown for comparison."
        )
    if cost.flops_per_second is None:
        notes.append(
            "Without the matrix rate of the device there is no figure the paper's way; every "
            "training measures it (`train_matrix_flops_per_second` in train_results.json)."
        )
    return "\n".join([align_columns(cost_table(cost)), "", *map(wrap, notes)])


# ---- Table 3 ----


@dataclass(frozen=True)
class Variation:
    """A row of Table 3 as the paper prints it: its training and, on newstest2013, perplexity per
    BPE token and BLEU.

    `num_millions` is None where the paper prints no number of parameters. The model's values are
    those of the preset.
    """

    name: str
    perplexity: float
    bleu: float
    num_millions: int | None = None
    label_smoothing: float = 0.1
    max_steps: int = 100_000

    @property
    def preset(self) -> str:
        """Name of the row's model in `PRESETS`."""
        return f"table3-{self.name}"


VARIATIONS: tuple[Variation, ...] = (
    Variation("base", 4.92, 25.8, 65),
    Variation("A1", 5.29, 24.9),
    Variation("A2", 5.00, 25.5),
    Variation("A3", 4.91, 25.8),
    Variation("A4", 5.01, 25.4),
    Variation("B1", 5.16, 25.1, 58),
    Variation("B2", 5.01, 25.4, 60),
    Variation("C1", 6.11, 23.7, 36),
    Variation("C2", 5.19, 25.3, 50),
    Variation("C3", 4.88, 25.5, 80),
    Variation("C4", 5.75, 24.5, 28),
    Variation("C5", 4.66, 26.0, 168),
    Variation("C6", 5.12, 25.4, 53),
    Variation("C7", 4.75, 26.2, 90),
    Variation("D1", 5.77, 24.6),
    Variation("D2", 4.95, 25.5),
    Variation("D3", 4.67, 25.3, label_smoothing=0.0),
    Variation("D4", 5.47, 25.7, label_smoothing=0.2),
    Variation("E", 4.92, 25.7),
    Variation("big", 4.33, 26.4, 213, max_steps=300_000),
)


@dataclass(frozen=True)
class Table3Row:
    """A row of Table 3 beside our model and its exact number of parameters, tied ones once."""

    variation: Variation
    config: VaswaniTransformerConfig
    num_parameters: int

    @property
    def name(self) -> str:
        """Name of the row."""
        return self.variation.name


def table_3(vocab_size: int = 37_000) -> list[Table3Row]:
    """The rows of Table 3 with our parameter counts; models are built without memory for their
    weights.

    Args:
        vocab_size: Entries of the shared vocabulary; the paper says "about 37,000".
    """
    rows = []
    for variation in VARIATIONS:
        config = VaswaniTransformerConfig.from_preset(variation.preset, vocab_size=vocab_size)
        with torch.device("meta"):
            model = VaswaniTransformerForConditionalGeneration(config)
        rows.append(Table3Row(variation, config, model.num_parameters()))
    return rows


def format_table_3(rows):
    """The table as text, with the reason why our sizes differ from the printed ones; `rows` are
    those of `table_3`.
    """
    names = "row N d_model d_ff h d_k d_v P_drop eps_ls steps PPL BLEU".split()
    header = [
        (*names, "paper's", "ours", "differ-", "vocabulary for"),
        (*[""] * 12, "params", "params", "ence", "paper's size"),
    ]
    return f"{align_columns([*header, *map(_cells, rows)])}\n\n{wrap(_explanation(rows))}"


def _cells(row):
    config, paper, vocabulary = row.config, row.variation, implied_vocabulary(row)
    sizes = (
        config.num_encoder_layers,
        config.d_model,
        config.d_ff,
        config.num_heads,
        config.d_k,
        config.d_v,
    )
    cells = [row.name, *map(str, sizes), f"{config.dropout:.1f}", f"{paper.label_smoothing:.1f}"]
    cells += [f"{paper.max_steps // 1000}K", f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}"]
    if not vocabulary:
        return (*cells, "", f"{row.num_parameters:,}", "", "")
    difference = 100 * (row.num_parameters / (paper.num_millions * 1e6) - 1)
    counts = (f"{paper.num_millions}M", f"{row.num_parameters:,}", f"{difference:+.1f} %")
    return (*cells, *counts, _first_to_last(vocabulary))


def implied_vocabulary(row):
    """Vocabularies with which our layers round to the paper's size, in millions; empty where it
    prints none.
    """
    if row.variation.num_millions is None:
        return range(0)
    width = row.config.d_model
    layers = row.num_parameters - row.config.vocab_size * width
    low, high = ((row.variation.num_millions + half) * 1e6 - layers for half in (-0.5, 0.5))
    return range(math.ceil(low / width), math.ceil(high / width))


def common_vocabulary(rows):
    """Vocabularies that give the paper's size in all these rows at once, as a range; empty if there
    is none.
    """
    ranges = [numbers for row in rows if (numbers := implied_vocabulary(row))]
    return range(max(each.start for each in ranges), min(each.stop for each in ranges))


def _first_to_last(numbers):
    return f"{numbers[0]:,} to {numbers[-1]:,}"


def _explanation(rows):
    by_name = {row.name: row for row in rows}
    base, big, learned = by_name["base"], by_name["big"], by_name["E"]
    config = base.config
    # W^Q, W^K, W^V and W^O of each attention, of which a pair of encoder and decoder layers has
    # three
    projections = 2 * config.num_heads * config.d_k + config.num_heads * config.d_v + config.d_model
    biases = 3 * config.num_encoder_layers * projections
    positions = learned.num_parameters - base.num_parameters
    return (
        "PPL, BLEU and the paper's parameters as printed (newstest2013). Ours are exact, with "
        f"{config.vocab_size:,} "
        'shared entries; the paper says "about 37,000" and rounds to a million. The last column is '
        "the vocabulary "
        "with which our layers would round to the printed size. "
        f"{_first_to_last(common_vocabulary([row for row in rows if row is not big]))} entries "
        "give every printed size but that of big, which would take "
        f"{_first_to_last(implied_vocabulary(big))}: no single vocabulary gives all sizes, and the "
        "paper does not say what differed. Biases in the attention, which the paper does not "
        f"write, would not close the gap: {biases:,} in base, as much as "
        f"{biases / config.d_model:.0f} entries. Row E has two tables of "
        f"{learned.config.max_position_embeddings:,} learned positions ({positions:,} parameters) "
        "instead of sinusoids."
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tables = parser.add_subparsers(dest="table", required=True)
    table1 = tables.add_parser("table1", help="Table 1 with its numbers")
    for name, default in asdict(Sizes()).items():
        table1.add_argument(f"--{name}", type=int, default=default)
    table3 = tables.add_parser("table3", help="Table 3 with our parameter counts")
    table3.add_argument("--vocab-size", type=int, default=37_000)
    cost = tables.add_parser("cost", help="what a recipe costs at a known speed, beside Table 2")
    cost.add_argument("--recipe", required=True)
    cost.add_argument(
        "--tokens-per-second", type=float, required=True, help="both sides, all devices"
    )
    cost.add_argument("--num-devices", type=int, default=1, help="devices that reach it together")
    cost.add_argument(
        "--matrix-tflops", type=float, help="TFLOP/s of one device in matrix products"
    )
    args = parser.parse_args()
    if args.table == "table1":
        print(format_table_1(Sizes(n=args.n, d=args.d, k=args.k, r=args.r)))
    elif args.table == "table3":
        print(format_table_3(table_3(args.vocab_size)))
    else:
        rate = None if args.matrix_tflops is None else args.matrix_tflops * 1e12
        speed = {"tokens_per_second": args.tokens_per_second, "num_devices": args.num_devices}
        print(format_cost(estimate_cost(get_recipe(args.recipe), **speed, flops_per_second=rate)))


if __name__ == "__main__":
    main()
