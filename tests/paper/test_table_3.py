# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3: the sizes of the models, as presets and as a table."""

import pytest
from printed import TABLE_3
from tables import common_vocabulary, implied_vocabulary, table_3

ROWS = {row.name: row for row in table_3()}
PRINTED = {
    name: row.variation.num_millions
    for name, row in ROWS.items()
    if row.variation.num_millions is not None
}


def counted_by_hand(config):
    """Weights of the paper's equations: no biases in attention, one shared embedding."""
    d, f, h = config.d_model, config.d_ff, config.num_heads
    attention = 2 * d * h * config.d_k + 2 * d * h * config.d_v
    feed_forward = 2 * d * f + f + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    embedding = config.vocab_size * d
    positions = (
        2 * config.max_position_embeddings * d if config.position_encoding == "learned" else 0
    )
    layers = config.num_encoder_layers * encoder_layer + config.num_decoder_layers * decoder_layer
    return embedding + positions + layers


# ---- sizes ----


@pytest.mark.parametrize("name", ROWS)
def test_parameter_count_is_that_of_the_equations(name):
    assert ROWS[name].num_parameters == counted_by_hand(ROWS[name].config)


@pytest.mark.parametrize("name", PRINTED)
def test_parameter_count_is_near_the_printed_one(name):
    assert ROWS[name].num_parameters / 1e6 == pytest.approx(PRINTED[name], rel=0.07)


@pytest.mark.parametrize("name", PRINTED)
def test_implied_vocabulary_is_the_widest_that_rounds_to_the_printed_size(name):
    row = ROWS[name]
    others = row.num_parameters - 37_000 * row.config.d_model
    low, high = implied_vocabulary(row)[0], implied_vocabulary(row)[-1]
    rounded = [
        round((others + size * row.config.d_model) / 1e6) for size in (low - 1, low, high, high + 1)
    ]
    assert rounded == [PRINTED[name] - 1, PRINTED[name], PRINTED[name], PRINTED[name] + 1]


def test_no_vocabulary_gives_all_printed_sizes():
    assert not common_vocabulary(list(ROWS.values()))


def test_one_vocabulary_gives_all_printed_sizes_but_that_of_big():
    rows = [row for name, row in ROWS.items() if name != "big"]
    ranges = [implied_vocabulary(row) for row in rows if row.variation.num_millions is not None]
    fits = [size for size in range(30_000, 50_000) if all(size in each for each in ranges)]
    assert common_vocabulary(rows) == range(fits[0], fits[-1] + 1)


# ---- values ----


def test_table_has_the_papers_rows_and_results():
    found = {name: row.variation for name, row in ROWS.items()}
    assert {name: (row.perplexity, row.bleu, row.num_millions) for name, row in found.items()} == {
        name: (row["PPL"], row["BLEU"], row["params"]) for name, row in TABLE_3.items()
    }


# ---- the printed table ----


def test_table_follows_the_vocabulary():
    base = table_3(vocab_size=41_000)[0]
    assert base.num_parameters - ROWS["base"].num_parameters == 4_000 * 512
    assert implied_vocabulary(base) == implied_vocabulary(ROWS["base"])
