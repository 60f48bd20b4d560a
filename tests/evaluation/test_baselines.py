# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from vaswani_transformer.evaluation.report import nearest_training_pair


def naive_nearest(source, train_sources, train_targets):
    """Dice's coefficient with every training sentence, in a plain loop over words split at spaces."""
    words = set(source.split())

    def likeness(text):
        others = set(text.split())
        return 2 * len(words & others) / (len(words) + len(others))

    scores = [likeness(text) for text in train_sources]
    return train_targets[scores.index(max(scores))]


def test_nearest_training_pair_equals_a_search_over_all_pairs():
    choose = random.Random(0)
    words = [f"w{number}" for number in range(30)]
    train_sources = [" ".join(choose.choices(words, k=choose.randint(3, 9))) for _ in range(200)]
    train_targets = [f"target {number}" for number in range(200)]
    sources = [" ".join(choose.choices(words, k=choose.randint(3, 9))) for _ in range(50)]
    expected = [naive_nearest(source, train_sources, train_targets) for source in sources]
    assert nearest_training_pair(sources, train_sources, train_targets) == expected


@pytest.mark.parametrize("source", ["unseen", ""])
def test_nearest_training_pair_is_the_first_when_no_word_is_shared(source):
    assert nearest_training_pair([source], ["a b", "c d"], ["first", "second"]) == ["first"]
