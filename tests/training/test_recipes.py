# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
from pathlib import Path

import pytest
import transformers

from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments
from vaswani_transformer.training.recipes import OLD_NAMES, RECIPES, Recipe, field_types, get_recipe


@pytest.mark.parametrize("field", dataclasses.fields(Recipe), ids=lambda field: field.name)
def test_recipe_field_has_a_help_text(field):
    assert field.metadata["help"]


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("table3-")])
def test_table_3_recipe_is_the_base_recipe_but_for_its_row(name):
    recipe, base = get_recipe(name), get_recipe("table3-base")
    varied = {"name", "description", "preset", "max_steps", "label_smoothing_factor"}
    differing = {field for field, value in vars(base).items() if getattr(recipe, field) != value}
    assert differing <= varied


def test_table_3_recipes_validate_and_test_on_the_development_set_without_averaging():
    recipe = get_recipe("table3-C1")
    splits = [recipe.data_arguments(split)["split"] for split in ("train", "validation", "test")]
    assert (splits, recipe.num_averaged_snapshots) == (["train", "validation", "validation"], 0)


def test_model_config_takes_the_tokenizers_size_and_the_recipes_languages():
    config = get_recipe("quickstart", d_model=64).model_config(vocab_size=123)
    assert (config.vocab_size, config.d_model, config.language_pair) == (123, 64, ("en", "de"))


