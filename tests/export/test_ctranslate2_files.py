# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`Translator` opens a whole export of one model, and names the file of any other."""

import json
import logging

import pytest

pytest.importorskip("ctranslate2", reason="the extra export is not installed")

from vaswani_transformer.export import Translator, export_ctranslate2


@pytest.fixture
def out(save_model, tmp_path):
    """An export, to break."""
    return export_ctranslate2(save_model()[1], tmp_path / "out")


def change(path, change_content):
    """Changes what a JSON file holds."""
    content = json.loads(path.read_text())
    change_content(content)
    path.write_text(json.dumps(content))


def test_a_folder_that_is_not_there_says_how_to_make_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="which does not exist. Make one: vaswani-transformer export --model"):
        Translator(tmp_path / "out")


def test_a_model_that_is_not_exported_says_how_to_export_it(save_model):
    with pytest.raises(
        FileNotFoundError, match="got a model that is not exported in .* Make one: vaswani-transformer"
    ):
        Translator(save_model()[1])


@pytest.mark.parametrize("name", ["tokenizer.json", "generation_config.json", "shared_vocabulary.json"])
def test_an_incomplete_export_names_the_file_it_lacks(out, name):
    (out / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"`folder` must be a complete export, got .* without {name}"):
        Translator(out)


def test_an_export_of_another_model_is_refused(out):
    change(out / "config.json", lambda config: config.pop("vaswani_transformer"))
    with pytest.raises(ValueError, match="`folder` must hold an export of a model of this package, got another's"):
        Translator(out)


def test_broken_weights_are_refused(out):
    (out / "model.bin").write_bytes((out / "model.bin").read_bytes()[:1000])
    with pytest.raises(ValueError, match="`folder` must be a whole export, got a broken"):
        Translator(out)


def test_settings_that_have_no_effect_are_told(save_model, tmp_path, caplog):
    model, folder = save_model()
    model.generation_config.update(repetition_penalty=1.2, early_stopping=True)
    model.save_pretrained(folder)
    with caplog.at_level(logging.WARNING):
        Translator(export_ctranslate2(folder, tmp_path / "out"))
    assert "early_stopping=True, repetition_penalty=1.2, which have no effect here" in caplog.text


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "shared_vocabulary.json", "tokenizer.json", "tokenizer_config.json"],
)
@pytest.mark.parametrize("content", ['{"a": [1', "3", ""], ids=["cut off", "number", "empty"])
def test_a_broken_text_file_is_refused_by_name(out, name, content):
    (out / name).write_text(content)
    with pytest.raises(ValueError, match=rf"/{name}` must (be a JSON file|hold a JSON (object|list)).* Copy it again"):
        Translator(out)


@pytest.mark.parametrize("content", ["{}", '{"added_tokens": [], "model": {"type": "other"}}'])
def test_a_tokenizer_that_is_none_is_refused_by_name(out, content):
    (out / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=rf"`tokenizer\.json` .* those of a tokenizer, got broken ones in {out}"):
        Translator(out)


@pytest.mark.parametrize(
    ("name", "value"),
    [("vocab_size", None), ("vocab_size", "300"), ("num_positions", 0), ("position_encoding", "rotary")],
)
def test_a_description_that_tells_no_model_is_refused(out, name, value):
    change(out / "config.json", lambda config: config["vaswani_transformer"].update({name: value}))
    with pytest.raises(ValueError, match=rf"`vaswani_transformer\.{name}` must be .* got {value!r}\. Copy "):
        Translator(out)


@pytest.mark.parametrize("name", ["vocab_size", "num_positions", "position_encoding"])
def test_an_empty_description_is_refused(out, name):
    change(out / "config.json", lambda config: config["vaswani_transformer"].pop(name))
    with pytest.raises(ValueError, match=rf"`vaswani_transformer\.{name}` must be .* got None"):
        Translator(out)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eos_token_id", 99999),
        ("eos_token_id", -1),
        ("eos_token_id", "</s>"),
        ("eos_token_id", [2, None]),
        ("eos_token_id", []),
        ("max_new_tokens_over_source", -5),
        ("max_new_tokens", 0),
        ("max_length", "20"),
        ("longest_training_source", "long"),
        ("num_beams", "four"),
        ("num_beams", 2.5),
        ("length_penalty", "x"),
        ("length_penalty_offset", -1),
    ],
)
def test_a_generation_config_that_no_search_can_take_is_refused(out, name, value):
    change(out / "generation_config.json", lambda config: config.update({name: value}))
    with pytest.raises(ValueError, match=rf"`{name}` must .* It is in `{out}/generation_config\.json`"):
        Translator(out)


def test_a_model_whose_tokenizer_alone_knows_the_end_is_opened(out):
    change(out / "generation_config.json", lambda config: config.pop("eos_token_id"))
    assert Translator(out)("A dog.")


@pytest.mark.parametrize(
    "change_names",
    [lambda names: names.pop(), lambda names: names.append("longer"), lambda names: names.clear()],
    ids=["one short", "one long", "none"],
)
def test_a_vocabulary_of_another_size_than_the_models_is_refused(out, change_names):
    change(out / "shared_vocabulary.json", change_names)
    with pytest.raises(ValueError, match=r"/shared_vocabulary\.json` must have the 300 names .*, got \d+\. Copy"):
        Translator(out)


def test_a_vocabulary_in_another_order_than_the_tokenizers_is_refused(out):
    change(out / "shared_vocabulary.json", lambda names: names.insert(40, names.pop()))
    with pytest.raises(ValueError, match=r"/shared_vocabulary\.json` must have the tokenizer's names, got another"):
        Translator(out)


def test_a_tokenizer_with_more_entries_than_the_model_is_refused(out, tiny_tokenizer):
    tokenizer = type(tiny_tokenizer).from_pretrained(out)
    tokenizer.add_tokens([f"new{index}" for index in range(300)])
    tokenizer.save_pretrained(out)
    with pytest.raises(ValueError, match=r"must have the tokenizer's names, got another for entry \d+, 'new\d+'"):
        Translator(out)
