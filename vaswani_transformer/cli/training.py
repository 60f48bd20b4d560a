# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that make models: train-tokenizer, train, average, recipes."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..training.recipes import Recipe


def is_main_process() -> bool:
    """Whether this is the only process, or the one of many that speaks."""
    return int(os.environ.get("RANK", "0")) == 0


# ---- train-tokenizer ----


def _describe_train_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="UTF-8 text of both languages, one sentence a line, usually two files"
    )
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="folder that receives the tokenizer")
    parser.add_argument(
        "--vocab-size", type=int, default=37000, metavar="N", help="entries, with the 256 bytes and 3 special tokens"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the tokenizer in an output folder that holds something"
    )


def _run_train_tokenizer(args: argparse.Namespace) -> None:
    from ..data import train_tokenizer

    output_dir = _output_folder(args)
    if output_dir.exists() and not args.overwrite and any(output_dir.iterdir()):
        raise ValueError(
            f"`output_dir` must be new or empty, got {output_dir}. Pass another folder, or --overwrite to replace the "
            "tokenizer in it."
        )
    tokenizer = train_tokenizer([Path(file) for file in args.files], vocab_size=args.vocab_size)
    tokenizer.save_pretrained(output_dir)
    print(f"{len(tokenizer)} entries, saved in {output_dir}")


def _output_folder(args: argparse.Namespace) -> Path:
    """The path of `--output-dir`, if it is not that of a file."""
    path = Path(args.output_dir)
    if path.exists() and not path.is_dir():
        raise ValueError(f"`output_dir` must be a folder, got the file {path}. Pass another path.")
    return path


# ---- train ----


def describe_train(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `train`: a folder, switches, and one for each field of a recipe."""
    from ..training.recipes import RECIPES

    parser.add_argument("--output-dir", required=True, metavar="DIR", help="folder of the run, with all it leaves")
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help=f"where all values come from that are not given here: {', '.join(RECIPES)}; without it the paper's base "
        "model, and with --resume the run's own recipe",
    )
    parser.add_argument("--overwrite", action="store_true", help="delete another run in the output folder first")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in the output folder")
    parser.add_argument(
        "--resume-or-start",
        action="store_true",
        help="resume, or start where no checkpoint is yet: the same command again after a lost machine",
    )
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16; weights and optimiser stay in fp32")
    parser.add_argument("--use-cpu", action="store_true", help="train on the CPU although there is a GPU")
    parser.add_argument(
        "--report-to",
        nargs="+",
        default=[],
        metavar="NAME",
        help="trackers of transformers that receive the log: tensorboard (which writes into runs/ of the output "
        "folder), wandb, mlflow, trackio ...",
    )
    parser.add_argument(
        "--num-proc",
        type=int,
        metavar="N",
        help="processes that tokenise the data (default: all cores for a large corpus); they change no result",
    )
    describe_recipe_fields(parser)


def describe_recipe_fields(parser: argparse.ArgumentParser, recipe: str | None = None) -> None:
    """Adds an option for each field of a recipe; what is not given is absent from the arguments.

    Args:
        parser: Of the command.
        recipe: Name of the command's default recipe; None is the paper's base model.
    """
    from ..training.recipes import Recipe, field_types, get_recipe

    base = Recipe() if recipe is None else get_recipe(recipe)
    shown = "without --recipe" if recipe is None else f"for --recipe {recipe}"
    fields = parser.add_argument_group(
        "values of the recipe", f"Each replaces one value of the recipe; the default shown holds {shown}."
    )
    types = field_types()
    for field in dataclasses.fields(Recipe):
        value = getattr(base, field.name)
        text = field.metadata["help"].replace("%", "%%")
        fields.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            **_recipe_option(*types[field.name]),
            help=text if field.default == "" else f"{text} (default: {'none' if value is None else value})",
        )


def _run_train(args: argparse.Namespace) -> None:
    recipe = chosen_recipe(args)
    from ..training.run import train

    results = train(recipe, args.output_dir, **training_options(args, recipe))
    if is_main_process():
        print(f"Trained {recipe.name}: {results['train_steps']:,} updates on {results['train_pairs']:,} pairs.")
        figures = {"sacrebleu": "BLEU {:.2f}", "perplexity": "perplexity {:,.3f}"}
        for which in ("best", "last", "average"):
            scores = {form: results.get(f"{which}_eval_{name}") for name, form in figures.items()}
            if text := ", ".join(form.format(value) for form, value in scores.items() if value is not None):
                print(f"  {which} validation: {text}")
        print(f"  next: vaswani-transformer translate --model {shlex.quote(str(args.output_dir))} --input FILE")


def training_options(args: argparse.Namespace, recipe: Recipe) -> dict[str, Any]:
    """The arguments of `train` behind recipe and folder."""
    from ..training.run import start_or_resume

    names = ("overwrite", "resume", "bf16", "use_cpu", "report_to", "num_proc")
    options = {name: getattr(args, name) for name in names}
    if not args.resume_or_start:
        return options
    if args.resume or args.overwrite:
        raise ValueError("`resume` and `overwrite` must be off with `resume_or_start`, got one of them. Drop it.")
    return options | start_or_resume(args.output_dir, recipe)


def chosen_recipe(args: argparse.Namespace) -> Recipe:
    """The named recipe, the resumed run's own, or the paper's, with the values given on the command line."""
    from ..training.recipes import Recipe, get_recipe

    given = given_fields(args)
    if args.recipe is not None:
        return get_recipe(args.recipe, **given)
    if args.resume:
        return dataclasses.replace(Recipe.load(args.output_dir), **given)
    return Recipe(**given)


def given_fields(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of a recipe that the command line gives."""
    from ..training.recipes import Recipe

    return {name: value for name, value in vars(args).items() if name in Recipe.__dataclass_fields__}


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


# For each type of a field what help calls its value, and what reads it.
_READERS: dict[type, tuple[str, Callable[[str], Any]]] = {
    int: ("N", int),
    float: ("X", float),
    str: ("TEXT", str),
    bool: ("true|false", _read_bool),
}


def _recipe_option(kind: type, is_optional: bool) -> dict[str, Any]:
    """Type and metavar of the option for one of a recipe's fields; `none` is None where the field may be None."""
    metavar, read = _READERS[kind]

    def parse(text: str) -> Any:
        return None if is_optional and text.lower() == "none" else read(text)

    parse.__name__ = metavar  # argparse names it in its message on a wrong value
    return {"type": parse, "metavar": metavar}


# ---- average and recipes ----


def _describe_average(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="PATH",
        help="folder of a run (its snapshots), or several snapshot files or model folders",
    )
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="new folder for the averaged model")
    parser.add_argument("--last", type=int, metavar="N", help="average only the N newest (default: all)")


