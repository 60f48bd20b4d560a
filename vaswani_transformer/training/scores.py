# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What evaluations left in a run's folder: read strictly, as a table for people and as results for the Hub."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult

from ..analysis.text_table import markdown_table
from ..evaluation.decoding import DECODING
from ..evaluation.evaluation_set import describe_corpus
from ..evaluation.results import METRICS, describe_search, metric_names
from ..files import TEST_RESULTS_PATTERN, read_json
from .commands import corpus_without_folders, find_split
from .recipes import Recipe


def read_test_results(folder: str | Path) -> dict[str, dict[str, Any]]:
    """What each `test_results*.json` in a run's folder holds, by the file's name, in alphabetical order.

    Raises:
        ValueError: If a file of such a name is not what `vaswani-transformer evaluate` writes; the message names it.
    """
    return {path.name: _read_results(path) for path in sorted(Path(folder).glob(TEST_RESULTS_PATTERN))}


def eval_results(recipe: Recipe, test_results: Mapping[str, Mapping[str, Any]]) -> list[EvalResult]:
    """Test results as the `model-index` of a model card holds them, every figure as it was measured.

    Args:
        recipe: Recipe of the run, which tells what part of its data a test set is.
        test_results: From `read_test_results`.
    """
    return [
        EvalResult(
            task_type="translation",
            **_test_set(recipe, results),
            metric_type=metric,
            metric_name=name,
            metric_value=results[f"test_{metric}"],
            metric_args={
                "signature": results[f"test_{metric}_signature"],
                **{option: results[f"test_{option}"] for option in DECODING if results[f"test_{option}"] is not None},
            },
        )
        for results in test_results.values()
        for metric, name in metric_names(results).items()
    ]


def scores_section(test_results: Mapping[str, Mapping[str, Any]]) -> str:
    """Test results as a section in Markdown, with how they were searched and the metrics' signatures; "" for none."""
    if not test_results:
        return ""
    names = metric_names(next(iter(test_results.values())))
    rows = [("test set", "sentences", *names.values(), "search")]
    rows += [
        (
            f"`{_given_name(results) or describe_corpus(corpus_without_folders(results['test_corpus']))}`",
            f"{results['test_num_sentences']:,}",
            *(f"{results[f'test_{metric}']:.2f}" for metric in names),
            describe_search(results),
        )
        for results in test_results.values()
    ]
    signatures = {
        f"- {name}: `{results[f'test_{metric}_signature']}`": None
        for results in test_results.values()
        for metric, name in metric_names(results).items()
    }
    return "\n\n".join(["## Scores", markdown_table(rows), "\n".join(signatures)])


def _given_name(results: Mapping[str, Any]) -> str | None:
    """The name that somebody gave the test set of results, if any."""
    return None if results["test_data"] == describe_corpus(results["test_corpus"]) else results["test_data"]


def _test_set(recipe: Recipe, results: Mapping[str, Any]) -> dict[str, Any]:
    """Name, configuration and part of a test set, as fields of `EvalResult`."""
    corpus = corpus_without_folders(results["test_corpus"])
    name = corpus.get("dataset") or _given_name(results) or describe_corpus(corpus)
    return {
        "dataset_type": name,
        "dataset_name": _given_name(results) or name,
        "dataset_config": corpus.get("dataset_config"),
        "dataset_split": corpus.get("split") or find_split(recipe, results["test_corpus"]),
    }


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


# What a card needs of results.
_NEEDED: dict[str, Callable[[Any], bool]] = {
    "test_data": _is_text,
    **{f"test_{metric}": _is_number for metric in METRICS},
    **{f"test_{metric}_signature": _is_text for metric in METRICS},
    "test_corpus": lambda value: isinstance(value, dict) and value != {},
    "test_num_sentences": _is_number,
    **{f"test_{name}": lambda value: value is None or _is_number(value) for name in DECODING},
}


def _read_results(path: Path) -> dict[str, Any]:
    advice = "Evaluate again, or give the file another name."
    results: dict[str, Any] = read_json(path, advice=advice)
    if faults := [name for name, holds in _NEEDED.items() if name not in results or not holds(results[name])]:
        raise ValueError(
            f"`{path}` must be results of `vaswani-transformer evaluate`, got a file without valid "
            f"{', '.join(faults)}. {advice}"
        )
    return results
