# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How sentences are decoded: the choices of section 6.1, and how a model makes them."""

from __future__ import annotations

from typing import Any, TypeAlias

from transformers import GenerationConfig

from ..search_vaswani_transformer import check_length_penalty, gnmt_length_penalty
from .batches import check_count

# A `PreTrainedModel` that is a `GenerationMixin`, ours or the library's: a type for both at once cannot be written.
GenerativeModel: TypeAlias = Any

# What describes a search: keys of results without `test_`, of recipes and of the generation config.
DECODING = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")


def decoding_config(model: GenerativeModel, **generate_kwargs: Any) -> GenerationConfig:
    """What `model.generate` would decode by if it got these arguments, checked as it would check them."""
    given = generate_kwargs.pop("generation_config", None)
    config: GenerationConfig = model._prepare_generation_config(given, **generate_kwargs)[0]
    return config


def penalty_of(decoding: GenerationConfig, length: int) -> float:
    """What divides the log-probability of a hypothesis of so many tokens, `</s>` included.

    Args:
        decoding: From `decoding_config`, for a model of this package.
        length: Tokens, at least 1.

    Paper: section 6.1.
    """
    offset: float = decoding.length_penalty_offset  # type: ignore[attr-defined]  # a key of ours
    return float(gnmt_length_penalty(length, decoding.length_penalty, offset))


def decoding_overrides(
    *,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    length_penalty_offset: float | None = None,
    max_new_tokens_over_source: int | None = None,
) -> dict[str, Any]:
    """Arguments of `generate` for the values that are given; None leaves the model's own.

    Args:
        num_beams: Hypotheses kept for each sentence; 1 is greedy search.
        length_penalty: Alpha of the length penalty.
        length_penalty_offset: Its offset; 5 is GNMT's, 0 divides by length^alpha.
        max_new_tokens_over_source: Output limit in tokens beyond the source's length.

    Raises:
        ValueError: A value is out of range.
    """
    if num_beams is not None:
        check_count("num_beams", num_beams, "The paper uses 4; 1 is greedy search.")
    check_length_penalty(length_penalty, length_penalty_offset)
    if max_new_tokens_over_source is not None:
        check_count("max_new_tokens_over_source", max_new_tokens_over_source, "The paper uses 50.", least=0)
    values = (num_beams, length_penalty, length_penalty_offset, max_new_tokens_over_source)
    return {name: value for name, value in zip(DECODING, values, strict=True) if value is not None}


def check_num_best(num_best: int, num_beams: int, name: str = "num_best") -> None:
    """Raises ValueError unless so many translations can be had from so many beams; `name` is what errors call them."""
    check_count(name, num_best, "Pass a larger number.")
    if num_best > num_beams:
        raise ValueError(
            f"`{name}` must be at most `num_beams`, which is {num_beams}, got {num_best}. Raise `num_beams`, or ask "
            "for fewer translations."
        )
