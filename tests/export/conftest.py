# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Saved tiny models of many shapes, and texts to translate."""

import pytest
import torch
from tiny import make_model

TEXTS = ["A dog runs in the park.", "A dog.", "Two women read a book in the park.", "Zwei", "Ein Hund liest ein Buch."]


@pytest.fixture
def texts():
    """Five texts of different lengths."""
    return list(TEXTS)


@pytest.fixture
def save_model(tmp_path, tiny_tokenizer):
    """Makes and saves a model in which no bias is zero and which ends its sentences; returns it with its folder."""

    def save(name="model", seed=0, over_source=7, end=1.3, **overrides):
        model = make_model(seed=seed, scale=2.5, **overrides)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter += 0.2 * torch.randn_like(parameter)
            model.lm_head.weight[2] *= end
        model.generation_config.max_new_tokens_over_source = over_source
        folder = tmp_path / name
        model.save_pretrained(folder)
        tiny_tokenizer.save_pretrained(folder)
        return model, folder

    return save
