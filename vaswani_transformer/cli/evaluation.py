# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that use a trained model: evaluate, translate, score, align."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers.utils.logging import disable_progress_bar

from .parsing import add_device, add_model, first_given


def _describe_model(parser: argparse.ArgumentParser) -> None:
    """Options that all these commands share."""
    add_model(parser)
    parser.add_argument(
        "--max-tokens-per-batch",
        type=int,
        default=4096,
        metavar="N",
        help="padded tokens computed at once; more is faster and takes more memory",
    )
    add_device(parser)


def _describe_penalty(parser: argparse.ArgumentParser) -> None:
    """Options of the length penalty ((c + length) / (c + 1))^alpha, by which a log-probability is divided."""
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="ALPHA",
        help="alpha of the length penalty ((c + length) / (c + 1))^alpha (default: the model's)",
    )
    parser.add_argument(
        "--length-penalty-offset",
        type=float,
        metavar="C",
        help="c of the length penalty: 5 is the paper's, 0 gives length^alpha (default: the model's)",
    )


# ---- evaluate and translate ----


def _describe_decoding(parser: argparse.ArgumentParser) -> None:
    """Options that `evaluate` and `translate` share."""
    _describe_model(parser)
    parser.add_argument("--num-beams", type=int, metavar="N", help="beams; 1 is greedy search (default: the model's)")
    _describe_penalty(parser)
    parser.add_argument(
        "--max-new-tokens-over-source",
        type=int,
        metavar="N",
        help="output limit of each sentence: its source tokens + N (default: the model's)",
    )


def _decoding_options(args: argparse.Namespace) -> dict[str, Any]:
    from ..evaluation import DECODING
    from ..evaluation.translate import decoding_overrides

    return {
        "max_tokens_per_batch": args.max_tokens_per_batch,
        "progress": sys.stderr.isatty(),
        **decoding_overrides(**{name: getattr(args, name) for name in DECODING}),
    }


def _describe_evaluate(parser: argparse.ArgumentParser) -> None:
    _describe_decoding(parser)
    _describe_test_set(parser, "test")
    parser.add_argument("--translations", metavar="FILE", help="also write the translations, one a line")
    parser.add_argument(
        "--results", metavar="FILE", help="file for the scores (default: test_results.json in the model's folder)"
    )


def _describe_test_set(parser: argparse.ArgumentParser, split: str) -> None:
    data = parser.add_argument_group(
        "test set", f"Without --source, --pairs or --dataset it is the {split} set of the recipe saved with the model."
    )
    data.add_argument("--source", metavar="FILE", help="source sentences, one a line")
    data.add_argument(
        "--reference", "--target", metavar="FILE", help="reference translations, line by line as in --source"
    )
    data.add_argument("--pairs", metavar="FILE", help="both sides in one .jsonl, .json, .csv, .tsv or .parquet file")
    data.add_argument("--dataset", metavar="NAME", help="Hub name or folder of a `datasets` dataset, or builtin")
    data.add_argument("--dataset-config", metavar="NAME", help="configuration of the dataset, for example de-en")
    data.add_argument(
        "--split", metavar="NAME", help=f"part of the dataset or of the recipe's data (default: {split})"
    )
    data.add_argument("--name", help="what results and pictures call the test set (default: its files or dataset)")


def _run_evaluate(args: argparse.Namespace) -> None:
    options = _decoding_options(args)
    from ..evaluation.report import evaluate_to_files, format_report

    files = {"results_file": args.results, "translations_file": args.translations}
    results, path = evaluate_to_files(args.model, _chosen_corpus(args, "test"), device=args.device, **files, **options)
    print(format_report(results))
    if path is not None:
        print(f"\nwritten to {path}")
        if card := _refresh_card(args.model, Path(path)):
            print(f"with these scores, the model's card: {card}")


