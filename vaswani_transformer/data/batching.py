# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Token-bounded batches: the same on any hardware, split into padded micro-batches.

Shapes: N pairs, B rows of a micro-batch, S source length, T target length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler
from transformers import PreTrainedTokenizerBase

from ..loss_vaswani_transformer import IGNORE_INDEX
from .preparation import UNPADDED

# Size, in effective batches, of the pools within which pairs are sorted by length.
BATCHES_PER_POOL = 100
_SAMPLED_BATCHES = 100  # largest number of effective batches in the estimate of the padding
# Number of batches at the end that are made about equally full, so that none is a small remainder.
_EVENED_BATCHES = 20
_HALVINGS = 8  # steps of the bisection that finds a common limit for these batches

Lengths = Sequence[int] | np.ndarray


class TokenBatchSampler(Sampler[list[int]]):
    """Sampler of token-bounded micro-batches for `DataLoader(batch_sampler=...)`.

    It yields each micro-batch as a list of row numbers. An effective batch is the batch of one
    update. The pairs of an effective batch have similar lengths. In total, these pairs have at most
    `max_source_tokens` source tokens and `max_target_tokens` target tokens, not counting padding.
    The effective batches depend only on the lengths, these two limits, the seed and the epoch. So
    the training is the same for any number of processes and accumulation steps.

    Every effective batch is split into the same number of micro-batches for each process:
    `accumulation_steps`, or more if `max_padded_tokens` requires more. The split makes the largest
    padded size as small as possible. If an effective batch has fewer pairs than micro-batches, some
    micro-batches are empty lists, and the loader must replace them by fill rows. Micro-batch
    g * world_size + p is for process p at accumulation step g. This is the order of accelerate.

    The batches are planned once, for all epochs. The plan has one position for each pair of an
    epoch, and fixes only the source length and the target length at each position. In each epoch,
    the sampler randomly assigns a pair with these two lengths to each position, and shuffles the
    batches. Every epoch has every pair once. The last 20 batches of the plan are about equally
    full, so that no batch is a small remainder.

    Args:
        source_lengths: Number of tokens of each source sentence, with `</s>`.
        target_lengths: Number of tokens of each target sentence, with `</s>`.
        max_source_tokens: Largest number of source tokens in one effective batch, without padding.
        max_target_tokens: Largest number of target tokens in one effective batch, without padding.
        max_padded_tokens: Upper bound on rows * (longest source + longest target) of a micro-batch;
            None means no bound.
        world_size: Number of processes that share an effective batch.
        accumulation_steps: Minimum number of micro-batches of each process in one effective batch.
            If a micro-batch would otherwise exceed `max_padded_tokens`, the sampler uses more.
        seed: Seed of the random draws of all epochs.

    Raises:
        ValueError: There is no pair, a length is below 1, or a pair exceeds a limit by itself.

    Example:
        >>> sampler = TokenBatchSampler(
        ...     [3, 4, 9], [3, 5, 8], max_source_tokens=10, max_target_tokens=10
        ... )
        >>> len(sampler)
        2

    Paper: section 5.1. Pairs are batched by approximate length, and each batch has about 25,000
    source tokens and 25,000 target tokens.
    """

    def __init__(
        self,
        source_lengths: Lengths,
        target_lengths: Lengths,
        *,
        max_source_tokens: int,
        max_target_tokens: int,
        max_padded_tokens: int | None = None,
        world_size: int = 1,
        accumulation_steps: int = 1,
        seed: int = 0,
    ):
        lengths = _stack_lengths(
            source_lengths, target_lengths, max_source_tokens, max_target_tokens
        )
        limits = np.array([max_source_tokens, max_target_tokens])
        order = _order_by_length(lengths, limits)
        # (num_batches + 1,): the first position of each batch in the plan, and N at the end.
        self._starts = _cut_evenly(lengths[order], limits)
        batch_of_position = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
        order = order[np.lexsort((*-shape_keys(lengths[order]), batch_of_position))]
        # (N, 2): the source length and the target length at each position of the plan. Each batch
        # is sorted by the longer side, longest first.
        self._lengths = lengths[order]
        length_ids = lengths[:, 0] * (lengths[:, 1].max() + 1) + lengths[:, 1]
        # (N,): the length id of each row. Rows with the same two lengths have the same length id.
        self._length_ids = np.unique(length_ids, return_inverse=True)[1].astype(np.int32)
        # (N,): all positions of the plan, sorted by the length id at each position.
        self._positions_by_length = np.argsort(self._length_ids[order], kind="stable")
        if max_padded_tokens is not None:
            accumulation_steps = max(
                accumulation_steps, self._steps_within(max_padded_tokens, world_size)
            )
        self.accumulation_steps = accumulation_steps
        self._num_parts = world_size * accumulation_steps
        self._splits: dict[int, list[int]] = {}
        self._first_update = 0
        self.seed = seed
        self.epoch = 0

    @property
    def num_effective_batches(self) -> int:
        """Number of effective batches per epoch, which is also the number of updates per epoch."""
        return len(self._starts) - 1

    @property
    def padding_fraction(self) -> float:
        """Share of padding among all tokens of the micro-batches.

        The share is the same in every epoch. It counts source and target together, and is estimated
        from at most 100 evenly spaced effective batches.
        """
        padded = real = 0
        step = math.ceil(self.num_effective_batches / _SAMPLED_BATCHES)
        for batch in range(0, self.num_effective_batches, step):
            lengths = self._batch_lengths(batch)
            real += int(lengths.sum())
            for part in np.split(lengths, np.cumsum(self._split(batch))[:-1]):
                padded += len(part) * int(part.max(axis=0, initial=0).sum())
        return 1.0 - real / padded

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. transformers calls this before every epoch."""
        self.epoch = epoch

    def start_at(self, update: int) -> None:
        """Skip the effective batches before index `update`, but only in the next iteration."""
        self._first_update = update

    def __len__(self) -> int:
        """Return the number of micro-batches in every epoch, over all processes."""
        return self.num_effective_batches * self._num_parts

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        drawn = rng.permutation(len(self._lengths))
        # Pairs with the same two lengths exchange their positions at random. For simplicity, this
        # example gives each pair only one length: rows 0, 1, 2, 3 have the lengths 3, 5, 3, 5, and
        # so the length ids 0, 1, 0, 1. The plan has two positions for length 3 and then two
        # positions for length 5. If `drawn` is 3, 0, 2, 1, the positions for length 3 get rows 0
        # and 2, in the order of `drawn`. The positions for length 5 get rows 3 and 1.
        rows = np.empty_like(drawn)
        rows[self._positions_by_length] = drawn[np.argsort(self._length_ids[drawn], kind="stable")]
        first = self._first_update
        self._first_update = 0
        for batch in rng.permutation(self.num_effective_batches)[first:].tolist():
            start = int(self._starts[batch])
            for size in self._split(batch):
                yield rows[start : start + size].tolist()
                start += size

    def _split(self, batch: int) -> list[int]:
        """Return the number of rows in each micro-batch of an effective batch.

        The numbers are the same in every epoch.
        """
        if batch not in self._splits:
            self._splits[batch] = _split_evenly(self._batch_lengths(batch), self._num_parts)
        return self._splits[batch]

    def _batch_lengths(self, batch: int) -> np.ndarray:
        """Return the source and target lengths of an effective batch, (rows, 2).

        The rows are sorted by the longer of their two lengths, longest first.
        """
        lengths: np.ndarray = self._lengths[self._starts[batch] : self._starts[batch + 1]]
        return lengths

    def _steps_within(self, max_padded_tokens: int, world_size: int) -> int:
        """Return the fewest accumulation steps with which micro-batches fit `max_padded_tokens`.

        Raises:
            ValueError: A single pair exceeds `max_padded_tokens`.
        """
        longest = int(self._lengths.sum(axis=1).max())
        if longest > max_padded_tokens:
            raise ValueError(
                f"`max_padded_tokens` must be at least {longest}, the source and target tokens of "
                f"the longest pair, got {max_padded_tokens}. Drop long pairs with `clean_corpus` "
                "or choose a larger budget."
            )
        batches = map(self._batch_lengths, range(self.num_effective_batches))
        most = max(len(_split_greedily(lengths, max_padded_tokens)) for lengths in batches)
        return math.ceil(most / world_size)


def _stack_lengths(
    source_lengths: Lengths, target_lengths: Lengths, max_source_tokens: int, max_target_tokens: int
) -> np.ndarray:
    """Return the source and target length of each pair, (N, 2) int64.

    Raises:
        ValueError: There is no pair, or a length is below 1 or exceeds the limit of a batch.
    """
    if len(source_lengths) == 0:
        raise ValueError(
            "The training data must have at least one pair, got none. Check how they were read and "
            "cleaned."
        )
    lengths = np.stack(
        [np.asarray(values, dtype=np.int64) for values in (source_lengths, target_lengths)], axis=1
    )
    for side, column, limit in zip(
        ("source", "target"), lengths.T, (max_source_tokens, max_target_tokens), strict=True
    ):
        if column.min() < 1 or column.max() > limit:
            raise ValueError(
                f"`{side}_lengths` must lie between 1 and `max_{side}_tokens` = {limit}, got "
                f"{column.min()} to {column.max()}. Drop long pairs with `clean_corpus` or choose "
                "a larger limit. A length of 0 means that a row has no tokens on this side."
            )
    return lengths


def _order_by_length(lengths: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the row numbers (N,), shuffled and then sorted by the longer side within large pools.

    The shorter side is ignored, so that the batches can change between epochs. The sampler lets a
    pair exchange its position only with pairs of the same source length and the same target length.
    If the pairs were also sorted by the shorter side, usually all pairs of a pool with the same two
    lengths would be in one batch. An exchange within a batch does not change the batch. So a corpus
    of only one pool would have almost the same batches in every epoch.

    Pools are alternately sorted in ascending and in descending order, so that the lengths are
    similar where two pools meet.
    """
    num_batches = (lengths.sum(axis=0) / limits).max()
    num_pools = max(1, round(num_batches / BATCHES_PER_POOL))
    shuffled = np.random.default_rng(0).permutation(len(lengths))
    longer = lengths.max(axis=1)
    pools = []
    for number, pool in enumerate(np.array_split(shuffled, num_pools)):
        pool = pool[np.argsort(longer[pool], kind="stable")]
        pools.append(pool[::-1] if number % 2 else pool)
    return np.concatenate(pools)


