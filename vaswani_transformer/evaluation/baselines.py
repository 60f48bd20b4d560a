# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation without a model, to show what a score is worth: the nearest training pair.

A word is a run of letters, digits, apostrophes and hyphens; every other character that is not a space is a word of its
own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

_WORD = re.compile(r"[\w'’-]+|[^\w\s]")


def nearest_training_pair(
    sources: Sequence[str], train_sources: Sequence[str], train_targets: Sequence[str]
) -> list[str]:
    """The target of the training pair whose source shares most words with each sentence: a translation memory.

    Likeness is Dice's coefficient of the two sets of words in lower case, 2 |A and B| / (|A| + |B|); of equals the
    first pair wins. An inverted index from words to training sentences makes it one count over postings for each
    sentence.

    Args:
        sources: Sentences to translate.
        train_sources: Source side of the training pairs.
        train_targets: Target side, aligned with `train_sources`.

    Raises:
        ValueError: There is no training pair, or the two sides differ in number.
    """
    if not len(train_sources) or len(train_sources) != len(train_targets):
        raise ValueError(
            "`train_sources` and `train_targets` must be equally many and at least 1, got "
            f"{len(train_sources)} and {len(train_targets)}. Pass the pairs the model was trained on."
        )
    index, sizes = _inverted_index(train_sources)
    nearest = []
    for source in sources:
        words = _words(source)
        postings = [index[word] for word in words if word in index] or [np.zeros(0, dtype=np.int64)]
        shared = np.bincount(np.concatenate(postings), minlength=len(train_sources))
        nearest.append(train_targets[int(np.argmax(2.0 * shared / np.maximum(sizes + len(words), 1)))])
    return nearest


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _inverted_index(texts: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Word -> indices of the texts that hold it, and (texts,) numbers of different words."""
    postings: dict[str, list[int]] = {}
    sizes = np.zeros(len(texts), dtype=np.int64)
    for number, text in enumerate(texts):
        words = _words(text)
        sizes[number] = len(words)
        for word in words:
            postings.setdefault(word, []).append(number)
    return {word: np.asarray(numbers) for word, numbers in postings.items()}, sizes
