# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The commands that repeat a run and its evaluations, read back from what the run left; without anybody's folders."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..evaluation.checkpoint import HUB_ID
from ..evaluation.decoding import DECODING
from ..evaluation.evaluation_set import describe_corpus
from ..files import TEST_RESULTS_FILE
from .recipes import RECIPES, Recipe

_FILE_FIELDS = ("_source", "_target", "_pairs")
_CORPUS_FLAGS = {
    "source_file": "--source",
    "target_file": "--reference",
    "pairs_file": "--pairs",
    "dataset": "--dataset",
    "dataset_config": "--dataset-config",
    "split": "--split",
}
_WIDTH = 100


def train_command(recipe: Recipe, name: str, *, bf16: bool = False) -> str:
    """The `vaswani-transformer train` command of a recipe, for bash.

    Args:
        recipe: Recipe of the run; its files are named without their folders.
        name: Folder of the run.
        bf16: Whether the run computed in bfloat16.
    """
    options: list[tuple[str, ...]] = [("--output-dir", name)]
    if recipe.name in RECIPES:
        options.append(("--recipe", recipe.name))
    options += [_option(field, value) for field, value in changed_fields(recipe).items()]
    if bf16:
        options.append(("--bf16",))
    return _fold("vaswani-transformer train", options)


def evaluate_command(recipe: Recipe, name: str, results_file: str, results: Mapping[str, Any]) -> str:
    """The `vaswani-transformer evaluate` command of a results file, for bash.

    Args:
        recipe: Recipe of the run; what the results share with it is not repeated.
        name: Folder of the run.
        results_file: Name of the file in that folder.
        results: Its content.
    """
    options = [("--model", name), *_test_set_options(recipe, results)]
    for field in DECODING:
        if results[f"test_{field}"] not in (None, getattr(recipe, field)):
            options.append(_option(field, results[f"test_{field}"]))
    if results_file != TEST_RESULTS_FILE:
        options.append(("--results", f"{name}/{results_file}"))
    return _fold("vaswani-transformer evaluate", options)


def changed_fields(recipe: Recipe) -> dict[str, Any]:
    """Values in which a recipe differs from the one of its name, or from the defaults; files without their folders."""
    original, changes = RECIPES.get(recipe.name, Recipe()), {}
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        if value == getattr(original, field.name):
            continue
        if isinstance(value, str) and field.name.endswith(_FILE_FIELDS):
            value = Path(value).name
        if isinstance(value, str) and field.name in ("dataset", "tokenizer"):
            value = dataset_name(value)
        changes[field.name] = value
    return changes


def dataset_name(dataset: str) -> str:
    """The id of a data set or tokenizer on the Hub, or the name of a folder without those it lies in."""
    return dataset if HUB_ID.fullmatch(dataset) else Path(dataset).name


def corpus_without_folders(corpus: Mapping[str, str]) -> dict[str, str]:
    """Where a test set comes from, with files and local data sets named by their last part.

    Args:
        corpus: `test_corpus` of results.
    """
    names = {key: Path(value).name if key.endswith("_file") else value for key, value in corpus.items()}
    return names | ({"dataset": dataset_name(names["dataset"])} if "dataset" in names else {})


def find_split(recipe: Recipe, corpus: Mapping[str, str]) -> str | None:
    """The part of a recipe's data that results were measured on, as `--split` takes it; None if it is another's.

    Args:
        recipe: Recipe of the run.
        corpus: `test_corpus` of the results.
    """
    splits = ["test", "validation", "train"]
    if "split" in corpus and "dataset" in (recipe.data_arguments("test") or {}):
        splits.append(corpus["split"])
    return next((split for split in splits if _origin(recipe.data_arguments(split)) == corpus), None)


def _origin(data: Mapping[str, Any] | None) -> dict[str, str]:
    """What results on data of these arguments would hold as `test_corpus`."""
    return {key: str(value) for key, value in (data or {}).items() if key in _CORPUS_FLAGS and value is not None}


def _test_set_options(recipe: Recipe, results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The options that name the test set of results: none where it is the recipe's."""
    corpus = results["test_corpus"]
    options: list[tuple[str, ...]] = []
    if (split := find_split(recipe, corpus)) is None:
        options += [(_CORPUS_FLAGS[key], value) for key, value in corpus_without_folders(corpus).items()]
    elif split != "test":
        options.append(("--split", split))
    if results["test_data"] != describe_corpus(corpus):
        options.append(("--name", results["test_data"]))
    return options


def _option(field: str, value: Any) -> tuple[str, ...]:
    """The option that sets a recipe's value."""
    flag, text = f"--{field.replace('_', '-')}", as_typed(value)
    return (f"{flag}={text}",) if text.startswith("-") else (flag, text)


def as_typed(value: Any) -> str:
    """A recipe's value as the command line takes it: true, false and none in small letters."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _fold(command: str, options: list[tuple[str, ...]]) -> str:
    """A command on lines of readable length."""
    lines = [command]
    for option in map(shlex.join, options):
        if len(lines[-1]) + 1 + len(option) > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {option}"
    return " \\\n".join(lines)
