# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 trained: its rows scaled to any recipe, each trained and measured in a folder of its own.

Paper: section 6.2, Table 3.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from transformers.utils import logging

from ..analysis.table_3 import VARIATIONS, Variation
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..data import corpus_sentences, load_corpus, train_tokenizer
from ..evaluation import DECODING
from ..evaluation.report import describe_search, evaluate_to_files
from ..files import RECIPE_FILE, TEST_RESULTS_FILE, read_json
from .recipes import Recipe
from .run import check_same_recipe, read_train_results, start_or_resume, train

logger = logging.get_logger(__name__)

BASE = "base"
_PAPER_BASE = next(variation for variation in VARIATIONS if variation.name == BASE)
_SIZES = ("num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")


# ---- scaling ----


def scaled_variation(variation: Variation, recipe: Recipe) -> Recipe:
    """A row of Table 3 with a recipe in the place of the paper's base model.

    Layers, widths, heads, rates of dropout and label smoothing, and updates are the recipe's times what the paper's
    row has of the paper's base. As in the paper, the weights are those of the last update, and the row is tested on
    the validation set; it is validated once, at its end.

    Args:
        variation: The row.
        recipe: Of row base; sizes it leaves to its preset are the preset's.

    Raises:
        ValueError: If a size would be no whole number of at least 1, or a rate not below 1, or not another than the
            base's although the row changes it.

    Example:
        >>> scaled_variation(VARIATIONS[1], get_recipe("multi30k-table3")).num_heads  # A1
        1
    """
    own, base = recipe.model_config(), VaswaniTransformerConfig.from_preset(_PAPER_BASE.preset)
    row = VaswaniTransformerConfig.from_preset(variation.preset)
    smoothing = recipe.label_smoothing, variation.label_smoothing, _PAPER_BASE.label_smoothing
    max_steps = _scaled_size("max_steps", recipe.max_steps, variation.max_steps, _PAPER_BASE.max_steps)
    sizes: dict[str, Any] = {
        name: _scaled_size(name, getattr(own, name), getattr(row, name), getattr(base, name)) for name in _SIZES
    }
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}-{variation.name}",
        description=f"Row {variation.name} of Table 3 with {recipe.name} as its base.",
        **sizes,
        dropout=_scaled_rate("dropout", own.dropout, row.dropout, base.dropout),
        label_smoothing=_scaled_rate("label_smoothing", *smoothing),
        position_encoding=row.position_encoding,
        max_steps=max_steps,
        eval_steps=max_steps,
        num_averaged_snapshots=0,
        load_best_model=False,
        early_stopping_patience=None,
        test_split="validation",
        test_source=recipe.validation_source,
        test_target=recipe.validation_target,
        test_pairs=recipe.validation_pairs,
    )


def _scaled_size(name: str, own: int, row: int, base: int) -> int:
    size, rest = divmod(own * row, base)
    if rest or size < 1:
        raise ValueError(
            f"`{name}` must be a multiple of {base // math.gcd(row, base)} for a row of Table 3 that has {row} where "
            f"base has {base}, got {own}. Change it, or leave the row out."
        )
    return size


def _scaled_rate(name: str, own: float, row: float, base: float) -> float:
    rate = round(own * row / base, 10)
    if rate >= 1 or (own == 0 and row != base):
        raise ValueError(
            f"`{name}` must be above 0 and below {base / row if row else 1:.3g} for a row of Table 3 that has {row} "
            f"where base has {base}, got {own}. Change it, or leave the row out."
        )
    return rate


# ---- runs ----


@dataclass(frozen=True)
class TrainedRow:
    """A row of Table 3 as it was trained here, with one or more seeds.

    Args:
        variation: The row as the paper prints it.
        recipe: What was trained, but for seed and vocabulary.
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


def train_variations(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    **options: Any,
) -> list[TrainedRow]:
    """Trains rows of Table 3 scaled to a recipe, one after the other, each in a folder of its own.

    What an earlier call has finished is kept; what it began goes on from its newest checkpoint, also to a larger
    `max_steps`. Several processes may work in one folder: a row that one of them trains is left to it. All rows share
    a vocabulary.

    Args:
        recipe: Of row base, with training and validation data.
        output_dir: Folder of the runs, ROW-seedSEED.
        rows: Names of rows, for example "A1"; None is all.
        seeds: Seeds each row is trained with; None is the recipe's.
        **options: Of `training.run.train`: bf16, use_cpu and so on.

    Returns:
        All rows of the folder that are finished, in the paper's order.

    Raises:
        ValueError: If there is no such row, a value does not scale, data are missing, the folder is another recipe's,
            or this is one of the processes of a launcher; nothing is trained then.
        KeyboardInterrupt: After SIGINT or SIGTERM, when a resumable checkpoint is written.
    """
    variations = _chosen(rows)
    training_data, validation_data = _checked_data(recipe)
    chosen = [scaled_variation(variation, recipe) for variation in variations]
    seeds = (recipe.seed,) if seeds is None else seeds
    planned = [dataclasses.replace(row, seed=seed) for seed in seeds for row in chosen]  # all: refused before training
    tokenizer = _prepare_folder(recipe, training_data, Path(output_dir))
    for row in planned:
        folder = Path(output_dir) / f"{row.name.removeprefix(f'{recipe.name}-')}-seed{row.seed}"
        try:
            with FileLock(f"{folder}.lock", timeout=0):
                _train_row(dataclasses.replace(row, tokenizer=tokenizer), folder, validation_data, options)
        except Timeout:
            logger.warning(f"{folder.name} is being trained by another process and left to it.")
        except KeyboardInterrupt as interrupt:
            interrupt.add_note("Here the same command again goes on with it.")
            raise
    return read_variations(output_dir, recipe)


def _chosen(rows: Sequence[str] | None) -> list[Variation]:
    known = {variation.name: variation for variation in VARIATIONS}
    if wrong := [name for name in rows or () if name not in known]:
        raise ValueError(f"`rows` must be of {', '.join(known)}, got {', '.join(wrong)}. Pass names of Table 3.")
    return list(VARIATIONS) if rows is None else [known[name] for name in known if name in rows]


def _checked_data(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
    """Training and validation data of all rows, as `data.load_corpus` takes them.

    Raises:
        ValueError: One of them is missing, or this is one of the processes of a launcher.
    """
    training, validation = recipe.data_arguments("train"), recipe.data_arguments("validation")
    if training is None or validation is None:
        raise ValueError(
            "`train_source` and `validation_source` must be given with their targets, got a recipe without training "
            "or validation data. Pass the four files, or a dataset."
        )
    if (num_processes := int(os.environ.get("WORLD_SIZE", "1"))) > 1:
        raise ValueError(
            f"`rows` must be trained by processes of their own, got {num_processes} of one launcher. Start a command "
            "for each GPU, all with the same `output_dir`; or train one row on all by its recipe, such as table3-A1."
        )
    return training, validation


def _prepare_folder(recipe: Recipe, training_data: Mapping[str, Any], output_dir: Path) -> str:
    """Makes the folder this recipe's, for ever, and returns the place of the vocabulary that all rows share."""
    output_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(output_dir / ".lock"):
        if (output_dir / RECIPE_FILE).is_file():
            first = Recipe.load(output_dir)
            check_same_recipe(first, dataclasses.replace(recipe, seed=first.seed))
        else:
            recipe.save(output_dir)
        return recipe.tokenizer or str(_shared_tokenizer(recipe, training_data, output_dir.resolve()))


