# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The console command `vaswani-transformer`: each sub-command calls functions of the library.

Results go to stdout, warnings and progress to stderr. Exit codes:

- 0: Success.
- 1: Any other error, such as too little GPU memory, with a traceback.
- 2: Wrong input. stderr has one line that says what is wrong, sometimes followed by advice.
- 130: The user interrupted the command.
- 141: The program that reads stdout has ended, as in `... | head`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import logging
import os
import re
import select
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cores import share_cores
from .extras import requiring
from .version import __version__

if TYPE_CHECKING:
    from .recipe import Recipe

_EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, OverflowError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    `argv` does not include the name of the program. None means `sys.argv[1:]`.
    """
    args = _parse(sys.argv[1:] if argv is None else argv)
    try:
        with _messages_on_stderr(), share_cores():
            args.run(args)
        sys.stdout.flush()
    except (*_EXPECTED_ERRORS, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and _reader_is_gone():  # `... | head`
            # Discard further output, or else Python would report the broken pipe again at shutdown.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        is_interrupt = isinstance(error, KeyboardInterrupt)
        message = "interrupted" if is_interrupt else f"error: {_with_options(str(error), args)}"
        print(*(line.strip() for line in message.splitlines()), file=sys.stderr)
        for note in getattr(error, "__notes__", []):  # advice, such as how to resume
            print(_with_options(note, args), file=sys.stderr)
        return 130 if is_interrupt else 2
    return 0


def _reader_is_gone() -> bool:
    """Return True if the reader of stdout has gone.

    A BrokenPipeError can also come from another pipe of this process.
    """
    if not hasattr(select, "poll"):  # on Windows
        return False
    stdout = select.poll()
    stdout.register(sys.stdout, 0)  # 0 asks for no events: `poll` reports errors in any case
    return any(event & select.POLLERR for _, event in stdout.poll(0))


def is_main_process() -> bool:
    """Return True in a single process, and in the first of several processes."""
    return int(os.environ.get("RANK", "0")) == 0


@contextlib.contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Show the package's log on stderr during the block.

    If there are several processes, all but the main one show only errors. Only the main process
    shows progress bars, and only if stderr is a terminal.
    """
    from transformers.utils import logging as library

    package, handler = logging.getLogger("vaswani_transformer"), logging.StreamHandler()
    level = package.level
    package.addHandler(handler)
    package.setLevel(
        min(logging.INFO, library.get_verbosity()) if is_main_process() else logging.ERROR
    )
    if hides_bars := library.is_progress_bar_enabled() and not (
        is_main_process() and sys.stderr.isatty()
    ):
        library.disable_progress_bar()
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    try:
        yield
    finally:
        if hides_bars:
            library.enable_progress_bar()
        package.removeHandler(handler)
        package.setLevel(level)


def _with_options(message: str, args: argparse.Namespace) -> str:
    """Replace the argument names in a message with options: `num_beams` becomes `--num-beams`."""
    return re.sub(r"`(\w+)`", lambda found: f"`{args.options.get(found[1], found[1])}`", message)


# ---- making models ----


def _train_tokenizer(args: argparse.Namespace) -> None:
    from .data import train_tokenizer

    output_dir = Path(args.output_dir)
    if output_dir.exists() and any(output_dir.iterdir()) and not args.overwrite:
        raise ValueError(
            f"`output_dir` must be new or empty, got {output_dir}. Pass another, or --overwrite."
        )
    tokenizer = train_tokenizer([Path(file) for file in args.files], vocab_size=args.vocab_size)
    tokenizer.save_pretrained(output_dir)
    print(f"{len(tokenizer)} entries, saved in {output_dir}")


def _clean(args: argparse.Namespace) -> None:
    from .data.hygiene import clean_files

    report = clean_files(args.source, args.target, args.output_dir, args.against)
    print("{num_kept:,} of {num_pairs:,} pairs saved in".format_map(report), args.output_dir)


