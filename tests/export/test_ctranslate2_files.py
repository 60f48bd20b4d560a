# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`Translator` opens an export of one model, and refuses others."""

import json
import logging

import pytest

pytest.importorskip("ctranslate2", reason="the extra export is not installed")

from vaswani_transformer.export import Translator, export_ctranslate2


def test_a_model_whose_tokenizer_alone_knows_the_end_is_opened(save_model, tmp_path):
    out = export_ctranslate2(save_model()[1], tmp_path / "out")
    config = json.loads((out / "generation_config.json").read_text())
    del config["eos_token_id"]
    (out / "generation_config.json").write_text(json.dumps(config))
    assert Translator(out)("A dog.")


def test_a_folder_that_is_no_export_says_how_to_make_one(save_model, tmp_path):
    for folder in (tmp_path / "out", save_model()[1]):
        with pytest.raises(ValueError, match="`folder`"):
            Translator(folder)


def test_settings_that_have_no_effect_are_told(export_model, caplog):
    with caplog.at_level(logging.WARNING):
        export_model(search={"repetition_penalty": 1.2, "early_stopping": True})
    assert "early_stopping=True, repetition_penalty=1.2, which have no effect here" in caplog.text
