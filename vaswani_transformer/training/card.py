# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The model card of a run: card_template.md, filled from the recipe, the config and the results in its folder."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers.utils import logging
from yaml import YAMLError

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..evaluation import DECODING, METRICS
from ..evaluation.loading import is_hub_id
from ..evaluation.report import describe_corpus, describe_search, metric_names
from ..files import (
    CARD_FILE,
    CARD_MARKER,
    CONFIG_FILE,
    CURVES_FILE,
    TEST_RESULTS_FILE,
    TEST_RESULTS_PATTERN,
    TRAIN_RESULTS_FILE,
    is_own_card,
    read_json,
    write_text,
)
from .recipes import RECIPES, SPLITS, Recipe, get_recipe

logger = logging.get_logger(__name__)

_SIZES = ("preset", "d_model", "num_heads", "d_k", "d_v", "position_encoding")  # which the peak rate follows
_TEMPLATE = Path(__file__).with_name("card_template.md")
_CORPUS_OPTIONS = {"source_file": "source", "target_file": "reference", "pairs_file": "pairs"}
_CORPUS_OPTIONS |= {name: name for name in ("dataset", "dataset_config", "split")}


def make_card(folder: str | Path) -> str:
    """Renders the card of a finished run from its recipe, config, training results and all test results.

    The name is the folder's; of local paths only the last part is shown.

    Raises:
        FileNotFoundError: The folder lacks one of these files.
        ValueError: A file is broken.
        KeyError: Results lack a figure.
    """
    folder = Path(folder)
    name, recipe = folder.resolve().name, Recipe.load(folder)
    results = read_json(folder / TRAIN_RESULTS_FILE)
    tests = {path.name: read_json(path) for path in sorted(folder.glob(TEST_RESULTS_PATTERN))}
    metrics = {metric: label for test in tests.values() for metric, label in metric_names(test).items()}
    data = without_folders(recipe.data_arguments("train") or {})
    averaged, best = results["num_averaged_snapshots"], results["best_checkpoint"]
    weights = f"the mean of the last {averaged} snapshots" if averaged else "those of the last update"
    card = ModelCard.from_template(
        ModelCardData(
            language=[language for language in (recipe.source_language, recipe.target_language) if language] or None,
            datasets=hub_datasets(data),
            library_name="transformers",
            pipeline_tag="translation",
            tags=["vaswani_transformer", "attention-is-all-you-need"],
            model_name=name if tests else None,
            eval_results=[result for test in tests.values() for result in _eval_results(recipe, test)] or None,
        ),
        template_str=_TEMPLATE.read_text(encoding="utf-8"),
        marker=CARD_MARKER,
        name=name,
        config=VaswaniTransformerConfig.from_json_file(folder / CONFIG_FILE),
        recipe=recipe,
        results=results,
        metrics=metrics,
        tests=[{**test, "name": test_name(test), "search": describe_search(test)} for test in tests.values()],
        signatures=dict.fromkeys(
            f"{label}: `{test[f'test_{metric}_signature']}`"
            for test in tests.values()
            for metric, label in metric_names(test).items()
        ),
        data=", ".join(
            f"`{each}`"
            for key in _CORPUS_OPTIONS
            if key != "split" and data.get(key)
            for each in (data[key] if isinstance(data[key], list) else [data[key]])
        ),
        changes=_changes(recipe),
        dropped=", ".join(f"{count:,} {rule}" for rule, count in results["train_dropped_pairs"].items() if count),
        weights=f"those of the best checkpoint, `{Path(best).name}`" if best else weights,
        validation=_validation(recipe, results, "last_eval_"),
        average_validation=_validation(recipe, results, "average_eval_"),
        picture=CURVES_FILE if (folder / CURVES_FILE).is_file() else None,
        commands=[_train_command(recipe, name, results)]
        + [_evaluate_command(recipe, name, file, test) for file, test in tests.items()],
    )
    return str(card)


def write_card(folder: str | Path) -> Path | None:
    """Writes the card of a finished run and returns its path, or None where README.md is the user's own.

    Metadata that were added to an earlier card, such as a license, stay.

    Raises what `make_card` raises.
    """
    path = Path(folder) / CARD_FILE
    if path.exists() and not is_own_card(path):
        return None
    card = ModelCard(make_card(folder))
    if path.exists():
        own = card.data.to_dict()
        earlier = ModelCard.load(path).data.to_dict()
        add_metadata(card, {"tags": earlier.pop("tags", None)})
        add_metadata(card, {key: value for key, value in earlier.items() if key not in (*own, "model-index")})
    return write_text(path, str(card))


def refresh_card(folder: str | Path) -> Path | None:
    """Calls `write_card` after work that is done already: an error is a warning."""
    try:
        return write_card(folder)
    except (KeyError, OSError, TypeError, ValueError, YAMLError) as error:
        logger.warning(f"No card was written: {error}")
        return None


def add_metadata(card: ModelCard, metadata: Mapping[str, Any]) -> None:
    """Sets fields in the head of a card; None changes nothing, and tags are added to those it has."""
    for field, value in metadata.items():
        if field == "tags" and value:
            value = [*dict.fromkeys([*(card.data.get("tags") or ()), *([value] if isinstance(value, str) else value)])]
        if value:
            card.data[field] = value


