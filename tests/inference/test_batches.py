# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import random

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
