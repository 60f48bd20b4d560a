# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training of the joint vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import datasets
from tokenizers.pre_tokenizers import ByteLevel
from transformers.utils import logging

from ..tokenization_vaswani_transformer import VaswaniTransformerTokenizer
from .corpora import read_lines

logger = logging.get_logger(__name__)

_PAIRS_PER_READ = 1000


def train_tokenizer(
    files: Sequence[str | Path] | None = None,
    *,
    sentences: Iterable[str | list[str]] | None = None,
    vocab_size: int,
    show_progress: bool = True,
) -> VaswaniTransformerTokenizer:
    """A tokenizer trained on the sentences of both languages together; they are streamed, not held.

    Args:
        files: UTF-8 text files of both languages, one sentence a line.
        sentences: Instead of files, sentences or lists of sentences; see `corpus_sentences`.
        vocab_size: Entries of the vocabulary, the 256 bytes and special tokens included. A small corpus may yield
            fewer, which is warned of.
        show_progress: Shows a progress bar.

    Raises:
        ValueError: Not exactly one of `files` and `sentences` is given, a file is empty or not UTF-8, or `vocab_size`
            is too small.
        FileNotFoundError: A file does not exist.

    Example:
        >>> tokenizer = train_tokenizer(["train.en", "train.de"], vocab_size=8000)

    Paper: section 5.1, one vocabulary for source and target.
    """
    if files is not None and sentences is None:
        sentences = chain.from_iterable(map(read_lines, files))
    elif files is not None or sentences is None:
        raise ValueError("`files` or `sentences` must be given, and not both. Name the text to train on.")
    untrained = VaswaniTransformerTokenizer()
    smallest = len(ByteLevel.alphabet()) + len(untrained)
    if vocab_size < smallest:
        raise ValueError(
            f"`vocab_size` must be at least {smallest} (256 bytes and {len(untrained)} special tokens), got "
            f"{vocab_size}. Choose a larger vocabulary; the paper's has about 37,000 entries."
        )
    tokenizer: VaswaniTransformerTokenizer = untrained.train_new_from_iterator(
        sentences, vocab_size, show_progress=show_progress
    )
    if len(tokenizer) < vocab_size:
        logger.warning(
            f"The text yields a vocabulary of {len(tokenizer)} entries, fewer than `vocab_size` {vocab_size}."
        )
    return tokenizer


def corpus_sentences(dataset: datasets.Dataset) -> Iterator[list[str]]:
    """Sentences of both sides of a corpus, in lists, for `train_tokenizer`.

    Args:
        dataset: Pairs with the columns `source` and `target`, as of `load_corpus`.
    """
    for pairs in dataset.select_columns(["source", "target"]).iter(batch_size=_PAIRS_PER_READ):
        yield pairs["source"]
        yield pairs["target"]
