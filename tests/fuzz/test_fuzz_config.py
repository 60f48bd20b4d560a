# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Any values in configurations: a model that works and survives saving, or an error that names the
field.
"""

import dataclasses
import json
import math
import typing

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from hypothesis import strategies as st
from nasty import changes, fuzz, json_texts
from tiny import make_config

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerModel
from vaswani_transformer.recipe import Recipe

pytestmark = pytest.mark.slow

KINDS = VaswaniTransformerConfig.__annotations__
FIELDS = [
    name
    for name in VaswaniTransformerConfig.__annotations__
    if name not in ("model_type", "attribute_map")
]
OWN = [field.name for field in dataclasses.fields(VaswaniTransformerConfig) if field.name in FIELDS]
WIDTHS = [
    "vocab_size",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "num_encoder_layers",
    "num_decoder_layers",
]
REFUSED = (ValueError, TypeError, StrictDataclassError)


def is_finite(value):
    return not isinstance(value, float) or math.isfinite(value)


RATES = [name for name in OWN if float in typing.get_args(KINDS[name])]
ANY = (
    changes(OWN)
    | changes([*WIDTHS, "max_position_embeddings"], st.integers(-2, 2**32))
    | changes(RATES, st.floats())
)


@fuzz(28_000, short=100, overrides=ANY)
def test_any_values_make_a_config_that_works_and_survives_saving_or_are_refused_by_name(overrides):
    try:
        config = make_config(**overrides)
    except REFUSED as raised:
        error = str(raised)
    else:
        assert all(is_finite(getattr(config, name)) for name in OWN)
        assert all(type(getattr(config, name)) is int for name in WIDTHS)
        saved = config.to_dict()
        assert (
            VaswaniTransformerConfig.from_dict(json.loads(config.to_json_string())).to_dict()
            == saved
        )
        if config.num_encoder_layers + config.num_decoder_layers < 9:
            with torch.device("meta"):
                VaswaniTransformerModel(config)
        return
    assert any(name in error for name in overrides), error


# ---- recipes ----

RECIPE_FIELDS = {field.name: field for field in dataclasses.fields(Recipe)}


@fuzz(12_000, overrides=changes(list(RECIPE_FIELDS)))
def test_any_values_make_a_recipe_that_survives_saving_or_are_refused_by_name(
    tmp_path_factory, overrides
):
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
