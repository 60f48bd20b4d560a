# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Tiny models and a few sentences for all tests, and the parameters of tests for GPUs."""

import pytest
import torch

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration

GPU = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    ],
)
ON_CPU_AND_GPU = pytest.mark.parametrize("where", ["cpu", GPU])
SENTENCES = [
    "A dog runs in the park.",
    "Ein Hund rennt im Park.",
    "Two women read a book.",
    "Zwei Frauen lesen ein Buch.",
]
SMALLEST = {
    "d_model": 16,
    "d_ff": 32,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}


def write_sentences(folder, *names, copies=10):
    """Writes the aligned texts NAME.en and NAME.de."""
    for name in names:
        for number, language in enumerate(("en", "de")):
            lines = SENTENCES[number::2] * copies
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_config(**overrides) -> VaswaniTransformerConfig:
    """D 16, H 2, 2+2 layers, no dropout."""
    sizes = {**SMALLEST, "num_encoder_layers": 2, "num_decoder_layers": 2, "vocab_size": 300}
    return VaswaniTransformerConfig(**{**sizes, "dropout": 0.0, **overrides})


def make_model(
    seed: int = 0, scale: float = 1.0, **overrides
) -> VaswaniTransformerForConditionalGeneration:
    """A seeded tiny model in eval mode that decodes as a trained one; `scale` sharpens its output
    distribution.
    """
    torch.manual_seed(seed)
    model = VaswaniTransformerForConditionalGeneration(make_config(**overrides)).eval()
    model.set_default_search()
    with torch.no_grad():
        model.lm_head.weight.mul_(scale)
    return model


def strip_white_space(text: str) -> str:
    """A text without Unicode's white space around it, which Python's `strip` takes for more than it
    is.
    """
    return text.strip(
        "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
        + "".join(map(chr, range(0x2000, 0x200B)))
    )
