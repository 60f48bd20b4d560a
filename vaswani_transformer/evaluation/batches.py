# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What is computed for many sentences: read in chunks, batched by length under a token budget, given back in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from numbers import Integral
from typing import Any, TypeAlias, TypeVar

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from ..pipeline_vaswani_transformer import check_text_length

# Sentences tokenised and sorted by length together: enough for batches without padding, little enough for memory.
SENTENCES_PER_CHUNK = 4096
DEFAULT_MAX_TOKENS_PER_BATCH = 4096

Input = TypeVar("Input")
Result = TypeVar("Result")

# One sentence or pair as lists with an entry for each token; no list at all where there is nothing to compute.
Row: TypeAlias = tuple[list[Any], ...]


def compute_in_batches(
    inputs: Iterable[Input],
    encode: Callable[[list[Input], int], list[Row]],
    compute: Callable[[list[list[Row]]], Iterable[list[Result]]],
    *,
    empty: Callable[[], Result],
    max_tokens_per_batch: int,
    chunk_size: int | None = None,
    doing: str | None = None,
    total: int | None = None,
) -> Iterator[Result]:
    """One result for each input, in their order.

    Inputs are read in chunks, so an endless stream or a large file is never held as a whole.

    Args:
        inputs: Sentences, or pairs of them.
        encode: Rows of a chunk, given with the number of inputs before it.
        compute: Results of each batch of rows, for all batches of a chunk.
        empty: Makes the result of a row that holds nothing.
        max_tokens_per_batch: Padded tokens of one batch: number of rows x longest list of any row.
        chunk_size: Inputs that are read, sorted and batched together; None means `SENTENCES_PER_CHUNK`.
        doing: What the progress bar on stderr says; None shows none.
        total: Number of inputs, if known, for the progress bar.

    Raises:
        ValueError: `max_tokens_per_batch` is below 1; raised before anything is read.
    """
    check_count("max_tokens_per_batch", max_tokens_per_batch, "Leave it out for the default.")
    size = SENTENCES_PER_CHUNK if chunk_size is None else chunk_size

    def compute_chunks() -> Iterator[Result]:
        rest = iter(inputs)
        with tqdm(total=total, unit=" sentences", desc=doing, disable=doing is None) as bar:
            for first in itertools.count(step=size):
                if not (chunk := list(itertools.islice(rest, size))):
                    return
                rows = encode(chunk, first)
                results: list[Any] = [None if row else empty() for row in rows]
                numbers = [number for number, row in enumerate(rows) if row]
                bar.update(len(rows) - len(numbers))
                sizes = [max(map(len, rows[number])) for number in numbers]
                groups = [[numbers[index] for index in batch] for batch in length_batches(sizes, max_tokens_per_batch)]
                computed = compute([[rows[place] for place in places] for places in groups])
                for places, found in zip(groups, computed, strict=True):
                    for place, result in zip(places, found, strict=True):
                        results[place] = result
                    bar.update(len(places))
                yield from results

    return compute_chunks()


def check_count(name: str, value: Any, advice: str, *, least: int = 1) -> None:
    """Raises ValueError unless a value is a whole number, and not below the least."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}, got {value!r}. {advice}")


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


def paired(sources: Iterable[str], targets: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of two streams of sentences; raises ValueError where one ends before the other."""
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets)):
        if source is None or target is None:
            got = (f"{number} sources", "more targets") if source is None else ("more sources", f"{number} targets")
            raise ValueError(
                f"`targets` must be as many as `sources`, got {' and '.join(got)}. Align the two line by line."
            )
        yield source, target


def check_lengths(sentences: Iterable[str], first: int) -> None:
    """Raises ValueError for a sentence of more than 65,536 bytes, by its place; `first` is how many were before."""
    for number, sentence in enumerate(sentences, start=first + 1):
        try:
            check_text_length(sentence)
        except ValueError as error:
            raise ValueError(f"{error} It is sentence {number}, counted from 1.") from error


def token_ids(tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> list[list[int]]:
    """Token ids of each sentence, whole and with `</s>`."""
    if not sentences:
        return []
    ids: list[list[int]] = tokenizer(sentences, truncation=False, padding=False, verbose=False)["input_ids"]
    return ids


def padded(rows: list[list[int]], pad_token_id: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, L) token ids on the device, filled up on the right, and their mask, 1 for "attend"."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [pad_token_id] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids.to(device), mask.to(device)
