# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The configuration: the paper's values, presets, names of the library, and refusals."""

import json

import pytest
from tiny import make_config
from transformers import AutoConfig

from vaswani_transformer import VaswaniTransformerConfig


def test_defaults_are_the_papers_base_model():
    config = VaswaniTransformerConfig()
    sizes = (
        config.num_encoder_layers,
        config.num_decoder_layers,
        config.d_model,
        config.d_ff,
        config.num_heads,
    )
    assert sizes == (6, 6, 512, 2048, 8)
    assert (config.d_k, config.d_v, config.dropout, config.vocab_size) == (64, 64, 0.1, 37_000)


def test_misspelt_override_of_a_preset_is_refused():
    with pytest.raises(TypeError, match="got d_modle"):
        VaswaniTransformerConfig.from_preset("base", d_modle=3)


@pytest.mark.parametrize(
    ("library_name", "our_name"),
    [
        ("hidden_size", "d_model"),
        ("num_attention_heads", "num_heads"),
        ("num_hidden_layers", "num_decoder_layers"),
        ("head_dim", "d_k"),
    ],
)
def test_library_names_are_aliases(library_name, our_name):
    config = make_config(num_encoder_layers=3, num_decoder_layers=5, d_k=7)
    assert getattr(config, library_name) == getattr(config, our_name)


def test_widths_of_heads_follow_from_sizes_by_either_name():
    config = VaswaniTransformerConfig(hidden_size=256, num_attention_heads=16)
    assert (config.d_model, config.num_heads, config.d_k, config.d_v) == (256, 16, 16, 16)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"d_model": 15, "d_k": 4, "d_v": 4},
            "`d_model` must be even with sinusoidal positions.*got 15",
        ),
        (
            {"d_model": 16, "num_heads": 3},
            "`d_model` must be divisible by `num_heads` while `d_k` is unset",
        ),
        ({"d_model": 16, "num_heads": 3, "d_k": 4}, "while `d_v` is unset"),
        ({"num_encoder_layers": 0}, "`num_encoder_layers` must be at least 1, got 0"),
        ({"vocab_size": -5}, "`vocab_size` must be at least 1"),
        ({"dropout": 1.0}, r"`dropout` must lie in \[0, 1\), got 1.0"),
        ({"attention_dropout": -0.1}, "`attention_dropout` must lie"),
        ({"d_k": 0}, "`d_k` must be at least 1, got 0"),
        ({"num_hidden_layers": 0}, "`num_decoder_layers` must be at least 1, got 0"),
        ({"position_encoding": "rotary"}, "must be one of sinusoidal, learned, got 'rotary'"),
    ],
)
def test_impossible_values_are_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        make_config(**overrides)


def test_odd_width_is_possible_with_learned_positions():
    assert make_config(d_model=15, d_k=4, d_v=4, position_encoding="learned").d_model == 15


def test_saved_config_names_every_auto_class_and_pipeline(tmp_path):
    make_config(source_language="en", target_language="de").save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert set(saved["auto_map"]) == {"AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM"}
    assert set(saved["custom_pipelines"]) == {"translation", "translation_en_to_de"}


def test_installed_config_asks_for_no_remote_pipeline():
    assert make_config(source_language="en", target_language="de").custom_pipelines == {}


def test_kernel_of_the_hub_is_the_callers_choice_alone(tmp_path):
    kernel = "kernels-community/flash-attn"
    make_config().save_pretrained(tmp_path)
    assert (
        VaswaniTransformerConfig.from_pretrained(
            tmp_path, attn_implementation=kernel
        )._attn_implementation
        == kernel
    )
    saved = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**saved, "attn_implementation": kernel}))
    with pytest.raises(
        ValueError, match="`attn_implementation` must not name a kernel of the Hub in a config.json"
    ):
        VaswaniTransformerConfig.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "given", [{"d_model": 48}, {"hidden_size": 48}, {"num_heads": 4}, {"num_attention_heads": 4}]
)
def test_widths_of_heads_follow_from_sizes_that_are_given_at_loading(given, tmp_path):
    VaswaniTransformerConfig(d_model=32, num_heads=2).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path, **given)
    assert config.d_k == config.d_v == config.d_model // config.num_heads != 16
    assert AutoConfig.from_pretrained(tmp_path, **given, d_k=5).d_v == 16
    # a choice, which stays
    VaswaniTransformerConfig(d_model=32, num_heads=2, d_k=8).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path, **given)
    assert (config.d_k, config.d_v) == (8, 16)