def shape_keys(lengths: np.ndarray) -> np.ndarray:
    """Return the keys (2, N) by which `np.lexsort` sorts pairs before they are cut into batches.

    Pairs are sorted by the length of their longer side. Pairs with the same longer length are
    sorted by their difference, source length minus target length. The differences are in ascending
    order for an odd longer length, and in descending order for an even one. So neighboring pairs
    are still similar where the longer length changes. Pairs with a long source and pairs with a
    long target are not mixed, so micro-batches have less padding than after sorting by the sum of
    both lengths.

    Args:
        lengths: (N, 2) source and target lengths.
    """
    source, target = lengths.T
    longer = np.maximum(source, target)
    return np.stack([np.where(longer % 2, source - target, target - source), longer])


def cut(
    lengths: np.ndarray, limits: np.ndarray, max_padded_tokens: int | None = None
) -> np.ndarray:
    """Cut rows into the fewest contiguous batches within all limits.

    Args:
        lengths: (N, 2) source and target length of each row. No single row exceeds a limit.
        limits: (2,) largest numbers of source and target tokens in a batch, without padding.
        max_padded_tokens: Upper bound on rows * (longest source + longest target); None means no
            bound.

    Returns:
        (num_batches + 1,): the first row of each batch, and N at the end.
    """
    sums = [np.cumsum(lengths[:, side]) for side in (0, 1)]
    starts = [0]
    done = [0, 0]  # source and target tokens of all finished batches
    while (start := starts[-1]) < len(lengths):
        end = min(
            int(np.searchsorted(sums[side], done[side] + limits[side], side="right"))
            for side in (0, 1)
        )
        if max_padded_tokens is not None:
            rows = lengths[start:end][: max_padded_tokens // int(lengths[start].sum())]
            widths = np.maximum.accumulate(rows, axis=0).sum(axis=1)
            sizes = widths * np.arange(1, len(rows) + 1)  # with padding
            end = start + int(np.searchsorted(sizes, max_padded_tokens, side="right"))
        done = [int(sums[side][end - 1]) for side in (0, 1)]
        starts.append(end)
    return np.array(starts)


def _cut_evenly(lengths: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Cut rows like `cut`, but make the last 20 batches about equally full."""
    starts = cut(lengths, limits)
    before = starts[: -_EVENED_BATCHES - 1]
    last = starts[-_EVENED_BATCHES - 1 :]
    lengths = lengths[last[0] :]
    low = max((lengths / limits).max(), (lengths.sum(axis=0) / limits).max() / (len(last) - 1))
    high = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        tried = cut(lengths, np.ceil(limits * middle).astype(int))
        if len(tried) == len(last):
            last = tried + last[0]
            high = middle
        else:
            low = middle
    return np.concatenate([before, last])


def _split_greedily(lengths: np.ndarray, max_padded_tokens: int) -> list[int]:
    """Cut rows into the fewest contiguous micro-batches within a bound, and return their sizes."""
    no_limits = np.array([np.inf, np.inf])
    sizes: list[int] = np.diff(cut(lengths, no_limits, max_padded_tokens)).tolist()
    return sizes


def _split_evenly(lengths: np.ndarray, num_parts: int) -> list[int]:
    """Cut rows into `num_parts` contiguous micro-batches, and return their numbers of rows.

    The largest padded size is as small as possible. If there are fewer rows than micro-batches,
    some micro-batches are empty.
    """
    if num_parts == 1:
        return [len(lengths)]
    longest = int(lengths.sum(axis=1).max())
    low = high = max(longest, math.ceil(int(lengths.sum()) / num_parts))
    while len(_split_greedily(lengths, high)) > num_parts:
        low = high + 1
        high += math.ceil(high / 16)
    while low < high:
        middle = (low + high) // 2
        if len(_split_greedily(lengths, middle)) <= num_parts:
            high = middle
        else:
            low = middle + 1
    sizes = _split_greedily(lengths, low)
    # If a single long pair decides the largest padded size, the rows may fit into fewer parts than
    # `num_parts`. In this case, halve the part with the most rows.
    while len(sizes) < num_parts and max(sizes) > 1:
        largest = int(np.argmax(sizes))
        sizes[largest : largest + 1] = [sizes[largest] // 2, sizes[largest] - sizes[largest] // 2]
    return sizes + [0] * (num_parts - len(sizes))


@dataclass
class TranslationCollator:
    """Collator that pads tokenized pairs to a batch.

    The batch has `input_ids` and `attention_mask` (B, S), and `labels` (B, T) if the rows have
    `labels`. Other columns are left out. Sources are padded with the tokenizer's padding token, and
    labels with -100, both at the end. The mask is 1 for tokens and 0 for padding.

    Args:
        tokenizer: Tokenizer with the padding token.

    Raises:
        ValueError: A row is padded already, or its own `attention_mask` hides a token.
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return the batch as int64 tensors."""
        if any(0 in row.get("attention_mask", ()) for row in rows):
            raise ValueError(f"`attention_mask` must be 1 everywhere, got 0 in a row. {UNPADDED}")
        source, attended = self._pad(
            [row["input_ids"] for row in rows], self.tokenizer.pad_token_id
        )
        batch = {"input_ids": source, "attention_mask": attended.long()}
        if rows[0].get("labels") is not None:
            batch["labels"], _ = self._pad([row["labels"] for row in rows], IGNORE_INDEX)
        return batch

    def _pad(self, rows: list[Sequence[int]], value: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows padded with `value` at the end, and a mask that is True for tokens.

        Both have the shape (B, longest row).
        """
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        real = np.arange(lengths.max()) < lengths[:, None]
        ids = np.concatenate(rows)
        if (ids == self.tokenizer.pad_token_id).any():
            raise ValueError(
                f"Rows must hold no padding, got the id {self.tokenizer.pad_token_id}. {UNPADDED}"
            )
        padded = np.full(real.shape, value, dtype=np.int64)
        padded[real] = ids
        return torch.from_numpy(padded), torch.from_numpy(real)
