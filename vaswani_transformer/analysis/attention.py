# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention weights of every head of every layer in one pair of sentences.

Shapes: N layers, H heads, S source length, T target length.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from ..extras import gone
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one pair; each row sums to 1.

    Row t of the decoder belongs to one step: it is fed `fed_tokens[t]` and predicts `predicted_tokens[t]`.

    Args:
        encoder: (N, H, S, S) from each source token to each, in the encoder.
        decoder: (N, H, T, T) from each target token fed to itself and those before it; 0 for those after it.
        cross: (N, H, T, S) from the step that predicts each target token to each source token.
        source_tokens: S readable tokens, `</s>` at the end.
        fed_tokens: T readable tokens, `<s>` and the target without `</s>`.
        predicted_tokens: T readable tokens, the target with `</s>`.
    """

    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    source_tokens: list[str]
    fed_tokens: list[str]
    predicted_tokens: list[str]


def attention_maps(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str,
) -> AttentionMaps:
    """Attention weights of all layers and heads while the model reads `source` and predicts `target`.

    They are computed without dropout and under every attention backend; the model is left as it was.

    Args:
        model: In train or eval mode.
        tokenizer: Saved with the model.
        source: Source sentence.
        target: Its translation, the model's or another.

    Raises:
        ValueError: A sentence is empty or blank.

    Example:
        >>> attention_maps(model, tokenizer, "A dog runs.", "Ein Hund rennt.").cross.shape
        (6, 8, 5, 5)

    Paper: section 3.2.3.
    """
    for name, text in (("source", source), ("target", target)):
        if not text.strip():
            raise ValueError(f"`{name}` must be a sentence, got {text!r}. Pass one with at least one word.")
    source_ids, source_tokens = readable_tokens(tokenizer, source)
    target_ids, target_tokens = readable_tokens(tokenizer, target)
    fed_ids = model.prepare_decoder_input_ids_from_labels(torch.tensor([target_ids], device=model.device))
    with _without_dropout(model), torch.inference_mode():
        outputs = model.model(
            input_ids=torch.tensor([source_ids], device=model.device),
            decoder_input_ids=fed_ids,
            use_cache=False,
            output_attentions=True,  # in this call, each attention computes as "eager" does
        )
    encoder, decoder, cross = (
        torch.cat(weights).cpu().double().numpy()
        for weights in (outputs.encoder_attentions, outputs.decoder_attentions, outputs.cross_attentions)
    )
    fed_tokens = [str(tokenizer.convert_ids_to_tokens(int(fed_ids[0, 0]))), *target_tokens[:-1]]
    return AttentionMaps(encoder, decoder, cross, source_tokens, fed_tokens, target_tokens)


def readable_tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], list[str]]:
    """Token ids of a text with `</s>`, and what a reader sees of each.

    A token is the part of the text that it stands for, without the space in front of a word; one that goes on with a
    word begins with "##", as in other packages. White space of its own is "␣", and tokens that share one character,
    bytes of it, carry their number: "日₁", "##日₂", "##日₃".
    """
    encoded = tokenizer(text, truncation=False, padding=False, verbose=False, return_offsets_mapping=True)
    ids: list[int] = encoded["input_ids"]
    spans: list[tuple[int, int]] = encoded["offset_mapping"]
    shares = [start < end_before <= end for (_, end_before), (start, end) in itertools.pairwise(spans)]
    numbers, tokens = _part_numbers(shares), []
    for token_id, (start, end), shares_before, number in zip(ids, spans, [False, *shares], numbers, strict=True):
        if token_id in tokenizer.all_special_ids:
            tokens.append(str(tokenizer.convert_ids_to_tokens(token_id)))
        else:
            begins = not shares_before and (start == 0 or text[start - 1].isspace() or text[start].isspace())
            tokens.append(_readable(text[start:end], begins) + number)
    return ids, tokens


def _readable(piece: str, begins: bool) -> str:
    """A piece of text as a reader sees it, after "##" unless it `begins` a word or is white space."""
    shown = (piece.strip() or piece or " ").replace(" ", "␣")
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)
    return shown if begins or not piece.strip() else f"##{shown}"


def _part_numbers(shares: Sequence[bool]) -> list[str]:
    """For each token its number among those that share a character, as a subscript; nothing for a whole one.

    Args:
        shares: For each token but the first, whether it shares a character with the one before it.
    """
    numbers, number = [], 0
    for with_previous, with_next in itertools.pairwise([False, *shares, False]):
        number = number + 1 if with_previous else 1
        numbers.append(str(number).translate(_SUBSCRIPTS) if with_previous or with_next else "")
    return numbers


@contextlib.contextmanager
def _without_dropout(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode; every module goes back to its own mode at the end."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:  # parents come first, so that children keep modes of their own
            module.train(mode)


__getattr__ = gone(__name__, "draw_attention", "Use scripts/paper/draw_attention.py of the repository.")
