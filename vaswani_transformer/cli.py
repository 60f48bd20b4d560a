# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The console command `vaswani-transformer`: one thin sub-command for each library function.

Results go to stdout, warnings and progress to stderr. Exit codes: 0 done, 2 wrong input (one line on stderr), 130
interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import shutil
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers.utils.logging import get_verbosity

_EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError)
_EXIT_WRONG_INPUT, _EXIT_INTERRUPTED, _EXIT_BROKEN_PIPE = 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code.

    Args:
        argv: Arguments without the program's name; None takes those of the process.
    """
    args = _build_parser().parse_args(argv)
    try:
        with _messages_on_stderr():
            args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output is gone (`... | head`); leave without Python's message at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    except _EXPECTED_ERRORS as error:
        print("error:", *(line.strip() for line in str(error).splitlines()), file=sys.stderr)
        return _EXIT_WRONG_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED
    return 0


@contextlib.contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Shows the package's log on stderr, from one process of many; TRANSFORMERS_VERBOSITY=debug adds tracebacks."""
    package = logging.getLogger(__package__)
    level, handler = package.level, logging.StreamHandler()
    package.addHandler(handler)
    package.setLevel(min(logging.INFO, get_verbosity()) if _is_main_process() else logging.ERROR)
    try:
        yield
    except _EXPECTED_ERRORS:
        package.debug("the error below came from here:", exc_info=True)
        raise
    finally:
        package.removeHandler(handler)
        package.setLevel(level)


def _is_main_process() -> bool:
    return int(os.environ.get("RANK", "0")) == 0


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, except where the default is nothing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False) else super()._get_help_string(action)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vaswani-transformer",
        description="Train, evaluate and use the Transformer of 'Attention Is All You Need' (2017).",
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (describe, run, text) in _COMMANDS.items():
        command = commands.add_parser(
            name, help=text, description=f"{text}.", formatter_class=_HelpFormatter, allow_abbrev=False
        )
        describe(command)
        command.set_defaults(run=run)
    return parser


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
    from .data import train_tokenizer

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


def _describe_train(parser: argparse.ArgumentParser) -> None:
    from .training.recipes import RECIPES, Recipe

    parser.add_argument("--output-dir", required=True, metavar="DIR", help="folder of the run, with all it leaves")
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help=f"where all values come from that are not given here: {', '.join(RECIPES)}; without it the paper's base "
        "model, and with --resume the run's own recipe",
    )
    parser.add_argument("--overwrite", action="store_true", help="delete another run in the output folder first")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in the output folder")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16; weights and optimiser stay in fp32")
    parser.add_argument("--use-cpu", action="store_true", help="train on the CPU although there is a GPU")
    parser.add_argument(
        "--tokenizer", metavar="DIR", help="folder of a trained tokenizer (default: train one on the training text)"
    )
    fields = parser.add_argument_group(
        "values of the recipe", "Each replaces one value of the recipe; the default shown holds without --recipe."
    )
    kinds = typing.get_type_hints(Recipe)
    for field in dataclasses.fields(Recipe):
        default = "none" if field.default is None else field.default
        text = field.metadata["help"].replace("%", "%%")
        fields.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            **_recipe_option(kinds[field.name]),
            help=text if default == "" else f"{text} (default: {default})",
        )


def _run_train(args: argparse.Namespace) -> None:
    recipe = _chosen_recipe(args)
    from .training.run import train

    results = train(
        recipe,
        args.output_dir,
        overwrite=args.overwrite,
        resume=args.resume,
        bf16=args.bf16,
        use_cpu=args.use_cpu,
        tokenizer=args.tokenizer,
    )
    if _is_main_process():
        print(json.dumps(results, indent=2))
        print(f"model and train_results.json are in {args.output_dir}")


def _chosen_recipe(args: argparse.Namespace) -> Any:
    """The named recipe, the resumed run's own, or the paper's, with the values given on the command line."""
    from .training.recipes import Recipe, get_recipe

    given = {name: value for name, value in vars(args).items() if name in Recipe.__dataclass_fields__}
    if args.recipe is not None:
        return get_recipe(args.recipe, **given)
    if args.resume:
        return dataclasses.replace(Recipe.load(args.output_dir), **given)
    return Recipe(**given)


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_KINDS = {int: ("N", int), float: ("X", float), str: ("TEXT", str), bool: ("true|false", _read_bool)}


def _recipe_option(kind: Any) -> dict[str, Any]:
    """Type and metavar of the option for one of a recipe's fields; `none` is None where the field may be None."""
    options = typing.get_args(kind) or (kind,)
    metavar, read = next(_KINDS[option] for option in options if option in _KINDS)

    def parse(text: str) -> Any:
        return None if type(None) in options and text.lower() == "none" else read(text)

    parse.__name__ = metavar  # argparse names it in its message on a wrong value
    return {"type": parse, "metavar": metavar}


# ---- evaluate and translate ----


