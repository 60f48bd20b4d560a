# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""BPE-dropout: the same text in other subwords in every epoch (Provilkov et al. 2020)."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from tokenizers import decoders, pre_tokenizers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from .preparation import pair_lengths

SIDES = {"both": ("input_ids", "labels"), "source": ("input_ids",), "target": ("labels",)}

_SPACES = ("\u0120", "\u2581")  # as byte-level and SentencePiece vocabularies write them
_BYTES = set(pre_tokenizers.ByteLevel.alphabet())
_PRE_TOKENIZER = pre_tokenizers.ByteLevel(add_prefix_space=False)
_LONGEST_WORD = 64  # symbols; a longer word keeps its tokens
_MOST_KNOWN = 2**17  # words that are remembered, in about 100 MB

_Word = tuple[int, ...]
_SAMPLED_PAIRS = 1000  # that the growth of lengths is measured on


class BpeDropout:
    """Draws subwords of a text: wherever a merge of byte-pair encoding could be made, it is left out at random.

    What is drawn depends on the seed, the epoch and the pair alone, so that a resumed run equals an undisturbed one;
    `tokenizers`' own dropout cannot be seeded. Words are found in the token ids, by the space in front of them. Added
    tokens, and words of more than 64 bytes, stay as they are.

    Args:
        tokenizer: Of byte-pair encoding.
        rate: Probability that a merge is left out, each time it could be made; the paper on it has 0.1.
        side: "source", "target" or "both".
        seed: Seed of the draws.

    Raises:
        ValueError: If the tokenizer's vocabulary is of another kind.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rate: float, side: str = "both", seed: int = 0) -> None:
        rules = json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {"model": {}}
        model = rules["model"]
        if model.get("type") != "BPE" or model["continuing_subword_prefix"] or model["end_of_word_suffix"]:
            raise ValueError(
                "`bpe_dropout` needs a vocabulary of byte-pair encoding without marks inside words, got "
                f"{type(tokenizer).__name__} with {model.get('type', 'a slow one')}. Set it to 0, or train a "
                "tokenizer with `vaswani-transformer train-tokenizer`."
            )
        vocab = model["vocab"]
        self._merges = {
            (vocab[left], vocab[right]): (rank, vocab[left + right])
            for rank, (left, right) in enumerate(model["merges"])
        }
        added = {token["id"] for token in rules["added_tokens"]}
        self._vocab, self._texts = vocab, {token: text for text, token in vocab.items() if token not in added}
        self._starts = {token for text, token in vocab.items() if text.startswith(_SPACES)} | added
        self.rate, self.columns, self.seed = rate, SIDES[side], seed

    def __call__(self, row: dict[str, Any], epoch: int, *place: int) -> dict[str, Any]:
        """The row with other `input_ids` and `labels`, as drawn for this place in the data in this epoch."""
        drawn = dict(row)
        for column in self.columns:
            draw = random.Random(" ".join(map(str, (self.seed, epoch, *place, column)))).random
            drawn[column] = self._draw(row[column], draw)
        return drawn

    def mean_lengths(self, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
        """Source and target lengths of every row, as `pair_lengths` gives them, times the mean growth in a sample.

        None gets longer than the longest pair is without dropout, so that all fit where that one does.
        """
        sample = np.linspace(0, len(dataset) - 1, min(len(dataset), _SAMPLED_PAIRS), dtype=int).tolist()
        rows = [dataset[number] for number in sample]
        before, after = (
            np.sum(pair_lengths(each), axis=1)
            for each in (rows, [self(row, 0, place) for place, row in enumerate(rows)])
        )
        lengths = np.stack(pair_lengths(dataset), axis=1)
        means = np.round(lengths * (after / before)).astype(np.int64)
        is_long = (means > lengths.max(axis=0)).any(axis=1) | (means.sum(axis=1) > lengths.sum(axis=1).max())
        source, target = np.where(is_long[:, None], lengths, means).T
        return source, target

    def _draw(self, ids: Sequence[int], draw: Callable[[], float]) -> list[int]:
        """Other subwords of the text of these tokens."""
        drawn: list[int] = []
        starts = [place for place, token in enumerate(ids) if token in self._starts]
        for start, end in itertools.pairwise([0, *starts, len(ids)]):
            tokens = tuple(ids[start:end])
            for word in self._split(tokens):
                drawn += self._draw_word(word, draw)
        return drawn

    def _draw_word(self, symbols: _Word, draw: Callable[[], float]) -> _Word:
        """Symbols after the merges; this is algorithm 1 of the paper, which takes the best merge that is left."""
        while True:
            for merged in self._merge(symbols):
                if draw() >= self.rate:
                    symbols = merged
                    break
            else:
                return symbols

    @lru_cache(_MOST_KNOWN)  # noqa: B019  (it lives as long as the training)
    def _split(self, tokens: _Word) -> list[_Word]:
        """Symbols of each word in tokens between two spaces; a long word's are its tokens."""
        texts = [self._texts.get(token, "") for token in tokens]
        whole = "".join(texts)
        if not all(texts) or len(whole) > _LONGEST_WORD or not set(whole) <= self._vocab.keys():
            words = [tokens]
        elif set(whole) <= _BYTES:
            text = decoders.ByteLevel().decode(texts)
            words = [tuple(self._vocab[each] for each in word) for word, _ in _PRE_TOKENIZER.pre_tokenize_str(text)]
        else:
            words = [tuple(self._vocab[each] for each in whole)]
        return words

    @lru_cache(_MOST_KNOWN)  # noqa: B019
    def _merge(self, symbols: _Word) -> list[_Word]:
        """Results of each possible merge of a word, the earliest learned first."""
        pairs = enumerate(itertools.pairwise(symbols))
        merges = sorted(
            (self._merges[pair][0], place, self._merges[pair][1]) for place, pair in pairs if pair in self._merges
        )
        return [(*symbols[:place], new, *symbols[place + 2 :]) for _, place, new in merges]


class RedrawnPairs(Dataset[dict[str, Any]]):
    """Tokenised pairs in subwords that are drawn anew in each epoch."""

    def __init__(self, dataset: Any, dropout: BpeDropout) -> None:
        self._dataset, self._dropout = dataset, dropout
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()  # which workers that live on see change

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch whose subwords are drawn."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        """Several rows at once, as torch's loader asks for them."""
        several = getattr(self._dataset, "__getitems__", None)
        rows = several(indices) if several else [self._dataset[index] for index in indices]
        epoch = int(self._epoch)
        return [self._dropout(row, epoch, index) for index, row in zip(indices, rows, strict=True)]
