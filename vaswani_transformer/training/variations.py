# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 trained: its rows scaled to any recipe, each trained and measured, and the table of the paper's beside ours.

Paper: section 6.2, Table 3.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers.utils import logging

from ..analysis.table_3 import VARIATIONS, Variation
from ..analysis.text_table import align_columns
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..data import corpus_sentences, load_corpus, train_tokenizer
from ..evaluation.labels import describe_search
from ..evaluation.report import RESULTS_FILE as TEST_RESULTS
from ..evaluation.report import evaluate_to_files
from .folder import read_results, start_or_resume
from .recipes import Recipe
from .run import train
from .scores import read_test_results

logger = logging.get_logger(__name__)

_SCALED = ("num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")
_BASE = "base"
_WIDTH = 119


def scaled_variation(variation: Variation, recipe: Recipe) -> Recipe:
    """A row of Table 3 with a recipe in the place of the paper's base model.

    Layers, widths, heads and updates are the recipe's times what the paper's row has of the paper's base; dropout,
    label smoothing and positions are the recipe's where the row is as base, else the row's own. The row is validated
    once, after its last update, and tested on the validation set, as in the paper.

    Args:
        variation: The row.
        recipe: Of row base; sizes it leaves to its preset are the preset's.

    Raises:
        ValueError: If a size would be no whole number of at least 1.

    Example:
        >>> scaled_variation(VARIATIONS[1], get_recipe("multi30k-table3")).num_heads  # A1
        1
    """
    own, base = recipe.model_config(), VaswaniTransformerConfig.from_preset(f"table3-{_BASE}")
    row = VaswaniTransformerConfig.from_preset(variation.preset)
    sizes = {name: _scaled(name, getattr(own, name), getattr(row, name), getattr(base, name)) for name in _SCALED}
    paper_base = next(other for other in VARIATIONS if other.name == _BASE)
    max_steps = _scaled("max_steps", recipe.max_steps, variation.max_steps, paper_base.max_steps)
    is_as_base = variation.label_smoothing == paper_base.label_smoothing
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}-{variation.name}",
        description=f"Row {variation.name} of Table 3 with {recipe.name} as its base.",
        **sizes,
        dropout=own.dropout if row.dropout == base.dropout else row.dropout,
        position_encoding=row.position_encoding,
        label_smoothing=recipe.label_smoothing if is_as_base else variation.label_smoothing,
        max_steps=max_steps,
        eval_steps=max_steps,
        test_split="validation",
        test_source=recipe.validation_source,
        test_target=recipe.validation_target,
        test_pairs=recipe.validation_pairs,
    )


def _scaled(name: str, own: int, row: int, base: int) -> int:
    size, rest = divmod(own * row, base)
    if rest or size < 1:
        raise ValueError(
            f"`{name}` must be a multiple of {base // math.gcd(row, base)} for a row of Table 3 that has {row} where "
            f"base has {base}, got {own}. Change it, or leave the row out."
        )
    return size


@dataclass(frozen=True)
class TrainedRow:
    """A row of Table 3 as it was trained here, with one or more seeds.

    Args:
        variation: The row as the paper prints it.
        recipe: The row's, of one of the seeds.
        num_parameters: Of the model, tied ones once.
        perplexities: Per token of the validation set, for each seed.
        bleus: Paper BLEU on the validation set, for each seed.
        search: How that set was translated, in words.
    """

    variation: Variation
    recipe: Recipe
    num_parameters: int
    perplexities: tuple[float, ...]
    bleus: tuple[float, ...]
    search: str

    @property
    def name(self) -> str:
        """Name of the row."""
        return self.variation.name

    @property
    def perplexity(self) -> float:
        """Mean over seeds."""
        return fmean(self.perplexities)

    @property
    def bleu(self) -> float:
        """Mean over seeds."""
        return fmean(self.bleus)


