# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training of the joint vocabulary."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import datasets
from tokenizers import normalizers
from tokenizers.pre_tokenizers import ByteLevel
from transformers.utils import logging

from ..tokenization_vaswani_transformer import VaswaniTransformerTokenizer
from .corpora import read_lines

logger = logging.get_logger(__name__)

_PAIRS_PER_READ = 1000

# Maps usual characters to their look-alikes. The value under the key "" lists invisible characters,
# which are removed.
LOOKALIKES = {
    "'": "\u2018\u2019\u201a\u201b\u02bc\u00b4`",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb",
    "-": "\u2010\u2011",
    " ": "\t\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",  # noqa: E501
    "": "\u00ad\u200b\u2060\ufeff",
}
for _code in range(ord("!"), ord("~") + 1):
    # Each of these characters has a full-width form.
    LOOKALIKES[chr(_code)] = LOOKALIKES.get(chr(_code), "") + chr(_code + 0xFEE0)
# A look-alike is replaced if two conditions hold. At most this share of the sentences has the
# look-alike, and more than `_FREQUENT` times as many sentences have the usual character.
_RARE = 1 / 200
_FREQUENT = 50


def train_tokenizer(
    files: Sequence[str | Path] | None = None,
    *,
    sentences: Iterable[str | list[str]] | None = None,
    vocab_size: int,
    show_progress: bool = True,
) -> VaswaniTransformerTokenizer:
    """Train one tokenizer on the sentences of both languages.

    The sentences are streamed, so they need not fit into memory. The tokenizer's normalizer maps
    rare look-alikes to the usual character (see `lookalike_normalizers`), and removes white space
    at the start and the end of a text.

    Args:
        files: UTF-8 text files of both languages, one sentence per line.
        sentences: Sentences or lists of sentences instead of files; see `corpus_sentences`.
        vocab_size: Number of entries, including the 256 bytes and the special tokens. If a small
            corpus yields fewer entries, a warning is logged.
        show_progress: Whether to show a progress bar.

    Raises:
        ValueError: Not exactly one of `files` and `sentences` is given, a file is empty or not
            UTF-8, or `vocab_size` is too small.
        FileNotFoundError: A file does not exist.

    Example:
        >>> tokenizer = train_tokenizer(["train.en", "train.de"], vocab_size=8000)

    Paper: section 5.1, one vocabulary for source and target.
    """
    if files is not None and sentences is None:
        sentences = chain.from_iterable(map(read_lines, files))
    elif files is not None or sentences is None:
        raise ValueError(
            "`files` or `sentences` must be given, and not both. Name the text to train on."
        )
    untrained = VaswaniTransformerTokenizer()
    smallest = len(ByteLevel.alphabet()) + len(untrained)
    if vocab_size < smallest:
        raise ValueError(
            f"`vocab_size` must be at least {smallest} (256 bytes and {len(untrained)} special "
            f"tokens), got {vocab_size}. Choose a larger vocabulary; the paper's has about 37,000 "
            "entries."
        )
    counts: Counter[str] = Counter()
    tokenizer: VaswaniTransformerTokenizer = untrained.train_new_from_iterator(
        _counted(sentences, counts), vocab_size, show_progress=show_progress
    )
    backend = tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Sequence([*lookalike_normalizers(counts), backend.normalizer])
    if len(tokenizer) < vocab_size:
        logger.warning(
            f"The text yields a vocabulary of {len(tokenizer)} entries, fewer than `vocab_size` "
            f"{vocab_size}."
        )
    return tokenizer


def _counted(sentences: Iterable[str | list[str]], counts: Counter[str]) -> Iterator[list[str]]:
    """Yield the sentences in lists, and add to `counts` how many sentences have each character.

    The key "" counts all sentences, and the key "NFD" counts the sentences that NFC changes.
    """
    for given in sentences:
        several = [given] if isinstance(given, str) else given
        for sentence in several:
            counts.update(set(sentence))
            counts["NFD"] += not unicodedata.is_normalized("NFC", sentence)
        counts[""] += len(several)
        yield several


def lookalike_normalizers(counts: Counter[str]) -> list[normalizers.Normalizer]:
    """Return normalizers that map rare look-alikes to the usual character.

    A model then reads both characters in the same way. A look-alike is mapped if at most one
    sentence in 200 has it, and if more than 50 times as many sentences have the usual character.
    Decomposed letters (NFD) are composed if at most one sentence in 200 has them.

    Args:
        counts: Number of sentences with each character. The key "" has the number of all sentences,
            and the key "NFD" has the number of sentences that NFC changes.
    """
    most = counts[""] * _RARE
    found: list[normalizers.Normalizer] = [normalizers.NFC()] if counts["NFD"] <= most else []
    for usual, lookalikes in LOOKALIKES.items():
        for lookalike in lookalikes:
            is_rare = counts[lookalike] <= most and counts[lookalike] * _FREQUENT < counts[usual]
            if is_rare:
                found.append(normalizers.Replace(lookalike, usual))
    return found


def corpus_sentences(dataset: datasets.Dataset) -> Iterator[list[str]]:
    """Yield lists of sentences from both sides of a corpus, for `train_tokenizer`.

    Args:
        dataset: Pairs with the columns `source` and `target`, for example from `load_corpus`.
    """
    for pairs in dataset.select_columns(["source", "target"]).iter(batch_size=_PAIRS_PER_READ):
        yield pairs["source"]
        yield pairs["target"]
