# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The built-in corpus: short English sentences of Tatoeba with their German translations, in one packaged file.

The file's first lines hold its attribution and licence; `scripts/make_corpus.py` makes it and describes its format.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterator
from pathlib import Path

CORPUS_FILE = Path(__file__).with_name("tatoeba_en_de.txt.xz")
CORPUS_SHA256 = "3a040a0a7f9360b6687dc9fc5387b0232578a06c04a13e969cc3e02004d50e82"


def check_direction(source_language: str | None, target_language: str | None) -> None:
    """Raises ValueError for languages that are not those of the corpus; None is not compared."""
    if source_language not in (None, "en") or target_language not in (None, "de"):
        raise ValueError(
            "`source_language` and `target_language` must be en and de for the built-in corpus, got "
            f"{source_language} and {target_language}. Pass other data, or leave the languages out."
        )


def read_builtin(split: str) -> Iterator[tuple[str, list[str]]]:
    """English sentences of a split, each once, with all their German translations.

    No sentence of "validation" or "test", in either language, occurs in another split, not even with other
    punctuation or capitals.

    Args:
        split: "train", "validation" or "test".

    Raises:
        ValueError: If there is no such split or the file is damaged.

    Example:
        >>> next(read_builtin("test"))
        ('Tom might wait.', ['Tom könnte warten.'])
    """
    packed = CORPUS_FILE.read_bytes()
    if hashlib.sha256(packed).hexdigest() != CORPUS_SHA256:
        raise ValueError(
            f"`dataset` must be the corpus of this release, got {CORPUS_FILE}, whose SHA-256 is not {CORPUS_SHA256}. "
            "The file is damaged: install the package again."
        )
    _, *blocks = lzma.decompress(packed).decode("utf-8").rstrip("\n").split("\n\n")
    lines = {name: text for name, _, text in (block.partition("\n") for block in blocks)}
    if split not in lines:
        raise ValueError(f"`split` must be one of {', '.join(lines)}, got {split!r}. Choose a split of builtin.")
    return ((english, german) for english, *german in (line.split("\t") for line in lines[split].split("\n")))
