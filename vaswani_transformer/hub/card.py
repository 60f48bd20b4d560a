# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Model card of a run, rendered from card_template.md and the files in the folder of the run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers.utils import GENERATION_CONFIG_NAME, logging

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..files import (
    CARD_FILE,
    CARD_MARKER,
    CONFIG_FILE,
    CURVES_FILE,
    TEST_RESULTS_PATTERN,
    TRAIN_RESULTS_FILE,
    is_own_card,
    read_json,
    read_json_if_any,
    write_text,
)
from ..inference import DECODING, METRICS
from ..inference.evaluate import describe_corpus, describe_search, metric_names
from ..inference.loading import is_hub_id
from ..recipe import BUILTIN_LICENSE, Recipe, as_list

logger = logging.get_logger(__name__)

_TEMPLATE = Path(__file__).with_name("card_template.md")


def make_card(
    folder: str | Path, model_id: str | None = None, revision: str | None = None
) -> ModelCard:
    """Render the card of a finished run.

    The card describes the recipe, the config, the training results and all test results in the
    folder. The card's title is the name of the repo. If there is no repo, the title is the name of
    the folder. Local paths are shortened to their last part. Metadata of an earlier card, such as a
    license, is kept.
    If the earlier card names no license, a model of the built-in corpus gets the corpus's license.

    Args:
        folder: Folder of the run.
        model_id: Repo on the Hub from which the card's example loads the model; None means a local
            path.
        revision: Tag or branch of this repo; None means main.

    Raises:
        FileNotFoundError: If the recipe, the config or the training results are missing.
        ValueError: If a file is broken.
        KeyError: If a figure is missing from the results.
    """
    folder = Path(folder)
    name = Path(model_id or folder.resolve()).name
    recipe = Recipe.load(folder)
    results = without_folders(read_json(folder / TRAIN_RESULTS_FILE))
    tests = [without_folders(read_json(path)) for path in sorted(folder.glob(TEST_RESULTS_PATTERN))]
    data = without_folders(recipe.data_arguments("train") or {})
    data_names = []
    for key in ("source_file", "target_file", "pairs_file", "dataset", "dataset_config"):
        data_names += as_list(data.get(key))
    metrics: dict[str, str] = {}
    signatures: list[str] = []
    for test in tests:
        for metric, label in metric_names(test).items():
            metrics[metric] = label
            signatures.append(f"{label}: `{test[f'test_{metric}_signature']}`")
    path = folder / CARD_FILE
    earlier = load_card(path).data.to_dict() if path.exists() else {}
    search = read_json_if_any(folder / GENERATION_CONFIG_NAME)
    card: ModelCard = ModelCard.from_template(
        ModelCardData(
            # The Hub refuses codes with a region or a script.
            language=[
                re.split("[-_]", language)[0]
                for language in (recipe.source_language, recipe.target_language)
                if language
            ]
            or None,
            datasets=[data["dataset"]] if is_hub_id(data.get("dataset", "")) else None,
            license=earlier.get("license") or (BUILTIN_LICENSE if recipe.attribution else None),
            library_name="transformers",
            pipeline_tag="translation",
            tags=["vaswani_transformer", "attention-is-all-you-need"],
            model_name=name if tests else None,
            eval_results=[result for test in tests for result in _eval_results(test)] or None,
        ),
        template_str=_TEMPLATE.read_text(encoding="utf-8"),
        marker=CARD_MARKER,
        name=name,
        model_id=model_id or f"path/to/{name}",
        revision=revision or "main",
        config=VaswaniTransformerConfig.from_json_file(folder / CONFIG_FILE),
        recipe=recipe,
        recipe_file=_recipe_file(recipe),
        longest_training_source=search.get("longest_training_source"),
        results=results,
        metrics=metrics,
        tests=[{**test, "search": describe_search(test)} for test in tests],
        signatures=dict.fromkeys(signatures),
        data=", ".join(f"`{each}`" for each in data_names),
        validation=describe_validation(recipe, results, "last"),
        average_validation=describe_validation(recipe, results, "average"),
        picture=CURVES_FILE if (folder / CURVES_FILE).is_file() else None,
    )
    # Metadata of an earlier card must not replace new metadata. Tags are the exception: those of
    # both cards are merged. Old scores are dropped.
    not_kept = card.data.to_dict().keys() - {"tags"} | {"model-index"}
    add_metadata(card, {key: value for key, value in earlier.items() if key not in not_kept})
    return card


