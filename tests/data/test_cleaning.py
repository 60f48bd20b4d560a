# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Cleaning: each rule at its edge, the counts, and errors instead."""

import datasets
import pytest

from vaswani_transformer.data import CleaningRules, clean_corpus


def make_corpus(*lengths):
    return datasets.Dataset.from_list(
        [
            {
                "input_ids": [5] * source,
                "labels": [6] * target,
                "source_length": source,
                "target_length": target,
            }
            for source, target in lengths
        ]
    )


def dropped(report):
    return {name: count for name, count in report.dropped.items() if count}


@pytest.mark.parametrize(
    ("pair", "rules", "reason"),
    [
        ((1, 5), {}, "empty_source"),
        ((5, 1), {}, "empty_target"),
        ((6, 5), {"max_source_tokens": 5}, "source_too_long"),
        ((5, 6), {"max_target_tokens": 5}, "target_too_long"),
        ((4, 9), {"max_length_ratio": 2.0}, "length_ratio"),
        ((9, 4), {"max_length_ratio": 2.0}, "length_ratio"),
        ((6, 5), {"max_source_tokens_per_batch": 5}, "over_token_budget"),
        ((5, 6), {"max_target_tokens_per_batch": 5}, "over_token_budget"),
        ((6, 5), {"max_padded_tokens": 10}, "over_token_budget"),
    ],
)
def test_cleaning_drops_a_pair_and_names_the_reason(pair, rules, reason):
    _, report = clean_corpus(make_corpus((2, 2), pair), CleaningRules(**rules))
    assert dropped(report) == {reason: 1}


@pytest.mark.parametrize(
    ("pair", "rules"),
    [
        ((2, 2), {}),
        ((5, 5), {"max_source_tokens": 5, "max_target_tokens": 5}),
        ((4, 8), {"max_length_ratio": 2.0}),
        (
            (5, 5),
            {
                "max_source_tokens_per_batch": 5,
                "max_target_tokens_per_batch": 5,
                "max_padded_tokens": 10,
            },
        ),
    ],
)
def test_cleaning_keeps_a_pair_at_the_limit(pair, rules):
    _, report = clean_corpus(make_corpus(pair), CleaningRules(**rules))
    assert (report.num_kept, report.num_dropped) == (1, 0)


def test_cleaning_counts_a_pair_once_under_its_first_reason():
    rules = CleaningRules(max_source_tokens=5, max_length_ratio=2.0, max_padded_tokens=6)
    _, report = clean_corpus(make_corpus((2, 2), (50, 2), (1, 50)), rules)
    assert dropped(report) == {"empty_source": 1, "source_too_long": 1}


def test_cleaning_keeps_the_order_of_selected_pairs():
    corpus = make_corpus((9, 9), (1, 4), (3, 3), (7, 7)).select([2, 1, 0])
    assert clean_corpus(corpus, CleaningRules())[0]["source_length"][:] == [3, 9]


def test_cleaning_refuses_to_drop_every_pair():
    with pytest.raises(
        ValueError,
        match="must meet the limits, got none: kept 0 of 2 pairs; dropped 2 empty_target",
    ):
        clean_corpus(make_corpus((2, 1), (3, 1)), CleaningRules())
