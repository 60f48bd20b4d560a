# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Token-bounded batches from a stream of pairs, with exact resume."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import datasets
import numpy as np
import torch
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from transformers import PreTrainedTokenizerBase

from .batching import cut, shape_keys
from .bpe_dropout import BpeDropout
from .preparation import (
    CleaningReport,
    CleaningRules,
    check_pairs,
    check_token_ids,
    encode_pairs,
    pair_lengths,
)

_ROWS_PER_READ = 1000

Row = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """Settings of a `StreamLoader`.

    A state can be loaded only with the settings that it was saved with. The number of workers is
    taken from the state.

    Args:
        max_source_tokens: Largest number of source tokens in one micro-batch, with `</s>` and
            without padding.
        max_target_tokens: Largest number of target tokens in one micro-batch, with `</s>` and
            without padding.
        max_padded_tokens: Upper bound on rows * (longest source + longest target) of a micro-batch;
            None means no bound.
        num_processes: Number of processes that share the stream.
        process_index: Index of this process, from 0.
        num_workers: Number of loader workers of each process. If it is 0, the process itself reads.
        seed: Seed of the order of the pairs.
        batches_per_pool: Size of a shuffle pool, as a number of full micro-batches.
    """

    max_source_tokens: int
    max_target_tokens: int
    max_padded_tokens: int | None = None
    num_processes: int = 1
    process_index: int = 0
    num_workers: int = 0
    seed: int = 0
    batches_per_pool: int = 100

    @property
    def num_readers(self) -> int:
        """Number of readers that each process has: its workers, or 1 if it reads itself."""
        return max(1, self.num_workers)

    @property
    def limits(self) -> np.ndarray:
        """Maximum numbers of source, target and padded tokens in any one micro-batch, (3,)."""
        return np.array(
            [self.max_source_tokens, self.max_target_tokens, self.max_padded_tokens or np.inf]
        )


class StreamLoader:
    """Endless token-bounded micro-batches of a stream, for one of several processes.

    Each worker of each process is a reader. If the number of shards is a multiple of the number n
    of readers, each reader reads its share of the shards. Otherwise each reader reads every n-th
    pair. So every pair is read once per epoch. A reader fills a pool with consecutive pairs, sorts
    the pool by length and cuts it into micro-batches. The order of the micro-batches depends only
    on the seed, the epoch, the pool and the reader.

    For each reader, the state has the position in the stream where the reader's pool starts, and
    the number of micro-batches of the pool that were yielded. Micro-batches that workers have
    prepared ahead do not count. After a resume, the reader fills the same pool again. So the stream
    must yield the same pairs in the same order each time. Do not use `IterableDataset.shuffle`,
    which does not save its buffer.

    Args:
        dataset: Stream with the text columns `source` and `target`, or with the token ids
            `input_ids` and `labels`. It must not be split by process yet.
        collator: Makes a batch from a list of rows with `input_ids` and `labels`.
        settings: Size of the batches, processes, workers and seed.
        rules: Limits on each pair. A pair that is too long for any micro-batch is dropped, too.
        tokenizer: Encodes text. It may be None for a stream of token ids.
        vocab_size: Size of the model's vocabulary. Ids outside it raise an error; None means that
            ids are not checked.
        bpe_dropout: Draws new subwords for each pair in each epoch; None leaves the subwords
            unchanged.
        **loader_options: Further arguments of `DataLoader`, for example `pin_memory`.

    Raises:
        ValueError: While reading, if an id is outside the vocabulary, if a reader drops all pairs
            of an epoch, or if the loaded state does not fit the stream.

    Example:
        >>> settings = StreamSettings(max_source_tokens=25_000, max_target_tokens=25_000)
        >>> collator = TranslationCollator(tokenizer)
        >>> loader = StreamLoader(stream, collator, settings, tokenizer=tokenizer)

    Paper: section 5.1, batches by approximate length.
    """

    def __init__(
        self,
        dataset: datasets.IterableDataset,
        collator: Callable[[list[Row]], Any],
        settings: StreamSettings,
        *,
        rules: CleaningRules | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        vocab_size: int | None = None,
        bpe_dropout: BpeDropout | None = None,
        **loader_options: Any,
    ):
        self.settings = settings
        self._options = loader_options
        rules = replace(
            rules or CleaningRules(),
            max_source_tokens_per_batch=settings.max_source_tokens,
            max_target_tokens_per_batch=settings.max_target_tokens,
            max_padded_tokens=settings.max_padded_tokens,
        )
        self._source = _Reader(
            dataset, collator, settings, rules, tokenizer, vocab_size, bpe_dropout
        )
        self._states = [_ReaderState() for _ in range(settings.num_readers)]
        self._next_reader = 0

    def __iter__(self) -> Iterator[Any]:
        """Continue after the last batch that was yielded."""
        self._source.states, self._source.first = list(self._states), self._next_reader
        loader = DataLoader(
            self._source,
            batch_size=None,
            collate_fn=_unchanged,  # Workers need a function that can be pickled.
            num_workers=self.settings.num_workers,
            # Without this generator, the loader would draw the workers' seed from torch's global
            # generator, which dropout uses, too.
            generator=torch.Generator(),
            **self._options,
        )
        for batch, state in loader:
            self._states[self._next_reader] = state
            self._next_reader = (self._next_reader + 1) % self.settings.num_readers
            yield batch

    @property
    def report(self) -> CleaningReport:
        """Numbers of pairs that this process has kept and dropped so far, over all epochs."""
        return sum((state.report for state in self._states), CleaningReport(0, {}))

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last batch that was yielded, for `load_state_dict`.

        The state can be written as JSON.
        """
        readers = [asdict(state) for state in self._states]
        return {
            "settings": asdict(self.settings),
            "next_reader": self._next_reader,
            "readers": readers,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration continue where another loader stopped.

        Both loaders must have the same stream and settings. Only the number of workers may differ.
        If it differs, this loader takes the number of workers from the state, because each worker
        has its own position.

        Args:
            state: Result of the other loader's `state_dict`.

        Raises:
            ValueError: The state was saved with other settings. The message names these settings.
        """
        other = state["settings"]
        settings = replace(self.settings, num_workers=other["num_workers"])
        own = asdict(settings)
        changed = [name for name in own if other.get(name) != own[name]]
        if changed:
            wanted = {name: own[name] for name in changed}
            got = {name: other.get(name) for name in changed}
            raise ValueError(
                f"`state` must be that of a stream with {wanted}, got one with {got}. Resume with "
                "the same numbers of processes and accumulation steps, token budgets and seed."
            )
        self.settings = self._source.settings = settings
        self._states = [_ReaderState(**reader) for reader in state["readers"]]
        self._next_reader = state["next_reader"]


