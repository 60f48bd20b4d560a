# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What people read at the end of a run: validations, the model that was kept, cost, files and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..analysis.cost import format_flops
from ..files import CARD_FILE, CURVES_FILE, STATE_FILE, TRAIN_RESULTS_FILE, WEIGHTS_FILE
from .checkpoints import list_checkpoints
from .recipes import Recipe

_FIGURES = (("sacrebleu", "BLEU {:.2f}"), ("perplexity", "perplexity {:,.3f}"), ("nll", "nll {:.4f}"))


def describe_results(output_dir: str | Path, recipe: Recipe, results: Mapping[str, Any]) -> str:
    """The end of a run for people: validations, the model that was kept, cost, files and what to do next.

    Args:
        output_dir: Folder of the run.
        recipe: Its recipe.
        results: What `train` returned.
    """
    output_dir = Path(output_dir)
    rows = [*_validation_rows(output_dir, results), *_cost_rows(results)]
    if recipe.early_stopping_patience and results["train_steps"] < recipe.max_steps:
        patience = f"{recipe.early_stopping_patience} validations were not better than the best"
        rows.insert(0, ("stopped", f"before update {recipe.max_steps:,}, as {patience} (--early-stopping-patience)"))
    names = (WEIGHTS_FILE, CARD_FILE, TRAIN_RESULTS_FILE, STATE_FILE, CURVES_FILE)
    rows.append(("files", f"{output_dir}: {', '.join(name for name in names if (output_dir / name).exists())}"))
    rows.append(("next", _next_command(output_dir, recipe)))
    repeats = " of a stream, repeats counted" if recipe.streaming else ""
    title = f"Trained {recipe.name}: {results['train_steps']:,} updates on {results['train_pairs']:,} pairs{repeats}."
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:{width}}  {text}" for name, text in rows)])


def _validation_rows(output_dir: Path, results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Best and last validation and the average's, with a word on which the model in the folder is."""
    averaged, best = results["num_averaged_snapshots"], results["best_checkpoint"]
    kept = "; the model in the folder"
    if (step := results.get("best_eval_step")) is not None:
        folder = f"checkpoint-{step}"
        place = folder if folder in {path.name for path in list_checkpoints(output_dir)} else "no checkpoint kept"
        kept_best = kept if best and Path(best).name == folder else ""
        yield "best validation", f"{_scores(results, 'best_eval_')}, after {step:,} updates ({place}){kept_best}"
        yield "last validation", _scores(results, "last_eval_") + ("" if averaged or best else kept)
    if averaged:
        scores = _scores(results, "average_eval_")
        yield "average", f"{f'{scores}, ' if scores else ''}of the last {averaged} snapshots{kept}"
        if results.get("average_eval_nll", 0) > results.get("last_eval_nll", math.inf):
            advice = "average fewer or closer ones (--num-averaged-snapshots, --snapshot-steps), or train longer"
            yield "warning", f"the average is worse than the last validation: {advice}"


def _scores(results: Mapping[str, Any], prefix: str) -> str:
    return ", ".join(form.format(results[prefix + name]) for name, form in _FIGURES if prefix + name in results)


def _cost_rows(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Tokens, time and FLOPs, where they were counted."""
    if "train_flops_counted" not in results:
        return
    tokens = results["train_source_tokens"] + results["train_target_tokens"]
    yield (
        "cost",
        f"{tokens:,} tokens in {timedelta(seconds=round(results['train_runtime']))}, "
        f"{results['train_tokens_per_second']:,.0f} a second on {results['train_num_devices']} device(s); FLOPs "
        f"{format_flops(results['train_flops_counted'])} counted, {format_flops(results['train_flops_paper'])} as in "
        "the paper's Table 2",
    )


def _next_command(output_dir: Path, recipe: Recipe) -> str:
    """What to type next: the evaluation where the recipe names a test set, else a translation."""
    folder = shlex.quote(str(output_dir))
    if recipe.data_arguments("test") is not None:
        return f"vaswani-transformer evaluate --model {folder}"
    return f"vaswani-transformer translate --model {folder} --input FILE"
