# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Corpora as token ids."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import datasets
from datasets.fingerprint import Hasher
from multiprocess import ProcessError
from transformers import PreTrainedTokenizerBase

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


def tokenize_corpus(
    dataset: datasets.Dataset, tokenizer: PreTrainedTokenizerBase, *, num_proc: int | None = None
) -> datasets.Dataset:
    """Token ids of a corpus, made once and cached for this tokenizer's vocabulary.

    Args:
        dataset: Pairs with the string columns `source` and `target`, as of `load_corpus`.
        tokenizer: Encodes both sides, each with `</s>` at its end.
        num_proc: Processes that share the work; None is as many as this one may use cores, for a large corpus. The
            result and its cache are the same for any number.

    Returns:
        The same rows with the columns `input_ids`, `labels` (int32 lists), `source_length` and `target_length`
        (tokens, `</s>` included). A sentence without a visible character becomes the `</s>` of an empty one.

    Raises:
        ValueError: If the columns are missing.
        ChildProcessError: If one of several processes was killed.
    """
    if not {"source", "target"} <= set(dataset.column_names):
        raise ValueError(
            f"`dataset` must have the columns `source` and `target`, got {', '.join(dataset.column_names)}. "
            "Load it with `load_corpus`."
        )
    num_proc = _num_processes(len(dataset)) if num_proc is None else num_proc
    try:
        return dataset.map(
            encode_pairs,
            batched=True,
            fn_kwargs={"tokenizer": tokenizer},
            remove_columns=dataset.column_names,
            features=_FEATURES,
            num_proc=num_proc,
            new_fingerprint=_fingerprint(dataset, tokenizer),
            desc="Tokenizing",
        )
    except (RuntimeError, ConnectionError, EOFError, ProcessError) as error:
        if isinstance(error, RuntimeError) and "abruptly died" not in str(error):
            raise
        raise ChildProcessError(
            f"`num_proc` processes must live until the corpus is tokenised, got one of {num_proc} that died, perhaps "
            "killed for want of memory. Repeat the command, with fewer of them if it happens again."
        ) from error


def _num_processes(num_pairs: int) -> int | None:
    """Processes for a corpus, None for this one alone: a core each, and enough pairs to be worth their start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = min(cores or 1, num_pairs // _PAIRS_PER_PROCESS)
    return processes if processes > 1 else None


def encode_pairs(pairs: Mapping[str, list[str]], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
    """Columns of token ids and their lengths for a batch of pairs."""
    sources, targets = ([text if text.strip() else "" for text in pairs[side]] for side in ("source", "target"))
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
    """Key of the cached result: the corpus and what the tokenizer does, not which object it is."""
    rules: Any = tokenizer
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        rules.update(padding=None, truncation=None)  # left behind by the last call, and set anew by each
        rules.update(split_special_tokens=tokenizer.split_special_tokens)
    return str(Hasher.hash((_VERSION, dataset._fingerprint, rules)))
