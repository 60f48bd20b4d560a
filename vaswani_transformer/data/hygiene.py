# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Find duplicate, copied and held-out training pairs, and remove such pairs from files.

Definitions:
    Equal: two texts are equal if `normalize_text` returns the same text for both. Two pairs are
        equal if their sources are equal and their targets are equal.
    Blank: a pair with a blank side. A blank pair is counted only as blank.
    Exact duplicate: a pair with the same source and the same target as an earlier pair, compared
        without normalization.
    Duplicate: a pair that is equal to an earlier pair. The first of several equal pairs is not a
        duplicate.
    Copy: a pair with equal source and target.
    Held-out: a pair with a source that is equal to a source of the validation or test text.

Texts are compared by 64-bit hashes. Among 10 million different texts, the probability that any two
are taken for equal is 3e-6.

Shapes: N texts of one side, or N pairs.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from transformers.utils import logging

from ..files import open_text, write_json, writing_folder
from .corpora import index_aligned, read_lines

logger = logging.get_logger(__name__)

# Two results of `hash_texts`: for the sources, and for the targets.
Sides = Sequence[np.ndarray]

_BLANK = hash("")
# The hash of a pair is the hash of its source times this number, plus the hash of its target. The
# number is odd, so that every bit of the source's hash changes the result.
_MULTIPLIER = 0x5851F42D4C957F2D
_ASCII_PUNCTUATION = bytes(code for code in range(128) if not chr(code).isalnum())


def normalize_text(text: str) -> str:
    """Return the letters, digits and combining marks of a text, case-folded and composed (NFC).

    If a text such as "?!" has none of these, return it without the white space around it.

    Example:
        >>> normalize_text("The 2nd Café!")
        'the2ndcafé'
    """
    # Remove ASCII punctuation as bytes, which is fast. Most texts have no other punctuation.
    composed = unicodedata.normalize("NFC", text.casefold())
    kept = composed.encode().translate(None, _ASCII_PUNCTUATION).decode()
    if not kept.isalnum():
        kept = "".join(
            character
            for character in kept
            if character.isalnum() or unicodedata.category(character).startswith("M")
        )
    return kept or text.strip()


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """Return int64 hashes (2, N).

    Row 0 holds the hashes of the unchanged texts, row 1 those of the normalized texts. The hashes
    differ between processes, except between a process and its forks.
    """
    return np.fromiter(map(_hash_text, texts), np.dtype("2i8")).T


def _hash_text(text: str) -> tuple[int, int]:
    return hash(text), hash(normalize_text(text))


def _hash_pairs(sides: Sides) -> np.ndarray:
    """Return hashes (2, N).

    Row 0 holds the hashes of the unchanged pairs, row 1 those of the normalized pairs.
    """
    source, target = sides
    return source * _MULTIPLIER + target


