# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from vaswani_transformer.recipe import (
    OLD_NAMES,
    RECIPES,
    Recipe,
    field_types,
    get_recipe,
    recipe_text,
)
from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments


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
    sizes |= {
        "num_decoder_layers": 4,
        "dropout": 0.2,
        "attention_dropout": 0.3,
        "activation_dropout": 0.4,
    }
    values = {
        **sizes,
        "attention_bias": True,
        "position_encoding": "learned",
        "source_language": "en",
    }
    config = Recipe(**values).model_config()
    assert {name: getattr(config, name) for name in values} == values


def test_resumed_run_may_change_what_changes_no_update_and_bpe_dropout():
    free = [field.name for field in dataclasses.fields(Recipe) if field.metadata["free"]]
    assert sorted(free) == sorted(
        (
            "name description test_split test_source test_target test_pairs max_steps "
            "max_padded_tokens_per_device dataloader_num_workers eval_steps generation_num_beams "
            "save_steps save_total_limit logging_steps early_stopping_patience num_beams "
            "length_penalty length_penalty_offset max_new_tokens_over_source "
            "bpe_dropout bpe_dropout_side"
        ).split()
    )


def test_model_config_lists_the_presets_when_the_name_is_unknown():
    with pytest.raises(
        ValueError, match=r"`preset` must be one of base, big, .*table3-E, table3-big, got 'huge'"
    ):
        get_recipe("quickstart", preset="huge").model_config()


def test_get_recipe_says_that_files_are_named_in_text():
    with pytest.raises(ValueError, match=r"`train_source` must be text, got \w*Path\('a.en'\)"):
        get_recipe("quickstart", train_source=Path("a.en"), train_target="a.de")


def test_a_loaded_recipe_is_saved_as_the_same_text(tmp_path):
    """A resumed run saves it again; so do the generation configs that it goes into."""
    recipe = get_recipe("small", learning_rate=1, length_penalty=1, dropout=0)
    recipe.save(tmp_path)
    text = (tmp_path / "recipe.json").read_text(encoding="utf-8")
    Recipe.load(tmp_path).save(tmp_path)
    assert (tmp_path / "recipe.json").read_text(encoding="utf-8") == text


def test_recipe_of_0_1_0_is_read_with_a_warning_of_each_old_name(tmp_path, caplog):
    recipe = get_recipe("multi30k-tiny")
    recipe.save(tmp_path)
    text = (tmp_path / "recipe.json").read_text(encoding="utf-8")
    for old, new in OLD_NAMES.items():
        text = text.replace(f'"{new}"', f'"{old}"')
    (tmp_path / "recipe.json").write_text(text, encoding="utf-8")
    assert Recipe.load(tmp_path) == recipe
    for old, new in OLD_NAMES.items():
        assert caplog.text.count(f"`{old}` of a recipe is now called `{new}`") == 1


@pytest.mark.parametrize("name", OLD_NAMES.values())
def test_a_new_name_is_the_training_arguments(name):
    assert name in VaswaniTransformerTrainingArguments.__dataclass_fields__


# ---- files ----


def test_every_recipe_of_0_2_0_but_quickstart_is_as_it_was():
    """The file holds the values that the table of 0.2.0 had, where they are not the paper's."""
    known = json.loads(Path(__file__).with_name("recipes_0.2.0.json").read_text(encoding="utf-8"))
    assert sorted([*known, "quickstart"]) == sorted(RECIPES)
    for name, values in known.items():
        assert RECIPES[name] == Recipe(**values)


