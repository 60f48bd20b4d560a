# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation of many sentences: batches by length under a token budget, in the order of the input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Sentences tokenised and sorted by length together: enough for batches without padding, little enough for memory.
SENTENCES_PER_CHUNK = 4096
DEFAULT_MAX_TOKENS_PER_BATCH = 4096


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    *,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
    **generate_kwargs: Any,
) -> Iterator[str]:
    """Translations of the sentences, one for each and in their order.

    Sentences are read in chunks of `SENTENCES_PER_CHUNK`, so an endless stream or a large file is never held as a
    whole. Empty and blank sentences become empty strings. Nothing is truncated: a sentence longer than the budget is
    translated whole, alone in its batch.

    Args:
        model: In eval mode; decodes as its generation config says.
        tokenizer: Saved with the model.
        sentences: Source sentences.
        max_tokens_per_batch: Padded source tokens of one batch: number of sentences x longest sentence. It changes
            speed and memory, not what is translated.
        progress: Whether to show a progress bar on stderr.
        total: Number of sentences, if known, for the progress bar.
        **generate_kwargs: Passed to `model.generate`, for example num_beams or length_penalty.

    Raises:
        ValueError: `max_tokens_per_batch` is below 1.

    Example:
        >>> list(translate(model, tokenizer, ["A dog runs.", ""]))
        ['Ein Hund rennt.', '']

    Paper: section 6.1.
    """
    if max_tokens_per_batch < 1:
        raise ValueError(
            f"`max_tokens_per_batch` must be at least 1, got {max_tokens_per_batch}. "
            f"The default is {DEFAULT_MAX_TOKENS_PER_BATCH}."
        )
    return _translate_chunks(model, tokenizer, iter(sentences), max_tokens_per_batch, progress, total, generate_kwargs)


def _translate_chunks(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterator[str],
    max_tokens_per_batch: int,
    progress: bool,
    total: int | None,
    generate_kwargs: dict[str, Any],
) -> Iterator[str]:
    with tqdm(total=total, unit=" sentences", desc="translating", disable=not progress) as bar:
        while chunk := list(itertools.islice(sentences, SENTENCES_PER_CHUNK)):
            translations = [""] * len(chunk)
            numbers = [number for number, sentence in enumerate(chunk) if sentence.strip()]
            bar.update(len(chunk) - len(numbers))
            ids = _tokenize(tokenizer, [chunk[number] for number in numbers])
            for batch in length_batches([len(row) for row in ids], max_tokens_per_batch):
                texts = _translate_batch(model, tokenizer, [ids[row] for row in batch], generate_kwargs)
                for row, text in zip(batch, texts, strict=True):
                    translations[numbers[row]] = text
                bar.update(len(batch))
            yield from translations


def length_batches(lengths: list[int], max_tokens_per_batch: int) -> Iterator[list[int]]:
    """Indices grouped by length, longest first, so that rows x longest row stays within the budget.

    Args:
        lengths: Tokens of each sentence, each at least 1.
        max_tokens_per_batch: Padded tokens of one batch; a longer sentence forms a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        num_rows = max(1, max_tokens_per_batch // lengths[order[start]])
        yield order[start : start + num_rows]
        start += num_rows


def _tokenize(tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> list[list[int]]:
    """Token ids of each sentence, whole and with `</s>`."""
    if not sentences:
        return []
    return tokenizer(sentences, truncation=False, padding=False, verbose=False)["input_ids"]


@torch.inference_mode()
def _translate_batch(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    ids: list[list[int]],
    generate_kwargs: dict[str, Any],
) -> list[str]:
    """Texts of the best translation of each row of token ids."""
    longest = max(len(row) for row in ids)
    input_ids = torch.full((len(ids), longest), tokenizer.pad_token_id, dtype=torch.long)  # (B, S)
    attention_mask = torch.zeros_like(input_ids)
    for number, row in enumerate(ids):
        input_ids[number, : len(row)] = torch.tensor(row)
        attention_mask[number, : len(row)] = 1
    output = model.generate(
        input_ids=input_ids.to(model.device), attention_mask=attention_mask.to(model.device), **generate_kwargs
    )
    return tokenizer.batch_decode(output, skip_special_tokens=True)


def decoding_overrides(
    *,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    max_new_tokens_over_source: int | None = None,
) -> dict[str, Any]:
    """Arguments of `generate` for the values that are given; None leaves the model's own.

    Args:
        num_beams: Hypotheses kept for each sentence; 1 is greedy search.
        length_penalty: Alpha of the length penalty.
        max_new_tokens_over_source: Output limit in tokens beyond the source's length.

    Raises:
        ValueError: A value is out of range.
    """
    if num_beams is not None and num_beams < 1:
        raise ValueError(f"`num_beams` must be at least 1, got {num_beams}. The paper uses 4; 1 is greedy search.")
    if length_penalty is not None and not math.isfinite(length_penalty):
        raise ValueError(f"`length_penalty` must be a finite number, got {length_penalty}. The paper uses 0.6.")
    if max_new_tokens_over_source is not None and max_new_tokens_over_source < 0:
        raise ValueError(
            f"`max_new_tokens_over_source` must be at least 0, got {max_new_tokens_over_source}. The paper uses 50."
        )
    given = {
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "max_new_tokens_over_source": max_new_tokens_over_source,
    }
    return {name: value for name, value in given.items() if value is not None}
