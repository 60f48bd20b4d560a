# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest
from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def pairs():
    return make_pairs(60)


@pytest.fixture(scope="session")
def dataset(tokenizer, pairs):
    return tokenize(tokenizer, pairs)


@pytest.fixture
def make_trainer(tokenizer, dataset, tmp_path):
    """Function that makes a trainer of a new seeded model; see `build_trainer` for its keywords."""

    def make(*, output_dir=None, train_dataset=dataset, **options):
        return build_trainer(tokenizer, train_dataset, output_dir or tmp_path / "run", **options)

    return make