def train_variations(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    **options: Any,
) -> list[TrainedRow]:
    """Trains rows of Table 3 scaled to a recipe, one after the other, each in a folder of its own.

    What an earlier call has finished is kept; what it began goes on from its newest checkpoint. Several processes may
    train different rows into one folder. All rows share a vocabulary.

    Args:
        recipe: Of row base, with training and validation data.
        output_dir: Folder of the runs, ROW-seedSEED.
        rows: Names of rows, for example "A1"; None is all.
        seeds: Seeds each row is trained with; None is the recipe's.
        **options: Of `training.run.train`: bf16, use_cpu and so on.

    Returns:
        All rows of the folder that are finished, in the paper's order.

    Raises:
        ValueError: If there is no such row, a size does not scale, data are missing, or a run in the folder differs.
    """
    variations = _chosen(rows)
    if recipe.data_arguments("train") is None or recipe.data_arguments("validation") is None:
        raise ValueError(
            "`train_source` and `validation_source` must be given with their targets, got a recipe without training "
            "or validation data. Pass the four files, or a dataset."
        )
    scaled = {variation.name: scaled_variation(variation, recipe) for variation in variations}
    tokenizer = recipe.tokenizer or str(_shared_tokenizer(recipe, Path(output_dir)))
    for seed in (recipe.seed,) if seeds is None else seeds:
        for name, row in scaled.items():
            _train_row(
                dataclasses.replace(row, tokenizer=tokenizer, seed=seed), _folder(output_dir, name, seed), options
            )
    return read_variations(output_dir)


def _chosen(rows: Sequence[str] | None) -> list[Variation]:
    known = {variation.name: variation for variation in VARIATIONS}
    if wrong := [name for name in rows or () if name not in known]:
        raise ValueError(f"`rows` must be of {', '.join(known)}, got {', '.join(wrong)}. Pass names of Table 3.")
    return list(VARIATIONS) if rows is None else [known[name] for name in known if name in rows]


def _folder(output_dir: str | Path, name: str, seed: int) -> Path:
    return Path(output_dir) / f"{name}-seed{seed}"


def _shared_tokenizer(recipe: Recipe, output_dir: Path) -> Path:
    """Folder of the vocabulary that all rows share, trained once; whole as soon as it is there."""
    folder = output_dir / "tokenizer"
    if folder.is_dir():
        return folder
    beside = output_dir / f".tokenizer-{os.getpid()}"
    beside.mkdir(parents=True)
    try:
        sentences = corpus_sentences(load_corpus(**recipe.data_arguments("train")))
        train_tokenizer(sentences=sentences, vocab_size=recipe.vocab_size).save_pretrained(beside)
        os.rename(beside, folder)
    except OSError:
        if not folder.is_dir():  # else another process has made the same one
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _train_row(recipe: Recipe, folder: Path, options: dict[str, Any]) -> None:
    """Trains and measures one row, as far as that is not done."""
    if read_results(folder).get("train_steps") != recipe.max_steps:
        logger.info(f"{folder.name}: {recipe.max_steps:,} updates.")
        train(recipe, folder, **start_or_resume(folder, recipe), **options)
    if not (folder / TEST_RESULTS).is_file():
        evaluate_to_files(folder, recipe.data_arguments("test"))


def read_variations(output_dir: str | Path) -> list[TrainedRow]:
    """The finished rows in a folder of `train_variations`, in the paper's order."""
    rows = []
    for variation in VARIATIONS:
        folders = sorted(path for path in Path(output_dir).glob(f"{variation.name}-seed*") if _is_measured(path))
        if not folders:
            continue
        trained = [read_results(folder) for folder in folders]
        tested = [read_test_results(folder)[TEST_RESULTS] for folder in folders]
        rows.append(
            TrainedRow(
                variation,
                Recipe.load(folders[0]),
                trained[0]["num_parameters"],
                tuple(results["last_eval_perplexity"] for results in trained),
                tuple(results["test_paper_bleu"] for results in tested),
                describe_search(tested[0]),
            )
        )
    return rows


def _is_measured(folder: Path) -> bool:
    results = read_results(folder)
    return (folder / TEST_RESULTS).is_file() and results.get("train_steps") == Recipe.load(folder).max_steps


# ---- the table ----

