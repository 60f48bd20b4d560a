# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Corpora, cleaning, token-bounded batches and vocabularies; needs the `[train]` extra."""

from ..extras import requiring

with requiring("train", "to work with corpora"):
    import datasets  # noqa: F401

from .batching import BATCHES_PER_POOL, TokenBatchSampler, TranslationCollator
from .corpora import load_corpus, read_lines, stream_corpus
from .preparation import CleaningReport, CleaningRules, clean_corpus, tokenize_corpus
from .streaming import StreamLoader, StreamSettings
from .vocabulary import corpus_sentences, train_tokenizer

__all__ = [
    "BATCHES_PER_POOL",
    "CleaningReport",
    "CleaningRules",
    "StreamLoader",
    "StreamSettings",
    "TokenBatchSampler",
    "TranslationCollator",
    "clean_corpus",
    "corpus_sentences",
    "load_corpus",
    "read_lines",
    "stream_corpus",
    "tokenize_corpus",
    "train_tokenizer",
]