def _train(args: argparse.Namespace) -> None:
    recipe = chosen_recipe(args)
    with requiring("train", "to train"):
        import accelerate  # noqa: F401  (transformers' own error does not name the extra)
    from .hub.card import describe_validation
    from .training.train import check_output_dir, fit_to_minutes, train

    computing = {name: getattr(args, name) for name in ("bf16", "use_cpu", "num_proc")}
    starting = {"overwrite": args.overwrite, "resume": args.resume}
    if args.minutes is not None:
        check_output_dir(args.output_dir, recipe, **starting)
        if _has_run(args):
            print(
                f"The resumed run keeps its {recipe.max_steps:,} updates: --minutes has no effect.",
                file=sys.stderr,
            )
        else:
            recipe = fit_to_minutes(recipe, args.minutes, keep=_given_fields(args), **computing)
    results = train(
        recipe, args.output_dir, report_to=args.report_to or "none", **starting, **computing
    )
    if is_main_process():
        print(
            f"Trained {recipe.name}: {results['train_steps']:,} updates on "
            f"{results['train_pairs']:,} pairs."
        )
        for which in ("best", "last", "average"):
            text = describe_validation(recipe, results, which)
            if text:
                print(f"  {which} validation: {text}")
        print(
            f"  next: vaswani-transformer translate --model {shlex.quote(args.output_dir)} --input "
            "FILE"
        )


def _has_run(args: argparse.Namespace) -> bool:
    """Return True if the command resumes a run that has saved its recipe."""
    from .files import RECIPE_FILE

    return args.resume and (Path(args.output_dir) / RECIPE_FILE).is_file()


def _given_fields(args: argparse.Namespace) -> set[str]:
    """Return the names of the recipe fields that the command line sets.

    `args` lacks all other fields, because their options have the default `argparse.SUPPRESS`.
    """
    from .recipe import Recipe

    return Recipe.__dataclass_fields__.keys() & vars(args).keys()


def chosen_recipe(args: argparse.Namespace) -> Recipe:
    """Return the recipe that `train` uses.

    Without --recipe, this is the recipe of the resumed run, or the paper's base model if no run is
    resumed. Options replace the values of the recipe.
    """
    from .recipe import FITTED, Recipe, get_recipe, parse_value

    given = {}
    for name in _given_fields(args):
        given[name] = parse_value(name, getattr(args, name))
    if args.minutes is not None and "max_steps" in given:
        raise ValueError(
            "`max_steps` must be left out with --minutes, which computes it. Drop one of them."
        )
    if None not in (given.get("tokenizer"), given.get("vocab_size")):
        print("--vocab-size has no effect: the tokenizer has its own.", file=sys.stderr)
    if _has_run(args):
        run = Recipe.load(args.output_dir)
        if args.recipe is None:
            return dataclasses.replace(run, **given)
        # When the run started, `train` may have changed the fields in `fitted` to suit --minutes or
        # the number of updates. So the run's values of these fields replace those of --recipe.
        fitted = FITTED if args.minutes is None else (*FITTED, "max_steps")
        given = {name: getattr(run, name) for name in fitted} | given
    return get_recipe(args.recipe, **given)


def _average(args: argparse.Namespace) -> None:
    from .training.averaging import average_checkpoints

    print(f"averaged model saved in {average_checkpoints(args.inputs, args.output_dir)}")


def _recipes(args: argparse.Namespace) -> None:
    from .recipe import RECIPES, recipe_text

    if args.name is not None:
        print(recipe_text(args.name), end="")
        return
    for name, recipe in RECIPES.items():
        if not name.startswith("table3-"):
            print(name, textwrap.indent(textwrap.fill(recipe.description, 96), "    "), sep="\n")
    print("table3-base, -A1 ... -E, -big\n    Every row of the paper's Table 3.")
    print("\nTo train with your own values: vaswani-transformer recipes small > mine.yaml")


# ---- using models ----


def _decoding_options(args: argparse.Namespace) -> dict[str, Any]:
    from .inference import DECODING
    from .inference.translate import decoding_overrides

    return {
        "max_tokens_per_batch": args.max_tokens_per_batch,
        "progress": sys.stderr.isatty(),
        **decoding_overrides(**{name: getattr(args, name) for name in DECODING}),
    }