def _refresh_card(model: str, results_file: Path) -> Path | None:
    """Writes the card of a run's model again, if it is the run's and the results lie where it looks for them."""
    from ..files import CARD_FILE, TEST_RESULTS_PATTERN, TRAIN_RESULTS_FILE

    folder = Path(model)
    is_read = results_file.match(TEST_RESULTS_PATTERN) and results_file.resolve().parent == folder.resolve()
    if not (is_read and (folder / CARD_FILE).is_file() and (folder / TRAIN_RESULTS_FILE).is_file()):
        return None
    from ..training.card import refresh_card

    return refresh_card(folder)


def _chosen_corpus(args: argparse.Namespace, split: str) -> dict[str, Any]:
    """Arguments of `load_evaluation_set`: what the command line names, else a part of the data of the model's recipe.

    Args:
        args: With the options of `_describe_test_set`.
        split: The part where --split is not given.
    """
    from ..data.corpora import find_origin
    from ..evaluation.loading import check_model_path
    from ..files import RECIPE_FILE
    from ..training.recipes import Recipe

    given = {"source_file": args.source, "target_file": args.reference}
    given |= {"pairs_file": args.pairs, "dataset": args.dataset}
    model, corpus, split = Path(args.model), None, args.split or split
    _check_dataset_options(args)
    if any(value is not None for value in given.values()):
        find_origin(**given)
        corpus = {**given, "dataset_config": args.dataset_config, "split": split}
    elif folder := next((path for path in (model, model.parent) if (path / RECIPE_FILE).is_file()), None):
        corpus = Recipe.load(folder).data_arguments(split)
    if corpus is None:
        check_model_path(args.model)
        raise ValueError(
            f"`source` and `reference` must be given, got neither, and {args.model} has no {RECIPE_FILE} that names a "
            f"{split} set. Pass --source and --reference, --pairs or --dataset."
        )
    return {key: value for key, value in {**corpus, "name": args.name}.items() if value is not None}


def _check_dataset_options(args: argparse.Namespace) -> None:
    """Refuses options that say which part of a dataset is meant where there is none."""
    if args.dataset is not None:
        return
    if args.dataset_config is not None:
        raise ValueError(
            f"`dataset_config` must come with --dataset, got {args.dataset_config} alone. Add --dataset, or drop it."
        )
    if args.split is not None and first_given(args, ("source", "reference", "pairs")):
        raise ValueError(
            f"`split` must be left out beside files, which are taken whole, got {args.split}. Drop it, or name a "
            "dataset."
        )


def _describe_sweep(parser: argparse.ArgumentParser) -> None:
    choices = ("num-averaged-snapshots", "num-beams", "length-penalty")
    parser.add_argument("choice", choices=choices, metavar="CHOICE", help=f"what is varied: {', '.join(choices)}")
    parser.add_argument(
        "--values", nargs="+", type=float, metavar="X", help="its values (default: some around the paper's)"
    )
    parser.add_argument("--output", metavar="FILE", help="also draw them: a .png or .svg file; needs the extra viz")
    _describe_decoding(parser)
    _describe_test_set(parser, "validation")
    parser.add_argument("--results", metavar="FILE", help="also write all scores as JSON")


def _run_sweep(args: argparse.Namespace) -> None:
    options = _decoding_options(args)
    from ..evaluation.report import write_results
    from ..files import check_outputs, save_figure
    from ..training.sweeps import draw_sweep, format_sweep, sweep
    from .plot import check_output_picture

    if args.output is not None:
        check_output_picture(args.output)
    corpus, choice = _chosen_corpus(args, "validation"), args.choice.replace("-", "_")
    inputs = [corpus.get(name) for name in ("source_file", "target_file", "pairs_file")]
    check_outputs({"output": args.output, "results": args.results}, inputs)
    results = []
    try:
        for result in sweep(choice, args.model, corpus, values=args.values, device=args.device, **options):
            results.append(result)
    finally:  # interrupted, what is known is not lost
        if results:
            print(format_sweep(choice, results))
            if args.results is not None:
                write_results(args.results, {"results": results})
            if args.output is not None:
                save_figure(draw_sweep(choice, results), args.output)


