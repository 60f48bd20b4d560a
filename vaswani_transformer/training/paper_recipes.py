# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's own trainings as recipes: the four published models, and every row of Table 3."""

from __future__ import annotations

from typing import Any

from ..analysis.table_3 import VARIATIONS, Variation
from .recipe import Recipe

# What the paper changes with the model. It writes a checkpoint every 10 minutes: about 1,500 updates of the base model
# at 0.4 s, 600 of the big one at 1.0 s.
_MODELS: dict[str, dict[str, Any]] = {
    "base": {"preset": "base", "max_steps": 100_000, "snapshot_steps": 1500, "num_averaged_snapshots": 5},
    "big": {"preset": "big", "max_steps": 300_000, "snapshot_steps": 600, "num_averaged_snapshots": 20},
}
_CORPORA: dict[str, dict[str, Any]] = {
    "en-de": {"target_language": "de", "dataset_config": "de-en", "vocab_size": 37_000},
    "en-fr": {"target_language": "fr", "dataset_config": "fr-en", "vocab_size": 32_000},
}
_SIZES = {"en-de": "English-German, 4.5M pairs", "en-fr": "English-French, 36M pairs"}
_DROPOUT = {("big", "en-fr"): 0.1}  # elsewhere the preset's


def paper_recipes() -> list[Recipe]:
    """Every recipe, in the paper's order; what is not named is the default, which is the base model's.

    Paper: sections 5 and 6.1, Table 3.
    """
    published = [_published(model, languages) for model in _MODELS for languages in _CORPORA]
    return [*published, *map(_variation, VARIATIONS)]


def _corpus(languages: str) -> dict[str, Any]:
    return {"source_language": "en", "dataset": "wmt/wmt14", **_CORPORA[languages]}


def _published(model: str, languages: str) -> Recipe:
    """A model of Table 2."""
    values = _MODELS[model]
    return Recipe(
        name=f"paper-{model}-{languages}",
        description=(
            f"The paper's {model} model on WMT14 {_SIZES[languages]} (newstest2013 validates, newstest2014 tests). "
            f"The paper writes a checkpoint every 10 minutes, about {values['snapshot_steps']:,} updates, and "
            f"averages {values['num_averaged_snapshots']}."
        ),
        dropout=_DROPOUT.get((model, languages)),
        **_corpus(languages),
        **values,
    )


def _variation(variation: Variation) -> Recipe:
    """A row of Table 3: its models are not averaged, and measured on the development set."""
    return Recipe(
        name=f"table3-{variation.name}",
        description=(
            f"Row {variation.name} of Table 3: WMT14 English-German, the last update's weights (no averaging), "
            f"validated and tested on newstest2013, where the paper has perplexity {variation.perplexity:.2f} and "
            f"BLEU {variation.bleu}."
        ),
        test_split="validation",
        preset=variation.preset,
        max_steps=variation.max_steps,
        label_smoothing=variation.label_smoothing,
        num_averaged_snapshots=0,
        **_corpus("en-de"),
    )
