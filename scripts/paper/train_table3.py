# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains rows of Table 3, scaled to a recipe, and prints them beside the paper's.

Layers, widths, heads, rates of dropout and label smoothing, and updates are the recipe's times what
the paper's row has of the paper's base. As in the paper, the weights are those of the last update,
and a row is scored on the validation set. Each row and seed is a run in a folder of its own; the
same command again keeps what is finished and resumes what is not.
"""

import argparse
import contextlib
import dataclasses
import json
from pathlib import Path
from statistics import fmean, stdev

from tables import VARIATIONS, align_columns, wrap

from vaswani_transformer import VaswaniTransformerConfig
from vaswani_transformer.data import corpus_sentences, load_corpus, train_tokenizer
from vaswani_transformer.files import (
    TEST_RESULTS_FILE,
    TOKENIZER_FILES,
    TRAIN_RESULTS_FILE,
    read_json_if_any,
)
from vaswani_transformer.inference import DECODING
from vaswani_transformer.inference.evaluate import evaluate_to_files
from vaswani_transformer.recipe import get_recipe
from vaswani_transformer.training.train import check_output_dir, train

BASE = Path(__file__).with_name("recipes") / "multi30k-table3.yaml"
ROWS = {variation.name: variation for variation in VARIATIONS}
SIZES = ("num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")


def base_recipe(path, max_steps=None, **values):
    """The recipe of row base, with other values.

    With fewer updates, `get_recipe` shortens the warm-up and fixes the peak of the learning rate.
    This function keeps the warm-up and the formula, because the peak depends on the row's width.
    """
    recipe = get_recipe(path, **values)
    return recipe if max_steps is None else dataclasses.replace(recipe, max_steps=max_steps)


def scaled_recipe(name, recipe):
    """A row of Table 3 with a recipe in the place of the paper's base model.

    Raises:
        ValueError: If a size would be no whole number of at least 1, or a rate not below 1, or not
            another than the base's although the row changes it.
    """
    variation, paper_base = ROWS[name], ROWS["base"]
    own = recipe.model_config()
    row, base = (
        VaswaniTransformerConfig.from_preset(each.preset) for each in (variation, paper_base)
    )
    smoothing = recipe.label_smoothing_factor, variation.label_smoothing, paper_base.label_smoothing
    max_steps = _scaled_size(
        "max_steps", recipe.max_steps, variation.max_steps, paper_base.max_steps
    )
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}-{name}",
        description=f"Row {name} of Table 3 with {recipe.name} as its base.",
        **{
            size: _scaled_size(size, getattr(own, size), getattr(row, size), getattr(base, size))
            for size in SIZES
        },
        dropout=_scaled_rate("dropout", own.dropout, row.dropout, base.dropout),
        label_smoothing_factor=_scaled_rate("label_smoothing", *smoothing),
        position_encoding=row.position_encoding,
        max_steps=max_steps,
        eval_steps=max_steps,
        num_averaged_snapshots=0,
        load_best_model_at_end=False,
        early_stopping_patience=None,
        test_split="validation",
        test_source=recipe.validation_source,
        test_target=recipe.validation_target,
        test_pairs=recipe.validation_pairs,
    )


def _scaled_size(name, own, row, base):
    size, rest = divmod(own * row, base)
    if rest or size < 1:
        raise ValueError(
            f"`{name}` must scale by {row} / {base}, got {own}. Change it, or leave the row out."
        )
    return size


def _scaled_rate(name, own, row, base):
    rate = round(own * row / base, 10)
    if rate >= 1 or (own == 0 and row != base):
        raise ValueError(
            f"`{name}` must scale by {row} / {base}, got {own}. Change it, or leave the row out."
        )
    return rate


def run_recipe(folder, recipe):
    """Recipe of the run in a folder ROW-seedSEED."""
    name, seed = folder.name.split("-seed")
    tokenizer = recipe.tokenizer or str(folder.parent / "tokenizer")
    return dataclasses.replace(scaled_recipe(name, recipe), seed=int(seed), tokenizer=tokenizer)


def train_shared_tokenizer(recipe, folder):
    """Trains the vocabulary that all rows share, once."""
    if not all((folder / name).is_file() for name in TOKENIZER_FILES):
        sentences = corpus_sentences(load_corpus(**recipe.data_arguments("train")))
        train_tokenizer(sentences=sentences, vocab_size=recipe.vocab_size).save_pretrained(folder)


def train_rows(recipe, output_dir, rows=None, seeds=None, **options):
    """Trains and scores rows, one after the other, as far as that is not done.

    Args:
        recipe: Of row base, with training and validation data.
        output_dir: Folder of the runs, ROW-seedSEED.
        rows: Names of rows, for example "A1"; None is all.
        seeds: Seeds of each row; None is the recipe's.
        **options: Of `training.train.train`: bf16, use_cpu.

    Raises:
        ValueError: If the recipe has no validation set, or the folder has a row of another recipe,
            with which the new rows cannot be compared.
    """
    output_dir = Path(output_dir)
    if recipe.data_arguments("validation") is None:
        raise ValueError("`validation_source` and `validation_target` must be given, got none.")
    folders = [
        output_dir / f"{name}-seed{seed}"
        for seed in seeds or [recipe.seed]
        for name in rows or ROWS
    ]
    # Every row is checked before one is trained.
    for folder in [*output_dir.glob("*-seed*[0-9]/"), *folders]:
        check_output_dir(folder, run_recipe(folder, recipe), overwrite=False, resume=True)
    if recipe.tokenizer is None:
        train_shared_tokenizer(recipe, output_dir / "tokenizer")
    for folder in folders:
        row = run_recipe(folder, recipe)
        train(row, folder, resume=True, **options)
        if read_run(folder, row) is None:
            device = "cpu" if options.get("use_cpu") else None
            decoding = {option: getattr(row, option) for option in DECODING}
            evaluate_to_files(folder, row.data_arguments("validation"), device=device, **decoding)


def read_run(folder, recipe):
    """Results of a run if it has made the recipe's updates and was scored with its search; None
    otherwise.
    """
    results = {}
    for file in (TRAIN_RESULTS_FILE, TEST_RESULTS_FILE):
        results |= read_json_if_any(folder / file)
    is_trained = results.get("train_steps") == recipe.max_steps
    is_scored = all(results.get(f"test_{key}") == getattr(recipe, key) for key in DECODING)
    return results if is_trained and is_scored else None


def format_rows(recipe, output_dir):
    """All finished rows of a folder as text, with their distance from base, beside the paper's.

    Figures are means over seeds, with the standard deviation where there are several.
    """
    figures = {}
    for name in ROWS:
        folders = sorted(Path(output_dir).glob(f"{name}-seed*[0-9]/"))
        runs = [read_run(folder, run_recipe(folder, recipe)) for folder in folders]
        if runs := [run for run in runs if run]:
            figures[name] = (
                scaled_recipe(name, recipe),
                runs[0]["num_parameters"],
                [run["last_eval_perplexity"] for run in runs],
                [run["test_paper_bleu"] for run in runs],
            )
    lines = [
        [
            *"row N d_model d_ff h d_k d_v P_drop eps_ls updates params seeds".split(),
            "PPL",
            "to base",
            "paper's",
            "BLEU",
            "to base",
            "paper's",
        ]
    ]
    for name, (row, num_parameters, perplexities, bleus) in figures.items():
        config = row.model_config()
        cells = [
            name,
            *[str(getattr(config, size)) for size in SIZES if size != "num_decoder_layers"],
            f"{config.dropout:g}",
            f"{row.label_smoothing_factor:g}",
            f"{row.max_steps:,}",
            f"{num_parameters:,}",
            f"{len(bleus)}",
            _mean(perplexities, 2),
            "",
            "",
            _mean(bleus, 1),
            "",
            "",
        ]
        if "base" in figures and name != "base":
            base_perplexities, base_bleus = figures["base"][2:]
            paper, paper_base = ROWS[name], ROWS["base"]
            cells[-5] = f"{100 * (fmean(perplexities) / fmean(base_perplexities) - 1):+.1f} %"
            cells[-4] = f"{100 * (paper.perplexity / paper_base.perplexity - 1):+.1f} %"
            cells[-2:] = (
                f"{fmean(bleus) - fmean(base_bleus):+.1f}",
                f"{paper.bleu - paper_base.bleu:+.1f}",
            )
        lines.append(cells)
    note = (
        "Perplexity per token and paper BLEU on the validation set, of the last update's weights: "
        "means over seeds, with the standard deviation where there are several. Compare a "
        "distance with it: train base with three seeds or more. The paper's distances are those "
        "of its own Table 3 (newstest2013)."
    )
    return f"{align_columns(lines)}\n\n{wrap(note)}"


def _mean(values, digits):
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{deviation}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output-dir", required=True)
    parser.add_argument("--recipe", default=BASE, help="row base, to which others are scaled")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), metavar="ROW", help="default: all")
    parser.add_argument("--seeds", nargs="+", type=int, help="default: the recipe's")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--use-cpu", action="store_true")
    for name in ("train-source", "train-target", "validation-source", "validation-target"):
        parser.add_argument(
            f"--{name}", help="text, one sentence a line (default: the recipe's data)"
        )
    parser.add_argument("--max-steps", type=int, help="updates of base")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="other values of the recipe"
    )
    args = vars(parser.parse_args())
    values = dict(pair.split("=", 1) for pair in args.pop("set"))
    for name, value in values.items():
        with contextlib.suppress(ValueError):  # text is no JSON
            values[name] = json.loads(value)
    names = ("train_source", "train_target", "validation_source", "validation_target", "max_steps")
    values |= {name: value for name in names if (value := args.pop(name)) is not None}
    recipe = base_recipe(args.pop("recipe"), **values)
    output_dir = args.pop("output_dir")
    train_rows(recipe, output_dir, **args)
    print(format_rows(recipe, output_dir))


if __name__ == "__main__":
    main()
