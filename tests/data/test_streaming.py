# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Streams against naive counts: every pair once an epoch, limits, order, and states that go on
exactly.
"""

import json
from collections import Counter
from itertools import chain, islice, pairwise

import datasets
import pytest

from vaswani_transformer.data import (
    CleaningRules,
    StreamLoader,
    StreamSettings,
    TranslationCollator,
    streaming,
)
from vaswani_transformer.data.bpe_dropout import BpeDropout

NUM_PAIRS = 300
FIRST_ID = 300  # the first token of a source says which pair it is
LIMITS = {"max_source_tokens": 60, "max_target_tokens": 70, "batches_per_pool": 3}


def read_pairs(shards):
    """Token ids of pairs of unlike lengths; the first token of the source is the pair's number."""
    for first, end in shards:
        for number in range(first, end):
            source = [FIRST_ID + number] + [5] * (number * 7 % 11) + [2]
            yield {"input_ids": source, "labels": [6] * (1 + number * 5 % 13) + [2]}


def make_stream(num_shards=4, num_pairs=NUM_PAIRS):
    bounds = [num_pairs * shard // num_shards for shard in range(num_shards + 1)]
    shards = list(pairwise(bounds))
    return datasets.IterableDataset.from_generator(read_pairs, gen_kwargs={"shards": shards})


def make_arrow_stream(num_shards=4):
    """The same pairs as tables, which the library reads on another path."""
    rows = list(read_pairs([(0, NUM_PAIRS)]))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return datasets.Dataset.from_dict(columns).to_iterable_dataset(num_shards=num_shards)


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    """Several pools an epoch for each of several readers; workers are forked and see them too."""
    monkeypatch.setattr(streaming, "_ROWS_PER_READ", 7)


@pytest.fixture
def make_loader(tiny_tokenizer):
    def make(
        stream=None, *, rules=None, tokenizer=None, vocab_size=None, bpe_dropout=None, **settings
    ):
        return StreamLoader(
            stream or make_stream(),
            TranslationCollator(tiny_tokenizer),
            StreamSettings(**{**LIMITS, **settings}),
            rules=rules,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            bpe_dropout=bpe_dropout,
        )

    return make


def numbers(batch):
    return (batch["input_ids"][:, 0] - FIRST_ID).tolist()


def first_epoch(loader):
    """Batches of the first epoch of every reader of one process, as lists of pair numbers."""
    batches = []
    iterator = iter(loader)
    while True:
        batch = numbers(next(iterator))
        epochs = [reader["epoch"] for reader in loader.state_dict()["readers"]]
        if min(epochs) > 0:
            return batches
        if epochs[loader.state_dict()["next_reader"] - 1] == 0:
            batches.append(batch)


@pytest.mark.parametrize("settings", [{}, {"num_processes": 2}])
def test_state_of_another_kind_of_stream_is_refused_in_words(make_loader, settings):
    earlier = make_loader(make_arrow_stream(1).map(lambda rows: rows, batched=True), **settings)
    batches = iter(earlier)
    while earlier.state_dict()["readers"][0]["position"] is None:
        next(batches)
    loader = make_loader(make_stream(1), **settings)
    loader.load_state_dict(earlier.state_dict())
    with pytest.raises(ValueError, match="`state`"):
        next(iter(loader))


@pytest.mark.parametrize("make", [make_stream, make_arrow_stream])
@pytest.mark.parametrize(
    ("num_processes", "num_shards", "num_workers"),
    [(1, 1, 0), (2, 4, 0), (3, 4, 0), (3, 2, 0), (2, 1, 2), (2, 4, 2)],
)
def test_every_pair_is_read_once_an_epoch_by_one_of_the_readers(
    make_loader, make, num_processes, num_shards, num_workers
):
    batches = []
    for index in range(num_processes):
        loader = make_loader(
            make(num_shards),
            num_processes=num_processes,
            process_index=index,
            num_workers=num_workers,
        )
        read = first_epoch(loader)
        if num_workers == 0:  # else one would read some pairs more often
            assert len([*chain(*read)]) == NUM_PAIRS / num_processes
        batches += read
    assert sorted(chain(*batches)) == list(range(NUM_PAIRS))


@pytest.mark.parametrize("max_padded_tokens", [None, 80])
def test_batches_stay_within_all_limits(make_loader, max_padded_tokens):
    for batch in islice(make_loader(max_padded_tokens=max_padded_tokens), 60):
        assert batch["attention_mask"].sum() <= 60
        assert (batch["labels"] != -100).sum() <= 70
        assert (
            max_padded_tokens is None
            or batch["input_ids"].numel() + batch["labels"].numel() <= max_padded_tokens
        )


def test_batches_hold_pairs_of_similar_length(make_loader):
    lengths = [2 + number * 7 % 11 for number in range(NUM_PAIRS)]
    rows = [{"input_ids": [5] * length, "labels": [6] * length} for length in lengths]
    loader = make_loader(datasets.Dataset.from_list(rows).to_iterable_dataset())
    batches = [batch["attention_mask"].sum(dim=1).tolist() for batch in islice(loader, 30)]
    unsorted = [lengths[row : row + 8] for row in range(0, NUM_PAIRS, 8)]
    padding, without_sorting = (
        1 - sum(map(sum, rows)) / sum(len(batch) * max(batch) for batch in rows)
        for rows in (batches, unsorted)
    )
    assert padding < without_sorting / 2


def test_labels_stay_with_their_sources(make_loader):
    expected = {
        row["input_ids"][0] - FIRST_ID: row["labels"] for row in read_pairs([(0, NUM_PAIRS)])
    }
    for batch in islice(make_loader(), 30):
        for number, labels in zip(numbers(batch), batch["labels"].tolist(), strict=True):
            assert [label for label in labels if label != -100] == expected[number]


def epochs_of(loader, num_batches=150):
    """Batches by epoch, in order."""
    found = {}
    iterator = iter(loader)
    for _ in range(num_batches):
        batch = numbers(next(iterator))
        found.setdefault(loader.state_dict()["readers"][0]["epoch"], []).append(batch)
    return found


def test_order_is_that_of_the_seed(make_loader):
    first, same, other = (epochs_of(make_loader(seed=seed)) for seed in (3, 3, 4))
    assert first == same and first[0] != other[0]


@pytest.mark.parametrize("num_shards", [1, 4])
def test_order_changes_with_the_epoch(make_loader, num_shards):
    found = epochs_of(make_loader(make_stream(num_shards)))
    assert len(found) > 2
    assert found[0] != found[1]
    assert sorted(chain(*found[0])) == sorted(chain(*found[1]))


def test_pools_are_shuffled_differently(make_loader, monkeypatch):
    monkeypatch.setattr(streaming, "_ROWS_PER_READ", 40)
    # each pool is one read, and holds the same lengths as the others
    rows = list(read_pairs([(0, 40)])) * 12
    stream = datasets.Dataset.from_list(rows).to_iterable_dataset()
    orders = {}
    iterator = iter(loader := make_loader(stream))
    for batch in islice(iterator, 60):
        reader = loader.state_dict()["readers"][0]
        if reader["epoch"] == 0:
            orders.setdefault(reader["pool"], []).append(tuple(batch["labels"].shape))
    complete = [tuple(order) for order in list(orders.values())[:-1]]
    assert len({tuple(sorted(order)) for order in complete}) == 1
    assert len(set(complete)) > len(complete) // 2


STREAMS = {
    "generator": make_stream,
    "arrow": make_arrow_stream,
    "mapped": lambda shards: make_stream(shards).map(lambda row: row, batched=True, batch_size=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("distance", [4, pytest.param(1, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize(("num_processes", "num_shards"), [(1, 4), (3, 2)])
def test_state_of_any_position_goes_on_with_the_same_batches(
    make_loader, kind, num_processes, num_shards, distance
):
    def make():
        return make_loader(
            STREAMS[kind](num_shards), num_processes=num_processes, process_index=num_processes - 1
        )

    states = []
    batches = []
    whole = make()
    for batch in islice(whole, 70):
        batches.append(numbers(batch))
        states.append(json.loads(json.dumps(whole.state_dict())))
    assert states[-1]["readers"][0]["epoch"] > 0 and len(json.dumps(states[-1])) < 1000
    for position in range(0, 64, distance):
        loader = make()
        loader.load_state_dict(states[position])
        assert [numbers(batch) for batch in islice(loader, 3)] == batches[
            position + 1 : position + 4
        ]
        again = make()
        again.load_state_dict(loader.state_dict())
        assert [numbers(batch) for batch in islice(again, 3)] == batches[
            position + 4 : position + 7
        ]


def test_loader_goes_on_where_its_last_iteration_stopped(make_loader):
    loader = make_loader()
    parts = [numbers(batch) for _ in range(2) for batch in islice(loader, 5)]
    assert parts == [numbers(batch) for batch in islice(make_loader(), 10)]


@pytest.mark.parametrize(("before", "after"), [(0, 3), (2, 0)])
def test_loader_goes_on_with_the_workers_of_the_state(make_loader, before, after):
    whole = make_loader(num_workers=before)
    loader = make_loader(num_workers=after)
    batches = [numbers(batch) for batch in islice(whole, 5)]
    loader.load_state_dict(whole.state_dict())
    again = make_loader(num_workers=before)
    assert [*batches, *(numbers(batch) for batch in islice(loader, 5))] == [
        numbers(batch) for batch in islice(again, 10)
    ]
    assert loader.state_dict() == again.state_dict()


@pytest.mark.parametrize("settings", [{"num_processes": 2}, {"max_source_tokens": 50}])
def test_refused_state_of_other_settings_leaves_the_loader_as_it_was(make_loader, settings):
    loader = make_loader(**settings)
    before = loader.settings
    state = make_loader(num_workers=2).state_dict()
    with pytest.raises(ValueError, match=str(settings)[1:-1]):
        loader.load_state_dict(state)
    assert loader.settings == before


def test_pairs_that_break_rules_are_dropped_and_counted(make_loader):
    loader = make_loader(
        rules=CleaningRules(max_source_tokens=9, max_length_ratio=3), max_target_tokens=13
    )
    kept = []
    expected = Counter()
    got = []
    for number, row in enumerate(read_pairs([(0, NUM_PAIRS)])):
        source = len(row["input_ids"])
        target = len(row["labels"])
        if source > 9:
            expected["source_too_long"] += 1
        elif max(source, target) > 3 * min(source, target):
            expected["length_ratio"] += 1
        elif target > 13:
            expected["over_token_budget"] += 1
        else:
            kept.append(number)
    for batch in loader:
        if loader.state_dict()["readers"][0]["epoch"] > 0:
            break
        report = loader.report
        got.extend(numbers(batch))
    assert sorted(got) == kept
    assert {name: count for name, count in report.dropped.items() if count} == expected
    assert report.num_kept == len(kept)


def test_text_is_tokenized_as_elsewhere(make_loader, tiny_tokenizer):
    pairs = [
        {"source": "A dog runs.", "target": "Ein Hund rennt."},
        {"source": " ", "target": "Buch"},
    ]
    stream = datasets.Dataset.from_list(pairs).to_iterable_dataset()
    loader = make_loader(stream, tokenizer=tiny_tokenizer)
    batch = next(iter(loader))
    assert batch["input_ids"].tolist() == [tiny_tokenizer("A dog runs.")["input_ids"]]
    assert batch["labels"].tolist() == [tiny_tokenizer("Ein Hund rennt.")["input_ids"]]
    assert loader.report.dropped["empty_source"] == 1


def test_subwords_are_drawn_anew_in_each_epoch_and_after_a_state(make_loader, tiny_tokenizer):
    text = "A bird sings in the tree of an old park."
    stream = datasets.Dataset.from_list(
        [{"source": text, "target": text}] * 8
    ).to_iterable_dataset()

    def make():
        dropout = BpeDropout(tiny_tokenizer, 0.4, side="target")
        return make_loader(stream, tokenizer=tiny_tokenizer, bpe_dropout=dropout)

    drawn = []
    states = []
    loader = make()
    for batch in islice(loader, 30):
        assert (batch["labels"] != -100).sum() <= 70
        assert batch["input_ids"].tolist() == [tiny_tokenizer(text)["input_ids"]] * len(
            batch["labels"]
        )
        drawn.append(batch["labels"].clamp(min=0).tolist())
        assert {*tiny_tokenizer.batch_decode(drawn[-1], skip_special_tokens=True)} == {text}
        states.append(json.loads(json.dumps(loader.state_dict())))
    rows = [tuple(row) for batch in drawn for row in batch]
    assert states[-1]["readers"][0]["epoch"] > 2 and len(set(rows)) > len(rows) / 2
    for position in (0, 4, 13):
        loader = make()
        loader.load_state_dict(states[position])
        again = [batch["labels"].clamp(min=0).tolist() for batch in islice(loader, 5)]
        assert again == drawn[position + 1 : position + 6]


def test_id_outside_the_vocabulary_is_refused_when_it_is_read(make_loader, tiny_tokenizer):
    loader = make_loader(make_stream(num_shards=1), vocab_size=FIRST_ID + 200)
    read = []
    with pytest.raises(
        ValueError, match=r"`input_ids` .* \[0, 500\), got 500 in \[500, 5, 5, 5, 2\]"
    ):
        read.extend(number for batch in loader for number in numbers(batch))
    assert 150 < len(read) <= 200 and max(read) < 200  # those of the pools before
    text = datasets.Dataset.from_list([{"source": "a", "target": "b"}]).to_iterable_dataset()
    with pytest.raises(ValueError, match=r"`input_ids` .* \[0, 3\)"):
        next(iter(make_loader(text, tokenizer=tiny_tokenizer, vocab_size=3)))


def test_reader_without_a_pair_is_an_error_instead_of_an_endless_search(make_loader):
    with pytest.raises(ValueError, match="for each of 3 readers"):
        next(iter(make_loader(make_stream(1, num_pairs=2), num_processes=3, process_index=2)))
