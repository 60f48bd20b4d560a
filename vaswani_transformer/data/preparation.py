# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Preparation of corpora for training: tokenization, checks, and removal of unusable pairs.

Shapes: N pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
from datasets.fingerprint import Hasher
from transformers import PreTrainedTokenizerBase

from ..cores import available_cores
from ..loss_vaswani_transformer import IGNORE_INDEX

_FEATURES = datasets.Features(
    {
        "input_ids": datasets.List(datasets.Value("int32")),
        "labels": datasets.List(datasets.Value("int32")),
        "source_length": datasets.Value("int32"),
        "target_length": datasets.Value("int32"),
    }
)
_VERSION = "1"
_PAIRS_PER_PROCESS = 50_000

# ---- tokenization ----


def tokenize_corpus(
    dataset: datasets.Dataset, tokenizer: PreTrainedTokenizerBase, *, num_proc: int | None = None
) -> datasets.Dataset:
    """Tokenize a corpus.

    The result is cached. Later calls with the same corpus and tokenizer read the result from the
    cache.

    Args:
        dataset: Pairs with the string columns `source` and `target`, for example from
            `load_corpus`.
        tokenizer: Encodes both sides, each with `</s>` at its end.
        num_proc: Number of processes. None means one per 50,000 pairs, but no more than the cores
            that this process may use. The result and its cache do not depend on `num_proc`.

    Returns:
        The same rows with the columns `input_ids`, `labels` (int32 lists), `source_length` and
        `target_length` (in tokens, `</s>` included). If a sentence is empty or has only white
        space, its only token is `</s>`.

    Raises:
        ValueError: The dataset lacks one of the two columns.
    """
    if not {"source", "target"} <= set(dataset.column_names):
        raise ValueError(
            "`dataset` must have the columns source and target, got "
            f"{', '.join(dataset.column_names)}. Load it with `load_corpus`, or rename its columns."
        )
    if num_proc is None:
        num_proc = min(available_cores(), len(dataset) // _PAIRS_PER_PROCESS)
    try:
        return dataset.map(
            encode_pairs,
            batched=True,
            fn_kwargs={"tokenizer": tokenizer},
            remove_columns=dataset.column_names,
            features=_FEATURES,
            num_proc=num_proc if num_proc > 1 else None,
            new_fingerprint=_fingerprint(dataset, tokenizer),
            desc="Tokenizing",
        )
    except ValueError as error:
        # If the cache file cannot be written, for example on a full disk, closing the file also
        # fails, and closing raises this ValueError. Raise the first error instead.
        raise error.__context__ or error from None


def encode_pairs(pairs: Mapping[str, list[str]], tokenizer: Any) -> dict[str, list[Any]]:
    """Return the token ids and the lengths of a batch of pairs, as columns of a dataset."""
    sources, targets = (
        [text if text.strip() else "" for text in pairs[side]] for side in ("source", "target")
    )
    options = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
    sources = tokenizer(sources, **options)["input_ids"]
    targets = tokenizer(text_target=targets, **options)["input_ids"]
    return {
        "input_ids": sources,
        "labels": targets,
        "source_length": [len(ids) for ids in sources],
        "target_length": [len(ids) for ids in targets],
    }


def _fingerprint(dataset: datasets.Dataset, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the key of the cache, made from the corpus and the rules of the tokenizer.

    Tokenizers with the same rules give the same key.
    """
    rules: Any = tokenizer
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        # Every call of a tokenizer sets padding and truncation, so their present values do not
        # matter.
        rules |= {
            "padding": None,
            "truncation": None,
            "split_special_tokens": tokenizer.split_special_tokens,
            "tgt_lang": getattr(tokenizer, "tgt_lang", None),
        }
    return str(Hasher.hash((_VERSION, dataset._fingerprint, rules)))


# ---- lengths and ids ----

UNPADDED = "Tokenize without `padding`: the collator pads each batch."


def pair_lengths(dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the source and target lengths of all rows in tokens, `</s>` included.

    Args:
        dataset: Rows with `input_ids` and `labels`. If there are columns `source_length` and
            `target_length`, this function reads the lengths from these columns instead of counting
            the tokens.

    Returns:
        Two int64 arrays (N,). The target length of a row without `labels` is 0.

    Raises:
        ValueError: A row has no `input_ids`.
    """
    names = ["source_length", "target_length"]
    if isinstance(dataset, datasets.Dataset) and set(names) <= set(dataset.column_names):
        lengths = dataset.select_columns(names).with_format("numpy")[:]
        return lengths[names[0]].astype(np.int64), lengths[names[1]].astype(np.int64)
    try:
        rows = [(len(row["input_ids"]), len(row.get("labels", ()))) for row in _rows(dataset)]
    except KeyError as error:
        if error.args != ("input_ids",):
            raise
        raise ValueError(
            "Each row must have `input_ids` and `labels`, got one without `input_ids`. Tokenize "
            "the texts, for example with `tokenize_corpus`."
        ) from error
    source, target = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return source, target


def _rows(dataset: Any) -> Iterable[Any]:
    """Return the rows of a dataset as an iterable.

    Any object that is not a `datasets.Dataset` is read by index, from 0 to its length - 1. If its
    `__getitem__` never raises IndexError, an iteration over the object itself would never end.
    """
    return (
        dataset
        if isinstance(dataset, datasets.Dataset)
        else map(dataset.__getitem__, range(len(dataset)))
    )


def check_token_ids(dataset: Any, vocab_size: int, pad_token_id: int | None) -> None:
    """Raise ValueError if tokenized pairs have padding or an id outside the vocabulary.

    Every process checks all pairs before the training. If one process alone met such an id later,
    it would stop, and the others would wait for it forever.

    Args:
        dataset: Rows with `input_ids` and, optionally, `labels`. -100 is allowed in `labels`.
        vocab_size: Size of the model's vocabulary.
        pad_token_id: Id of padding. Only the collator may add padding.

    Raises:
        ValueError: An id is padding or outside the vocabulary. The message names the column and the
            id.
    """
    names = ("input_ids", "labels")
    # Unless the dataset transforms its rows, check whole columns at once, because this is fast.
    if isinstance(dataset, datasets.Dataset) and dataset.format["type"] != "custom":
        columns = [
            (name, dataset.data.column(name).chunks)
            for name in names
            if name in dataset.column_names
        ]
        chunks = (
            (name, chunk.flatten().to_numpy(zero_copy_only=False))
            for name, each in columns
            for chunk in each
        )
        if not any(_wrong(ids, name, vocab_size, pad_token_id).size for name, ids in chunks):
            return
    for row in _rows(dataset):
        for name in names:
            ids = np.asarray(() if row.get(name) is None else row[name])
            wrong = _wrong(ids, name, vocab_size, pad_token_id)
            if wrong.size:
                if wrong[0] == pad_token_id:
                    raise ValueError(
                        f"`{name}` must hold no padding, got the id {wrong[0]}. {UNPADDED}"
                    )
                raise ValueError(
                    f"`{name}` must hold token ids in [0, {vocab_size}), got {wrong[0]} in "
                    f"{ids.tolist()!s:.100}. Use the tokenizer that was saved with this model, or "
                    "make room for a larger one: model.resize_token_embeddings(len(tokenizer))."
                )


def _wrong(ids: np.ndarray, column: str, vocab_size: int, pad_token_id: int | None) -> np.ndarray:
    """Return the ids that are padding or outside the vocabulary."""
    wrong: np.ndarray = ids[(ids < 0) | (ids >= vocab_size) | (ids == pad_token_id)]
    return wrong[wrong != IGNORE_INDEX] if column == "labels" else wrong


# ---- cleaning ----


@dataclass(frozen=True, kw_only=True)
class CleaningRules:
    """Limits on a tokenized pair; None means no limit.

    Pairs with an empty sentence are always dropped. Lengths are in tokens, `</s>` included.

    Args:
        max_source_tokens: Largest length of a source sentence.
        max_target_tokens: Largest length of a target sentence.
        max_length_ratio: Largest ratio of the longer to the shorter length of a pair, at least 1.
        max_source_tokens_per_batch: Largest number of source tokens in a batch. A longer source
            sentence would fit no batch.
        max_target_tokens_per_batch: Largest number of target tokens in a batch. A longer target
            sentence would fit no batch.
        max_padded_tokens: Largest number of tokens in a micro-batch, with source, target and
            padding. A pair with more tokens would fit no micro-batch.
    """

    max_source_tokens: int | None = None
    max_target_tokens: int | None = None
    max_length_ratio: float | None = None
    max_source_tokens_per_batch: int | None = None
    max_target_tokens_per_batch: int | None = None
    max_padded_tokens: int | None = None


@dataclass(frozen=True)
class CleaningReport:
    """Numbers of kept and dropped pairs; `str` returns them as one readable line.

    Args:
        num_kept: Number of kept pairs.
        dropped: Number of dropped pairs by reason. If several reasons apply to a pair, the pair is
            counted only under the first of these reasons, in the order of `dropped`.
    """

    num_kept: int
    dropped: dict[str, int]

    @property
    def num_dropped(self) -> int:
        """Number of pairs that were dropped, for all reasons together."""
        return sum(self.dropped.values())

    def __add__(self, other: CleaningReport) -> CleaningReport:
        names = {**self.dropped, **other.dropped}
        dropped = {name: self.dropped.get(name, 0) + other.dropped.get(name, 0) for name in names}
        return CleaningReport(self.num_kept + other.num_kept, dropped)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {name}" for name, count in self.dropped.items() if count)
        total = self.num_kept + self.num_dropped
        return f"kept {self.num_kept:,} of {total:,} pairs" + (
            f"; dropped {reasons}" if reasons else ""
        )


def clean_corpus(
    dataset: datasets.Dataset, rules: CleaningRules
) -> tuple[datasets.Dataset, CleaningReport]:
    """Drop the pairs that violate the rules.

    Args:
        dataset: Tokenized pairs, for example from `tokenize_corpus`. If the columns `source_length`
            and `target_length` exist, the lengths are read from these columns. Otherwise the tokens
            are counted.
        rules: Limits on each pair.

    Returns:
        The kept pairs in their order, and the numbers of kept and dropped pairs.

    Raises:
        ValueError: No pair is kept.
    """
    violated, report = check_pairs(*pair_lengths(dataset), rules)
    if report.num_kept == 0:
        raise ValueError(
            f"At least one training pair must meet the limits, got none: {report}. Raise a limit, "
            "or check the files."
        )
    return (
        dataset if report.num_dropped == 0 else dataset.select(np.flatnonzero(~violated))
    ), report


def check_pairs(
    source: np.ndarray, target: np.ndarray, rules: CleaningRules
) -> tuple[np.ndarray, CleaningReport]:
    """Find the pairs that violate the rules, and count them by reason.

    Args:
        source: (N,) number of tokens of each source sentence.
        target: (N,) number of tokens of each target sentence.
        rules: Limits on each pair.

    Returns:
        A mask (N,) that is True for pairs to drop, and the counts.
    """

    def exceeds(values: np.ndarray, limit: float | None) -> np.ndarray:
        return values > limit if limit is not None else np.zeros(len(values), dtype=bool)

    longer, shorter = np.maximum(source, target), np.maximum(np.minimum(source, target), 1)
    # A pair counts only under the first reason that applies.
    violations = {
        "empty_source": source <= 1,
        "empty_target": target <= 1,
        "source_too_long": exceeds(source, rules.max_source_tokens),
        "target_too_long": exceeds(target, rules.max_target_tokens),
        "length_ratio": exceeds(longer / shorter, rules.max_length_ratio),
        "over_token_budget": exceeds(source, rules.max_source_tokens_per_batch)
        | exceeds(target, rules.max_target_tokens_per_batch)
        | exceeds(source + target, rules.max_padded_tokens),
    }
    reasons = np.select(list(violations.values()), np.arange(1, 1 + len(violations)), default=0)
    num_kept, *counts = np.bincount(reasons, minlength=1 + len(violations)).tolist()
    return reasons > 0, CleaningReport(num_kept, dict(zip(violations, counts, strict=True)))