def write_card(
    folder: str | Path, model_id: str | None = None, revision: str | None = None
) -> Path | None:
    """Write the card of a finished run, and return its path.

    If README.md is the user's own, keep it and return None. Arguments and errors are those of
    `make_card`.
    """
    path = Path(folder) / CARD_FILE
    if path.exists() and not is_own_card(path):
        return None
    return write_text(path, str(make_card(folder, model_id, revision)))


def refresh_card(
    folder: str | Path, model_id: str | None = None, revision: str | None = None
) -> Path | None:
    """Call `write_card`, but log a warning instead of raising an error.

    An error in the card must not make a finished training or evaluation fail.
    """
    try:
        return write_card(folder, model_id, revision)
    except (KeyError, OSError, TypeError, ValueError) as error:
        logger.warning(f"No card was written: {error}")
        return None


def load_card(path: str | Path) -> ModelCard:
    """Read a model card. Raise ValueError if its metadata are not valid YAML."""
    try:
        return ModelCard.load(path)  # type: ignore[no-any-return]
    except yaml.YAMLError as error:
        raise ValueError(f"`{path}` must begin with metadata in YAML, got: {error}") from error


def add_metadata(card: ModelCard, metadata: Mapping[str, Any]) -> None:
    """Set metadata fields of a card.

    Empty values change nothing. New tags are added to the card's tags.
    """
    for field, value in metadata.items():
        if field == "tags" and value:
            both = as_list(card.data.get("tags")) + as_list(value)
            value = list(dict.fromkeys(both))
        if value:
            card.data[field] = value


def without_folders(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with each local path replaced by its last component.

    The values are those of a recipe, of a corpus description or of results.
    """

    def cut(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [cut(name, each) for each in value]
        if isinstance(value, dict):
            return without_folders(value)
        if not isinstance(value, str):
            return value
        if name in ("dataset", "tokenizer"):
            is_path = not is_hub_id(value)
        else:
            is_path = name.endswith(("_source", "_target", "_pairs", "_file", "best_checkpoint"))
        return Path(value).name if is_path else value

    shortened = {name: cut(name, value) for name, value in values.items()}
    if "test_corpus" in values and values.get("test_data") == describe_corpus(
        values["test_corpus"]
    ):
        shortened["test_data"] = describe_corpus(shortened["test_corpus"])
    return shortened


def _recipe_file(recipe: Recipe) -> str:
    """Return the recipe as YAML, without local folders and default values."""
    default = dataclasses.asdict(Recipe())
    values = dataclasses.asdict(recipe)
    # Keep the keys of both languages, even if the values are None. If a key is missing in a recipe,
    # the language is read from the suffix of a training file.
    languages = ("source_language", "target_language")
    own = {
        name: value for name, value in values.items() if value != default[name] or name in languages
    }
    text: str = yaml.safe_dump(without_folders(own), sort_keys=False, allow_unicode=True, width=100)
    return text


def describe_validation(recipe: Recipe, results: Mapping[str, Any], which: str) -> str:
    """Describe the "last", "best" or "average" validation of a run. Return "" if there is none."""
    figures = {
        name: results.get(f"{which}_eval_{name}")
        for name in ("perplexity", "nll", "loss", *METRICS)
    }
    text = ", ".join(f"{name} {value:,.3f}" for name, value in figures.items() if value is not None)
    if any(figures[name] is not None for name in METRICS):
        text += f" ({recipe.validation_search})"
    return text


def _eval_results(test: Mapping[str, Any]) -> Iterator[EvalResult]:
    """Yield the unrounded test results for the `model-index` of a card."""
    corpus, name = test["test_corpus"], test["test_data"]
    for metric, label in metric_names(test).items():
        yield EvalResult(
            task_type="translation",
            dataset_type=corpus.get("dataset", name),
            dataset_name=name,
            dataset_config=corpus.get("dataset_config"),
            dataset_split=corpus.get("split"),
            metric_type=metric,
            metric_name=label,
            metric_value=test[f"test_{metric}"],
            metric_args={
                "signature": test[f"test_{metric}_signature"],
                **{
                    option: test[f"test_{option}"]
                    for option in DECODING
                    if test[f"test_{option}"] is not None
                },
            },
        )
