# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training on streams: batches by tokens, resuming, and the command."""

import datasets
import pytest
import torch
from toy_language import check_same_weights, limits, logged, make_pairs, tiny_recipe

from vaswani_transformer.data import streaming
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training import data as loading
from vaswani_transformer.training.train import describe_plan, train


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr(loading, "BATCHES_PER_POOL", 2)
    monkeypatch.setattr(streaming, "_ROWS_PER_READ", 10)


def make_stream(num_shards=3):
    rows = [{"source": source, "target": target} for source, target in make_pairs(60)]
    return datasets.Dataset.from_list(rows).to_iterable_dataset(num_shards=num_shards)


def recorded(trainer):
    """Batches that the trainer takes, recorded while it trains."""
    batches = []
    step = trainer.training_step

    def record(model, inputs, *args, **kwargs):
        batches.append({name: tensor.clone() for name, tensor in inputs.items()})
        return step(model, inputs, *args, **kwargs)

    trainer.training_step = record
    trainer.train()
    return batches


def target_tokens(batch):
    return int(batch["labels"].ne(-100).sum())


def test_text_is_trained_on_in_batches_bounded_by_tokens(make_trainer):
    trainer = make_trainer(train_dataset=make_stream(), gradient_accumulation_steps=2, max_steps=6)
    batches = recorded(trainer)
    assert len(batches) == 12
    sources = [int(batch["attention_mask"].sum()) for batch in batches]
    targets = [target_tokens(batch) for batch in batches]
    assert max(sources) <= 60 and max(targets) <= 60
    assert (trainer.cost.source_tokens, trainer.cost.target_tokens) == (sum(sources), sum(targets))


def test_padded_tokens_of_a_device_are_bounded(make_trainer):
    trainer = make_trainer(
        train_dataset=make_stream(), max_padded_tokens_per_device=100, max_steps=3
    )
    batches = recorded(trainer)
    # 240 real tokens an update, of which a device holds 100
    assert trainer.args.gradient_accumulation_steps == 3
    assert max(batch["input_ids"].numel() + batch["labels"].numel() for batch in batches) <= 100


def test_loss_is_a_mean_over_the_target_tokens_of_an_update(make_trainer):
    trainer = make_trainer(train_dataset=make_stream(), gradient_accumulation_steps=2, max_steps=1)
    model = trainer.model
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batches = recorded(trainer)
    model.load_state_dict(initial)
    with torch.no_grad():
        losses = [
            model(**batch, label_smoothing_factor=0.1, num_items_in_batch=1)["loss"].item()
            for batch in batches
        ]
    num_tokens = sum(map(target_tokens, batches))
    assert logged(trainer, "loss") == [pytest.approx(sum(losses) / num_tokens, rel=1e-5)]


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_resumed_stream_trains_the_same_model_bit_for_bit(trained, tmp_path, num_workers):
    options = {
        "max_steps": 10,
        "dropout": 0.1,
        "save_strategy": "steps",
        "save_steps": 5,
        "logging_steps": 2,
        "gradient_accumulation_steps": 2,
        "dataloader_num_workers": num_workers,
    }
    whole = trained(train_dataset=make_stream(), **options)
    checkpoint = str(tmp_path / "run" / "checkpoint-5")
    resumed = trained(checkpoint, train_dataset=make_stream(), **options)
    for name in ("loss", "nll", "learning_rate", "grad_norm"):
        assert logged(resumed, name) == logged(whole, name)
    check_same_weights(whole, resumed)


# ---- the command ----


@pytest.fixture
def stream_recipe(tmp_path, tokenizer):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    return tiny_recipe(
        tmp_path,
        {"train": make_pairs(60)},
        streaming=True,
        tokenizer=str(tmp_path / "tokenizer"),
        **limits(120),
        max_tokens_per_sentence=8,
        max_steps=3,
        warmup_steps=2,
        snapshot_steps=3,
    )


def test_recipe_trains_on_a_stream(stream_recipe, tmp_path):
    results = train(stream_recipe, tmp_path / "run", use_cpu=True)
    assert results["train_steps"] == 3
    assert results["train_pairs"] > 0 and results["train_dropped_pairs"]["source_too_long"] > 0
    assert Recipe.load(tmp_path / "run").streaming
    assert (tmp_path / "run" / "README.md").is_file()


def test_plan_of_a_stream_is_described_without_its_length(make_trainer):
    assert "on a stream of 3 shard(s): 4 updates. " in describe_plan(
        make_trainer(train_dataset=make_stream())
    )


@pytest.mark.parametrize(("steps", "batches"), [(1, 2), (3, 6)])
def test_pools_hold_as_many_updates_however_these_are_split(make_trainer, steps, batches):
    trainer = make_trainer(train_dataset=make_stream(), gradient_accumulation_steps=steps)
    assert trainer.get_train_dataloader().settings.batches_per_pool == batches
