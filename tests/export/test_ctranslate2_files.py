# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`Translator` opens an export of one model, and refuses others."""

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


def test_a_folder_that_is_no_export_says_how_to_make_one(save_model, tmp_path):
    for folder in (tmp_path / "out", save_model()[1]):
        with pytest.raises(ValueError, match="`folder` must be an export .* Make one: vaswani-transformer export"):
            Translator(folder)


def test_settings_that_have_no_effect_are_told(save_model, tmp_path, caplog):
    model, folder = save_model()
    model.generation_config.update(repetition_penalty=1.2, early_stopping=True)
    model.save_pretrained(folder)
    with caplog.at_level(logging.WARNING):
        Translator(export_ctranslate2(folder, tmp_path / "out"))
    assert "early_stopping=True, repetition_penalty=1.2, which have no effect here" in caplog.text


def test_a_model_whose_tokenizer_alone_knows_the_end_is_opened(out):
    change(out / "generation_config.json", lambda config: config.pop("eos_token_id"))
    assert Translator(out)("A dog.")