def _describe_translate(parser: argparse.ArgumentParser) -> None:
    _describe_decoding(parser)
    parser.add_argument(
        "--input", "--source", default="-", metavar="FILE", help="UTF-8 text, one sentence a line; - is stdin"
    )
    parser.add_argument(
        "--output",
        default="-",
        metavar="FILE",
        help="translations, line by line as the input; - is stdout, a file appears when it is complete",
    )
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="write the N best translations of each line, with score, log-probability and length, as JSON lines; "
        "a text may come twice, in other tokens",
    )
    parser.add_argument(
        "--resume", action="store_true", help="skip the lines in OUTPUT.part that the same command, interrupted, left"
    )


def _run_translate(args: argparse.Namespace) -> None:
    options = _decoding_options(args)
    from ..evaluation.loading import load_for_inference
    from ..evaluation.translate import check_files, join_processes, translate_file

    processes = join_processes()
    if processes is not None and not processes.is_main_process:
        disable_progress_bar()
    total = check_files(args.input, args.output, num_processes=processes.num_processes if processes else 1)
    model, tokenizer = load_for_inference(args.model, device=args.device or (processes and processes.device))
    options |= {"num_best": args.n_best, "resume": args.resume, "processes": processes, "total": total}
    translate_file(model, tokenizer, args.input, args.output, **options)
    if processes is not None:
        processes.destroy_process_group()


# ---- score and align ----


def _describe_pairs(parser: argparse.ArgumentParser, output: str) -> None:
    """Options that `score` and `align` share."""
    _describe_model(parser)
    parser.add_argument("--source", required=True, metavar="FILE", help="source sentences, one a line; - is stdin")
    parser.add_argument(
        "--target", required=True, metavar="FILE", help="translations, line by line as in --source; - is stdin"
    )
    parser.add_argument("--output", default="-", metavar="FILE", help=f"{output}; - is stdout")


def _describe_score(parser: argparse.ArgumentParser) -> None:
    _describe_pairs(parser, "JSON lines with log_prob (natural logarithm), length (tokens with </s>) and score")
    _describe_penalty(parser)


def _run_score(args: argparse.Namespace) -> None:
    from ..evaluation.scoring import score_files
    from ..search_vaswani_transformer import check_length_penalty

    check_length_penalty(args.length_penalty, args.length_penalty_offset)
    penalty = {"length_penalty": args.length_penalty, "length_penalty_offset": args.length_penalty_offset}
    _run_on_pairs(args, score_files, **penalty)


def _describe_align(parser: argparse.ArgumentParser) -> None:
    _describe_pairs(parser, "alignments in Pharaoh's format, 0-0 2-1: source word, target word, counted from 0")
    parser.add_argument(
        "--layer", type=int, metavar="N", help="decoder layer whose attention is read, from 0 (default: the last)"
    )
    parser.add_argument(
        "--heads", type=int, nargs="+", metavar="N", help="heads whose attention is averaged, from 0 (default: all)"
    )


def _run_align(args: argparse.Namespace) -> None:
    from ..evaluation.scoring import align_files

    _run_on_pairs(args, align_files, layer=args.layer, heads=args.heads)


def _run_on_pairs(args: argparse.Namespace, compute: Callable[..., int], **options: Any) -> None:
    """Checks the files, loads the model, and computes something for each pair of lines."""
    from ..evaluation.loading import load_for_inference
    from ..evaluation.scoring import check_pair_files

    options["total"] = check_pair_files(args.source, args.target, args.output)
    model, tokenizer = load_for_inference(args.model, device=args.device)
    options |= {"max_tokens_per_batch": args.max_tokens_per_batch, "progress": sys.stderr.isatty()}
    compute(model, tokenizer, args.source, args.target, args.output, **options)


COMMANDS = {
    "evaluate": (_describe_evaluate, _run_evaluate, "Translate a test set and score it by BLEU, three ways, and chrF"),
    "sweep": (
        _describe_sweep,
        _run_sweep,
        "Score a model over averaged snapshots, beams or alpha, as section 6.1 chose",
    ),
    "translate": (_describe_translate, _run_translate, "Translate a file or stdin"),
    "score": (_describe_score, _run_score, "Score given translations by the model's probability"),
    "align": (_describe_align, _run_align, "Align the words of given translations by the model's attention"),
}
