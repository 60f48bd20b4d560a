# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math

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


def test_files_of_any_split_replace_the_dataset_for_all_of_them():
    recipe = get_recipe("quickstart", train_source="a.en", train_target="a.de")
    assert (recipe.data_arguments("validation"), recipe.data_arguments("test")) == (None, None)


def test_data_arguments_pass_a_datasets_own_split_on():
    assert get_recipe("paper-base-en-de").data_arguments("newstest")["split"] == "newstest"


def test_data_arguments_list_the_splits_of_files():
    with pytest.raises(ValueError, match="`split` must be one of train, validation, test, got 'dev'"):
        get_recipe("multi30k-tiny", train_pairs="a.jsonl").data_arguments("dev")


COUNTS = (
    "vocab_size",
    "d_model",
    "num_decoder_layers",
    "max_steps",
    "warmup_steps",
    "snapshot_steps",
    "early_stopping_patience",
    "eval_steps",
    "save_steps",
    "save_total_limit",
    "logging_steps",
    "num_beams",
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in COUNTS for value in (0, -1)),
        ("max_steps", None),
        ("max_steps", 1.5),
        ("max_steps", math.inf),
        ("max_steps", True),
        ("max_steps", "many"),
        ("seed", 5_000_000_000),
        ("seed", -1),
        ("max_tokens_per_sentence", 1),
        ("max_length_ratio", 0.5),
        ("max_length_ratio", math.nan),
        ("max_source_tokens_per_batch", 1),
        ("max_target_tokens_per_batch", 0),
        ("max_padded_tokens_per_device", 0),
        ("dropout", 1.0),
        ("attention_dropout", -0.1),
        ("label_smoothing", 1.0),
        ("learning_rate", -1.0),
        ("learning_rate", 0.0),
        ("learning_rate", math.inf),
        ("adam_beta1", -0.1),
        ("adam_beta2", 2.0),
        ("adam_epsilon", -1.0),
        ("max_grad_norm", -1.0),
        ("max_grad_norm", math.nan),
        ("num_averaged_snapshots", -1),
        ("eval_num_beams", -1),
        ("length_penalty", math.nan),
        ("max_new_tokens_over_source", -1),
    ],
)
def test_recipe_refuses_a_number_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must .*, got {value!r}. Pass another value"):
        Recipe(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 2**32 - 1),
        ("learning_rate", None),
        ("learning_rate", 1),
        ("d_model", None),
        ("max_tokens_per_sentence", None),
        ("label_smoothing", 0.0),
        ("num_averaged_snapshots", 0),
        ("eval_num_beams", 0),
        ("max_new_tokens_over_source", 0),
    ],
)
def test_recipe_takes_numbers_at_the_edge_of_their_range(name, value):
    assert getattr(Recipe(**{name: value}), name) == value


def test_recipe_lists_the_metrics_that_can_decide():
    with pytest.raises(ValueError, match="must be one of sacrebleu, chrf, loss, nll, perplexity, got 'foo'"):
        Recipe(metric_for_best_model="foo")


def test_every_number_of_a_recipe_has_a_range():
    numbers = [field for field in dataclasses.fields(Recipe) if "int" in field.type or "float" in field.type]
    assert [field.name for field in numbers if field.metadata["range"] is None] == []
