# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The built-in corpus: short English sentences of Tatoeba with German translations.

It is one file of the package. The first lines of the file are its attribution and license.
`scripts/make_corpus.py` makes the file and describes its format.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

CORPUS_FILE = Path(__file__).with_name("tatoeba_en_de.txt.xz")


def check_direction(source_language: str | None, target_language: str | None) -> None:
    """Raise ValueError unless the source language is "en" or None, and the target "de" or None."""
    if source_language not in (None, "en") or target_language not in (None, "de"):
        raise ValueError(
            "`source_language` and `target_language` must be en and de for the built-in corpus, "
            f"got {source_language} and {target_language}. Pass other data, or leave the languages "
            "out."
        )


def read_builtin(split: str) -> Iterator[tuple[str, list[str]]]:
    """Return the English sentences of a split, each once, with all their German translations.

    No sentence of "validation" or "test" occurs in another split, in either language. This is true
    even if case and punctuation are ignored.

    Args:
        split: "train", "validation" or "test".

    Returns:
        An iterator over pairs of a sentence and the list of its translations.

    Raises:
        ValueError: There is no such split.
        lzma.LZMAError: The file is damaged. Install the package again.

    Example:
        >>> next(read_builtin("test"))
        ('Tom might wait.', ['Tom könnte warten.'])
    """
    _, *blocks = (
        lzma.decompress(CORPUS_FILE.read_bytes()).decode("utf-8").rstrip("\n").split("\n\n")
    )
    lines = {name: text for name, _, text in (block.partition("\n") for block in blocks)}
    if split not in lines:
        raise ValueError(
            f"The split must be one of {', '.join(lines)}, got {split!r}. Choose one of them."
        )
    return (
        (english, german)
        for english, *german in (line.split("\t") for line in lines[split].split("\n"))
    )
