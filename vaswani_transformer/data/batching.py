# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Batches by token count: the same effective batches on any hardware, split into micro-batches for it, and padded.

Shapes: N pairs, B rows of a micro-batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler
from transformers import PreTrainedTokenizerBase

from ..loss_vaswani_transformer import IGNORE_INDEX
from .preparation import UNPADDED

BATCHES_PER_POOL = 100  # effective batches' worth of pairs that are sorted by length together
_SAMPLED_BATCHES = 100  # effective batches that the share of padding is measured on
_EVENED_BATCHES = 20  # the last ones, which share what would be a small remainder
_HALVINGS = 8  # of the search for the limit at which they are equally full

Lengths = Sequence[int] | np.ndarray


class TokenBatchSampler(Sampler[list[int]]):
    """Lists of row numbers, one per micro-batch, for `DataLoader(batch_sampler=...)`.

    An effective batch, which makes one update, holds at most `max_source_tokens` and `max_target_tokens` real tokens
    of pairs of similar length. It depends on the lengths, the seed and the epoch only, so that any number of
    processes and accumulation steps trains the same. It is split into exactly `world_size * accumulation_steps`
    micro-batches, so that the largest padded one is as small as possible; if it has fewer pairs some are empty lists,
    which whoever loads them fills. Micro-batch g * world_size + p is for process p at accumulation step g, as
    accelerate deals them out.

    The lengths alone fix how many batches an epoch has and how long the pairs at each place of a batch are. An epoch
    draws which pair of these lengths goes where, and the order of the batches. No pair is lost or repeated, and the
    last 20 batches share what would be a small remainder.

    Args:
        source_lengths: Tokens of each source sentence, with `</s>`.
        target_lengths: Tokens of each target sentence, with `</s>`.
        max_source_tokens: Real source tokens of one effective batch.
        max_target_tokens: Real target tokens of one effective batch.
        max_padded_tokens: Bound of a micro-batch's rows x (longest source + longest target); None is no bound.
        world_size: Processes that share an effective batch.
        accumulation_steps: Micro-batches of each process in one effective batch, at least; there are as many more as
            `max_padded_tokens` needs.
        seed: Seed of the epochs' draws.

    Raises:
        ValueError: A pair exceeds a limit by itself.

    Example:
        >>> sampler = TokenBatchSampler([3, 4, 9], [3, 5, 8], max_source_tokens=10, max_target_tokens=10)
        >>> len(sampler)
        2

    Paper: section 5.1, batches by approximate length of about 25,000 source and 25,000 target tokens.
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
        lengths = _stack_lengths(source_lengths, target_lengths, max_source_tokens, max_target_tokens)
        limits = np.array([max_source_tokens, max_target_tokens])
        order = _order_by_length(lengths, limits)
        self._starts = _cut_evenly(lengths[order], limits)  # first place of each batch, then N
        batch_of_place = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
        order = order[np.lexsort((*-shape_keys(lengths[order]), batch_of_place))]
        self._lengths = lengths[order]  # of each place, (N, 2), the longer side falling within a batch
        length_ids = lengths[:, 0] * (lengths[:, 1].max() + 1) + lengths[:, 1]
        # one for each pair of lengths, (N,)
        self._length_ids = np.unique(length_ids, return_inverse=True)[1].astype(np.int32)
        self._places_by_length = np.argsort(self._length_ids[order], kind="stable")
        if max_padded_tokens is not None:
            accumulation_steps = max(accumulation_steps, self._steps_within(max_padded_tokens, world_size))
        self.accumulation_steps = accumulation_steps
        self._num_parts = world_size * accumulation_steps
        self._splits: dict[int, list[int]] = {}
        self._first_update = 0
        self.seed = seed
        self.epoch = 0

    @property
    def num_pairs(self) -> int:
        """Pairs of every epoch."""
        return len(self._lengths)

    @property
    def num_effective_batches(self) -> int:
        """Effective batches, which is updates, of every epoch."""
        return len(self._starts) - 1

    @property
    def padding_fraction(self) -> float:
        """Share of padding among the padded tokens of every epoch's micro-batches, both sides together.

        Of many effective batches, 100 that are spread evenly over all lengths stand for all.
        """
        padded = real = 0
        for batch in range(0, self.num_effective_batches, -(-self.num_effective_batches // _SAMPLED_BATCHES)):
            lengths = self._batch_lengths(batch)
            real += int(lengths.sum())
            for part in np.split(lengths, np.cumsum(self._split(batch))[:-1]):
                padded += len(part) * int(part.max(axis=0, initial=0).sum())
        return 1.0 - real / padded

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch whose batches the next iteration yields; it is a function of the epoch, not of history."""
        self.epoch = epoch

    def start_at(self, update: int) -> None:
        """Lets the next iteration, and only that one, begin at an effective batch without making those before it."""
        self._first_update = update

    def __len__(self) -> int:
        """Micro-batches of every epoch, over all processes."""
        return self.num_effective_batches * self._num_parts

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        drawn = rng.permutation(len(self._lengths))
        rows = np.empty_like(drawn)  # pairs of equal lengths exchange their places at random
        rows[self._places_by_length] = drawn[np.argsort(self._length_ids[drawn], kind="stable")]
        first, self._first_update = self._first_update, 0
        for batch in rng.permutation(self.num_effective_batches)[first:].tolist():
            start = int(self._starts[batch])
            for size in self._split(batch):
                yield rows[start : start + size].tolist()
                start += size

    def _split(self, batch: int) -> list[int]:
        """Rows of each micro-batch of one effective batch; the same in every epoch."""
        if batch not in self._splits:
            self._splits[batch] = _split_evenly(self._batch_lengths(batch), self._num_parts)
        return self._splits[batch]

    def _batch_lengths(self, batch: int) -> np.ndarray:
        """Source and target lengths of one effective batch, (rows, 2), the longer side falling."""
        lengths: np.ndarray = self._lengths[self._starts[batch] : self._starts[batch + 1]]
        return lengths

    def _steps_within(self, max_padded_tokens: int, world_size: int) -> int:
        """The fewest accumulation steps that keep every micro-batch of every epoch within `max_padded_tokens`."""
        longest = int(self._lengths.sum(axis=1).max())
        if longest > max_padded_tokens:
            raise ValueError(
                f"`max_padded_tokens` must be at least {longest}, the source and target tokens of the longest pair, "
                f"got {max_padded_tokens}. Drop long pairs with `clean_corpus` or choose a larger budget."
            )
        batches = map(self._batch_lengths, range(self.num_effective_batches))
        return -(-max(len(_split_greedily(lengths, max_padded_tokens)) for lengths in batches) // world_size)


def _stack_lengths(
    source_lengths: Lengths, target_lengths: Lengths, max_source_tokens: int, max_target_tokens: int
) -> np.ndarray:
    """Both lengths of each pair, (N, 2) int64; raises ValueError for a pair that fits no batch."""
    lengths = np.stack([np.asarray(values, dtype=np.int64) for values in (source_lengths, target_lengths)], axis=1)
    for side, column, limit in zip(
        ("source", "target"), lengths.T, (max_source_tokens, max_target_tokens), strict=True
    ):
        if column.min() < 1 or column.max() > limit:
            raise ValueError(
                f"`{side}_lengths` must lie between 1 and `max_{side}_tokens` = {limit}, got {column.min()} to "
                f"{column.max()}. Drop long pairs with `clean_corpus` or choose a larger limit."
            )
    return lengths


def _order_by_length(lengths: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Rows in an order whose neighbours have longer sides of similar length: shuffled, then sorted inside big pools.

    Only the longer side counts. Sorting by the shorter one as well would put all pairs of the same two lengths, the
    only ones that change places between epochs, into the same batch.

    Pools alternate between ascending and descending, so that neighbours stay alike where two pools meet.
    """
    num_batches = (lengths.sum(axis=0) / limits).max()
    num_pools = max(1, round(num_batches / BATCHES_PER_POOL))
    shuffled, longer = np.random.default_rng(0).permutation(len(lengths)), lengths.max(axis=1)
    pools = []
    for number, pool in enumerate(np.array_split(shuffled, num_pools)):
        pool = pool[np.argsort(longer[pool], kind="stable")]
        pools.append(pool[::-1] if number % 2 else pool)
    return np.concatenate(pools)


def shape_keys(lengths: np.ndarray) -> np.ndarray:
    """Sort keys of micro-batches, for `np.lexsort`, (2, N): the longer side, then how much longer the source is.

    The second runs up and down in turn, so that neighbours stay alike where the longer side changes. Pairs with a long
    source and pairs with a long target do not meet, so that micro-batches pad less than when sorted by the sum.
    """
    source, target = lengths.T
    longer = np.maximum(source, target)
    return np.stack([np.where(longer % 2, source - target, target - source), longer])


def cut(lengths: np.ndarray, limits: np.ndarray, max_padded_tokens: int | None = None) -> np.ndarray:
    """Starts of the fewest contiguous batches within all limits, then the number of rows, (num_batches + 1,).

    Args:
        lengths: Source and target length of each row, (N, 2), none above the limits by itself.
        limits: Real source and target tokens of a batch.
        max_padded_tokens: Bound of rows x (longest source + longest target); None is no bound.
    """
    sums = [np.cumsum(lengths[:, side]) for side in (0, 1)]
    starts, done = [0], [0, 0]
    while (start := starts[-1]) < len(lengths):
        end = min(int(np.searchsorted(sums[side], done[side] + limits[side], side="right")) for side in (0, 1))
        if max_padded_tokens is not None:
            end = start + _num_within(lengths[start:end], max_padded_tokens)
        done = [int(sums[side][end - 1]) for side in (0, 1)]
        starts.append(end)
    return np.array(starts)


def _cut_evenly(lengths: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Starts of the fewest contiguous batches within the limits, the last about equally full, then N."""
    starts = cut(lengths, limits)
    before, last = starts[: -_EVENED_BATCHES - 1], starts[-_EVENED_BATCHES - 1 :]
    lengths = lengths[last[0] :]
    low, high = max((lengths / limits).max(), (lengths.sum(axis=0) / limits).max() / (len(last) - 1)), 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        tried = cut(lengths, np.ceil(limits * middle).astype(int))
        if len(tried) == len(last):
            last, high = tried + last[0], middle
        else:
            low = middle
    return np.concatenate([before, last])


def _num_within(lengths: np.ndarray, max_padded_tokens: int) -> int:
    """First rows of (rows, 2) that make one micro-batch whose padded size stays within the bound."""
    lengths = lengths[: max_padded_tokens // int(lengths[0].sum())]
    widths = np.maximum.accumulate(lengths, axis=0).sum(axis=1)
    return int(np.searchsorted(widths * np.arange(1, len(widths) + 1), max_padded_tokens, side="right"))


def _split_greedily(lengths: np.ndarray, max_padded_tokens: int) -> list[int]:
    """Rows of the fewest contiguous micro-batches whose padded size stays within the bound."""
    sizes: list[int] = np.diff(cut(lengths, np.array([np.inf, np.inf]), max_padded_tokens)).tolist()
    return sizes


def _split_evenly(lengths: np.ndarray, num_parts: int) -> list[int]:
    """Rows of exactly `num_parts` contiguous micro-batches, the largest padded size as small as possible."""
    if num_parts == 1:
        return [len(lengths)]
    low = high = max(int(lengths.sum(axis=1).max()), -(-int(lengths.sum()) // num_parts))
    while len(_split_greedily(lengths, high)) > num_parts:
        low, high = high + 1, high + -(-high // 16)
    while low < high:
        middle = (low + high) // 2
        if len(_split_greedily(lengths, middle)) <= num_parts:
            high = middle
        else:
            low = middle + 1
    sizes = _split_greedily(lengths, low)
    while len(sizes) < num_parts and max(sizes) > 1:  # a bound set by one long pair leaves parts over
        largest = int(np.argmax(sizes))
        sizes[largest : largest + 1] = [sizes[largest] // 2, sizes[largest] - sizes[largest] // 2]
    return sizes + [0] * (num_parts - len(sizes))


@dataclass
class TranslationCollator:
    """Makes one batch of tokenised pairs: `input_ids` and `attention_mask` (B, S) and `labels` (B, T).

    Sources are padded with the tokenizer's padding token and labels with -100, both at the end; `attention_mask` is 1
    where to attend. Other columns are left out. Rows without `labels` make a batch without them.

    Args:
        tokenizer: Gives the padding token.

    Raises:
        ValueError: A row is padded already, or its own `attention_mask` hides a token.
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Batch of int64 tensors."""
        if any(0 in row.get("attention_mask", ()) for row in rows):
            raise ValueError(f"`attention_mask` must be 1 everywhere, got 0 in a row. {UNPADDED}")
        source, attended = self._pad([row["input_ids"] for row in rows], self.tokenizer.pad_token_id)
        batch = {"input_ids": source, "attention_mask": attended.long()}
        if rows[0].get("labels") is not None:
            batch["labels"], _ = self._pad([row["labels"] for row in rows], IGNORE_INDEX)
        return batch

    def _pad(self, rows: list[Sequence[int]], value: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows filled up with `value` at the end, (B, longest row), and where they are not filled up."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        real = np.arange(lengths.max()) < lengths[:, None]
        ids = np.concatenate(rows)
        if (ids == self.tokenizer.pad_token_id).any():
            raise ValueError(f"Rows must hold no padding, got the id {self.tokenizer.pad_token_id}. {UNPADDED}")
        padded = np.full(real.shape, value, dtype=np.int64)
        padded[real] = ids
        return torch.from_numpy(padded), torch.from_numpy(real)
