# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What post-norm models are known to diverge on, found before the first update."""

from __future__ import annotations

from typing import Any

from .arguments import VaswaniTransformerTrainingArguments
from .recipes import Recipe

_DEEP = 6  # decoder layers from which post-norm is known to diverge when hurried
_FAR = 4  # times


def dangers(
    args: VaswaniTransformerTrainingArguments,
    config: Any,
    recipe: Recipe | None = None,
    tokens_per_update: tuple[float, float] | None = None,
) -> list[str]:
    """Warnings of fp16, and of a warm-up or batches 4 times away from those of the recipe.

    Args:
        args: What is about to be trained.
        config: Configuration of its model.
        recipe: Recipe of the table that it began with. Without one the values are compared with the paper's, where
            the model is as deep as the paper's.
        tokens_per_update: Source and target tokens that the data give an update on average, if known.
    """
    texts = []
    if args.fp16:
        texts.append("Post-norm transformers tend to diverge in fp16. Train in bf16, or in fp32.")
    if args.max_steps > 0 and (warmup := args.get_warmup_steps(args.max_steps)) > args.max_steps:
        texts.append(
            f"`warmup_steps` of {warmup:,} is more than `max_steps` of {args.max_steps:,}: the learning rate will "
            "never reach its peak. Lower it."
        )
    if recipe is None and getattr(config, "num_decoder_layers", 0) < _DEEP:
        return texts
    whose, recipe = f"recipe {recipe.name}'s" if recipe else "the paper's", recipe or Recipe()
    texts.append(_warmup_danger(args.get_warmup_steps(args.max_steps), recipe.warmup_steps, whose))
    texts.append(_batch_danger(args, tokens_per_update, recipe, whose))
    return [text for text in texts if text]


def _warmup_danger(given: int, wanted: int, whose: str) -> str:
    """What is wrong with a warm-up, or nothing."""
    distance = _distance(given, wanted)
    if not distance:
        return ""
    effect = (
        "post-norm layers may diverge. Raise it, or lower `learning_rate`"
        if given < wanted
        else "much of the training may pass at low rates. Lower it"
    )
    return f"`warmup_steps` of {given:,} is {distance} {whose} {wanted:,}: {effect}."


def _batch_danger(
    args: VaswaniTransformerTrainingArguments, real: tuple[float, float] | None, recipe: Recipe, whose: str
) -> str:
    """What is wrong with the effective batch, as it was asked for or as the data give it, or nothing."""
    sides = ("source", "target")
    asked = [getattr(args, f"max_{side}_tokens_per_batch") for side in sides]
    wanted = [getattr(recipe, f"max_{side}_tokens_per_batch") for side in sides]
    for side, given, own in zip(sides, asked, wanted, strict=True):
        if not (distance := _distance(given, own)):
            continue
        effect = (
            "post-norm layers may diverge or stay behind. Raise it: `max_padded_tokens_per_device` alone is for memory"
            if given < own
            else "updates are few, and `warmup_steps` too many for them. Lower it"
        )
        return f"`max_{side}_tokens_per_batch` of {given:,} is {distance} {whose} {own:,}: {effect}."
    for side, given, own in zip(sides, real or (), wanted, strict=False):
        if distance := _distance(given, own):
            return (
                f"The data give an update {given:,.0f} {side} tokens on average, which is {distance} {whose} {own:,}: "
                "post-norm layers may diverge or stay behind. Train on more data, or with a recipe of smaller batches."
            )
    return ""


def _distance(given: float, wanted: float) -> str:
    """How far a number is from another, where that is far."""
    if given * _FAR <= wanted:
        return "a quarter or less of"
    return f"{_FAR} times or more" if given >= wanted * _FAR else ""