def test_model_config_takes_every_value_of_the_model():
    sizes = {"d_model": 48, "d_ff": 7, "num_heads": 3, "d_k": 5, "d_v": 9, "num_encoder_layers": 2}
    sizes |= {"num_decoder_layers": 4, "dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.4}
    values = {**sizes, "attention_bias": True, "position_encoding": "learned", "source_language": "en"}
    config = Recipe(**values).model_config()
    assert {name: getattr(config, name) for name in values} == values


def test_resumed_run_may_change_what_changes_no_update_and_bpe_dropout():
    free = [field.name for field in dataclasses.fields(Recipe) if field.metadata["free"]]
    assert sorted(free) == sorted(
        "name description test_split test_source test_target test_pairs max_steps max_padded_tokens_per_device "
        "dataloader_num_workers "
        "eval_steps generation_num_beams save_steps save_total_limit logging_steps early_stopping_patience num_beams "
        "length_penalty length_penalty_offset max_new_tokens_over_source bpe_dropout bpe_dropout_side".split()
    )


def test_model_config_lists_the_presets_when_the_name_is_unknown():
    with pytest.raises(ValueError, match=r"`preset` must be one of base, big, .*table3-E, table3-big, got 'huge'"):
        get_recipe("quickstart", preset="huge").model_config()


def test_get_recipe_lists_the_known_ones_when_the_name_is_unknown():
    with pytest.raises(
        ValueError, match="`recipe` must be a known name, got 'nope'. Pass one that `vaswani-transformer "
    ):
        get_recipe("nope")


def test_get_recipe_says_that_files_are_named_in_text():
    with pytest.raises(ValueError, match=r"`train_source` must be text, got \w*Path\('a.en'\)"):
        get_recipe("quickstart", train_source=Path("a.en"), train_target="a.de")


def test_recipe_survives_saving_and_loading(tmp_path):
    recipe = get_recipe("multi30k-tiny", train_source="a.en", train_target="a.de")
    recipe.save(tmp_path)
    assert Recipe.load(tmp_path) == recipe


def test_get_recipe_takes_the_names_of_0_1_0_with_one_warning(caplog):
    old = {"label_smoothing": 0.3, "load_best_model": True, "eval_num_beams": 2}
    transformers.utils.logging.warning_once.cache_clear()  # another test may have been warned
    for _ in range(2):
        assert get_recipe("quickstart", **old) == get_recipe(
            "quickstart", **{OLD_NAMES[name]: value for name, value in old.items()}
        )
    for name, new in OLD_NAMES.items():
        assert caplog.text.count(f"`{name}` of a recipe is now called `{new}`") == 1


def test_recipe_of_0_1_0_is_read(tmp_path):
    recipe = get_recipe("multi30k-tiny")
    recipe.save(tmp_path)
    text = (tmp_path / "recipe.json").read_text(encoding="utf-8")
    for old, new in OLD_NAMES.items():
        text = text.replace(f'"{new}"', f'"{old}"')
    (tmp_path / "recipe.json").write_text(text, encoding="utf-8")
    assert Recipe.load(tmp_path) == recipe


@pytest.mark.parametrize("name", OLD_NAMES.values())
def test_a_new_name_is_the_training_arguments(name):
    assert name in VaswaniTransformerTrainingArguments.__dataclass_fields__


@pytest.mark.parametrize(("text", "wanted"), [('{"colour": "blue"}', "recipe"), ("[" * 5000, "JSON file")])
def test_recipe_load_names_a_file_that_is_none(tmp_path, text, wanted):
    (tmp_path / "recipe.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"recipe\.json` must be a {wanted}"):
        Recipe.load(tmp_path)


def test_data_arguments_are_none_without_data():
    assert get_recipe("multi30k-tiny").data_arguments("validation") is None


def test_files_of_one_split_leave_the_dataset_to_the_others():
    recipe = get_recipe("quickstart", validation_pairs="a.jsonl", validation_split=None)
    assert recipe.data_arguments("train")["dataset"] == recipe.data_arguments("test")["dataset"] == "builtin"
    assert recipe.data_arguments("validation")["pairs_file"] == "a.jsonl"


def test_validation_is_on_another_split_or_not_at_all():
    recipe = get_recipe("paper-base-en-de", validation_split="newstest")
    assert recipe.data_arguments("validation")["split"] == "newstest"
    assert get_recipe("paper-base-en-de", validation_split=None).data_arguments("validation") is None


def test_training_files_replace_the_dataset_for_all_splits():
    recipe = get_recipe("quickstart", train_source="a.en", train_target="a.de")
    assert recipe.data_arguments("train")["source_file"] == "a.en"
    assert (recipe.data_arguments("validation"), recipe.data_arguments("test")) == (None, None)


@pytest.mark.parametrize("split", ["test", "newstest"])
def test_data_arguments_pass_a_datasets_own_split_on(split):
    assert get_recipe("paper-base-en-de").data_arguments(split)["split"] == split


COUNTS = (
    "vocab_size d_model num_decoder_layers max_steps warmup_steps snapshot_steps early_stopping_patience eval_steps "
    "save_steps save_total_limit logging_steps num_beams"
).split()


WRONG = {
    **dict.fromkeys(COUNTS, (0, -1)),
    "max_steps": (0, -1, None, 1.5, math.inf, True, "many"),
    "seed": (5_000_000_000, -1),
    "max_length_ratio": (0.5, math.nan),
    "learning_rate": (-1.0, 0.0, math.inf),
    "max_grad_norm": (-1.0, math.nan),
    **{"max_tokens_per_sentence": (1,), "max_source_tokens_per_batch": (1,), "max_target_tokens_per_batch": (0,)},
    **{"max_padded_tokens_per_device": (0,), "dropout": (1.0,), "attention_dropout": (-0.1,)},
    **{"label_smoothing_factor": (1.0,), "adam_beta1": (-0.1,), "adam_beta2": (2.0,), "adam_epsilon": (-1.0,)},
    **{"num_averaged_snapshots": (-1,), "generation_num_beams": (-1,), "length_penalty": (math.nan,)},
    "max_new_tokens_over_source": (-1,),
    "dataloader_num_workers": (-1, 1.5),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
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
        ("label_smoothing_factor", 0.0),
        ("num_averaged_snapshots", 0),
        ("generation_num_beams", 0),
        ("max_new_tokens_over_source", 0),
    ],
)
def test_recipe_takes_numbers_at_the_edge_of_their_range(name, value):
    assert getattr(Recipe(**{name: value}), name) == value


def test_every_number_of_a_recipe_has_a_range():
    numbers = [field for field in dataclasses.fields(Recipe) if field_types()[field.name][0] in (int, float)]
    assert [field.name for field in numbers if field.metadata["range"] is None] == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("streaming", "false", "be true or false, got 'false'"),
        ("load_best_model_at_end", 1, "be true or false, got 1"),
        ("train_source", 3, "be text, got 3"),
        ("preset", None, "be text, got None"),
    ],
)
def test_recipe_refuses_a_value_of_another_type(name, value, message):
    with pytest.raises(ValueError, match=f"`{name}` must {message}"):
        Recipe(**{name: value})
