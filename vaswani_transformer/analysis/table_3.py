# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 of the paper: its variations of the base model, with our parameter counts beside the printed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from .text_table import align_columns, wrap


@dataclass(frozen=True)
class Variation:
    """A row of Table 3 as the paper prints it; the model's own values are those of its preset.

    Args:
        name: Our name of the row: its letter, and its number within the letter's rows.
        perplexity: Per BPE token, on newstest2013.
        bleu: On newstest2013.
        num_millions: Millions of parameters; None where the paper prints none.
        label_smoothing: Label smoothing epsilon of the training.
        max_steps: Updates of the training.
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
    """A row of Table 3: the paper's figures, our model's size, and the vocabulary that would give the paper's size.

    Args:
        variation: The row as the paper prints it.
        config: Configuration of our model.
        num_parameters: Exact number of parameters of our model, tied ones once.
    """

    variation: Variation
    config: VaswaniTransformerConfig
    num_parameters: int

    @property
    def name(self) -> str:
        """Name of the row."""
        return self.variation.name

    @property
    def difference(self) -> float | None:
        """Our size less the paper's, in percent of the paper's; None where the paper prints none."""
        if self.variation.num_millions is None:
            return None
        return 100 * (self.num_parameters / (self.variation.num_millions * 1e6) - 1)

    @property
    def implied_vocabulary(self) -> range:
        """Vocabularies with which our layers round to the paper's size, in millions; empty where it prints none."""
        if self.variation.num_millions is None:
            return range(0)
        layers = self.num_parameters - self.config.vocab_size * self.config.d_model
        low, high = ((self.variation.num_millions + half) * 1e6 - layers for half in (-0.5, 0.5))
        return range(math.ceil(low / self.config.d_model), math.ceil(high / self.config.d_model))


def table_3(vocab_size: int = 37_000) -> list[Table3Row]:
    """The rows of Table 3 with our parameter counts; models are built without memory for their weights.

    Args:
        vocab_size: Entries of the shared vocabulary; the paper says "about 37,000".

    Raises:
        ValueError: If `vocab_size` is below 1.

    Example:
        >>> print(format_table_3(table_3()))

    Paper: Table 3.
    """
    return [_row(variation, vocab_size) for variation in VARIATIONS]


def _row(variation: Variation, vocab_size: int) -> Table3Row:
    config = VaswaniTransformerConfig.from_preset(variation.preset, vocab_size=vocab_size)
    with torch.device("meta"):
        model = VaswaniTransformerForConditionalGeneration(config)
    return Table3Row(variation, config, model.num_parameters())


def common_vocabulary(rows: Sequence[Table3Row]) -> range:
    """Vocabularies that give the paper's size in all these rows at once; empty if there is none."""
    ranges = [row.implied_vocabulary for row in rows if row.implied_vocabulary]
    return range(max(each.start for each in ranges), min(each.stop for each in ranges))


_COLUMNS = ("row", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "eps_ls", "steps", "PPL", "BLEU")
_HEADER = (
    (*_COLUMNS, "paper's", "ours", "differ-", "vocabulary for"),
    (*[""] * len(_COLUMNS), "params", "params", "ence", "paper's size"),
)


def format_table_3(rows: Sequence[Table3Row]) -> str:
    """The table as text, with the reason why our sizes differ from the printed ones.

    Args:
        rows: All rows, as `table_3` returns them.
    """
    table = align_columns([*_HEADER, *map(_cells, rows)])
    return f"{table}\n\n{wrap(_explanation(rows))}"


def _cells(row: Table3Row) -> tuple[str, ...]:
    config, paper = row.config, row.variation
    sizes = (config.num_encoder_layers, config.d_model, config.d_ff, config.num_heads, config.d_k, config.d_v)
    cells = [row.name, *map(str, sizes), f"{config.dropout:.1f}", f"{paper.label_smoothing:.1f}"]
    cells += [f"{paper.max_steps // 1000}K", f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}"]
    vocabulary = row.implied_vocabulary
    if not vocabulary:
        return (*cells, "", f"{row.num_parameters:,}", "", "")
    return (
        *cells,
        f"{paper.num_millions}M",
        f"{row.num_parameters:,}",
        f"{row.difference:+.1f} %",
        _first_to_last(vocabulary),
    )


def _first_to_last(numbers: range) -> str:
    return f"{numbers[0]:,} to {numbers[-1]:,}"


def _explanation(rows: Sequence[Table3Row]) -> str:
    """Why the two columns of sizes differ, from the vocabularies the rows imply."""
    by_name = {row.name: row for row in rows}
    base, big, learned = by_name["base"], by_name["big"], by_name["E"]
    common = _first_to_last(common_vocabulary([row for row in rows if row is not big]))
    of_big = _first_to_last(big.implied_vocabulary)
    config = base.config
    # W^Q, W^K, W^V and W^O of each attention, of which a pair of encoder and decoder layers has three
    projections = 2 * config.num_heads * config.d_k + config.num_heads * config.d_v + config.d_model
    biases = 3 * config.num_encoder_layers * projections
    positions = learned.num_parameters - base.num_parameters
    return (
        f"PPL, BLEU and the paper's parameters as printed (newstest2013). Ours are exact, with {config.vocab_size:,} "
        'shared entries; the paper says "about 37,000" and rounds to a million. The last column is the vocabulary '
        f"with which our layers would round to the printed size. {common} entries give every printed size but that "
        "of big, whatever N, d_model, d_ff and d_k: the layers agree, and what is missing has the form of more rows "
        f"in the embedding. Big would take {of_big}, so no single vocabulary gives all sizes, and the paper does not "
        "say what differed. Biases in the attention, which the paper does not write, would not close the gap: "
        f"{biases:,} in base, as much as {biases / config.d_model:.0f} entries. Row E has "
        f"two tables of {learned.config.max_position_embeddings:,} learned positions ({positions:,} parameters) "
        "instead of sinusoids."
    )