def _computing_options(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("device", "int8", "bf16", "engine")}


def _evaluate(args: argparse.Namespace) -> None:
    options = _decoding_options(args)
    _check_new_output("translations", args.translations)
    from .files import CARD_FILE, TRAIN_RESULTS_FILE
    from .inference.evaluate import evaluate_to_files, format_report

    options |= {
        **_computing_options(args),
        "translations_file": args.translations,
        "tokenized": args.tokenized,
    }
    results, path = evaluate_to_files(args.model, chosen_corpus(args), **options)
    print(format_report(results))
    if path is None:
        return
    print(f"\nwritten to {path}")
    if all((path.parent / name).is_file() for name in (CARD_FILE, TRAIN_RESULTS_FILE)):
        from .hub.card import refresh_card

        card = refresh_card(path.parent)
        if card is not None:
            print(f"model card updated: {card}")


def chosen_corpus(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `load_evaluation_set` for `evaluate`.

    If the command line names no corpus, use a split of the data in the model's recipe.
    """
    from .files import RECIPE_FILE
    from .inference.loading import check_model_path
    from .recipe import Recipe

    given = {
        "source_file": args.source,
        "target_file": args.reference,
        "pairs_file": args.pairs,
        "dataset": args.dataset,
        "dataset_config": args.dataset_config,
    }
    needing = ["dataset_config"]
    if args.source or args.reference or args.pairs:
        needing.append("split")
    if alone := [name for name in needing if getattr(args, name) and not args.dataset]:
        raise ValueError(
            f"`{alone[0]}` must come with --dataset, got {getattr(args, alone[0])} alone. Drop it, "
            "or name a data set."
        )
    model, split = Path(args.model), args.split or "test"
    corpus: dict[str, Any] | None = given if any(given.values()) else None
    if corpus is None and (model / RECIPE_FILE).is_file():
        corpus = Recipe.load(model).data_arguments(split)
    if corpus is None:
        check_model_path(args.model)
        raise ValueError(
            f"`source` and `reference` must be given, got neither, and {args.model} has no "
            f"{RECIPE_FILE} that names a {split} set. Pass --source and --reference, --pairs or "
            "--dataset."
        )
    return {
        key: value
        for key, value in {"split": split, **corpus, "name": args.name}.items()
        if value is not None
    }


def _translate(args: argparse.Namespace) -> None:
    options = _decoding_options(args) | _sampling_options(args)
    if args.do_sample:
        import torch

        # Each process has its own seed, so that no two processes draw the same numbers.
        torch.manual_seed((args.seed or 0) + int(os.environ.get("RANK", "0")))
    from .files import is_stream
    from .inference.translate import join_processes, part_of, translate_file
    from .inference.translator import load_engine

    if not is_stream(args.output):
        output, part = Path(args.output), part_of(args.output)
        if not (args.overwrite or args.resume):
            _check_new_output("output", output, "--overwrite")
            _check_new_output("output", part, "--resume to finish it, or --overwrite")
        if output.is_file() and not args.overwrite and not part.exists():
            print(
                f"{output} is complete already; --overwrite translates it again.", file=sys.stderr
            )
            return
        output.parent.mkdir(parents=True, exist_ok=True)
    processes = join_processes()
    computing = _computing_options(args)
    # Only a CPU computes in int8 with the engine torch.
    needs_cpu = args.int8 and args.engine == "torch"
    if processes is not None and args.device is None and not needs_cpu:
        computing["device"] = processes.device
    languages = (args.source_language, args.target_language)
    model, tokenizer = load_engine(args.model, languages=languages, **computing)
    translate_file(
        model,
        tokenizer,
        args.input,
        args.output,
        num_best=args.num_best,
        resume=args.resume,
        tag=args.tag,
        document=args.document,
        processes=processes,
        **options,
    )
    if processes is not None:
        processes.destroy_process_group()


def _check_new_output(
    name: str, output: str | Path | None, advice: str = "move that file away"
) -> None:
    """Raise ValueError if an output file already exists."""
    if output is not None and Path(output).is_file():
        raise ValueError(f"`{name}` must be a new file, got {output}. Pass another, or {advice}.")


def _sampling_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `generate` for sampling, or {} without --sample.

    The seed of the draws is not an argument of `generate`, so it is not included.
    """
    given = {
        name: getattr(args, name)
        for name in ("temperature", "top_k", "seed")
        if getattr(args, name) is not None
    }
    if not args.do_sample:
        if given:
            raise ValueError(
                f"`{next(iter(given))}` must come with --sample, got it alone. Drop it, or add "
                "--sample."
            )
        return {}
    if args.num_beams not in (None, 1):
        raise ValueError(
            f"`num_beams` must be left out with --sample, got {args.num_beams}. Search or sample."
        )
    given.pop("seed", None)
    return {"do_sample": True, "num_beams": 1, "temperature": 1.0, "top_k": 0, **given}


def _score(args: argparse.Namespace) -> None:
    from .inference.loading import load_for_inference
    from .inference.score import score_files

    _check_new_output("output", args.output)
    model, tokenizer = load_for_inference(args.model, device=args.device, bf16=args.bf16)
    options = {
        "length_penalty": args.length_penalty,
        "length_penalty_offset": args.length_penalty_offset,
        "progress": sys.stderr.isatty(),
    }
    if args.max_tokens_per_batch is not None:
        options["max_tokens_per_batch"] = args.max_tokens_per_batch
    score_files(model, tokenizer, args.source, args.target, args.output, **options)


def _push(args: argparse.Namespace) -> None:
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    from .hub.push import push_model

    options = {
        name: getattr(args, name) or None for name in ("license", "private", "revision", "tag")
    }
    try:
        commit = push_model(args.model, args.repo_id, **options)
    except HTTPError as error:  # an error of the HTTP client, not an OSError
        raise OSError(f"The push to the Hub failed: {error}") from error
    revision = args.tag or args.revision
    print(f"pushed to {commit.repo_url}{f'/tree/{revision}' if revision else ''}")


# For each format: the export function, and Python code that loads the result.
_FORMATS = {
    "ctranslate2": (
        "export_ctranslate2",
        "from vaswani_transformer.export import Translator; translate = Translator({!r})",
    ),
    "marian": (
        "export_marian",
        "from transformers import AutoModelForSeq2SeqLM; model = "
        "AutoModelForSeq2SeqLM.from_pretrained({!r})",
    ),
}


def _export(args: argparse.Namespace) -> None:
    from . import export

    function, use = _FORMATS[args.to]
    options = {} if args.quantization is None else {"quantization": args.quantization}
    if options and args.to != "ctranslate2":
        raise ValueError(
            f"`quantization` must be left out with --to {args.to}, which writes float32, got "
            f"{args.quantization}. Drop it, or export --to ctranslate2."
        )
    getattr(export, function)(args.model, args.output_dir, **options)
    print(f"written: {args.output_dir}")
    print(f"in Python: {use.format(args.output_dir)}")


# ---- options and help ----

# Recipe fields that `train --help` shows. `train --help-all` shows all fields.
_COMMON_FIELDS = (
    "train_source",
    "train_target",
    "validation_source",
    "validation_target",
    "max_steps",
)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line.

    Options may be written with underscores instead of hyphens. The error for an unknown option
    suggests a similar option.
    """
    words = [re.sub("^--[^=]*", lambda found: found[0].replace("_", "-"), word) for word in argv]
    parser = build_parser(show_all="--help-all" in words)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        option = unknown[0].partition("=")[0]
        close = difflib.get_close_matches(option, args.options.values(), n=1)
        advice = f" (did you mean {close[0]}?)" if close else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
    return args


def build_parser(show_all: bool = False) -> argparse.ArgumentParser:
    """Return the parser of all commands.

    The parsed arguments also contain `run`, the function of the command, and `options`, a
    dictionary from the name of each argument to the option that the user types.

    Args:
        show_all: Whether the help of `train` shows every recipe field.
    """
    about = "Train, evaluate and use the Transformer of 'Attention Is All You Need' (2017)."
    parser = argparse.ArgumentParser(
        prog="vaswani-transformer", description=about, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, help="one of those below"
    )

    def command(
        name: str, run: Callable[[argparse.Namespace], None], about: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=f"{about}.", allow_abbrev=False)
        made.set_defaults(run=run)
        return made

    _add_train_tokenizer(
        command("train-tokenizer", _train_tokenizer, "Train the vocabulary of both languages")
    )
    _add_clean(
        command("clean", _clean, "Remove duplicates, copies and held-out text from two text files")
    )
    _add_train(command("train", _train, "Train a model from a recipe"), show_all)
    _add_average(command("average", _average, "Average the weights of snapshots or of models"))
    recipes = command("recipes", _recipes, "List the recipes, or print one of them")
    recipes.add_argument("name", nargs="?", help="recipe to print, to start your own from")
    _add_evaluate(
        command(
            "evaluate", _evaluate, "Score a test set by every metric, and update the model card"
        )
    )
    _add_translate(command("translate", _translate, "Translate a file or stdin"))
    _add_score(command("score", _score, "Score given translations by the model's probability"))
    _add_push(
        command("push", _push, "Upload a model to the Hub, with its code and card, in one commit")
    )
    _add_export(
        command("export", _export, "Write a model for plain transformers (Marian) or CTranslate2")
    )
    for made in commands.choices.values():
        typed = {action.dest: (*action.option_strings, action.dest)[0] for action in made._actions}
        made.set_defaults(options=typed)
    return parser


def _add_train_tokenizer(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        help="UTF-8 text of both languages, one sentence per line, usually two files",
    )
    add("--output-dir", required=True, help="folder to save the tokenizer in")
    add(
        "--vocab-size",
        type=int,
        default=37000,
        help="vocabulary entries, including 256 bytes and 3 special tokens (default: 37000)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace the tokenizer in an output folder that is not empty",
    )


def _add_clean(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Texts are compared by their letters, digits and combining marks, in lower case. "
        "Of several duplicates, the first pair is kept. Pairs with a blank side are also removed. "
        "In report.json, a pair counts under every reason to remove it."
    )
    add = parser.add_argument
    add("--source", required=True, help="source sentences, one per line")
    add("--target", required=True, help="translations, aligned with --source")
    add(
        "--against",
        nargs=2,
        action="append",
        default=[],
        metavar=("SOURCE", "TARGET"),
        help=(
            "both sides of a validation or test text; pairs with a source sentence of this text "
            "are removed, whatever their target; may be repeated"
        ),
    )
    add("--output-dir", required=True, help="new folder for the cleaned files and report.json")


def _add_train(parser: argparse.ArgumentParser, show_all: bool) -> None:
    parser.usage = "%(prog)s --output-dir DIR [--recipe RECIPE] [OPTION ...]"
    parser.epilog = (
        "Every field of a recipe is an option: --help-all lists them. "
        "docs/training.md explains the rest."
    )
    add = parser.add_argument
    add("--help-all", action="help", help="show every option, and exit")
    add("--output-dir", required=True, help="folder for all files of the run")
    add(
        "--recipe",
        help=(
            "a name from `vaswani-transformer recipes`, or a file: mine.yaml, or the recipe.json "
            "of another run; options override its values (default: the paper's base model; with "
            "--resume the run's own)"
        ),
    )
    add(
        "--minutes",
        type=float,
        help=(
            "duration of the training, instead of --max-steps; the first updates are timed to find "
            "how many fit"
        ),
    )
    add(
        "--resume",
        action="store_true",
        help="resume from the newest checkpoint in the output folder; without one, start a new run",
    )
    add(
        "--bf16",
        action="store_true",
        help="compute in bfloat16; weights and optimizer stay in fp32",
    )
    add(
        "--overwrite",
        action="store_true",
        help=_help("first delete the run in the output folder", show_all),
    )
    add(
        "--use-cpu",
        action="store_true",
        help=_help("train on the CPU even if there is a GPU", show_all),
    )
    trackers = (
        "trackers of transformers that receive the log: tensorboard, wandb, mlflow, trackio ..."
    )
    add("--report-to", nargs="+", help=_help(trackers, show_all))
    processes = (
        "number of processes that tokenize the data; it does not change the result "
        "(default: all cores for a large corpus)"
    )
    add("--num-proc", type=int, help=_help(processes, show_all))
    add_recipe_fields(parser, show_all)


def add_recipe_fields(parser: argparse.ArgumentParser, show_all: bool) -> None:
    """Add an option for each recipe field.

    An option that is not given is absent from the parsed arguments.
    """
    from .recipe import Recipe, field_types

    group = parser.add_argument_group(
        "fields of the recipe", "The defaults shown apply without --recipe."
    )
    for field in dataclasses.fields(Recipe):
        kind, _, may_be_list = field_types()[field.name]
        default = "none" if field.default is None else field.default
        text = f"{field.metadata['help']} (default: {default})".replace("%", "%%")
        is_shown = show_all or field.name in _COMMON_FIELDS
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            metavar={int: "N", float: "X", str: "TEXT", bool: "true|false"}[kind],
            nargs="+" if may_be_list else None,
            help=_help(text, is_shown),
        )


def _help(text: str, is_shown: bool) -> str:
    return text if is_shown else argparse.SUPPRESS


def _add_average(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "inputs",
        nargs="+",
        help="folder of a run, to average its newest snapshots; or snapshot files or models",
    )
    add("--output-dir", required=True, help="new folder for the averaged model")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="folder of a model, or its id on the Hub")


def _add_computing(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    add = parser.add_argument
    add(
        "--device",
        help="cpu, cuda, cuda:1, ... (default: a GPU if there is one; for --int8 with torch, cpu)",
    )
    add(
        "--bf16",
        action="store_true",
        help="compute in bfloat16 on a GPU: faster, but some translations differ",
    )
    add(
        "--max-tokens-per-batch",
        type=int,
        help=(
            "most tokens of a batch, with padding; larger batches need more memory (default: 4096, "
            "or 1024 for CTranslate2 on a CPU)"
        ),
    )


def _add_penalty(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    formula = "((c + length) / (c + 1))^alpha (default: the model's)"
    add("--length-penalty", type=float, help=f"alpha of the length penalty {formula}")
    add(
        "--length-penalty-offset",
        type=float,
        help=f"c of the length penalty {formula}; 5 is the paper's",
    )


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    _add_computing(parser)
    add = parser.add_argument
    add(
        "--int8",
        action="store_true",
        help="compute in int8 on a CPU: faster, but some translations differ",
    )
    add(
        "--engine",
        choices=["torch", "ctranslate2"],
        default="torch",
        help=(
            "ctranslate2 translates single sentences faster with small models; in fp32 it gives "
            "the same translations (needs the extra export; default: torch)"
        ),
    )
    add("--num-beams", type=int, help="number of beams; 1 is greedy search (default: the model's)")
    _add_penalty(parser)
    add(
        "--max-new-tokens-over-source",
        type=int,
        help=(
            "most tokens of a translation: the tokens of its source + this number "
            "(default: the model's)"
        ),
    )


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    _add_decoding(parser)
    add = parser.add_argument
    add("--translations", help="new file for the translations, one per line")
    about = "Default: the test set of the recipe saved with the model."
    add = parser.add_argument_group("test set", about).add_argument
    add("--source", help="source sentences, one per line")
    add(
        "--reference",
        "--target",
        nargs="+",
        help="reference translations, one per line; several files give several references",
    )
    add(
        "--tokenized",
        action="store_true",
        help="the texts are tokenized already; also report tokenized BLEU",
    )
    add("--pairs", help="both sides in one .jsonl, .json, .csv, .tsv or .parquet file")
    add("--dataset", help="Hub name or folder of a `datasets` dataset, or builtin")
    add("--dataset-config", help="configuration of the dataset, for example de-en")
    add("--split", help="part of the dataset or of the recipe's data (default: test)")
    add(
        "--name",
        help=(
            "name of the test set in the results and their file name (default: its files or "
            "dataset)"
        ),
    )


def _add_translate(parser: argparse.ArgumentParser) -> None:
    _add_decoding(parser)
    add = parser.add_argument
    add(
        "--input",
        "--source",
        default="-",
        help="UTF-8 text, one sentence per line (default: stdin)",
    )
    add(
        "--output",
        default="-",
        help="translations, one per line; the file appears when it is complete (default: stdout)",
    )
    add(
        "--n-best",
        dest="num_best",
        metavar="N",
        type=int,
        help=(
            "write the N best translations of each line as JSON lines, with score, "
            "log-probability and length; two of them may have the same text but different tokens"
        ),
    )
    add(
        "--resume",
        action="store_true",
        help="skip lines that the same command has translated into OUTPUT.part",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace the output file, or the unfinished OUTPUT.part",
    )
    add(
        "--document",
        action="store_true",
        help=(
            "split each line into sentences, and translate them one by one; white space, list "
            "marks, links, placeholders and tags are kept"
        ),
    )
    add(
        "--tag",
        help="text to put before each translation, such as <bt> (see train --added-tokens)",
    )
    about = (
        "--model can be any encoder-decoder of transformers. Its generation config sets the search."
    )
    add = parser.add_argument_group("models of other architectures", about).add_argument
    add(
        "--source-language",
        help="language code of the model: eng_Latn (NLLB), en_XX (mBART), en (M2M100, T5)",
    )
    add("--target-language", help="language code of the model, such as deu_Latn, de_DE or de")
    about = (
        "Draw translations at random instead of searching for the best, "
        "for example to back-translate."
    )
    add = parser.add_argument_group("sampling", about).add_argument
    add(
        "--sample",
        dest="do_sample",
        action="store_true",
        help="draw each token by its probability; --n-best sets the number of draws",
    )
    add(
        "--temperature",
        type=float,
        help="divisor of the logits; below 1 likely tokens become likelier (default: 1)",
    )
    add("--top-k", type=int, help="draw only among the N likeliest tokens (default: all)")
    add("--seed", type=int, help="seed of the draws (default: 0)")


def _add_score(parser: argparse.ArgumentParser) -> None:
    _add_computing(parser)
    add = parser.add_argument
    add("--source", required=True, help="source sentences, one per line; - is stdin")
    add("--target", required=True, help="translations, aligned with --source; - is stdin")
    add(
        "--output",
        default="-",
        help=(
            "new file for JSON lines with log_prob (natural logarithm), length (tokens with </s>) "
            "and score (default: stdout)"
        ),
    )
    _add_penalty(parser)


def _add_push(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", required=True, help="folder of a model")
    add("--repo-id", required=True, help="USER/NAME of the repo; created if missing")
    add(
        "--license",
        help="license of the model, such as cc-by-4.0 or apache-2.0 (default: the one in its card)",
    )
    add(
        "--private",
        action="store_true",
        help="create the repo as private; refuse a repo that is public",
    )
    add("--revision", help="branch to commit to; created if missing (default: main)")
    add("--tag", help="tag for this commit, for example v1")


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    add = parser.add_argument
    add(
        "--to",
        required=True,
        choices=list(_FORMATS),
        help=(
            "marian: runs in transformers without this package, and converts to ONNX "
            "(scripts/export_onnx.sh); ctranslate2: runs in CTranslate2 (needs the extra export)"
        ),
    )
    add("--output-dir", required=True, help="output folder, new or empty")
    add(
        "--quantization",
        help=(
            "how CTranslate2 stores weights: float32, float16, bfloat16, int16, int8, "
            "int8_float32, int8_float16 or int8_bfloat16 (default: float32)"
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