def without_folders(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a recipe, corpus or results, local paths cut down to their last part."""

    def cut(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [cut(name, each) for each in value]
        if isinstance(value, dict):
            return without_folders(value)
        is_path = name.endswith(("_source", "_target", "_pairs", "_file")) or name == "best_checkpoint"
        is_path |= name in ("dataset", "tokenizer") and isinstance(value, str) and not is_hub_id(value)
        return Path(value).name if is_path and isinstance(value, str) else value

    named = {"test_data": test_name(values)} if "test_corpus" in values else {}
    return {name: cut(name, value) for name, value in {**values, **named}.items()}


def _changes(recipe: Recipe) -> dict[str, Any]:
    """Values in which a recipe differs from the one of its name, or from the defaults."""
    known = RECIPES.get(recipe.name, Recipe())
    sizes = {name: getattr(recipe, name) for name in _SIZES}
    follows = get_recipe(recipe.name if recipe.name in RECIPES else None, max_steps=recipe.max_steps, **sizes)
    original = dataclasses.asdict(follows) | {name: getattr(known, name) for name in (*_SIZES, "max_steps")}
    changed = {name: value for name, value in dataclasses.asdict(recipe).items() if value != original[name]}
    return without_folders(changed)


def hub_datasets(data: Mapping[str, Any]) -> list[str] | None:
    """The Hub's id of training or test data, by which the Hub links the model to them; None for other data."""
    name = data.get("dataset", "")
    return [name] if is_hub_id(name) else None


def _validation(recipe: Recipe, results: Mapping[str, Any], prefix: str) -> str:
    """Figures of one of the validations in a run's results; "" for none."""
    figures = {name: results.get(f"{prefix}{name}") for name in ("perplexity", "nll", "loss", *METRICS)}
    text = ", ".join(f"{name} {value:,.3f}" for name, value in figures.items() if value is not None)
    return f"{text} ({recipe.validation_search})" if any(figures[name] is not None for name in METRICS) else text


# ---- test sets ----


def test_name(test: Mapping[str, Any]) -> str:
    """The name that the user gave a test set, else its files or data set."""
    corpus: dict[str, str] = test["test_corpus"]
    given: str = test["test_data"]
    return given if given != describe_corpus(corpus) else describe_corpus(without_folders(corpus))


def _eval_results(recipe: Recipe, test: Mapping[str, Any]) -> Iterator[EvalResult]:
    """Test results for a card's `model-index`, every figure as it was measured."""
    corpus = without_folders(test["test_corpus"])
    name = test_name(test)
    if name == describe_corpus(corpus):
        name = corpus.get("dataset", name)
    for metric, label in metric_names(test).items():
        yield EvalResult(
            task_type="translation",
            dataset_type=corpus.get("dataset", name),
            dataset_name=name,
            dataset_config=corpus.get("dataset_config"),
            dataset_split=corpus.get("split") or _find_split(recipe, test["test_corpus"]),
            metric_type=metric,
            metric_name=label,
            metric_value=test[f"test_{metric}"],
            metric_args={
                "signature": test[f"test_{metric}_signature"],
                **{option: test[f"test_{option}"] for option in DECODING if test[f"test_{option}"] is not None},
            },
        )


def _find_split(recipe: Recipe, corpus: Mapping[str, str]) -> str | None:
    """The split of a recipe's own files that results were measured on."""
    for split in SPLITS:
        data = recipe.data_arguments(split) or {}
        if {key: value for key, value in data.items() if key in _CORPUS_OPTIONS} == corpus:
            return split
    return None


# ---- commands ----


def _train_command(recipe: Recipe, name: str, results: Mapping[str, Any]) -> str:
    known = {"recipe": recipe.name} if recipe.name in RECIPES else {}
    sides = ("source_language", "target_language") if recipe.train_source else ()  # else the files' names would tell
    languages = {side: None for side in sides if getattr(recipe, side) is None}
    command = _command("train", {"output_dir": name, **known, **languages, **_changes(recipe)})
    return command + (" \\\n    --bf16" if results.get("train_device", "").endswith("bfloat16") else "")


def _evaluate_command(recipe: Recipe, name: str, results_file: str, test: Mapping[str, Any]) -> str:
    corpus = without_folders(test["test_corpus"])
    options = {"model": name, **{_CORPUS_OPTIONS[key]: value for key, value in corpus.items()}}
    if test["test_data"] != describe_corpus(test["test_corpus"]):
        options["name"] = test["test_data"]
    searched = {field: test[f"test_{field}"] for field in DECODING}
    options |= {field: value for field, value in searched.items() if value not in (None, getattr(recipe, field))}
    if results_file != TEST_RESULTS_FILE:
        options["results"] = f"{name}/{results_file}"
    return _command("evaluate", options)


def _command(name: str, options: Mapping[str, Any]) -> str:
    """A command for bash, each option with its value on a line."""
    lines = [f"vaswani-transformer {name}"]
    for option, value in options.items():
        texts = [
            str(each).lower() if each is None or isinstance(each, bool) else str(each)
            for each in (value if isinstance(value, list) else [value])
        ]
        between = "=" if texts[0].startswith("-") else " "
        lines.append(f"--{option.replace('_', '-')}{between}{' '.join(map(shlex.quote, texts))}")
    return " \\\n    ".join(lines)
