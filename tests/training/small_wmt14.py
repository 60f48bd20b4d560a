# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A copy of `wmt/wmt14` as the Hub holds it, of a few made-up sentences."""

import random

import datasets
import numpy as np

NUM_PAIRS = {"de-en": 4_500, "fr-en": 6_000}
NUM_VALIDATION, NUM_TEST = 3, 5  # unlike, to be told apart
EMPTY, TOO_LONG = 3, 2  # of the training pairs; the corpus has both kinds
_SYLLABLES = "ba de fi go ku la mo ne pi ru sa te vu wo zi scha ön eau ß".split()
_SHARDS = {"de-en": 3, "fr-en": 4}  # files of the training split


def _words(rng):
    """Words of the source with their translations: the same syllables from behind."""
    words = [rng.choices(_SYLLABLES, k=rng.randint(1, 4)) for _ in range(3000)]
    return ["".join(word) for word in words], [
        "".join(reversed(word)).capitalize() for word in words
    ]


def _pairs(config, split, num_pairs):
    """Pairs whose lengths and frequencies of words fall off as in texts."""
    seed = f"{config} {split}"
    rng, numbers = random.Random(seed), np.random.default_rng(list(seed.encode()))
    source_words, target_words = _words(random.Random(config))
    lengths = np.clip(np.rint(10 * np.exp(numbers.normal(0, 0.5, num_pairs))), 1, 60).astype(int)
    words = np.exp(numbers.uniform(0, np.log(len(source_words)), lengths.sum())).astype(int)
    rows = [row.tolist() for row in np.split(words, np.cumsum(lengths)[:-1])]
    sides = [
        [" ".join(side[word] for word in row) + "." for row in rows]
        for side in (source_words, target_words)
    ]
    pairs = list(zip(*sides, strict=True))
    if split == "train":
        pairs[:EMPTY] = [("", "Leer.")] * EMPTY
        pairs[EMPTY : EMPTY + TOO_LONG] = [(" ".join(source_words[:300]), "Lang.")] * TOO_LONG
        rng.shuffle(pairs)
    return pairs


def write_small_wmt14(folder):
    """Writes the data set and returns its folder."""
    card = ["---", "configs:"]
    for config in NUM_PAIRS:
        card += [f"- config_name: {config}", "  data_files:"]
        (folder / config).mkdir(parents=True)
        other = config.removesuffix("-en")
        features = datasets.Features(
            {"translation": datasets.Translation(languages=config.split("-"))}
        )
        for split, size in (
            ("train", NUM_PAIRS[config]),
            ("validation", NUM_VALIDATION),
            ("test", NUM_TEST),
        ):
            rows = [{other: target, "en": source} for source, target in _pairs(config, split, size)]
            whole = datasets.Dataset.from_dict({"translation": rows}, features=features)
            num_files = _SHARDS[config] if split == "train" else 1
            for number in range(num_files):
                part = whole.shard(num_files, number, contiguous=True)
                part.to_parquet(folder / config / f"{split}-{number:05}-of-{num_files:05}.parquet")
            card += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    (folder / "README.md").write_text("\n".join([*card, "---", ""]), encoding="utf-8")
    return folder
