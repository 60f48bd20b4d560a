# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Scores a model over averaged snapshots, beams, or alpha of the length penalty, as section 6.1
chose them.

Each point is what `vaswani-transformer evaluate` gives with that value. Without --source and
--reference the test set is the validation set of the recipe saved with the model.
"""

import argparse
import json
from pathlib import Path

from tables import align_columns, wrap

from vaswani_transformer.inference.evaluate import (
    describe_search,
    evaluate_model,
    length_ratio,
    load_evaluation_set,
)
from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.inference.translate import decoding_overrides
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.averaging import average_snapshots, list_snapshots

# For each choice the values that are tried without others being asked for, and those of the paper.
CHOICES = {
    "num_averaged_snapshots": ((1, 2, 3, 5, 7, 10, 15, 20), {5: " for base", 20: " for big"}),
    "num_beams": ((1, 2, 3, 4, 6, 8, 12, 16), {4: ""}),
    "length_penalty": ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5), {0.6: ""}),
}
COLUMNS = {"test_sacrebleu": "sacreBLEU", "test_paper_bleu": "paper BLEU", "test_chrf": "chrF"}


def sweep(choice, folder, corpus, *, values=None, device=None, **options):
    """Yields the results of a model on one test set for each value of one choice, ascending, with
    the value in them.

    Args:
        choice: A key of `CHOICES`.
        folder: Of a run; it needs its snapshots where their number is the choice.
        corpus: Arguments of `load_evaluation_set`.
        values: Of the choice; None is those of `CHOICES`, of averaged snapshots as many as there
            are.
        device: Where the model runs; None means a GPU if there is one.
        **options: Of `evaluate_model`: the other choices of the search.
    """
    snapshots = list_snapshots(folder)
    if values is None:
        values = CHOICES[choice][0]
        if choice == "num_averaged_snapshots":
            values = [value for value in values if value <= len(snapshots)]
    elif choice != "length_penalty":
        values = [int(value) for value in values]
    if not values:
        raise ValueError(f"`model` must be a folder with snapshots, got {folder} without any.")
    if choice == "num_averaged_snapshots" and not 1 <= min(values) <= max(values) <= len(snapshots):
        raise ValueError(
            f"`values` must be in [1, {len(snapshots)}], the number of snapshots, got {values}."
        )
    model, tokenizer = load_for_inference(folder, device=device)
    languages = {
        name: getattr(model.config, name) for name in ("source_language", "target_language")
    }
    test_set = load_evaluation_set(**{**languages, **corpus})
    for value in sorted(set(values)):
        varied = {choice: value}
        if choice == "num_averaged_snapshots":
            # a tied tensor is there once
            model.load_state_dict(average_snapshots(snapshots[-value:]), strict=False)
            varied = {}
        results, _ = evaluate_model(model, tokenizer, test_set, **options, **varied)
        yield {choice: value, **results}


def format_sweep(choice, results):
    """Scores over a choice as text, with what they are of."""
    metrics = [metric for metric in COLUMNS if metric in results[0]]
    rows = [(choice, *(COLUMNS[metric] for metric in metrics), "length ratio", "seconds")]
    for each in results:
        scores = (f"{each[metric]:.2f}" for metric in metrics)
        rows.append(
            (
                f"{each[choice]:g}",
                *scores,
                f"{length_ratio(each):.3f}",
                f"{each['test_runtime']:.1f}",
            )
        )
    varied = {
        "num_beams": {"test_num_beams": "N"},
        "length_penalty": {"test_length_penalty": "alpha"},
    }
    first = {**results[0], **varied.get(choice, {})}
    paper = " and ".join(f"{value:g}{purpose}" for value, purpose in CHOICES[choice][1].items())
    sentences = f"{first['test_num_sentences']:,} sentences"
    notes = f"{first['test_data']}, {sentences}; {describe_search(first)}."
    return f"{align_columns(rows)}\n\n{wrap(f'{notes} The paper chose {paper}.')}"


def draw_sweep(choice, results):
    """BLEU over a choice, with the paper's marked."""
    import matplotlib.pyplot as plt

    values = [each[choice] for each in results]
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for metric, style in (("test_sacrebleu", "-"), ("test_paper_bleu", "--")):
        if metric in results[0]:
            axes.plot(
                values, [each[metric] for each in results], style, marker="o", label=COLUMNS[metric]
            )
    for value in CHOICES[choice][1]:
        if min(values) <= value <= max(values):
            axes.axvline(value, color="#888888", linestyle=":", label="the paper's choice")
    axes.set(
        xlabel=choice.replace("_", " "), ylabel="BLEU", title=results[0]["test_data"], xticks=values
    )
    axes.legend()
    return figure


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("choice", choices=[name.replace("_", "-") for name in CHOICES])
    parser.add_argument("--model", required=True, help="folder of a run")
    parser.add_argument("--values", nargs="+", type=float)
    parser.add_argument("--source", help="source sentences, one a line")
    parser.add_argument("--reference", help="reference translations, line by line")
    parser.add_argument("--num-beams", type=int)
    parser.add_argument("--length-penalty", type=float)
    parser.add_argument("--length-penalty-offset", type=float)
    parser.add_argument("--max-new-tokens-over-source", type=int)
    parser.add_argument("--device")
    parser.add_argument("--output", help="also draw them: .png or .svg (needs the extra viz)")
    parser.add_argument("--results", help="also write all scores as JSON")
    args = parser.parse_args()
    names = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")
    choice = args.choice.replace("-", "_")
    options = decoding_overrides(**{name: getattr(args, name) for name in names})
    if choice in options:
        parser.error(f"--{args.choice} must be left out while it is varied: pass --values only")
    corpus = {"source_file": args.source, "target_file": args.reference}
    if (
        args.source is args.reference is None
        and (corpus := Recipe.load(args.model).data_arguments("validation")) is None
    ):
        parser.error("--source and --reference are needed: the recipe names no validation set")
    results = []
    try:
        for result in sweep(
            choice, args.model, corpus, values=args.values, device=args.device, **options
        ):
            results.append(result)
    finally:  # interrupted, what is known is not lost
        if results:
            print(format_sweep(choice, results))
            if args.results:
                Path(args.results).write_text(
                    json.dumps({"results": results}, indent=2) + "\n", encoding="utf-8"
                )
            if args.output:
                draw_sweep(choice, results).savefig(args.output)


if __name__ == "__main__":
    main()
