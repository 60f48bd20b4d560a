# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from vaswani_transformer.inference.translate import paired
from vaswani_transformer.pipeline_vaswani_transformer import Batching, length_batches


def test_length_batches_hold_every_row_once_within_the_budget():
    choose = random.Random(1)
    lengths = [choose.randint(1, 40) for _ in range(300)] + [500]
    batches = list(length_batches(lengths, Batching(max_tokens=100)))
    assert sorted(index for batch in batches for index in batch) == list(range(301))
    assert all(
        len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 100 for batch in batches
    )
    assert batches[0] == [300]


@pytest.mark.parametrize(("sources", "targets"), [("ab", "abc"), ("abc", "a")])
def test_paired_refuses_a_side_that_ends_first(sources, targets):
    pairs = paired(iter(sources), iter(targets))
    with pytest.raises(
        ValueError, match="`targets` must be as many as the sentences, got more or fewer"
    ):
        list(pairs)