def _run_average(args: argparse.Namespace) -> None:
    from ..training.averaging import average_checkpoints

    folder = average_checkpoints(args.inputs, _output_folder(args), last=args.last)
    print(f"averaged model saved in {folder}")


_TABLE_3 = "table3-"


def _describe_recipes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="recipe to print with all its values")


def _run_recipes(args: argparse.Namespace) -> None:
    from ..training.card import as_typed
    from ..training.recipes import RECIPES, get_recipe

    if args.name is None:
        rows = {name: recipe.description for name, recipe in RECIPES.items() if not name.startswith(_TABLE_3)}
        rows[f"{_TABLE_3}base, -A1 ... -E, -big"] = "Every row of the paper's Table 3; see the command table3."
        for name, description in rows.items():
            print(name)
            print(textwrap.indent(textwrap.fill(description, _text_width()), "    "))
        print("\nAll values of one: vaswani-transformer recipes NAME")
        return
    recipe = get_recipe(args.name)
    width = max(len(field.name) for field in dataclasses.fields(recipe))
    for field in dataclasses.fields(recipe):
        print(f"{field.name:{width}}  {as_typed(getattr(recipe, field.name))}")


def _text_width() -> int:
    return max(40, min(shutil.get_terminal_size().columns, 120) - 4)


COMMANDS = {
    "train-tokenizer": (
        _describe_train_tokenizer,
        _run_train_tokenizer,
        "Train the subword vocabulary that source and target share",
    ),
    "train": (describe_train, _run_train, "Train a model by a recipe"),
    "average": (_describe_average, _run_average, "Average the weights of snapshots or of models"),
    "recipes": (_describe_recipes, _run_recipes, "List the recipes, or print one"),
}
