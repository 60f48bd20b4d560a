# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Working folders for the console command."""

import pytest
from faults import SENTENCES


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A working directory with two small aligned text files, train.en and train.de."""
    monkeypatch.chdir(tmp_path)
    for language, sentences in SENTENCES.items():
        (tmp_path / f"train.{language}").write_text(
            "\n".join(sentences * 10) + "\n", encoding="utf-8"
        )
    return tmp_path


@pytest.fixture
def model_folder(tmp_path, tiny_model, tiny_tokenizer):
    """A saved untrained model whose translations are short."""
    folder = tmp_path / "model"
    tiny_model.generation_config.max_new_tokens_over_source = 2
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