def own_file(folder, text, name="mine.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_printed_recipe_is_the_start_of_ones_own(tmp_path):
    path = own_file(tmp_path, recipe_text("small").replace("vocab_size: 6000", "vocab_size: 700"))
    assert get_recipe(path) == dataclasses.replace(RECIPES["small"], name="mine", vocab_size=700)


def test_file_extends_a_known_recipe_and_an_option_wins_over_both(tmp_path):
    path = own_file(tmp_path, "extends: small\nd_ff: 300\ndropout: 0.2\n")
    wanted = dataclasses.replace(
        RECIPES["small"], name="mine", description="", d_ff=300, dropout=0.3
    )
    assert get_recipe(path, dropout=0.3) == wanted


def test_values_are_read_by_the_type_of_their_field(tmp_path):
    path = own_file(
        tmp_path,
        "source_language: no\ntarget_language: 'on'\nlearning_rate: 1e-4\nname: "
        "007\nattention_bias: True\ntokenizer: null\ntrain_source:\n- a.no\n- ñ "
        "日本.no\ntrain_target: [a.on, b.on]\ntrain_weights: [1, "
        "4]\nmax_tokens_per_sentence:\nlength_penalty: -0\n",
    )
    assert get_recipe(path) == Recipe(
        source_language="no",
        target_language="on",
        learning_rate=1e-4,
        name="007",
        attention_bias=True,
        train_source=["a.no", "ñ 日本.no"],
        train_target=["a.on", "b.on"],
        train_weights=[1, 4],
        max_tokens_per_sentence=None,
        length_penalty=0.0,
    )


def test_recipe_of_a_run_is_a_recipe_file(tmp_path):
    recipe = Recipe(
        name="ru-uk",
        description="Тексты",
        train_source="a.ru",
        train_target="a.txt",
        adam_epsilon=1e-30,
    )
    recipe.save(tmp_path)
    assert get_recipe(tmp_path / "recipe.json") == recipe


def test_languages_of_a_file_are_the_suffixes_of_its_texts(tmp_path):
    path = own_file(tmp_path, "train_source: a.fi\ntrain_target: a.txt\n")
    recipe = get_recipe(path)
    assert (recipe.source_language, recipe.target_language) == ("fi", None)


def test_an_option_lays_out_a_file_as_it_does_a_known_recipe(tmp_path):
    path = own_file(tmp_path, recipe_text("tatoeba-small"), "tatoeba-small.yaml")
    assert get_recipe(path, max_steps=1000) == get_recipe("tatoeba-small", max_steps=1000)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "d_ff: 512\nmax_step: 10",
            "line 2: A recipe has no field max_step. Did you mean max_steps?",
        ),
        ("colour: blue", "line 1: A recipe has no field colour. train --help-all lists"),
        (
            "# mine\n\nmax_steps: many",
            "line 3: max_steps must be a whole number of at least 1.*, got 'many'",
        ),
        ("max_steps: 10,000", "line 1: max_steps must be a whole number .*, got '10,000'"),
        ("dropout: 1.5", r"line 1: dropout must be a number in \[0, 1\), got 1.5"),
        ("streaming: yes", "line 1: streaming must be true or false, got 'yes'"),
        (
            "bpe_dropout_side: left",
            "line 1: bpe_dropout_side must be one of source, target, both, got 'left'",
        ),
        ("d_ff: [1, 2]", r"line 1: d_ff must be a whole number .*, got \[1, 2\]"),
        ("model: {d_ff: 1}", "line 1: A recipe has no field model"),
        (
            "extends: mine.yaml",
            "line 1: extends must be the name of a built-in recipe, got 'mine.yaml'. Pass a name",
        ),
        (
            "d_ff: {a: 1}",
            "line 1: d_ff must be one value or a list of values, got a nested mapping",
        ),
        (
            "seed: 1\ntrain_source: [[a, b], c]",
            "line 2: train_source must be .*, got a nested sequence",
        ),
        ("? [a]\n: 1", "line 1: The name of a field must be one value"),
        ("extends: small\nextends: medium", "line 2: extends must appear once in a file"),
        ("seed: 1\nd_ff: 3\nseed: 2", "line 3: seed must appear once in a file"),
        (
            "d_ff: 3\nextends: quickstat",
            "line 2: extends must be the name .*, got 'quickstat'. Pass quickstart",
        ),
        ("d_ff: 3\n\tseed: 1", "must be a YAML file.*line 2"),
        ("max_steps:5", "must have lines such as `max_steps: 1000`"),
        ("", "must have lines such as `max_steps: 1000`"),
        ("[" * 5000, "must be a YAML file"),
    ],
)
def test_mistake_in_a_file_is_told_with_file_line_and_field(tmp_path, text, wrong):
    path = own_file(tmp_path, text)
    with pytest.raises(ValueError, match=rf"(?s)^{re.escape(str(path))}.*{wrong}"):
        get_recipe(path)


