# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The console command `vaswani-transformer`: one thin sub-command for each library function.

Results go to stdout, warnings and progress to stderr. Exit codes: 0 done, 2 wrong input (one line on stderr, and how
to go on where that can be), 130 interrupted.
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
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cores import share_cores
from .extras import requiring

if TYPE_CHECKING:
    from .training.recipes import Recipe

_EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, OverflowError)

# What a library function calls an argument that has another name on the command line.
_OTHER_NAMES = {"folder": "output_dir", "num_best": "n_best", "resume_from_checkpoint": "resume"}
_OTHER_NAMES |= {"sentences": "files", "path": "files"}
_OTHER_NAMES |= {"source_file": "source", "target_file": "reference", "pairs_file": "pairs"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; `argv` is without the program's name, None takes the process's."""
    args = _parse(build_parser(), sys.argv[1:] if argv is None else argv)
    try:
        with _messages_on_stderr(), share_cores():
            args.run(args)
        sys.stdout.flush()
    except (*_EXPECTED_ERRORS, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and _reader_is_gone():  # `... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains at shutdown
            return 141
        is_interrupt = isinstance(error, KeyboardInterrupt)
        message = "interrupted" if is_interrupt else f"error: {_with_options(str(error), args)}"
        print(*(line.strip() for line in message.splitlines()), file=sys.stderr)
        for note in getattr(error, "__notes__", []):  # how to go on
            print(_with_options(note, args), file=sys.stderr)
        return 130 if is_interrupt else 2
    return 0


def _reader_is_gone() -> bool:
    """Returns True if nobody reads our output any more; a pipe to a process of our own may break, too."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):  # no such call on this system, or no such file
        return True


def is_main_process() -> bool:
    """Tells whether this is the only process, or the one of many that speaks."""
    return int(os.environ.get("RANK", "0")) == 0


@contextlib.contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Shows the package's log on stderr, from one process of many, and transformers' bars on terminals alone."""
    from transformers.utils import logging as library

    package, handler = logging.getLogger("vaswani_transformer"), logging.StreamHandler()
    level = package.level
    package.addHandler(handler)
    package.setLevel(min(logging.INFO, library.get_verbosity()) if is_main_process() else logging.ERROR)
    if hides_bars := library.is_progress_bar_enabled() and not (is_main_process() and sys.stderr.isatty()):
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
    """Replaces the names of arguments in a message by what the user types: `num_beams` becomes `--num-beams`."""
    typed = {other: args.options[name] for other, name in _OTHER_NAMES.items() if name in args.options} | args.options
    return re.sub(r"`(\w+)`", lambda found: f"`{typed.get(found[1], found[1])}`", message)


# ---- making models ----


def _train_tokenizer(args: argparse.Namespace) -> None:
    from .data import train_tokenizer

    output_dir = Path(args.output_dir)
    if output_dir.exists() and any(output_dir.iterdir()) and not args.overwrite:
        raise ValueError(f"`output_dir` must be new or empty, got {output_dir}. Pass another, or --overwrite.")
    tokenizer = train_tokenizer([Path(file) for file in args.files], vocab_size=args.vocab_size)
    tokenizer.save_pretrained(output_dir)
    print(f"{len(tokenizer)} entries, saved in {output_dir}")


def _train(args: argparse.Namespace) -> None:
    recipe = chosen_recipe(args)
    with requiring("train", "to train"):
        import accelerate  # noqa: F401  (transformers' own error names no extra)
    from .training.run import check_output_dir, fit_to_minutes, start_or_resume, train

    options = {name: getattr(args, name) for name in ("overwrite", "resume", "bf16", "use_cpu", "num_proc")}
    options["report_to"] = args.report_to or []
    if args.resume and not args.overwrite:
        options |= start_or_resume(args.output_dir, recipe)
    if args.minutes is not None:
        check_output_dir(args.output_dir, recipe, overwrite=options["overwrite"], resume=options["resume"])
        if options["resume"]:
            print(f"The resumed run keeps its {recipe.max_steps:,} updates: --minutes has no effect.", file=sys.stderr)
        else:
            here = {name: options[name] for name in ("bf16", "use_cpu", "num_proc")}
            recipe = fit_to_minutes(recipe, args.minutes, keep=vars(args), **here)
    results = train(recipe, args.output_dir, **options)
    if is_main_process():
        print(f"Trained {recipe.name}: {results['train_steps']:,} updates on {results['train_pairs']:,} pairs.")
        figures = {"sacrebleu": "BLEU {:.2f}", "chrf": f"chrF {{:.2f}} ({recipe.validation_search})"}
        figures["perplexity"] = "perplexity {:,.3f}"
        for which in ("best", "last", "average"):
            scores = {form: results.get(f"{which}_eval_{name}") for name, form in figures.items()}
            if text := ", ".join(form.format(value) for form, value in scores.items() if value is not None):
                print(f"  {which} validation: {text}")
        print(f"  next: vaswani-transformer translate --model {shlex.quote(args.output_dir)} --input FILE")


def chosen_recipe(args: argparse.Namespace) -> Recipe:
    """Returns the named recipe, the resumed run's own, or the paper's, with the values given on the command line."""
    from .files import RECIPE_FILE
    from .training.recipes import LAID_OUT, OLD_NAMES, Recipe, get_recipe, with_new_names

    names = {*Recipe.__dataclass_fields__, *OLD_NAMES}
    given = with_new_names({name: value for name, value in vars(args).items() if name in names})
    given = {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in given.items()}
    if args.minutes is not None and "max_steps" in given:
        raise ValueError("`max_steps` must be left out with --minutes, which finds it. Drop one of them.")
    if None not in (given.get("tokenizer"), given.get("vocab_size")):
        print("--vocab-size has no effect: the tokenizer has its own.", file=sys.stderr)
    if args.resume and (Path(args.output_dir) / RECIPE_FILE).is_file():
        run, steps = Recipe.load(args.output_dir), () if args.minutes is None else ("max_steps",)
        if args.recipe is None:
            return dataclasses.replace(run, **given)
        given = {name: getattr(run, name) for name in (*LAID_OUT, *steps)} | given
    return get_recipe(args.recipe, **given)


def _average(args: argparse.Namespace) -> None:
    from .training.averaging import average_checkpoints

    print(f"averaged model saved in {average_checkpoints(args.inputs, args.output_dir, last=args.last)}")


def _recipes(args: argparse.Namespace) -> None:
    from .training.recipes import RECIPES, get_recipe

    if args.name is None:
        rows = {name: recipe.description for name, recipe in RECIPES.items() if not name.startswith("table3-")}
        rows["table3-base, -A1 ... -E, -big"] = "Every row of the paper's Table 3."
        width = max(40, min(shutil.get_terminal_size().columns, 120) - 4)
        for name, description in rows.items():
            print(name, textwrap.indent(textwrap.fill(description, width), "    "), sep="\n")
        print("\nAll values of one: vaswani-transformer recipes NAME")
        return
    values = dataclasses.asdict(get_recipe(args.name))
    width = max(map(len, values))
    for name, value in values.items():
        print(f"{name:{width}}  {str(value).lower() if value is None or isinstance(value, bool) else value}")


# ---- using models ----


def _decoding_options(args: argparse.Namespace) -> dict[str, Any]:
    from .evaluation import DECODING
    from .evaluation.translate import decoding_overrides

    return {
        "max_tokens_per_batch": args.max_tokens_per_batch,
        "progress": sys.stderr.isatty(),
        **decoding_overrides(**{name: getattr(args, name) for name in DECODING}),
    }


def _evaluate(args: argparse.Namespace) -> None:
    options = _decoding_options(args)
    from .evaluation.report import evaluate_to_files, format_report
    from .files import CARD_FILE, TEST_RESULTS_PATTERN, TRAIN_RESULTS_FILE

    files = {"results_file": args.results, "translations_file": args.translations}
    options |= {"device": args.device, "int8": args.int8, "bf16": args.bf16}
    results, path = evaluate_to_files(args.model, chosen_corpus(args), **files, **options)
    print(format_report(results))
    if path is None:
        return
    print(f"\nwritten to {path}")
    folder = Path(args.model)
    is_read = Path(path).match(TEST_RESULTS_PATTERN) and Path(path).resolve().parent == folder.resolve()
    if is_read and all((folder / name).is_file() for name in (CARD_FILE, TRAIN_RESULTS_FILE)):
        from .training.card import refresh_card

        if card := refresh_card(folder):
            print(f"with these scores, the model's card: {card}")


def chosen_corpus(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `load_evaluation_set`: what the command line names, else data of the model's recipe."""
    from .evaluation.loading import check_model_path
    from .files import RECIPE_FILE
    from .training.recipes import Recipe

    given = {"source_file": args.source, "target_file": args.reference, "pairs_file": args.pairs}
    given |= {"dataset": args.dataset, "dataset_config": args.dataset_config}
    parts = ("dataset_config", "split") if args.source or args.reference or args.pairs else ("dataset_config",)
    if alone := [name for name in parts if getattr(args, name) and not args.dataset]:
        raise ValueError(
            f"`{alone[0]}` must come with --dataset, got {getattr(args, alone[0])} alone. Drop it, or name a data set."
        )
    model, split = Path(args.model), args.split or "test"
    corpus: dict[str, Any] | None = given if any(given.values()) else None
    folder = next((path for path in (model, model.parent) if (path / RECIPE_FILE).is_file()), None)
    if corpus is None and folder is not None:
        corpus = Recipe.load(folder).data_arguments(split)
    if corpus is None:
        check_model_path(args.model)
        raise ValueError(
            f"`source` and `reference` must be given, got neither, and {args.model} has no {RECIPE_FILE} that names a "
            f"{split} set. Pass --source and --reference, --pairs or --dataset."
        )
    return {key: value for key, value in {"split": split, **corpus, "name": args.name}.items() if value is not None}


def _translate(args: argparse.Namespace) -> None:
    options = _decoding_options(args) | _sampling_options(args)
    from .evaluation.loading import load_for_inference
    from .evaluation.translate import join_processes, part_of, translate_file

    output, part = Path(args.output), part_of(args.output)
    if not (args.overwrite or args.resume):
        if output.is_file():
            raise ValueError(f"`output` must be a new file, got {output}. Pass another, or --overwrite.")
        if part.is_file() and part.stat().st_size:
            raise ValueError(
                f"`output` must be a new file, got {output}, begun in {part}. Pass --resume, or --overwrite."
            )
    if output.is_file() and not args.overwrite and not part.exists():
        print(f"{output} is whole already; --overwrite translates anew.", file=sys.stderr)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    processes = join_processes()
    device = args.device or (processes and processes.device)
    model, tokenizer = load_for_inference(args.model, device=device, int8=args.int8, bf16=args.bf16)
    options |= {name: getattr(args, name) for name in ("resume", "tag", "document")}
    options |= {"num_best": args.n_best, "processes": processes}
    translate_file(model, tokenizer, args.input, args.output, **options)
    if processes is not None:
        processes.destroy_process_group()


def _sampling_options(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `generate` that make it sample, and seeds torch."""
    given = {name: getattr(args, name) for name in ("temperature", "top_k", "seed") if getattr(args, name) is not None}
    if not args.sample:
        if given:
            raise ValueError(f"`{next(iter(given))}` must come with --sample, got it alone. Drop it, or add --sample.")
        return {}
    if args.num_beams not in (None, 1):
        raise ValueError(f"`num_beams` must be left out with --sample, got {args.num_beams}. Search or sample.")
    import torch

    torch.manual_seed(given.pop("seed", 0) + int(os.environ.get("RANK", "0")))
    return {"do_sample": True, "num_beams": 1, "temperature": 1.0, "top_k": 0, **given}


def _score(args: argparse.Namespace) -> None:
    from .evaluation.loading import load_for_inference
    from .evaluation.scoring import score_files

    model, tokenizer = load_for_inference(args.model, device=args.device, bf16=args.bf16)
    options = {name: getattr(args, name) for name in ("length_penalty", "length_penalty_offset")}
    options |= {"max_tokens_per_batch": args.max_tokens_per_batch, "progress": sys.stderr.isatty()}
    score_files(model, tokenizer, args.source, args.target, args.output, **options)


def _push(args: argparse.Namespace) -> None:
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    from .training.hub import push_model

    options = {name: getattr(args, name) or None for name in ("private", "revision", "tag", "commit_message")}
    try:
        commit = push_model(args.model, args.repo_id, **options)
    except HTTPError as error:  # of the HTTP client, and no OSError
        raise OSError(f"The Hub did not take the push: {error}") from error
    place = args.tag or args.revision
    print(f"pushed to {commit.repo_url}{f'/tree/{place}' if place else ''}")


# For each engine the function that exports for it, and how the export is used in Python.
_FORMATS = {
    "ctranslate2": (
        "export_ctranslate2",
        "from vaswani_transformer.export import Translator; translate = Translator({!r})",
    ),
    "marian": (
        "export_marian",
        "from transformers import AutoModelForSeq2SeqLM; model = AutoModelForSeq2SeqLM.from_pretrained({!r})",
    ),
}


def _export(args: argparse.Namespace) -> None:
    if args.to == "onnx":
        raise ValueError(
            "`to` must be ctranslate2 or marian, got onnx. Export --to marian; from that folder `bash "
            "scripts/export_onnx.sh` of the repository, or optimum-cli, makes ONNX files."
        )
    if args.to != "ctranslate2" and args.quantization is not None:
        raise ValueError(
            f"`quantization` must be left out with --to {args.to}, whose weights stay float32, got "
            f"{args.quantization}. Drop it, or export --to ctranslate2."
        )
    from . import export

    function, use = _FORMATS[args.to]
    options = {} if args.quantization is None else {"quantization": args.quantization}
    folder = getattr(export, function)(args.model, args.output_dir, **options)
    size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    print(f"written: {folder} ({size:.1f} MB)")
    print(f"in Python: {use.format(str(folder))}")


# ---- options and help ----

# Options as they are typed, with the name of their value, and their help. N is a whole number, X, ALPHA and C are
# numbers, a|b lists the choices, the rest is text, and a switch has none; `...` takes several, `?` none or one, `!` is
# needed, `=` shows the default. "#" begins a group: its title and what it is about.
_MODEL = {"--model DIR!": "folder of a model, or its id on the Hub"}
_COMPUTING = {
    **_MODEL,
    "--bf16": "compute in bfloat16, on a GPU: faster in half of the memory, with some other translations",
    "--max-tokens-per-batch N=4096": "padded tokens computed at once; more is faster and takes more memory",
    "--device NAME": "cpu, cuda, cuda:1, ... (default: a GPU if there is one)",
}
_PENALTY = {
    "--length-penalty ALPHA": "alpha of the length penalty ((c + length) / (c + 1))^alpha (default: the model's)",
    "--length-penalty-offset C": (
        "c of the length penalty: 5 is the paper's, 0 gives length^alpha (default: the model's)"
    ),
}
_DECODING = {
    **_COMPUTING,
    "--num-beams N": "beams; 1 is greedy search (default: the model's)",
    **_PENALTY,
    "--max-new-tokens-over-source N": "output limit of each sentence: its source tokens + N (default: the model's)",
    "--int8": "compute in int8, on a CPU: faster in a quarter of the memory, with some other translations",
}
_TRAIN_TOKENIZER = {
    "files FILE...": "UTF-8 text of both languages, one sentence a line, usually two files",
    "--output-dir DIR!": "folder that receives the tokenizer",
    "--vocab-size N=37000": "entries, with the 256 bytes and 3 special tokens",
    "--overwrite": "replace the tokenizer in an output folder that holds something",
}
TRAIN = {
    "--output-dir DIR!": "folder of the run, with all it leaves",
    "--recipe NAME": (
        "where all values come from that are not given here, one of the command recipes; without it the paper's base "
        "model, and with --resume the run's own recipe"
    ),
    "--overwrite": "delete another run in the output folder first",
    "--resume": "go on from the newest checkpoint in the output folder; where it holds no run, start one",
    "--minutes X": (
        "train as many updates as fit on this machine, instead of --max-steps; the first ones are timed, and warm-up, "
        "validations and checkpoints laid out for it"
    ),
    "--bf16": "compute in bfloat16; weights and optimiser stay in fp32",
    "--use-cpu": "train on the CPU although there is a GPU",
    "--report-to NAME...": (
        "trackers of transformers that receive the log: tensorboard (which writes into runs/ of the output folder), "
        "wandb, mlflow, trackio ..."
    ),
    "--num-proc N": "processes that tokenise the data (default: all cores for a large corpus); they change no result",
}
_AVERAGE = {
    "inputs PATH...": "folder of a run (its snapshots), or several snapshot files or model folders",
    "--output-dir DIR!": "new folder for the averaged model",
    "--last N": "average only the N newest (default: all)",
}
_RECIPES = {"name NAME?": "recipe to print with all its values"}
_EVALUATE = {
    **_DECODING,
    "--translations FILE": "also write the translations, one a line",
    "--results FILE": (
        "file for the scores (default: test_results.json in the model's folder; beside it for another test set)"
    ),
    "#test set": "Without --source, --pairs or --dataset it is the test set of the recipe saved with the model.",
    "--source FILE": "source sentences, one a line",
    "--reference,--target FILE...": "reference translations, line by line as in --source; several files for several",
    "--pairs FILE": "both sides in one .jsonl, .json, .csv, .tsv or .parquet file",
    "--dataset NAME": "Hub name or folder of a `datasets` dataset, or builtin",
    "--dataset-config NAME": "configuration of the dataset, for example de-en",
    "--split NAME": "part of the dataset or of the recipe's data (default: test)",
    "--name NAME": "what results and pictures call the test set (default: its files or dataset)",
}
_TRANSLATE = {
    **_DECODING,
    "--input,--source FILE=-": "UTF-8 text, one sentence a line; - is stdin",
    "--output FILE=-": "translations, line by line as the input; - is stdout, a file appears when it is complete",
    "--n-best N": (
        "write the N best translations of each line, with score, log-probability and length, as JSON lines; "
        "a text may come twice, in other tokens"
    ),
    "--resume": "skip the lines in OUTPUT.part that the same command, interrupted, left",
    "--overwrite": "replace the output file, or what was begun of it",
    "--document": "translate each sentence of a line; white space, list marks, links, placeholders and tags are kept",
    "--tag TEXT": "write this and a space before each translation, such as <bt> (train has --added-tokens)",
    "#sampling": "Draws translations at random, as back-translation needs them, instead of searching the best.",
    "--sample": "draw each token by its probability; --n-best N draws N translations",
    "--temperature X": "divisor of the logits; below 1 likely tokens become likelier (default: 1)",
    "--top-k N": "draw among the N likeliest tokens (default: all)",
    "--seed N": "seed of the draws (default: 0)",
}
_PUSH = {
    "--model DIR!": "folder of a model",
    "--repo-id USER/NAME!": "repo; it is made if there is none",
    "--private": "make a new repo private; refuse a public one",
    "--revision BRANCH": "branch that receives the commit; made if there is none (default: main)",
    "--tag NAME": "name for this state of the repo, for example v1",
    "--commit-message TEXT": "first line of the commit's message",
}
_SCORE = {
    **_COMPUTING,
    "--source FILE!": "source sentences, one a line; - is stdin",
    "--target FILE!": "translations, line by line as in --source; - is stdin",
    "--output FILE=-": (
        "JSON lines with log_prob (natural logarithm), length (tokens with </s>) and score; - is stdout"
    ),
    **_PENALTY,
}
_EXPORT = {
    **_MODEL,
    f"--to {'|'.join(_FORMATS)}|onnx!": (
        "marian: transformers without this package; ctranslate2: its engine (needs the extra export); onnx: says how"
    ),
    "--output-dir DIR!": "folder to make, new or empty",
    "--quantization TYPE": (
        "how CTranslate2 stores weights: float32, float16, bfloat16, int16, int8, int8_float32, int8_float16 or "
        "int8_bfloat16 (default: float32)"
    ),
}

_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], None], dict[str, str], str]] = {
    "train-tokenizer": (
        _train_tokenizer,
        _TRAIN_TOKENIZER,
        "Train the subword vocabulary that source and target share",
    ),
    "train": (_train, TRAIN, "Train a model by a recipe"),
    "average": (_average, _AVERAGE, "Average the weights of snapshots or of models"),
    "recipes": (_recipes, _RECIPES, "List the recipes, or print one"),
    "evaluate": (_evaluate, _EVALUATE, "Translate a test set and score it by every metric"),
    "translate": (_translate, _TRANSLATE, "Translate a file or stdin"),
    "score": (_score, _SCORE, "Score given translations by the model's probability"),
    "push": (_push, _PUSH, "Upload a model to the Hub, with its code and card, in one commit"),
    "export": (_export, _EXPORT, "Write a model for plain transformers (Marian) or CTranslate2"),
}


_GONE = {  # commands and options of 0.2.0, and what to do instead
    "align": "Run `python scripts/paper/align.py` of the repository, with the same options.",
    "demo": "Run `python scripts/space/app.py` of the repository, with the same options.",
    "plot": "Run `python scripts/paper/draw_attention.py` of the repository, with the same options.",
    "--stock": "Export --to marian, then `hf upload USER/NAME FOLDER`.",
    "--stock-repo-id": "Export --to marian, then `hf upload USER/NAME FOLDER`.",
    "--stream": 'Pass a `TextStreamer` of transformers to pipeline("translation"), as docs/using.md shows.',
    "--target-prefixes": 'Call pipeline("translation") with `target_prefix`, once for each prefix.',
}


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line; `--output_dir` is `--output-dir`, an unknown option gets advice."""
    words = [re.sub("^--[^=]*", lambda found: found[0].replace("_", "-"), word) for word in argv]
    if words and words[0] in _GONE:
        parser.error(f"{words[0]} is no command since 0.3.0. {_GONE[words[0]]}")
    if "--resume-or-start" in words:
        words[words.index("--resume-or-start")] = "--resume"
        if is_main_process():
            print("--resume-or-start is called --resume since 0.3.0.", file=sys.stderr)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        option = unknown[0].partition("=")[0]
        if option in _GONE:
            parser.error(f"{option} is no option since 0.3.0. {_GONE[option]}")
        close = difflib.get_close_matches(option, set(args.options.values()), n=1)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{f' (did you mean {close[0]}?)' if close else ''}")
    return args


def build_parser() -> argparse.ArgumentParser:
    """Makes the parser of all commands; the chosen one sets `run`, and `options` with what the user types for each."""
    about = "Train, evaluate and use the Transformer of 'Attention Is All You Need' (2017)."
    parser = argparse.ArgumentParser(prog="vaswani-transformer", description=about, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, help="one of those below")
    for name, (run, options, about) in _COMMANDS.items():
        command = commands.add_parser(name, help=about, description=f"{about}.", allow_abbrev=False)
        add_options(command, options)
        if name == "train":
            add_recipe_fields(command)
            command.usage = "%(prog)s --output-dir DIR [OPTION ...]; --help explains each"  # not all 80 of them
        typed = {action.dest: (*action.option_strings, action.metavar)[0] for action in command._actions}
        command.set_defaults(run=run, options=typed)
    return parser


def add_options(parser: argparse.ArgumentParser, options: dict[str, str]) -> None:
    """Adds the options of a table; its form is told above it."""
    group: argparse._ActionsContainer = parser
    for usage, text in options.items():
        if usage.startswith("#"):
            group = parser.add_argument_group(usage[1:], text)
            continue
        found = re.fullmatch(r"(\S+)(?: ([^=!.?]+)(\.\.\.|\?)?(?:(!)|=(.*))?)?", usage)
        assert found is not None
        names, value, count, must, default = found.groups()
        if value is None:
            group.add_argument(names, action="store_true", help=text)
            continue
        kind = {"N": int, "X": float, "ALPHA": float, "C": float}.get(value, str)
        keywords: dict[str, Any] = {"choices": value.split("|")} if "|" in value else {"metavar": value, "type": kind}
        keywords |= {"required": True} if must else {}
        keywords |= {"default": kind(default)} if default else {}
        text += f" (default: {default})" if default else ""
        group.add_argument(*names.split(","), nargs="+" if count == "..." else count, help=text, **keywords)


def add_recipe_fields(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each field of a recipe; what is not given is absent from the arguments."""
    from .training.recipes import OLD_NAMES, Recipe, field_types

    about = "Each replaces one value of the recipe; the default shown holds without --recipe."
    group, types = parser.add_argument_group("values of the recipe", about), field_types()
    for field in dataclasses.fields(Recipe):
        text, default = field.metadata["help"].replace("%", "%%"), field.default
        if default != "":
            text += f" (default: {'none' if default is None else default})"
        option = f"--{field.name.replace('_', '-')}"
        keywords: dict[str, Any] = {"default": argparse.SUPPRESS, **_recipe_option(*types[field.name])}
        group.add_argument(option, help=text, **keywords)
        for old in (old for old, new in OLD_NAMES.items() if new == field.name):
            group.add_argument(f"--{old.replace('_', '-')}", help=argparse.SUPPRESS, **keywords)


def _recipe_option(kind: type, is_optional: bool, may_be_several: bool) -> dict[str, Any]:
    """Returns type, metavar and number of values of a field's option; `none` is None where the field may be None."""
    metavar = {int: "N", float: "X", str: "TEXT", bool: "true|false"}[kind]

    def parse(text: str) -> Any:
        if is_optional and text.lower() == "none":
            return None
        if kind is not bool:
            return kind(text)
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"

    parse.__name__ = metavar  # argparse names it in its message on a wrong value
    return {"type": parse, "metavar": metavar, "nargs": "+" if may_be_several else None}


if __name__ == "__main__":
    sys.exit(main())
