# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the page shows for a visitor's text, as plain JSON.

Shapes: N layers, H heads, R rows, C columns.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ..analysis.attention_drawing import MAX_TOKENS, count_tokens
from ..analysis.attention_maps import attention_maps
from ..evaluation.translate import Hypothesis, translate_n_best
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration

logger = logging.get_logger(__name__)

MAX_SOURCE_TOKENS = 512
MAX_CHARACTERS = 10_000


def answer(
    model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase, text: str, num_best: int
) -> dict[str, Any]:
    """The best translations of a text with their attention, or a message that says why there are none.

    Args:
        model: In eval mode.
        tokenizer: Saved with the model.
        text: Whatever was typed.
        num_best: Translations, at most as many as beams.

    Returns:
        A `message`, or `translations`, each with its figures and either `maps` ("cross" and "decoder") or a `note`
        why it has none, and the map `encoder` that they share.

    Paper: sections 3.2.3 and 6.1.
    """
    text = _with_whole_characters(text)
    message = _refusal(model, tokenizer, text)
    if message is not None:
        return {"message": message}
    try:
        (hypotheses,) = translate_n_best(model, tokenizer, [text], num_best)
        return _shown(model, tokenizer, text, hypotheses)
    except (MemoryError, RuntimeError):
        logger.exception("a text could not be translated")
        return {"message": "The server failed on this text, perhaps for lack of memory. Try a shorter one."}


def _with_whole_characters(text: str) -> str:
    """The text with halves of characters, which no encoding has, replaced by "�"."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refusal(
    model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase, text: str
) -> str | None:
    """Why a text is not translated at all; None if it is."""
    longest = MAX_SOURCE_TOKENS
    if model.config.position_encoding == "learned":
        longest = min(longest, model.config.max_position_embeddings)
    if not text.strip():
        return "Type a sentence to translate."
    if len(text) > MAX_CHARACTERS:
        return f"This text has {len(text):,} characters; the page takes up to {MAX_CHARACTERS:,}. Try a shorter one."
    if (num_tokens := count_tokens(text, tokenizer)) > longest:
        return f"This text has {num_tokens:,} tokens; the page takes up to {longest:,}. Try a shorter one."
    return None


def _shown(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    hypotheses: list[Hypothesis],
) -> dict[str, Any]:
    """The hypotheses as JSON, each with the maps of its text."""
    shown: dict[str, Any] = {"message": "", "translations": []}
    seen: dict[str, dict[str, Any]] = {}
    for hypothesis in hypotheses:
        target = hypothesis.text
        if target not in seen:
            note = _reason_for_no_map(tokenizer, source, target)
            seen[target] = {"note": note}
            if note is None:
                maps = attention_maps(model, tokenizer, source, target)
                shown["encoder"] = _packed(maps.encoder, maps.source_tokens, maps.source_tokens)
                seen[target]["maps"] = {
                    "cross": _packed(maps.cross, maps.predicted_tokens, maps.source_tokens),
                    "decoder": _packed(maps.decoder, maps.fed_tokens, maps.fed_tokens),
                }
        figures = {"score": hypothesis.score, "log_prob": hypothesis.log_prob, "length": hypothesis.length}
        shown["translations"].append({"text": target, **figures, **seen[target]})
    return shown if hypotheses else {"message": "The model found no translation of this text."}


def _reason_for_no_map(tokenizer: PreTrainedTokenizerBase, source: str, target: str) -> str | None:
    if not target.strip():
        return "This translation is empty, so there is no attention to show."
    for side, text in (("sentence", source), ("translation", target)):
        if (num_tokens := count_tokens(text, tokenizer)) > MAX_TOKENS:
            return f"This {side} has {num_tokens} tokens; attention is shown for up to {MAX_TOKENS} on each side."
    return None


def _packed(weights: np.ndarray, rows: list[str], columns: list[str]) -> dict[str, Any]:
    """Weights (N, H, R, C) from 0 to 1 as one byte each, with the tokens of both sides."""
    data = np.rint(weights * 255).astype(np.uint8).tobytes()
    num_layers, num_heads = weights.shape[:2]
    packed = base64.b64encode(data).decode("ascii")
    return {"layers": num_layers, "heads": num_heads, "rows": rows, "columns": columns, "weights": packed}