def find_removable(
    train: Sides, held_out: Mapping[str, Sides]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Find blank, duplicate and copied training pairs, and pairs with a held-out source.

    Args:
        train: Hashes of both sides of the training pairs.
        held_out: Hashes of both sides of each validation or test set, by the name of the set.

    Returns:
        masks: A mask (N,) for each reason to remove training pairs.
        report: `num_pairs` is the number of training pairs. For each reason, the report has the
            number of pairs to remove, under the name of the reason. A pair may count under several
            reasons. `overlaps` is a list with one entry for each held-out set: the set's `name`,
            its `num_pairs`, and the numbers of its `pairs` and of its `sources` that are also in
            the training text.
    """
    exact, pair = _hash_pairs(train)
    source, target = train[0][1], train[1][1]
    filled = (source != _BLANK) & (target != _BLANK)
    is_held_out = np.zeros_like(filled)
    overlaps = []
    for name, sides in held_out.items():
        other_pair = _hash_pairs(sides)[1]
        other_source = sides[0][1]
        shared = filled & np.isin(source, other_source)
        is_held_out |= shared
        overlap = {
            "name": name,
            "num_pairs": len(other_pair),
            "pairs": int(np.isin(other_pair, pair[shared]).sum()),
            "sources": int(np.isin(other_source, source[shared]).sum()),
        }
        overlaps.append(overlap)
    masks = {
        "blank": ~filled,
        "copies": filled & (source == target),
        "exact_duplicates": filled & _is_repeated(exact),
        "duplicates": filled & _is_repeated(pair),
        "held_out": is_held_out,
    }
    counts = {name: int(mask.sum()) for name, mask in masks.items()}
    return masks, {"num_pairs": len(pair), **counts, "overlaps": overlaps}


def _is_repeated(values: np.ndarray) -> Any:
    """Return a mask that is True for each value that also occurs at a lower index."""
    first = np.unique(values, return_index=True)[1]
    return np.bincount(first, minlength=len(values)) == 0


# ---- before a training ----


def check_training_text(
    texts: list[datasets.Dataset], held_out: Mapping[str, datasets.Dataset]
) -> dict[str, Any]:
    """Log the duplicates and copies in the training text, and warn of held-out text in it.

    Args:
        texts: Training corpora with the string columns `source` and `target`.
        held_out: Validation and test sets, by their names.

    Returns:
        The report of `find_removable`.
    """
    hashed = {name: _hash_sides([text]) for name, text in held_out.items()}
    masks, report = find_removable(_hash_sides(texts), hashed)
    if report["duplicates"] or report["copies"]:
        logger.info(
            "Of {num_pairs:,} training pairs {duplicates:,} repeat an earlier one "
            "({exact_duplicates:,} exactly), and {copies:,} copy their source:".format_map(report)
            + _examples(texts, masks["duplicates"] | masks["copies"])
        )
    if report["held_out"]:
        form = "{name}: {pairs:,} of {num_pairs:,} pairs, {sources:,} sources"
        sets = "; ".join(map(form.format_map, report["overlaps"]))
        logger.warning(
            f"Held-out text is in the training text, which inflates scores ({sets}). "
            "`vaswani-transformer clean --against` removes such training pairs:"
            + _examples(texts, masks["held_out"])
        )
    return report


def _hash_sides(texts: list[datasets.Dataset]) -> Sides:
    return [hash_texts(_read_side(texts, side)) for side in ("source", "target")]


def _read_side(texts: list[datasets.Dataset], side: str) -> Iterator[str]:
    # Read one corpus after another: columns of different string types cannot be concatenated.
    for text in texts:
        for batch in text.select_columns(side).iter(batch_size=1000):
            yield from batch[side]


def _examples(texts: list[datasets.Dataset], chosen: np.ndarray) -> str:
    """Return the first three chosen pairs, each on a line of its own."""
    pairs = zip(_read_side(texts, "source"), _read_side(texts, "target"), strict=True)
    first = itertools.islice(itertools.compress(pairs, chosen), 3)
    return "".join(f"\n    {source:.60} | {target:.60}" for source, target in first)


# ---- in files ----


def clean_files(
    source: str | Path,
    target: str | Path,
    output_dir: str | Path,
    against: Iterable[tuple[str | Path, str | Path]] = (),
) -> dict[str, Any]:
    """Write two aligned text files without blank, copied, held-out or duplicate pairs.

    The two sides of a copied pair are equal. The source of a held-out pair is in `against`.

    Args:
        source: Source sentences, one per line.
        target: Target sentences, aligned with `source`.
        output_dir: New folder for the cleaned files and `report.json`. The cleaned files have the
            names of `source` and `target`, without `.gz`. The folder appears only when it is
            complete.
        against: Source and target file of each held-out set.

    Returns:
        The content of `report.json`: the report of `find_removable`, and `num_kept`.

    Raises:
        ValueError: Two aligned files have different numbers of lines, `source` and `target` have
            the same file name, or `output_dir` is not empty.
        FileNotFoundError: A file does not exist.
    """
    names = [Path(file).name.removesuffix(".gz") for file in (source, target)]
    if names[0] == names[1]:
        raise ValueError(f"`target` must have another name than `source`, got {target}. Rename it.")
    held_out = {f"{files[0]}, {files[1]}": _hash_files(*files) for files in against}
    masks, report = find_removable(_hash_files(source, target), held_out)
    kept = ~np.any(list(masks.values()), axis=0)
    report["num_kept"] = int(kept.sum())
    with writing_folder(output_dir) as folder:
        for file, name in zip((source, target), names, strict=True):
            with open_text(file) as lines, open(folder / name, "wb") as output:
                output.writelines(itertools.compress(lines, kept))
        write_json(folder / "report.json", report)
    return report


def _hash_files(source: str | Path, target: str | Path) -> Sides:
    index_aligned(source, target, sys.maxsize)  # raises an error if the line counts differ
    # Forked processes compute the same hashes as this process, and need not import anything.
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(_hash_file, [source, target])


def _hash_file(path: str | Path) -> np.ndarray:
    return hash_texts(read_lines(path))