_HEADER = (
    *(("row", ""), ("N", ""), ("d_model", ""), ("d_ff", ""), ("h", ""), ("d_k", ""), ("d_v", ""), ("P_drop", "")),
    *(("eps_ls", ""), ("updates", ""), ("params", ""), ("PPL", ""), ("BLEU", ""), ("PPL to", "base"), ("paper's", "")),
    *(("BLEU to", "base"), ("paper's", ""), ("PPL as", "the paper?"), ("BLEU as", "the paper?")),
)


def format_variations(rows: Sequence[TrainedRow]) -> str:
    """Rows trained here beside the paper's as text: each one's distance from base, and whether it has the same sign.

    A difference smaller than the range of base over its seeds is told as no difference.

    Args:
        rows: As `train_variations` returns them, base among them.

    Raises:
        ValueError: If base is not among them.
    """
    base = next((row for row in rows if row.name == _BASE), None)
    if base is None:
        raise ValueError(f"`rows` must hold {_BASE}, got {', '.join(row.name for row in rows) or 'none'}. Train it.")
    table = align_columns([*zip(*_HEADER, strict=True), *(_cells(row, base) for row in rows)])
    return f"{table}\n\n{textwrap.fill(_notes(base), _WIDTH)}"


def _cells(row: TrainedRow, base: TrainedRow) -> tuple[str, ...]:
    config, recipe = row.recipe.model_config(), row.recipe
    sizes = (config.num_encoder_layers, config.d_model, config.d_ff, config.num_heads, config.d_k, config.d_v)
    cells = [row.name, *map(str, sizes), f"{config.dropout:.1f}", f"{recipe.label_smoothing:.1f}"]
    cells += [f"{recipe.max_steps:,}", f"{row.num_parameters:,}", f"{row.perplexity:.2f}", f"{row.bleu:.1f}"]
    if row is base:
        return (*cells, *[""] * 6)
    perplexity, bleu = distance(row, base)
    noise = spread(base)
    paper = paper_distance(row.variation)
    return (
        *cells,
        *(f"{perplexity:+.1f} %", f"{paper[0]:+.1f} %", f"{bleu:+.1f}", f"{paper[1]:+.1f}"),
        *(
            _agreement(own, theirs, range_)
            for own, theirs, range_ in zip((perplexity, bleu), paper, noise, strict=True)
        ),
    )


def distance(row: TrainedRow, base: TrainedRow) -> tuple[float, float]:
    """Perplexity of a row above base's in percent, and its BLEU above base's."""
    return 100 * (row.perplexity / base.perplexity - 1), row.bleu - base.bleu


def paper_distance(variation: Variation) -> tuple[float, float]:
    """What `distance` is for the figures the paper prints."""
    base = VARIATIONS[0]
    return 100 * (variation.perplexity / base.perplexity - 1), round(variation.bleu - base.bleu, 1)


def spread(base: TrainedRow) -> tuple[float, float]:
    """Range of base over its seeds, as `distance` counts: of perplexity in percent, of BLEU. 0 with one seed."""
    perplexities, bleus = base.perplexities, base.bleus
    return 100 * (max(perplexities) - min(perplexities)) / base.perplexity, max(bleus) - min(bleus)


def _agreement(own: float, paper: float, noise: float) -> str:
    if paper == 0:
        return "equal there" if abs(own) > noise else "yes"
    if abs(own) <= noise:
        return "too close"
    return "yes" if own * paper > 0 else "no"


def _notes(base: TrainedRow) -> str:
    perplexity, bleu = spread(base)
    seeds = len(base.bleus)
    noise = (
        f"Base was trained with {seeds} seeds, over which its perplexity ranges by {perplexity:.1f} % and its BLEU by "
        f"{bleu:.1f}: smaller differences are called too close."
        if seeds > 1
        else "Base was trained with one seed, so it is not known how far chance alone moves these figures."
    )
    return (
        "Perplexity per token and paper BLEU on the validation set with the last update's weights, means over seeds; "
        f"{base.search}. {noise} The paper's are the differences of its own Table 3 (newstest2013)."
    )
