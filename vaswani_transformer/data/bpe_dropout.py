# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""BPE-dropout: the same text in new subwords in every epoch (Provilkov et al. 2020)."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from .preparation import pair_lengths

SIDES = {"both": ("input_ids", "labels"), "source": ("input_ids",), "target": ("labels",)}

_KNOWN_MERGES = 2**16  # number of results in the cache of `_merge`, about 100 MB
_NO_MERGE = 2**31  # rank of a pair of symbols that cannot be merged, above all other ranks
_SAMPLED_PAIRS = 1000  # number of pairs from which the growth of lengths is estimated


class BpeDropout:
    """Choose new subwords for a pair, by leaving out merges of byte-pair encoding at random.

    The choice depends only on the seed, the epoch and the position of the pair. So a resumed run
    equals an uninterrupted one. The `tokenizers` library also has BPE-dropout, but takes no
    seed. Symbols are merged only within the pieces into which the tokenizer's pre-tokenizer splits
    a text. Added tokens do not change. If a text was truncated inside a character, its tokens do
    not change either.

    Args:
        tokenizer: Tokenizer with plain byte-level byte-pair encoding.
        rate: Probability that a merge is left out each time it is considered, in [0, 1). Provilkov
            et al. use 0.1.
        side: Side that gets new subwords, "source", "target" or "both".
        seed: Seed of the random numbers.

    Raises:
        ValueError: The tokenizer does not use plain byte-level byte-pair encoding.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, rate: float, side: str = "both", seed: int = 0
    ) -> None:
        rules = (
            json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {"model": {}}
        )
        model, decoder = rules["model"], rules.get("decoder") or {}
        is_byte_level = model.get("type") == "BPE" and decoder.get("type") == "ByteLevel"
        unlike = ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
        if not is_byte_level or any(model[name] for name in unlike):
            raise ValueError(
                "`bpe_dropout` needs a tokenizer of plain byte-level byte-pair encoding, got one "
                f"with the model {model.get('type')} and the decoder {decoder.get('type')}. Set it "
                "to 0, or train a tokenizer with `vaswani-transformer train-tokenizer`."
            )
        vocab = model["vocab"]
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        added = {token["id"] for token in rules["added_tokens"]}
        self._vocab, self._texts = (
            vocab,
            {token: text for text, token in vocab.items() if token not in added},
        )
        self._backend = tokenizer.backend_tokenizer
        self._log_of_making = math.log1p(-max(rate, 1e-300))
        self._columns, self._seed = SIDES[side], seed

    def __call__(self, row: dict[str, Any], epoch: int, *position: int) -> dict[str, Any]:
        """Return the row with new `input_ids` and `labels` for this epoch.

        Args:
            row: Token ids of a pair.
            epoch: Number of the epoch.
            position: Numbers that say where in the data the row is, for example its index.
        """
        drawn = dict(row)
        draw = random.Random(" ".join(map(str, (self._seed, epoch, *position)))).random
        for column in self._columns:
            drawn[column] = self._draw(drawn[column], draw)
        return drawn

    def mean_lengths(self, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the source and target lengths (N,) that the rows have on average with dropout.

        The lengths are estimates. Each length without dropout is multiplied by the mean growth of
        the source or target lengths, measured on a sample of rows. If a row's estimated source
        length, target length or sum of both exceeds the maximum of the same quantity in `dataset`,
        the row's lengths without dropout are returned instead. So if all rows fit a limit without
        dropout, they also fit the limit with the returned lengths.
        """
        sample = np.linspace(
            0, len(dataset) - 1, min(len(dataset), _SAMPLED_PAIRS), dtype=int
        ).tolist()
        rows = [dataset[number] for number in sample]
        before, after = (
            np.sum(pair_lengths(each), axis=1)
            for each in (rows, [self(row, 0, position) for position, row in enumerate(rows)])
        )
        lengths = np.stack(pair_lengths(dataset), axis=1)
        means = np.round(lengths * (after / before)).astype(np.int64)
        is_long = (means > lengths.max(axis=0)).any(axis=1) | (
            means.sum(axis=1) > lengths.sum(axis=1).max()
        )
        source, target = np.where(is_long[:, None], lengths, means).T
        return source, target

    def _draw(self, ids: Sequence[int], draw: Callable[[], float]) -> list[int]:
        """Split the text of these tokens into subwords again, and return their token ids."""
        drawn: list[int] = []
        for is_text, group in itertools.groupby(ids, self._texts.__contains__):
            tokens = list(group)
            pieces = self._split(tokens) if is_text else []
            for piece in pieces:
                drawn += self._merge(piece, self._draw_left_out(len(piece), draw))
            if not pieces:
                drawn += tokens
        return drawn

    def _split(self, tokens: list[int]) -> list[str]:
        """Return the pieces into which the pre-tokenizer splits the text of these tokens.

        Each piece is a string of byte-level characters. Return an empty list if the text was
        truncated inside a character.
        """
        texts = [self._texts[token] for token in tokens]
        text = self._backend.decoder.decode(texts)
        pieces = [piece for piece, _ in self._backend.pre_tokenizer.pre_tokenize_str(text)]
        is_whole = "".join(pieces) == "".join(texts)
        return pieces if is_whole else []

    def _draw_left_out(self, num_symbols: int, draw: Callable[[], float]) -> frozenset[int]:
        """Choose at random which merges are left out.

        The merges are numbered in the order in which algorithm 1 of Provilkov et al. considers
        them. In a piece of n symbols, at most n - 1 merges can be made. Before each merge that is
        made, the algorithm leaves out at most n - 1 merges, because n symbols have only n - 1 pairs
        of neighbors. So it considers fewer than n^2 merges.
        """
        left_out: list[int] = []
        # The distances between left-out merges have a geometric distribution.
        number = int(math.log(1 - draw()) / self._log_of_making)
        while number < num_symbols - 1 + len(left_out) and len(left_out) < num_symbols**2:
            left_out.append(number)
            number += 1 + int(math.log(1 - draw()) / self._log_of_making)
        return frozenset(left_out)

    @lru_cache(_KNOWN_MERGES)  # noqa: B019  (the object lives as long as the training)
    def _merge(self, piece: str, left_out: frozenset[int]) -> list[int]:
        """Merge the bytes of a piece by algorithm 1 of Provilkov et al., and return token ids.

        `left_out` has the numbers of the merges that are skipped at random. The best merge that is
        not skipped is made, over and over. After each merge, skipped merges become possible again,
        if their symbols still exist.
        """
        symbols = list(piece)
        ranks = [
            self._ranks.get(pair, _NO_MERGE) for pair in itertools.zip_longest(piece, piece[1:])
        ]
        waiting: dict[int, int] = {}
        for number in itertools.count():
            best = min(ranks)
            if best == _NO_MERGE:
                break
            index = ranks.index(best)
            if number in left_out:
                waiting[index] = best
                ranks[index] = _NO_MERGE
                continue
            for other, rank in waiting.items():
                ranks[other] = rank
            waiting.clear()
            symbols[index] += symbols.pop(index + 1)
            del ranks[index]
            if index > 0:
                ranks[index - 1] = self._ranks.get((symbols[index - 1], symbols[index]), _NO_MERGE)
            if index + 1 < len(symbols):
                ranks[index] = self._ranks.get((symbols[index], symbols[index + 1]), _NO_MERGE)
        return [self._vocab[symbol] for symbol in symbols]


class RedrawnPairs(Dataset[dict[str, Any]]):
    """Dataset of tokenized pairs that are split into subwords again in each epoch."""

    def __init__(self, dataset: Any, dropout: BpeDropout) -> None:
        self._dataset, self._dropout = dataset, dropout
        # In shared memory, so that persistent workers of the loader see a new epoch.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch for which subwords are chosen. The loader of accelerate calls this."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        """Return several rows at once. The loader of torch calls this method."""
        several = getattr(self._dataset, "__getitems__", None)
        rows = several(indices) if several else [self._dataset[index] for index in indices]
        epoch = int(self._epoch)
        return [self._dropout(row, epoch, index) for index, row in zip(indices, rows, strict=True)]
