# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Token-budget batches against naive counts and brute force."""

from functools import cache
from itertools import chain, combinations, product

import numpy as np
import pytest
from accelerate.data_loader import prepare_data_loader
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from vaswani_transformer.data import (
    TokenBatchSampler,
    TranslationCollator,
    batching,
    train_tokenizer,
)
from vaswani_transformer.data.batching import _split_evenly, cut, shape_keys

LIMITS = {"max_source_tokens": 200, "max_target_tokens": 220}


def make_lengths(num_pairs=500, seed=0):
    rng = np.random.default_rng(seed)
    source = rng.integers(2, 40, num_pairs)
    return source, np.clip(source + rng.integers(-5, 8, num_pairs), 2, None)


def micro_batches(sampler, epoch=0):
    sampler.set_epoch(epoch)
    return list(sampler)


def effective_batches(sampler, num_parts, epoch=0):
    parts = micro_batches(sampler, epoch)
    return [sorted(chain(*parts[i : i + num_parts])) for i in range(0, len(parts), num_parts)]


def padded_tokens(rows, source, target):
    return (
        len(rows) * (max(source[row] for row in rows) + max(target[row] for row in rows))
        if rows
        else 0
    )


def test_effective_batches_are_nearly_full():
    source, target = make_lengths(5000)
    sampler = TokenBatchSampler(source, target, max_source_tokens=1000, max_target_tokens=1000)
    assert sampler.num_effective_batches <= 1.05 * max(source.sum(), target.sum()) / 1000


@pytest.mark.parametrize("num_pairs", [200, 1000, 5000, 50_000])
def test_no_batch_is_a_small_remainder(num_pairs):
    """Of 0.1.0's batches the last had 0.1 of the others' tokens; its pairs, the longest, weighed
    ten times as much.
    """
    source, target = make_lengths(num_pairs)
    batches = micro_batches(
        TokenBatchSampler(source, target, max_source_tokens=1000, max_target_tokens=1000)
    )
    tokens = [max(source[rows].sum(), target[rows].sum()) for rows in batches]
    assert min(tokens) > 0.9 * max(tokens)


@pytest.mark.parametrize(("world_size", "accumulation_steps"), [(1, 4), (2, 1), (2, 3), (8, 2)])
def test_effective_batches_do_not_depend_on_hardware(world_size, accumulation_steps):
    lengths = make_lengths()
    split = TokenBatchSampler(
        *lengths, **LIMITS, world_size=world_size, accumulation_steps=accumulation_steps, seed=3
    )
    whole = TokenBatchSampler(*lengths, **LIMITS, seed=3)
    num_parts = world_size * accumulation_steps
    assert effective_batches(split, num_parts, epoch=2) == effective_batches(whole, 1, epoch=2)


def test_epochs_and_seeds_draw_other_batches():
    samplers = [TokenBatchSampler(*make_lengths(), **LIMITS, seed=seed) for seed in (0, 1)]
    first, *others = (
        set(map(tuple, effective_batches(samplers[seed], 1, epoch)))
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    )
    assert first not in others


@pytest.mark.parametrize(("longest_source", "longest_target"), [(3, 5), (9, 3)])
def test_every_epoch_batches_pairs_of_the_same_lengths(longest_source, longest_target):
    pairs = list(product(range(1, longest_source + 1), range(1, longest_target + 1)))
    sampler = TokenBatchSampler(
        *zip(*pairs, strict=True),
        max_source_tokens=2 * longest_source,
        max_target_tokens=2 * longest_target,
    )
    epochs = [
        sorted(sorted(pairs[row] for row in batch) for batch in micro_batches(sampler, epoch))
        for epoch in range(5)
    ]
    assert epochs == epochs[:1] * 5


def test_lengths_in_one_byte_are_not_subtracted_in_one_byte():
    lengths = make_lengths()
    expected = micro_batches(TokenBatchSampler(*lengths, **LIMITS))
    assert (
        micro_batches(TokenBatchSampler(*np.array(lengths, dtype=np.uint8), **LIMITS)) == expected
    )