def test_file_whose_aliases_multiply_is_refused_in_a_short_sentence(tmp_path):
    levels = ["&a0 [x]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))]
    path = own_file(tmp_path, f"d_ff: [{', '.join(levels)}]\n")
    with pytest.raises(ValueError, match="line 1: d_ff must be one value") as error:
        get_recipe(path)
    assert len(str(error.value)) < 2000


@pytest.mark.parametrize(
    ("name", "error", "wrong"),
    [
        ("nope", ValueError, "got 'nope'. Pass a name that `vaswani-transformer recipes` lists"),
        ("multi30k", ValueError, "got 'multi30k'. Pass multi30k-tiny."),
        ("nope.yaml", FileNotFoundError, "nope.yaml"),
    ],
)
def test_unknown_recipe_is_refused(name, error, wrong):
    with pytest.raises(error, match=wrong):
        get_recipe(name)


# ---- data ----


def test_data_arguments_are_none_without_data():
    assert get_recipe("multi30k-tiny").data_arguments("validation") is None


def test_files_of_one_split_leave_the_dataset_to_the_others():
    recipe = get_recipe("quickstart", validation_pairs="a.jsonl", validation_split=None)
    assert (
        recipe.data_arguments("train")["dataset"]
        == recipe.data_arguments("test")["dataset"]
        == "builtin"
    )
    assert recipe.data_arguments("validation")["pairs_file"] == "a.jsonl"


def test_validation_is_on_another_split_or_not_at_all():
    recipe = get_recipe("paper-base-en-de", validation_split="newstest")
    assert recipe.data_arguments("validation")["split"] == "newstest"
    assert (
        get_recipe("paper-base-en-de", validation_split=None).data_arguments("validation") is None
    )


def test_training_files_replace_the_dataset_for_all_splits():
    recipe = get_recipe("quickstart", train_source="a.en", train_target="a.de")
    assert recipe.data_arguments("train")["source_file"] == "a.en"
    assert (recipe.data_arguments("validation"), recipe.data_arguments("test")) == (None, None)


@pytest.mark.parametrize("split", ["test", "newstest"])
def test_data_arguments_pass_a_datasets_own_split_on(split):
    assert get_recipe("paper-base-en-de").data_arguments(split)["split"] == split


COUNTS = (
    "vocab_size d_model num_decoder_layers max_steps warmup_steps snapshot_steps "
    "early_stopping_patience eval_steps save_steps save_total_limit logging_steps num_beams"
).split()


WRONG = {
    **dict.fromkeys(COUNTS, (0, -1)),
    "max_steps": (0, -1, None, 1.5, math.inf, True, "many"),
    "seed": (5_000_000_000, -1),
    "max_length_ratio": (0.5, math.nan),
    "learning_rate": (-1.0, 0.0, math.inf),
    "max_grad_norm": (-1.0, math.nan),
    "max_tokens_per_sentence": (1,),
    "max_source_tokens_per_batch": (1,),
    "max_target_tokens_per_batch": (0,),
    "max_padded_tokens_per_device": (0,),
    "dropout": (1.0,),
    "attention_dropout": (-0.1,),
    "label_smoothing_factor": (1.0,),
    "adam_beta1": (-0.1,),
    "adam_beta2": (2.0,),
    "adam_epsilon": (-1.0,),
    "num_averaged_snapshots": (-1,),
    "generation_num_beams": (-1,),
    "length_penalty": (math.nan,),
    "max_new_tokens_over_source": (-1,),
    "dataloader_num_workers": (-1, 1.5),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
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
        ("label_smoothing_factor", 0.0),
        ("num_averaged_snapshots", 0),
        ("generation_num_beams", 0),
        ("max_new_tokens_over_source", 0),
    ],
)
def test_recipe_takes_numbers_at_the_edge_of_their_range(name, value):
    assert getattr(Recipe(**{name: value}), name) == value


def test_every_number_of_a_recipe_has_a_range():
    numbers = [
        field
        for field in dataclasses.fields(Recipe)
        if field_types()[field.name][0] in (int, float)
    ]
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
