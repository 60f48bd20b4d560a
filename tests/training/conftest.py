# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest
import sacrebleu
from faults import left_by, train_command, write_corpus
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


@pytest.fixture(scope="session")
def untranslated(tokenizer, pairs):
    """Pairs whose references have another word for dog, and the BLEU of leaving every source as it
    is.
    """
    sources = [source for source, _ in pairs]
    references = [source.replace("dog", "Hund") for source in sources]
    bleu = sacrebleu.corpus_bleu(sources, [references]).score
    assert 20 < bleu < 90
    return tokenize(tokenizer, list(zip(sources, references, strict=True))), bleu


@pytest.fixture
def make_trainer(tokenizer, dataset, tmp_path):
    """Function that makes a trainer of a new seeded model; see `build_trainer` for its keywords."""

    def make(*, output_dir=None, train_dataset=dataset, **options):
        return build_trainer(tokenizer, train_dataset, output_dir or tmp_path / "run", **options)

    return make


@pytest.fixture
def trained(make_trainer):
    """Function that makes a trainer and trains it, perhaps from a checkpoint."""

    def train(resume=None, **options):
        trainer = make_trainer(**options)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    return train


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """What a run of the real command leaves that nothing happened to."""
    return left_by(train_command(), tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def workplace(tmp_path):
    """A folder with the corpus of `train_command`."""
    write_corpus(tmp_path)
    return tmp_path