def _describe_decoding(parser: argparse.ArgumentParser) -> None:
    """Options that `evaluate` and `translate` share."""
    parser.add_argument("--model", required=True, metavar="DIR", help="folder of a model, or its id on the Hub")
    parser.add_argument("--num-beams", type=int, metavar="N", help="beams; 1 is greedy search (default: the model's)")
    parser.add_argument(
        "--length-penalty", type=float, metavar="X", help="alpha of ((5 + length) / 6)^alpha (default: the model's)"
    )
    parser.add_argument(
        "--max-new-tokens-over-source",
        type=int,
        metavar="N",
        help="output limit of each sentence: its source tokens + N (default: the model's)",
    )
    parser.add_argument(
        "--max-tokens-per-batch",
        type=int,
        default=4096,
        metavar="N",
        help="padded source tokens translated at once; more is faster and takes more memory",
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")


def _decoding_options(args: argparse.Namespace) -> dict[str, Any]:
    from .evaluation.translate import decoding_overrides

    return {
        "max_tokens_per_batch": args.max_tokens_per_batch,
        "progress": sys.stderr.isatty(),
        **decoding_overrides(
            num_beams=args.num_beams,
            length_penalty=args.length_penalty,
            max_new_tokens_over_source=args.max_new_tokens_over_source,
        ),
    }


def _describe_evaluate(parser: argparse.ArgumentParser) -> None:
    _describe_decoding(parser)
    data = parser.add_argument_group(
        "test set", "Without --source, --pairs or --dataset it is the one of the recipe saved with the model."
    )
    data.add_argument("--source", metavar="FILE", help="source sentences, one a line")
    data.add_argument("--reference", metavar="FILE", help="reference translations, line by line as in --source")
    data.add_argument("--pairs", metavar="FILE", help="both sides in one .jsonl, .json, .csv, .tsv or .parquet file")
    data.add_argument("--dataset", metavar="NAME", help="Hub name or folder of a `datasets` dataset, or builtin")
    data.add_argument("--dataset-config", metavar="NAME", help="configuration of the dataset, for example de-en")
    data.add_argument("--split", default="test", metavar="NAME", help="part of the dataset")
    data.add_argument("--translations", metavar="FILE", help="also write the translations, one a line")
    data.add_argument(
        "--results", metavar="FILE", help="file for the scores (default: test_results.json in the model's folder)"
    )


def _run_evaluate(args: argparse.Namespace) -> None:
    options = _decoding_options(args)
    from .evaluation.report import evaluate_to_files, format_report

    files = {"results_file": args.results, "translations_file": args.translations}
    results, path = evaluate_to_files(args.model, _chosen_corpus(args), device=args.device, **files, **options)
    print(format_report(results))
    if path is not None:
        print(f"\nwritten to {path}")


def _chosen_corpus(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `load_evaluation_set`: what the command line names, else the test set of the model's recipe."""
    from .data.corpora import check_origin
    from .training.recipes import RECIPE_FILE, Recipe

    corpus = {"source_file": args.source, "target_file": args.reference}
    corpus |= {"pairs_file": args.pairs, "dataset": args.dataset}
    if any(value is not None for value in corpus.values()):
        check_origin(**corpus)
        corpus |= {"dataset_config": args.dataset_config, "split": args.split}
    else:
        model = Path(args.model)
        folder = next((path for path in (model, model.parent) if (path / RECIPE_FILE).is_file()), None)
        corpus = Recipe.load(folder).data_arguments(args.split) if folder is not None else None
    if corpus is None:
        raise ValueError(
            f"`source` and `reference` must be given, got neither, and {args.model} has no {RECIPE_FILE} that names a "
            f"{args.split} set. Pass --source and --reference, --pairs or --dataset."
        )
    return {key: value for key, value in corpus.items() if value is not None}


def _describe_translate(parser: argparse.ArgumentParser) -> None:
    _describe_decoding(parser)
    parser.add_argument("--input", default="-", metavar="FILE", help="UTF-8 text, one sentence a line; - is stdin")
    parser.add_argument(
        "--output",
        default="-",
        metavar="FILE",
        help="translations, line by line as the input; - is stdout, a file appears when it is complete",
    )


def _run_translate(args: argparse.Namespace) -> None:
    options = _decoding_options(args)
    from .evaluation.checkpoint import load_for_inference
    from .evaluation.files import check_files, translate_file

    check_files(args.input, args.output)
    model, tokenizer = load_for_inference(args.model, device=args.device)
    translate_file(model, tokenizer, args.input, args.output, **options)


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
    from .training.averaging import average_checkpoints

    folder = average_checkpoints(args.inputs, _output_folder(args), last=args.last)
    print(f"averaged model saved in {folder}")


def _describe_recipes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="recipe to print with all its values")


def _run_recipes(args: argparse.Namespace) -> None:
    from .training.recipes import RECIPES, get_recipe

    if args.name is None:
        for recipe in RECIPES.values():
            print(recipe.name)
            print(textwrap.indent(textwrap.fill(recipe.description, _text_width()), "    "))
        print("\nAll values of one: vaswani-transformer recipes NAME")
        return
    recipe = get_recipe(args.name)
    width = max(len(field.name) for field in dataclasses.fields(recipe))
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        print(f"{field.name:{width}}  {'none' if value is None else value}")


def _text_width() -> int:
    return max(40, min(shutil.get_terminal_size().columns, 120) - 4)


_COMMANDS = {
    "train-tokenizer": (
        _describe_train_tokenizer,
        _run_train_tokenizer,
        "Train the subword vocabulary that source and target share",
    ),
    "train": (_describe_train, _run_train, "Train a model by a recipe"),
    "evaluate": (_describe_evaluate, _run_evaluate, "Translate a test set and score it by sacreBLEU and chrF"),
    "translate": (_describe_translate, _run_translate, "Translate a file or stdin"),
    "average": (_describe_average, _run_average, "Average the weights of snapshots or of models"),
    "recipes": (_describe_recipes, _run_recipes, "List the recipes, or print one"),
}


if __name__ == "__main__":
    sys.exit(main())
