# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Warnings before a training: what is far from the recipe, both ways, and what is near enough."""

import dataclasses
from types import SimpleNamespace

import pytest

from vaswani_transformer.training.danger import dangers
from vaswani_transformer.training.recipes import RECIPES
from vaswani_transformer.training.run import training_arguments

DEEP, SHALLOW = SimpleNamespace(num_decoder_layers=6), SimpleNamespace(num_decoder_layers=2)
SIZES = {"max_source_tokens_per_batch": 1000, "max_target_tokens_per_batch": 1000, "warmup_steps": 400}
SMALL = dataclasses.replace(RECIPES["quickstart"], **SIZES)


def arguments(recipe, **changes):
    args = training_arguments(recipe, "run", use_cpu=True)
    for name, value in changes.items():
        setattr(args, name, value)
    return args


def found(recipe=SMALL, config=SHALLOW, tokens_per_update=None, **changes):
    return dangers(arguments(recipe, **changes), config, recipe, tokens_per_update)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"warmup_steps": 100}, "`warmup_steps` of 100 is a quarter or less of recipe quickstart's 400: post-norm"),
        ({"warmup_steps": 1600}, "`warmup_steps` of 1,600 is 4 times or more recipe quickstart's 400: much of"),
        ({"max_target_tokens_per_batch": 250}, "`max_target_tokens_per_batch` of 250 is a quarter or less of"),
        ({"max_source_tokens_per_batch": 4000}, "`max_source_tokens_per_batch` of 4,000 is 4 times or more"),
        ({"tokens_per_update": (900.0, 250.0)}, "The data give an update 250 target tokens on average, which is a"),
    ],
)
def test_value_four_times_off_the_recipes_is_named_with_what_to_do(changes, told):
    (text,) = found(**changes)
    assert text.startswith(told)
    assert "Raise" in text or "Lower" in text or "Train" in text


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"warmup_steps": 101},
        {"warmup_steps": 1599},
        {"max_target_tokens_per_batch": 251},
        {"max_source_tokens_per_batch": 3999},
        {"tokens_per_update": (960.0, 251.0)},
    ],
)
def test_value_less_than_four_times_off_is_not(changes):
    assert found(**changes) == []


def test_batch_that_was_asked_for_is_named_once():
    given = {"max_source_tokens_per_batch": 100, "max_target_tokens_per_batch": 100}
    assert len(found(**given, tokens_per_update=(90.0, 90.0))) == 1


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.startswith("table3")])
def test_shipped_recipes_are_not_warned_of(name):
    assert found(RECIPES[name], config=DEEP) == []


@pytest.mark.parametrize(("config", "count"), [(DEEP, 2), (SHALLOW, 0)])
def test_without_a_recipe_deep_models_are_compared_with_the_paper(config, count):
    texts = dangers(arguments(RECIPES["quickstart"]), config)
    assert len(texts) == count
    assert all("the paper's" in text for text in texts)


def test_warmup_longer_than_the_training_is_named_whatever_the_model():
    args = arguments(RECIPES["quickstart"], warmup_steps=30, max_steps=29)
    (text,) = dangers(args, SHALLOW)
    assert text.startswith("`warmup_steps` of 30 is more than `max_steps` of 29")
    assert dangers(arguments(RECIPES["quickstart"], warmup_steps=30, max_steps=30), SHALLOW) == []


def test_fp16_is_warned_of_whatever_the_model():
    args = arguments(RECIPES["quickstart"])
    args.fp16 = True
    assert dangers(args, SHALLOW) == ["Post-norm transformers tend to diverge in fp16. Train in bf16, or in fp32."]


def test_trainer_warns_when_it_trains(make_trainer, caplog):
    trainer = make_trainer(max_steps=1)
    trainer.recipe = RECIPES["quickstart"]
    with caplog.at_level("WARNING"):
        assert not caplog.records
        trainer.train()
    assert [record.message.split()[0] for record in caplog.records if record.name.endswith("trainer")] == [
        "`warmup_steps`",
        "`warmup_steps`",
        "`max_source_tokens_per_batch`",
    ]
