# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Any values in configurations: a model that works and survives saving, or an error that names the field."""

import dataclasses
import json
import math
import shutil
import typing

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from hypothesis import strategies as st
from nasty import changes, fuzz, json_texts
from tiny import make_config

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerModel
from vaswani_transformer.evaluation.loading import load_for_inference
from vaswani_transformer.evaluation.translate import translate
from vaswani_transformer.training.recipes import Recipe

KINDS = VaswaniTransformerConfig.__annotations__
FIELDS = [name for name in VaswaniTransformerConfig.__annotations__ if name not in ("model_type", "attribute_map")]
OWN = [field.name for field in dataclasses.fields(VaswaniTransformerConfig) if field.name in FIELDS]
WIDTHS = ["vocab_size", "d_model", "d_ff", "num_heads", "d_k", "d_v", "num_encoder_layers", "num_decoder_layers"]
REFUSED = (ValueError, TypeError, StrictDataclassError)


def is_finite(value):
    return not isinstance(value, float) or math.isfinite(value)


def check_config(overrides):
    """Makes a configuration, which works and survives saving, or is refused with the name of a field."""
    try:
        config = make_config(**overrides)
    except REFUSED as raised:
        error = str(raised)
    else:
        assert all(is_finite(getattr(config, name)) for name in OWN)
        assert all(type(getattr(config, name)) is int for name in WIDTHS)
        saved = config.to_dict()
        assert VaswaniTransformerConfig.from_dict(json.loads(config.to_json_string())).to_dict() == saved
        if config.num_encoder_layers + config.num_decoder_layers < 9:
            with torch.device("meta"):
                VaswaniTransformerModel(config)
        return
    assert any(name in error for name in overrides), error


@fuzz(20_000, overrides=changes(OWN))
def test_any_values_make_a_config_that_works_or_are_refused_by_name(overrides):
    check_config(overrides)


@fuzz(4000, short=60, overrides=changes([*WIDTHS, "max_position_embeddings"], st.integers(-2, 2**32)))
def test_any_sizes_make_a_config_that_works_or_are_refused_by_name(overrides):
    check_config(overrides)


@fuzz(4000, overrides=changes([name for name in OWN if float in typing.get_args(KINDS[name])], st.floats()))
def test_any_rates_make_a_config_that_works_or_are_refused_by_name(overrides):
    check_config(overrides)


# ---- files ----

TOKENIZER_KEYS = ["bos_token", "eos_token", "pad_token", "tokenizer_class", "model_max_length", "extra_special_tokens"]
TOKENIZER_KEYS += [
    "split_special_tokens",
    "add_prefix_space",
    "padding_side",
    "truncation_side",
    "backend",
    "unk_token",
]
SEARCH_KEYS = ["num_beams", "length_penalty", "max_new_tokens_over_source", "length_penalty_offset", "early_stopping"]
SEARCH_KEYS += ["eos_token_id", "pad_token_id", "decoder_start_token_id", "do_sample", "temperature", "top_k", "top_p"]
SEARCH_KEYS += ["num_return_sequences", "repetition_penalty", "no_repeat_ngram_size", "min_length", "max_length"]
KEYS = {
    "config.json": [*FIELDS, "dtype", "torch_dtype", "id2label", "num_labels", "architectures", "model_type"],
    "generation_config.json": SEARCH_KEYS,
    "tokenizer_config.json": TOKENIZER_KEYS,
    "tokenizer.json": ["model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "version"],
}


@pytest.fixture(scope="module")
def copy(folder, tmp_path_factory):
    return shutil.copytree(folder, tmp_path_factory.mktemp("copy"), dirs_exist_ok=True)


def load_and_translate(folder, copy, name, content):
    """Translates with a copy of a model's folder that has another file of a name, or says why not."""
    (copy / name).write_text(content)
    try:
        model, tokenizer = load_for_inference(copy, device="cpu")
        found = list(translate(model, tokenizer, ["A dog runs.", ""]))
    except (ValueError, TypeError, OSError, ImportError) as error:
        assert str(error)  # noqa: PT017
        return
    finally:
        shutil.copy(folder / name, copy / name)
    assert all(isinstance(text, str) for text in found)
    assert len(found) == 2


@pytest.mark.parametrize("name", KEYS)
@fuzz(200, short=20, data=st.data())
def test_any_values_in_a_models_files_translate_or_are_refused(folder, copy, name, data):
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    changed = {**content, **data.draw(changes(KEYS[name]))}
    load_and_translate(folder, copy, name, json.dumps(changed))


@pytest.mark.parametrize("name", KEYS)
@fuzz(150, short=12, data=st.data())
def test_any_text_as_a_models_file_is_refused(folder, copy, name, data):
    load_and_translate(folder, copy, name, data.draw(json_texts(KEYS[name])))


# ---- recipes ----

RECIPE_FIELDS = {field.name: field for field in dataclasses.fields(Recipe)}


@fuzz(12_000, overrides=changes(list(RECIPE_FIELDS)))
def test_any_values_make_a_recipe_that_survives_saving_or_are_refused_by_name(tmp_path_factory, overrides):
    try:
        recipe = Recipe(**overrides)
    except (TypeError, ValueError) as raised:
        error = str(raised)
    else:
        kinds = typing.get_type_hints(Recipe)
        for name in RECIPE_FIELDS:
            value, allowed = getattr(recipe, name), typing.get_args(kinds[name]) or (kinds[name],)
            assert type(value) in (*allowed, *([int] if float in allowed else []))
            assert is_finite(value)
        folder = tmp_path_factory.getbasetemp()
        recipe.save(folder)
        assert Recipe.load(folder) == recipe
        return
    assert any(f"`{name}` must" in error for name in overrides), error


@fuzz(4000, text=json_texts(list(RECIPE_FIELDS)))
def test_any_text_as_a_recipe_is_one_or_is_refused_by_its_file(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp()
    (folder / "recipe.json").write_text(text)
    try:
        assert isinstance(Recipe.load(folder), Recipe)
    except ValueError as raised:
        assert "recipe.json" in str(raised)  # noqa: PT017