def _shared_tokenizer(recipe: Recipe, training_data: Mapping[str, Any], output_dir: Path) -> Path:
    """Folder of the vocabulary, trained once; whole as soon as it is there."""
    folder, beside = output_dir / "tokenizer", output_dir / "tokenizer.part"
    if not folder.is_dir():
        shutil.rmtree(beside, ignore_errors=True)
        sentences = corpus_sentences(load_corpus(**training_data))
        train_tokenizer(sentences=sentences, vocab_size=recipe.vocab_size).save_pretrained(beside)
        os.rename(beside, folder)
    return folder


def _train_row(recipe: Recipe, folder: Path, validation_data: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Trains one row and measures it on the validation set, as far as that is not done."""
    if (folder / RECIPE_FILE).is_file():
        own = Recipe.load(folder)
        recipe = dataclasses.replace(recipe, tokenizer=own.tokenizer)  # how its place is spelt is no difference
        check_same_recipe(own, recipe)
    if read_train_results(folder).get("train_steps") != recipe.max_steps:
        logger.info(f"{folder.name}: {recipe.max_steps:,} updates.")
        train(recipe, folder, **{**start_or_resume(folder, recipe), **options})
    if not _is_measured(folder, recipe):
        decoding = {name: getattr(recipe, name) for name in DECODING}
        evaluate_to_files(folder, validation_data, **decoding)


def _is_measured(folder: Path, recipe: Recipe) -> bool:
    """Whether a run has made the recipe's updates and was tested after them, with the recipe's search."""
    if read_train_results(folder).get("train_steps") != recipe.max_steps or not (folder / TEST_RESULTS_FILE).is_file():
        return False
    results = read_json(folder / TEST_RESULTS_FILE)
    return all(results[f"test_{name}"] == getattr(recipe, name) for name in DECODING)


def read_variations(output_dir: str | Path, recipe: Recipe) -> list[TrainedRow]:
    """The rows in a folder of `train_variations` that are finished, in the paper's order.

    Args:
        output_dir: The folder.
        recipe: Of row base. Runs that have made other numbers of updates than it asks for are left out, with a
            warning.

    Raises:
        ValueError: If a run in the folder differs from what the recipe asks for.
    """
    rows = []
    for variation in VARIATIONS:
        begun = [path.parent for path in Path(output_dir).glob(f"{variation.name}-seed*/{RECIPE_FILE}")]
        if begun:
            row = scaled_variation(variation, recipe)
            if runs := _measured_runs(begun, row):
                rows.append(_read_row(variation, row, runs))
    return rows


def _measured_runs(begun: Sequence[Path], recipe: Recipe) -> list[Path]:
    """Those of a row's folders whose runs are finished, by their seeds."""
    recipes = {folder: Recipe.load(folder) for folder in begun}
    runs = []
    for folder, own in sorted(recipes.items(), key=lambda item: item[1].seed):
        check_same_recipe(own, dataclasses.replace(recipe, tokenizer=own.tokenizer, seed=own.seed))
        if _is_measured(folder, recipe):
            runs.append(folder)
        else:
            logger.warning(
                f"{folder.name} has not been trained for {recipe.max_steps:,} updates and measured: left out."
            )
    return runs


def _read_row(variation: Variation, recipe: Recipe, runs: Sequence[Path]) -> TrainedRow:
    trained = [read_train_results(run) for run in runs]
    tested = [read_json(run / TEST_RESULTS_FILE) for run in runs]
    return TrainedRow(
        variation,
        recipe,
        num_parameters=trained[0]["num_parameters"],
        perplexities=tuple(results["last_eval_perplexity"] for results in trained),
        bleus=tuple(results["test_paper_bleu"] for results in tested),
        search=describe_search(tested[0]),
    )