def _unchanged(item: Any) -> Any:
    return item


def _kinds(position: Mapping[str, Any]) -> list[str]:
    """Return the types of the nested iterables in a stream's state, the outermost first."""
    inside = position.get("examples_iterable")
    if inside is None:
        return []
    return [inside["type"], *_kinds(inside)]


@dataclass(frozen=True)
class _ReaderState:
    """Position of a reader in a stream.

    Attributes:
        epoch: Index of the pass over the stream, from 0.
        pool: Index of the pool within its epoch, from 0.
        position: State of the stream where the pool starts; None means the start of the epoch.
        num_given: Number of micro-batches of the pool that were yielded.
        num_kept: Number of pairs kept up to the end of the pool, over all epochs.
        dropped: Number of pairs dropped up to the end of the pool, by reason.
    """

    epoch: int = 0
    pool: int = 0
    position: dict[str, Any] | None = None
    num_given: int = 0
    num_kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def report(self) -> CleaningReport:
        return CleaningReport(self.num_kept, self.dropped)


@dataclass(eq=False)
class _Reader(IterableDataset[tuple[Any, _ReaderState]]):
    """Dataset of one reader's batches, each with the reader's state after the batch.

    Every worker has a copy of this dataset. In each worker, the copy acts as one reader. The worker
    id and `first` select this reader.
    """

    dataset: datasets.IterableDataset
    collator: Callable[[list[Row]], Any]
    settings: StreamSettings
    rules: CleaningRules
    tokenizer: PreTrainedTokenizerBase | None
    vocab_size: int | None
    bpe_dropout: BpeDropout | None
    states: list[_ReaderState] = field(default_factory=list)
    # Index of the reader that yields the next batch. Worker 0 acts as this reader, because a
    # `DataLoader` takes its first batch from worker 0.
    first: int = 0

    def __iter__(self) -> Iterator[tuple[Any, _ReaderState]]:
        worker = get_worker_info()
        number = (self.first + (worker.id if worker else 0)) % self.settings.num_readers
        reader = self.settings.process_index * self.settings.num_readers + number
        num_readers = self.settings.num_processes * self.settings.num_readers
        # This reader's shards, or every n-th pair.
        part = split_dataset_by_node(self.dataset, reader, num_readers)
        state = self.states[number]
        while True:
            before = state
            state = yield from self._read_epoch(part, reader, before)
            if state.num_kept == before.num_kept and before.num_given == 0:
                raise ValueError(
                    f"The data must hold a pair to keep for each of {num_readers} readers "
                    f"(processes x workers), got none for reader {reader}: {state.report}. Use "
                    "fewer workers or processes, or raise the limits on pairs."
                )

    def _read_epoch(
        self, part: datasets.IterableDataset, reader: int, state: _ReaderState
    ) -> Generator[tuple[Any, _ReaderState], None, _ReaderState]:
        """Yield the remaining batches of an epoch, each with the state after the batch.

        Return the state at the start of the next epoch.
        """
        part.set_epoch(state.epoch)
        if state.position is not None and _kinds(state.position) != _kinds(part.state_dict()):
            raise ValueError(
                "`state` must be that of the same stream, got one that is read differently: 0.2.0 "
                "read JSON lines in another way. Resume with the version that started the "
                "training, or start again."
            )
        part.load_state_dict(state.position)
        reads = part.iter(batch_size=_ROWS_PER_READ)
        while True:
            pool = self._fill(reads, state, reader)
            if pool is None:
                return replace(state, epoch=state.epoch + 1, pool=0, position=None)
            rows, report = pool
            if state.num_given == 0:  # if not 0, the state already counts the pairs of this pool
                total = state.report + report
                state = replace(state, num_kept=total.num_kept, dropped=total.dropped)
            batches = self._cut(
                rows, np.random.default_rng([self.settings.seed, state.epoch, state.pool, reader])
            )
            for number in range(state.num_given, len(batches)):
                yield (
                    self.collator([rows[row] for row in batches[number]]),
                    replace(state, num_given=number + 1),
                )
            state = replace(state, pool=state.pool + 1, position=part.state_dict(), num_given=0)

    def _fill(
        self, reads: Iterator[Mapping[str, list[Any]]], state: _ReaderState, reader: int
    ) -> tuple[list[Row], CleaningReport] | None:
        """Return the pairs of the next pool, and the numbers of kept and dropped pairs.

        Return None at the end of the epoch.
        """
        pool: list[Row] = []
        report, num_tokens, has_read = CleaningReport(0, {}), np.zeros(2, dtype=np.int64), False
        full = self.settings.batches_per_pool * self.settings.limits
        for read in reads:
            has_read = True
            if not {"input_ids", "labels"} <= set(read):
                read = encode_pairs(read, self.tokenizer)
            sides = [
                [np.asarray(ids, dtype=np.int32) for ids in read[name]]
                for name in ("input_ids", "labels")
            ]
            rows = [
                {"input_ids": source, "labels": target}
                for source, target in zip(*sides, strict=True)
            ]
            if self.vocab_size is not None:
                check_token_ids(
                    rows, self.vocab_size, getattr(self.tokenizer, "pad_token_id", None)
                )
            lengths = np.stack(pair_lengths(rows), axis=1)
            dropped, counts = check_pairs(lengths[:, 0], lengths[:, 1], self.rules)
            kept = [row for row, drop in zip(rows, dropped.tolist(), strict=True) if not drop]
            if self.bpe_dropout is not None:
                kept = [
                    self._redraw(row, state, reader, len(pool) + position)
                    for position, row in enumerate(kept)
                ]
            pool += kept
            report = report + counts
            num_tokens += np.sum(pair_lengths(kept), axis=1)
            if (np.array([*num_tokens, num_tokens.sum()]) >= full).any():
                break
        return (pool, report) if has_read else None

    def _redraw(self, row: Row, state: _ReaderState, reader: int, position: int) -> Row:
        """Return the row with new random subwords.

        If the new subwords fit no micro-batch, return the row unchanged.
        """
        assert self.bpe_dropout is not None
        drawn = self.bpe_dropout(row, state.epoch, reader, state.pool, position)
        source, target = len(drawn["input_ids"]), len(drawn["labels"])
        return (
            drawn
            if (np.array([source, target, source + target]) <= self.settings.limits).all()
            else row
        )

    def _cut(self, rows: list[Row], rng: np.random.Generator) -> list[list[int]]:
        """Cut a pool into micro-batches (lists of row indices); return them in random order."""
        if not rows:
            return []
        lengths = np.stack(pair_lengths(rows), axis=1)
        order = rng.permutation(len(rows))
        order = order[np.lexsort(shape_keys(lengths[order]))]
        starts = cut(lengths[order], self.settings.limits[:2], self.settings.max_padded_tokens)
        batches = np.split(order, starts[1:-1])
        return [batches[number].tolist() for number in rng.permutation(len(batches))]
