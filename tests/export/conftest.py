# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Saved tiny models of many shapes, and texts to translate."""

import pytest
import torch
from tiny import make_model
from transformers import pipeline

TEXTS = [
    "A dog runs in the park.",
    "A dog.",
    "Two women read a book in the park.",
    "Zwei",
    "Ein Hund liest ein Buch.",
]


@pytest.fixture
def texts():
    """Five texts of different lengths."""
    return list(TEXTS)


def save(folder, tokenizer, seed=0, over_source=7, end=1.3, search=None, **overrides):
    """Save a model in which no bias is zero and which ends its sentences; return it with its
    folder.
    """
    model = make_model(seed=seed, scale=2.5, **overrides)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn_like(parameter)
        model.lm_head.weight[2] *= end
    for name, value in {"max_new_tokens_over_source": over_source, **(search or {})}.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, folder


def export(model_and_folder, output_dir):
    """Return the model with a `Translator` over its export."""
    from vaswani_transformer.export import Translator, export_ctranslate2

    model, folder = model_and_folder
    return model, Translator(export_ctranslate2(folder, output_dir))


@pytest.fixture
def save_model(tmp_path, tiny_tokenizer):
    """Function that saves a model."""
    return lambda **options: save(tmp_path / "model", tiny_tokenizer, **options)


@pytest.fixture
def export_model(save_model, tmp_path):
    """Function that saves a model and exports it for CTranslate2."""
    return lambda **options: export(save_model(**options), tmp_path / "out")


@pytest.fixture(scope="module")
def both(tmp_path_factory, tiny_tokenizer):
    """A translator over the export of a new model, and the pipeline over the model."""
    folder = tmp_path_factory.mktemp("both")
    translate = export(save(folder / "model", tiny_tokenizer), folder / "out")[1]
    return translate, pipeline("translation", str(folder / "model"))