@pytest.mark.parametrize(
    ("max_padded_tokens", "starts"),
    [(None, [0, 3, 6, 7]), (100, [0, 3, 6, 7]), (8, [0, 2, 4, 6, 7])],
)
def test_cut_stays_within_real_and_padded_tokens(max_padded_tokens, starts):
    assert cut(np.full((7, 2), 2), np.array([6, 7]), max_padded_tokens).tolist() == starts


def test_batches_hold_pairs_of_similar_length(monkeypatch):
    """Also where two pools meet, and far better than one pool for each batch would."""
    monkeypatch.setattr(batching, "BATCHES_PER_POOL", 20)
    source, target = make_lengths(3000)
    longer = np.maximum(source, target)
    batches = micro_batches(
        TokenBatchSampler(source, target, max_source_tokens=400, max_target_tokens=400)
    )
    assert len(batches) > 5 * 20
    assert max(np.ptp(longer[rows]) for rows in batches) <= 10


def test_neighbours_in_the_order_of_micro_batches_differ_by_one_token():
    pairs = np.array(list(product(range(1, 7), range(1, 7))))
    ordered = pairs[np.lexsort(shape_keys(pairs))]
    assert (np.abs(np.diff(ordered, axis=0)).sum(axis=1) == 1).all()


def test_batches_stay_the_same(monkeypatch):
    """A run resumes with the batches of the version that resumes it:

    CHANGELOG tells when these lists change.
    """
    monkeypatch.setattr(batching, "BATCHES_PER_POOL", 1)
    lengths = [3, 4, 3, 4, 6, 2, 9, 3, 3], [3, 3, 4, 4, 5, 2, 8, 3, 3]
    sampler = TokenBatchSampler(*lengths, max_source_tokens=12, max_target_tokens=12)
    assert micro_batches(sampler, 0) == [[4, 2, 5], [3, 8, 7], [6], [1, 0]]
    assert micro_batches(sampler, 9) == [[4, 2, 5], [1, 7], [6], [3, 0, 8]]


def test_micro_batches_of_one_update_are_sorted_by_the_longer_side():
    source, target = make_lengths()
    rows = chain(
        *micro_batches(TokenBatchSampler(source, target, **LIMITS, accumulation_steps=4))[:4]
    )
    longer = [max(source[row], target[row]) for row in rows]
    assert longer == sorted(longer, reverse=True)


@pytest.mark.parametrize("update", [0, 1, 7])
def test_sampler_starts_once_where_an_earlier_run_stopped(update):
    sampler = TokenBatchSampler(*make_lengths(), **LIMITS, world_size=2, accumulation_steps=3)
    whole = micro_batches(sampler, epoch=2)
    sampler.start_at(update)
    assert micro_batches(sampler, epoch=2) == whole[6 * update :]
    assert micro_batches(sampler, epoch=2) == whole


def test_sampler_makes_no_batch_before_its_start(monkeypatch):
    sampler = TokenBatchSampler(*make_lengths(), **LIMITS, world_size=4)
    split = sampler._split
    calls = []
    monkeypatch.setattr(sampler, "_split", lambda batch: calls.append(batch) or split(batch))
    sampler.start_at(sampler.num_effective_batches - 1)
    next(iter(sampler))
    assert len(calls) == 1


def test_sampler_needs_a_pair():
    with pytest.raises(ValueError, match="at least one pair"):
        TokenBatchSampler([], [], **LIMITS)


@pytest.mark.parametrize("num_parts", [1, 2, 3, 5, 9])
@pytest.mark.parametrize(
    "seed", [*range(5), 47, 79]
)  # in the last two the bound of 5 parts lies one above a tried one
def test_split_has_the_smallest_largest_part_of_all_splits(seed, num_parts):
    lengths = np.random.default_rng(seed).integers(1, 12, (9, 2))
    lengths = lengths[np.argsort(-lengths.sum(axis=1))]

    def largest(sizes):
        parts = np.split(lengths, np.cumsum(sizes)[:-1])
        return max(len(part) * (part[:, 0].max() + part[:, 1].max()) for part in parts if len(part))

    cuts = (np.array([0, *inner, 9]) for inner in combinations(range(1, 9), num_parts - 1))
    assert largest(_split_evenly(lengths, num_parts)) == min(largest(np.diff(cut)) for cut in cuts)


