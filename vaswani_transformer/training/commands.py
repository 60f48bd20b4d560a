# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The commands that repeat a run and its evaluations, read back from what the run left; without anybody's folders."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .recipes import RECIPES, Recipe

_FILE_FIELDS = ("_source", "_target", "_pairs")
DECODING = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")
_WIDTH = 100


def train_command(recipe: Recipe, name: str, *, bf16: bool = False) -> str:
    """The `vaswani-transformer train` command of a recipe, for bash.

    Args:
        recipe: Recipe of the run; its files are named without their folders.
        name: Folder of the run.
        bf16: Whether the run computed in bfloat16.
    """
    options = [("--output-dir", name)]
    if recipe.name in RECIPES:
        options.append(("--recipe", recipe.name))
    options += [_option(field, value) for field, value in changed_fields(recipe).items()]
    return _fold("vaswani-transformer train", [*options, *([("--bf16",)] if bf16 else [])])


def evaluate_command(recipe: Recipe, name: str, results_file: str, results: Mapping[str, Any]) -> str:
    """The `vaswani-transformer evaluate` command of a results file, for bash.

    Args:
        recipe: Recipe of the run; what the results share with it is not repeated.
        name: Folder of the run.
        results_file: Name of the file in that folder.
        results: Its content.
    """
    options = [("--model", name), *_test_set_options(recipe, results["test_data"])]
    for field in DECODING:
        if f"test_{field}" in results and results[f"test_{field}"] != getattr(recipe, field):
            options.append(_option(field, results[f"test_{field}"]))
    if results_file != "test_results.json":
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
        changes[field.name] = dataset_name(value) if value is not None and field.name == "dataset" else value
    return changes


def dataset_name(dataset: str) -> str:
    """The id of a data set on the Hub, or the name of a folder without those it lies in."""
    return dataset if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", dataset) else Path(dataset).name


def read_test_data(test_data: str) -> tuple[str | None, str | None, list[str]]:
    """What results say of their test set: a data set's name and its split, or the names of one or two files.

    Folders are left out.

    Args:
        test_data: `test_data` of the results.
    """
    if match := re.fullmatch(r"(.*), split (.+)", test_data):
        return dataset_name(match[1]), match[2], []
    return None, None, [Path(file).name for file in test_data.split(", ")]


def find_split(recipe: Recipe, test_data: str) -> str | None:
    """The part of a recipe's data that results were measured on, as `--split` takes it; None if it is another's.

    Args:
        recipe: Recipe of the run.
        test_data: `test_data` of the results.
    """
    splits = ["test", "validation", "train"]
    if "dataset" in (recipe.data_arguments("test") or {}):
        splits += filter(None, [read_test_data(test_data)[1]])
    return next((split for split in splits if _name_of(recipe.data_arguments(split)) == test_data), None)


def _name_of(data: Mapping[str, Any] | None) -> str:
    """What `evaluation.load_evaluation_set` calls the data of these arguments."""
    if not data:
        return ""
    if "dataset" in data:
        return f"{data['dataset']}, split {data['split']}"
    return ", ".join(str(data[name]) for name in ("source_file", "target_file", "pairs_file") if data.get(name))


def _test_set_options(recipe: Recipe, test_data: str) -> list[tuple[str, ...]]:
    """The options that name the test set of results: none where it is the recipe's."""
    if split := find_split(recipe, test_data):
        return [] if split == "test" else [("--split", split)]
    dataset, split, files = read_test_data(test_data)
    if dataset is not None:
        return [("--dataset", dataset), ("--split", split)]
    return [("--pairs", *files)] if len(files) == 1 else list(zip(("--source", "--reference"), files, strict=False))


def _option(field: str, value: Any) -> tuple[str, ...]:
    """A recipe's value as the command line takes it."""
    flag = f"--{field.replace('_', '-')}"
    text = str(value).lower() if value is None or isinstance(value, bool) else str(value)
    return (f"{flag}={text}",) if text.startswith("-") else (flag, text)


def _fold(command: str, options: list[tuple[str, ...]]) -> str:
    """A command on lines of readable length."""
    lines = [command]
    for option in map(shlex.join, options):
        if len(lines[-1]) + 1 + len(option) > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {option}"
    return " \\\n".join(lines)
