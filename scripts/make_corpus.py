# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes the built-in corpus from Tatoeba's English-German pairs; the same input gives the same
text.

    python scripts/make_corpus.py FOLDER [OUTPUT]

FOLDER holds train, valid and test as line-aligned .en and .de files. The output is one .xz file:
the lines of NOTICE about the corpus, then one block for each split, separated by empty lines. A
block starts with the split's name; each other line is an English sentence and its translations,
separated by tabs. Prints the counts of the cleaning.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

MAX_WORDS = {"en": 9, "de": 10}
MAX_LENGTH_RATIO = 3.0
NUM_HELD_OUT = 1_000
ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "vaswani_transformer/data/tatoeba_en_de.txt.xz"


def normal_form(sentence: str) -> str:
    """The sentence's words in lower case, without punctuation."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", sentence).casefold()))


def read_split(folder: Path, name: str, counts: Counter[str]) -> dict[str, list[str]]:
    """Each English sentence of a raw split with its translations, in the order of the files,
    without wrong pairs.
    """
    sides = [
        (folder / f"{name}.{side}").read_text(encoding="utf-8").rstrip("\n").split("\n")
        for side in ("en", "de")
    ]
    translations: dict[str, list[str]] = {}
    for pair in zip(*sides, strict=True):
        counts["raw"] += 1
        english, german = (
            " ".join(unicodedata.normalize("NFC", re.sub("[\u00ad\u200b]", "", text)).split())
            for text in pair
        )
        lengths = len(english), len(german)
        if not min(lengths):
            counts["empty"] += 1
        elif normal_form(english) == normal_form(german):
            counts["copies"] += 1
        elif max(lengths) > MAX_LENGTH_RATIO * min(lengths):
            counts["length ratio"] += 1
        elif german in translations.get(english, ()):
            counts["duplicates"] += 1
        else:
            translations.setdefault(english, []).append(german)
    return translations


def is_short(english: str, german: str) -> bool:
    """Returns True if both sides have few enough words."""
    return len(english.split()) <= MAX_WORDS["en"] and len(german.split()) <= MAX_WORDS["de"]


def known_forms(splits: list[dict[str, list[str]]]) -> tuple[set[str], set[str]]:
    """Normal forms of all English sentences and of all translations in these splits."""
    english = {normal_form(sentence) for split in splits for sentence in split}
    return english, {
        normal_form(german) for split in splits for group in split.values() for german in group
    }


def held_out(raw: dict[str, list[str]], others: list[dict[str, list[str]]]) -> dict[str, list[str]]:
    """A random choice of short sentences, all their translations kept, that share no sentence with
    `others`.
    """
    known_english, known_german = known_forms(others)
    chosen: dict[str, list[str]] = {}
    forms: set[str] = set()
    for english in sorted(raw, key=lambda sentence: hashlib.sha256(sentence.encode()).digest()):
        form = normal_form(english)
        is_new = form not in forms | known_english and known_german.isdisjoint(
            map(normal_form, raw[english])
        )
        if is_new and any(is_short(english, german) for german in raw[english]):
            chosen[english] = raw[english]
            forms.add(form)
        if len(chosen) == NUM_HELD_OUT:
            return chosen
    raise ValueError(f"the raw split must hold {NUM_HELD_OUT} short sentences, got {len(chosen)}")


def training_split(
    raw: dict[str, list[str]], others: list[dict[str, list[str]]], counts: Counter[str]
) -> dict[str, list[str]]:
    """The short pairs that share no sentence with `others`, sorted: order compresses, and training
    shuffles.
    """
    known_english, known_german = known_forms(others)
    chosen: dict[str, list[str]] = {}
    for english, translations in sorted(raw.items()):
        for german in sorted(translations):
            if not is_short(english, german):
                counts["too long"] += 1
            elif normal_form(english) in known_english or normal_form(german) in known_german:
                counts["held out"] += 1
            else:
                chosen.setdefault(english, []).append(german)
    return chosen


def make_text(folder: Path) -> str:
    """The corpus as text."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8").split("\n\n", 1)[1].rstrip("\n")
    counts = {name: Counter[str]() for name in ("train", "valid", "test")}
    raw = {name: read_split(folder, name, counts[name]) for name in counts}
    test = held_out(raw["test"], [])
    validation = held_out(raw["valid"], [test])
    train = training_split(raw["train"], [test, validation], counts["train"])
    blocks = [notice]
    for name, split in (("train", train), ("validation", validation), ("test", test)):
        blocks.append(
            "\n".join([name, *("\t".join([english, *group]) for english, group in split.items())])
        )
        print(f"{name}: {len(split)} English sentences, {sum(map(len, split.values()))} pairs")
    for name, count in counts.items():
        print(f"raw {name}: {dict(count)}")
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    """Writes the corpus."""
    text = make_text(Path(sys.argv[1]))
    settings = {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "lc": 4,
        "pb": 0,
        "dict_size": 1 << 24,
    }
    packed = lzma.compress(text.encode(), filters=[settings])
    output = Path(sys.argv[2]) if len(sys.argv) > 2 else OUTPUT
    output.write_bytes(packed)
    print(f"{output}: {len(packed)} bytes")


if __name__ == "__main__":
    main()