@pytest.mark.parametrize("num_rows", [4, 5, 20])
def test_split_leaves_no_part_empty_when_there_are_rows_for_all(num_rows):
    lengths = np.array([[50, 50]] + [[1, 1]] * (num_rows - 1))
    sizes = _split_evenly(lengths, 4)
    assert (len(sizes), sum(sizes), min(sizes) > 0) == (4, num_rows, True)


def test_micro_batches_are_empty_when_there_are_fewer_pairs_than_parts():
    parts = micro_batches(TokenBatchSampler([3, 4], [3, 4], **LIMITS, world_size=4))
    assert parts == [[1], [0], [], []]


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_planned_steps_keep_every_micro_batch_within_the_padded_bound(world_size):
    source, target = make_lengths()
    sampler = TokenBatchSampler(
        source, target, **LIMITS, max_padded_tokens=150, world_size=world_size, seed=5
    )
    parts = [part for epoch in range(5) for part in micro_batches(sampler, epoch)]
    assert max(padded_tokens(part, source, target) for part in parts) <= 150


def test_planned_steps_are_the_fewest():
    source, target = make_lengths()
    steps = TokenBatchSampler(source, target, **LIMITS, max_padded_tokens=150).accumulation_steps
    parts = micro_batches(TokenBatchSampler(source, target, **LIMITS, accumulation_steps=steps - 1))
    assert max(padded_tokens(part, source, target) for part in parts) > 150


def test_a_pair_may_fill_a_micro_batch():
    sampler = TokenBatchSampler(
        [3, 9], [3, 7], max_source_tokens=20, max_target_tokens=20, max_padded_tokens=16
    )
    assert sampler.accumulation_steps == 2
    assert micro_batches(sampler) == [[1], [0]]


def test_more_steps_than_the_padded_bound_needs_are_kept():
    sampler = TokenBatchSampler(*make_lengths(), **LIMITS, max_padded_tokens=150)
    more = sampler.accumulation_steps + 2
    sampler = TokenBatchSampler(
        *make_lengths(), **LIMITS, max_padded_tokens=150, accumulation_steps=more
    )
    assert sampler.accumulation_steps == more
    assert len(sampler) == sampler.num_effective_batches * more


@pytest.mark.parametrize("num_parts", [1, 4])
def test_padding_fraction_is_the_share_of_padding_in_an_epoch(num_parts):
    source, target = make_lengths()
    sampler = TokenBatchSampler(source, target, **LIMITS, accumulation_steps=num_parts)
    padded = sum(padded_tokens(part, source, target) for part in micro_batches(sampler, epoch=4))
    assert sampler.padding_fraction == pytest.approx(1 - (source.sum() + target.sum()) / padded)


def test_padding_fraction_of_many_batches_is_that_of_a_sample():
    lengths = make_lengths(8000)
    sampler = TokenBatchSampler(*lengths, **LIMITS, accumulation_steps=2)
    assert sampler.num_effective_batches > 600
    padded = sum(padded_tokens(part, *lengths) for part in micro_batches(sampler))
    assert sampler.padding_fraction == pytest.approx(
        1 - (lengths[0].sum() + lengths[1].sum()) / padded, rel=0.1
    )
    assert len(sampler._splits) == sampler.num_effective_batches
    fresh = TokenBatchSampler(*lengths, **LIMITS, accumulation_steps=2)
    assert fresh.padding_fraction == sampler.padding_fraction
    assert len(fresh._splits) <= 100


