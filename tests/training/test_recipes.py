# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from vaswani_transformer import VaswaniTransformerConfig
from vaswani_transformer.training.recipes import RECIPES, Recipe, get_recipe


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_recipe_names_a_model_that_can_be_configured(name):
    recipe = get_recipe(name)
    config = VaswaniTransformerConfig.from_preset(
        recipe.preset, vocab_size=recipe.vocab_size, **recipe.model_overrides()
    )
    assert config.vocab_size == recipe.vocab_size


@pytest.mark.parametrize("field", dataclasses.fields(Recipe), ids=lambda field: field.name)
def test_recipe_field_has_a_help_text(field):
    assert field.metadata["help"]


def test_paper_recipe_is_the_papers():
    recipe = get_recipe("paper-base-en-de")
    config = VaswaniTransformerConfig.from_preset(recipe.preset, **recipe.model_overrides())
    told = (
        config.d_model,
        config.d_ff,
        config.num_heads,
        config.num_encoder_layers,
        config.dropout,
        recipe.vocab_size,
    )
    assert told == (512, 2048, 8, 6, 0.1, 37000)


def test_paper_recipe_trains_as_the_paper():
    recipe = get_recipe("paper-base-en-de")
    told = (recipe.max_steps, recipe.warmup_steps, recipe.label_smoothing, recipe.num_averaged_snapshots)
    assert told == (100_000, 4000, 0.1, 5)


def test_get_recipe_lists_the_known_ones_when_the_name_is_unknown():
    with pytest.raises(ValueError, match="multi30k-tiny, paper-base-en-de, quickstart, got 'nope'"):
        get_recipe("nope")


def test_get_recipe_replaces_fields():
    assert get_recipe("quickstart", max_steps=50).max_steps == 50


def test_get_recipe_suggests_a_field_when_it_is_misspelt():
    with pytest.raises(TypeError, match=r"`max_step` must be a field of Recipe.*max_steps"):
        get_recipe("quickstart", max_step=50)


def test_recipe_survives_saving_and_loading(tmp_path):
    recipe = get_recipe("multi30k-tiny", train_source="a.en", train_target="a.de")
    recipe.save(tmp_path)
    assert Recipe.load(tmp_path) == recipe


def test_recipe_load_names_a_file_that_is_none(tmp_path):
    (tmp_path / "recipe.json").write_text('{"colour": "blue"}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"recipe\.json` must be a recipe"):
        Recipe.load(tmp_path)


def test_data_arguments_prefer_files_over_the_dataset():
    recipe = get_recipe("quickstart", train_source="a.en", train_target="a.de")
    assert recipe.data_arguments("train")["source_file"] == "a.en"


def test_data_arguments_are_none_without_data():
    assert get_recipe("multi30k-tiny").data_arguments("validation") is None