@pytest.fixture(scope="module")
def real_lengths(shared_data):
    """Function that gives both lengths of each pair of a corpus, in tokens of a joint vocabulary of
    its own.
    """

    @cache
    def measure(files, vocab_size):
        files = [shared_data / files.format(language) for language in ("en", "de")]
        sentences = [file.read_text(encoding="utf-8").split("\n")[:-1][:40_000] for file in files]
        tokenizer = train_tokenizer(
            sentences=chain(*(side[::5] for side in sentences)), vocab_size=vocab_size
        )
        lengths = np.array(
            [[len(ids) for ids in tokenizer(side)["input_ids"]] for side in sentences]
        )
        return lengths[:, (lengths <= 150).all(axis=0)]

    return measure


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("files", "vocab_size"),
    [
        ("multi30k/tok/train.lc.norm.tok.{}", 9700),
        ("tatoeba_en_de/train.{}", 8000),
    ],
)
def test_padding_of_real_corpora_is_under_five_percent(real_lengths, files, vocab_size):
    lengths = real_lengths(files, vocab_size)
    for tokens, processes in product((6850, 25000), (1, 2, 8)):
        sampler = TokenBatchSampler(
            *lengths,
            max_source_tokens=tokens,
            max_target_tokens=tokens,
            max_padded_tokens=4096,
            world_size=processes,
        )
        assert sampler.padding_fraction < 0.05


def common_mates(before, after):
    """Share of the pairs in one's batch that are there again in the next epoch, on average over
    every tenth pair.
    """
    batch_after = {row: set(rows) for rows in after for row in rows}
    shares = [
        (len(batch_after[row].intersection(rows)) - 1) / (len(rows) - 1)
        for rows in before
        for row in rows[::10]
    ]
    return sum(shares) / len(shares)


@pytest.mark.heavy
def test_pairs_of_a_small_corpus_meet_others_in_the_next_epoch(real_lengths):
    """Of `multi30k-tiny`, where 72 % were the same in release 0.1.0."""
    lengths = real_lengths("multi30k/tok/train.lc.norm.tok.{}", 9700)
    sampler = TokenBatchSampler(*lengths, max_source_tokens=6850, max_target_tokens=6850)
    epochs = [micro_batches(sampler, epoch) for epoch in range(3)]
    assert all(sorted(chain(*batches)) == list(range(29000)) for batches in epochs)
    assert max(common_mates(*epochs[:2]), common_mates(*epochs[1:])) < 0.45
    same = set(map(frozenset, epochs[0])) & set(map(frozenset, epochs[1]))
    assert len(same) <= 1  # that of the longest pairs, few of which are equally long


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 9),
)
def test_sampler_holds_its_promises_for_any_lengths(pairs, world_size, steps, seed, epoch):
    source, target = zip(*pairs, strict=True)
    sampler = TokenBatchSampler(
        source,
        target,
        max_source_tokens=30,
        max_target_tokens=30,
        world_size=world_size,
        accumulation_steps=steps,
        seed=seed,
    )
    batches = effective_batches(sampler, world_size * steps, epoch)
    assert sorted(chain(*batches)) == list(range(len(pairs)))
    assert all(
        sum(side[row] for row in batch) <= 30 for batch in batches for side in (source, target)
    )
    assert len(batches) == sampler.num_effective_batches == len(sampler) / (world_size * steps)


def test_accelerate_deals_one_update_to_all_processes(tiny_tokenizer):
    rows = [{"input_ids": [5] * length, "labels": [6] * length} for length in range(2, 30)]
    lengths = [len(row["input_ids"]) for row in rows]
    sampler = TokenBatchSampler(
        lengths, lengths, max_source_tokens=90, max_target_tokens=90, world_size=2
    )
    loader = DataLoader(rows, batch_sampler=sampler, collate_fn=TranslationCollator(tiny_tokenizer))
    processes = [
        prepare_data_loader(loader, num_processes=2, process_index=rank, put_on_device=False)
        for rank in (0, 1)
    ]
    updates = [
        sum(int((batch["labels"] != -100).sum()) for batch in batches)
        for batches in zip(*processes, strict=True)
    ]
    whole = TokenBatchSampler(lengths, lengths, max_source_tokens=90, max_target_tokens=90)
    assert updates == [sum(lengths[row] for row in batch) for batch in whole]


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("target_lengths", {"max_target_tokens": 6}),
        ("max_padded_tokens", {"max_target_tokens": 9, "max_padded_tokens": 15}),
    ],
)
def test_sampler_refuses_a_pair_that_fits_in_no_batch(name, limits):
    with pytest.raises(ValueError, match=f"`{name}`"):
        TokenBatchSampler([3, 9], [3, 7], max_source_tokens=9, **limits)
