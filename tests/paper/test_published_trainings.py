# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sections 5 and 6: every published recipe, from its name to the trainer that runs it.

The trainers are the real ones, of the real functions and of models of full size. Only the data are
a stand-in, with a vocabulary of 300 entries, and the weights are memory that nobody has filled: the
big model needs none of it.
"""

import dataclasses
import math

import datasets
import pytest
import torch
from printed import TABLE_3
from tiny import SENTENCES, SMALLEST
from torch.nn.functional import cross_entropy
from transformers import EarlyStoppingCallback
from transformers.initialization import no_init_weights

from vaswani_transformer.recipe import RECIPES, Recipe, get_recipe
from vaswani_transformer.training.averaging import SnapshotCallback
from vaswani_transformer.training.data import RunData
from vaswani_transformer.training.train import build_trainer, make_model, training_arguments

FILES = {
    f"{split}_{side}": f"{split}.{side}"
    for split in ("train", "validation")
    for side in ("source", "target")
}


# -------------------------------------------------------------------------------- what must be true

# Sections 5.1, 5.3 and 6.1. An average is (snapshots, updates between two): the paper writes one
# every 10 minutes, and an update takes 0.4 s (base) or 1.0 s (big).
COMMON = {
    "warmup": 4000,
    "peak": None,
    "betas": (0.9, 0.98),
    "epsilon": 1e-9,
    "clip": 0.0,
    "tokens": (25_000, 25_000),
}
COMMON |= {"early_stop": None, "search": (4, 0.6, 5, 50)}
PAPER = {f"table3-{row}": {**COMMON, **values, "average": None} for row, values in TABLE_3.items()}
for _pair, _vocabulary in (("en-de", 37_000), ("en-fr", 32_000)):
    for _model, _average in (("base", (5, 600 / 0.4)), ("big", (20, 600 / 1.0))):
        PAPER[f"paper-{_model}-{_pair}"] = {**COMMON, **TABLE_3[_model], "average": _average}
PAPER["paper-big-en-fr"]["P_drop"] = 0.1


def told_by(recipe):
    """The same values of a recipe that is not the paper's; what it leaves open is that of the base
    model.
    """
    sizes = {
        "N": recipe.num_encoder_layers,
        "d_model": recipe.d_model,
        "d_ff": recipe.d_ff,
        "h": recipe.num_heads,
        "P_drop": recipe.dropout,
    }
    values = {
        **TABLE_3["base"],
        **{name: value for name, value in sizes.items() if value is not None},
    }
    return {
        **values,
        "d_k": recipe.d_k or values["d_model"] / values["h"],
        "d_v": recipe.d_v or values["d_model"] / values["h"],
        "eps_ls": recipe.label_smoothing_factor,
        "steps": recipe.max_steps,
        "warmup": recipe.warmup_steps,
        "peak": recipe.learning_rate,
        "betas": (recipe.adam_beta1, recipe.adam_beta2),
        "epsilon": recipe.adam_epsilon,
        "clip": recipe.max_grad_norm,
        "tokens": (recipe.max_source_tokens_per_batch, recipe.max_target_tokens_per_batch),
        "average": (recipe.num_averaged_snapshots, recipe.snapshot_steps)
        if recipe.num_averaged_snapshots
        else None,
        "early_stop": recipe.early_stopping_patience,
        "search": (
            recipe.num_beams,
            recipe.length_penalty,
            recipe.length_penalty_offset,
            recipe.max_new_tokens_over_source,
        ),
    }


# ----------------------------------------------------------------------------- what the trainer has


def tokenised(source_length, target_length, num_pairs=100):
    """Pairs that are all of one length."""
    rows = {
        "input_ids": [[7] * source_length] * num_pairs,
        "labels": [[7] * target_length] * num_pairs,
    }
    lengths = {
        "source_length": [source_length] * num_pairs,
        "target_length": [target_length] * num_pairs,
    }
    return datasets.Dataset.from_dict({**rows, **lengths})


@pytest.fixture(scope="module")
def build(tiny_tokenizer, tmp_path_factory):
    """Function that builds a recipe's trainer on the CPU."""

    def make(recipe, train, make_model=make_model):
        arguments = training_arguments(recipe, tmp_path_factory.mktemp("run"), use_cpu=True)
        return build_trainer(
            recipe, arguments, RunData(tiny_tokenizer, train, train.select(range(2))), make_model
        )

    return make


@pytest.fixture(scope="module", params=sorted(RECIPES))
def published(request, build):
    """Trainer of a published recipe, ready for its first update, and the values it must have."""
    recipe = RECIPES[request.param]
    expected = PAPER.get(recipe.name) or told_by(recipe)
    recipe = recipe if recipe.dataset else dataclasses.replace(recipe, **FILES)
    trainer = build(recipe, tokenised(25, 20), model_without_weights)
    trainer.create_optimizer_and_scheduler(recipe.max_steps)
    return trainer, {**expected, "name": recipe.name}


def model_without_weights(recipe, data):
    with no_init_weights():
        return make_model(recipe, data)


def model_in_float64(recipe, data):
    return make_model(recipe, data).double()


def modules_of(trainer, name):
    """All modules whose own name this is."""
    return [
        module for path, module in trainer.model.named_modules() if path.rpartition(".")[2] == name
    ]


def rate_of_update(trainer, number):
    """Learning rate that the optimiser has in the update of this number."""
    scheduler = trainer.lr_scheduler
    scheduler.last_epoch = number - 2
    scheduler.step()
    (rate,) = {group["lr"] for group in trainer.optimizer.param_groups}
    return rate


def updates_of_an_epoch(build, recipe, lengths, num_pairs):
    trainer = build(recipe, tokenised(*lengths, num_pairs), model_without_weights)
    return trainer.train_batches.num_effective_batches


def test_every_recipe_that_claims_to_be_the_papers_is_compared_with_the_paper():
    models = {
        f"paper-{model}-{languages}"
        for model in ("base", "big")
        for languages in ("en-de", "en-fr")
    }
    rows = {f"table3-{row}" for row in TABLE_3}
    assert {name for name in RECIPES if name.startswith(("paper", "table3"))} == models | rows


def test_model_has_these_sizes(published):
    trainer, expected = published
    model, d_model = trainer.model.model, expected["d_model"]
    stacks = {len(model.encoder.layers), len(model.decoder.layers)}
    widths = {
        name: {tuple(each.weight.shape) for each in modules_of(trainer, f"{name}_proj")}
        for name in "qkv"
    }
    hidden = {tuple(each.weight.shape) for each in modules_of(trainer, "fc1")}
    keys, values = expected["h"] * expected["d_k"], expected["h"] * expected["d_v"]
    assert (stacks, hidden) == ({expected["N"]}, {(expected["d_ff"], d_model)})
    assert widths == {"q": {(keys, d_model)}, "k": {(keys, d_model)}, "v": {(values, d_model)}}
    assert trainer.model.config.num_heads == expected["h"]


def test_only_row_e_learns_its_positions(published):
    trainer, expected = published
    learned = [name for name, _ in trainer.model.named_parameters() if "positions" in name]
    assert bool(learned) == (expected["name"] == "table3-E")


def test_dropout_is_residual_alone(published):
    trainer, expected = published
    attentions = [*modules_of(trainer, "self_attn"), *modules_of(trainer, "encoder_attn")]
    layers, depth = modules_of(trainer, "dropout"), int(expected["N"])
    # those of the layers and of both inputs
    assert (len(attentions), len(layers)) == (3 * depth, 2 * depth + 2)
    assert {layer.p for layer in layers} == {expected["P_drop"]}
    assert (
        {each.dropout for each in attentions}
        == {each.p for each in modules_of(trainer, "activation_dropout")}
        == {0}
    )


def test_label_smoothing_reaches_the_forward(published):
    trainer, expected = published
    seen = []

    def stop(module, args, kwargs):
        seen.append(kwargs["label_smoothing_factor"])
        raise StopIteration

    batch = {"input_ids": torch.tensor([[7, 2]]), "labels": torch.tensor([[7, 2]])}
    hook = trainer.model.register_forward_pre_hook(stop, with_kwargs=True)
    with pytest.raises(StopIteration):
        trainer.compute_loss(trainer.model, batch, num_items_in_batch=2)
    hook.remove()
    assert (seen, trainer.label_smoother) == ([expected["eps_ls"]], None)


def test_optimiser_is_adam_without_weight_decay(published):
    trainer, expected = published
    optimizer = trainer.optimizer
    assert isinstance(optimizer, torch.optim.Adam)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(
        list(trainer.model.parameters())
    )
    for group in optimizer.param_groups:
        assert (group["betas"], group["eps"]) == (expected["betas"], expected["epsilon"])
        assert (group["weight_decay"], group["amsgrad"]) == (0, False)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("share", [0.25, 1, 4], ids=["half-way up", "peak", "half-way down"])
def test_learning_rate_is_that_of_equation_3(published, share):
    """Or the recipe's own peak, with the same warm-up and the same decay."""
    trainer, expected = published
    warmup, step = expected["warmup"], int(share * expected["warmup"])
    factor = min(step**-0.5, step * warmup**-1.5)
    scale = (
        expected["d_model"] ** -0.5 if expected["peak"] is None else expected["peak"] * warmup**0.5
    )
    assert rate_of_update(trainer, step) == pytest.approx(scale * factor, rel=1e-9)


def test_gradients_are_clipped_and_updates_counted_and_filled_as_the_recipe_says(published):
    trainer, expected = published
    args = trainer.args
    assert (args.max_grad_norm, args.max_steps) == (expected["clip"], expected["steps"])
    limits = args.max_source_tokens_per_batch, args.max_target_tokens_per_batch
    assert limits == expected["tokens"]


def callbacks_of(trainer, kind):
    return [each for each in trainer.callback_handler.callbacks if isinstance(each, kind)]


def test_snapshots_are_taken_as_the_recipe_says(published):
    trainer, expected = published
    callbacks = callbacks_of(trainer, SnapshotCallback)
    found = [(each.num_kept, each.snapshot_steps) for each in callbacks]
    assert found == ([] if expected["average"] is None else [expected["average"]])


def test_training_stops_early_only_where_the_recipe_says(published):
    trainer, expected = published
    callbacks = callbacks_of(trainer, EarlyStoppingCallback)
    found = [each.early_stopping_patience for each in callbacks]
    assert found == ([] if expected["early_stop"] is None else [expected["early_stop"]])
    assert trainer.args.load_best_model_at_end is False


def test_model_searches_as_section_6_1_says(published):
    trainer, expected = published
    names = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")
    assert (
        tuple(getattr(trainer.model.generation_config, name) for name in names)
        == expected["search"]
    )


@pytest.mark.parametrize("model", ["base", "big"])
@pytest.mark.parametrize(("target", "vocab_size"), [("de", 37_000), ("fr", 32_000)])
def test_published_model_has_the_papers_vocabulary(model, target, vocab_size):
    config = get_recipe(f"paper-{model}-en-{target}").model_config()
    assert (config.vocab_size, config.language_pair) == (vocab_size, ("en", target))


# ------------------------------------------------------------------------- a recipe like no default

OWN = {
    "label_smoothing_factor": 0.3,
    "learning_rate": 0.02,
    "warmup_steps": 2,
    "adam_beta1": 0.8,
    "adam_beta2": 0.95,
    "adam_epsilon": 1e-3,
    "max_grad_norm": 0.1,
    "max_steps": 4,
    "max_source_tokens_per_batch": 700,
    "max_target_tokens_per_batch": 800,
    "max_padded_tokens_per_device": 900,
    "snapshot_steps": 3,
    "num_averaged_snapshots": 2,
    "metric_for_best_model": "nll",
    "early_stopping_patience": 7,
    "eval_steps": 90,
    "generation_num_beams": 3,
    "save_steps": 91,
    "save_total_limit": 6,
    "logging_steps": 92,
    "seed": 5,
}
MODEL = {**SMALLEST, "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.0}


def test_values_of_a_recipe_reach_the_training_arguments():
    recipe, default = Recipe(**OWN, **FILES), Recipe()
    assert [name for name, value in OWN.items() if value == getattr(default, name)] == []
    arguments = training_arguments(recipe, "run", use_cpu=True)
    expected = {name: value for name, value in OWN.items() if name != "early_stopping_patience"}
    assert {name: getattr(arguments, name) for name in expected} == expected


def test_label_smoothing_factor_of_a_recipe_file_reaches_the_loss(build, tiny_batch, tmp_path):
    values = {"extends": "small", "label_smoothing_factor": 0.3, **MODEL}
    file = tmp_path / "mine.yaml"
    file.write_text(
        "".join(f"{name}: {value}\n" for name, value in values.items()), encoding="utf-8"
    )
    trainer = build(get_recipe(file, **FILES), tokenised(3, 2), model_in_float64)
    logits, labels = trainer.model(**tiny_batch).logits, tiny_batch["labels"]
    expected = cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.3)
    torch.testing.assert_close(trainer.compute_loss(trainer.model, tiny_batch), expected)


@pytest.mark.parametrize(("is_best", "num_snapshots"), [(False, 2), (True, 0)])
def test_snapshots_are_taken_unless_the_best_checkpoint_is_the_model(is_best, num_snapshots):
    recipe = Recipe(**{**OWN, "eval_steps": 91}, **FILES, load_best_model_at_end=is_best)
    arguments = training_arguments(recipe, "run", use_cpu=True)
    assert (arguments.num_averaged_snapshots, arguments.load_best_model_at_end) == (
        num_snapshots,
        is_best,
    )


@pytest.mark.parametrize(("lengths", "num_pairs"), [((25, 20), 700 // 25), ((20, 25), 800 // 25)])
def test_either_side_bounds_an_update(build, lengths, num_pairs):
    recipe = Recipe(**OWN, **MODEL, **FILES)
    assert [
        updates_of_an_epoch(build, recipe, lengths, 2 * num_pairs + more) for more in (0, 1)
    ] == [2, 3]


def train_by_hand(model, batch, num_updates):
    """Updates of all weights with `OWN`: smoothed mean loss per token, clipped, Adam."""
    betas = OWN["adam_beta1"], OWN["adam_beta2"]
    optimizer = torch.optim.Adam(model.parameters(), betas=betas, eps=OWN["adam_epsilon"])
    for step in range(1, num_updates + 1):
        logits = model(batch["input_ids"], batch["attention_mask"], labels=batch["labels"]).logits
        loss = cross_entropy(
            logits.flatten(0, 1),
            batch["labels"].flatten(),
            label_smoothing=OWN["label_smoothing_factor"],
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), OWN["max_grad_norm"])
        warmup = OWN["warmup_steps"]
        optimizer.param_groups[0]["lr"] = OWN["learning_rate"] * min(
            step / warmup, math.sqrt(warmup / step)
        )
        optimizer.step()


def test_training_of_a_recipe_is_the_one_made_by_hand(tiny_tokenizer, tiny_batch, build):
    recipe = Recipe(
        **{**OWN, "num_averaged_snapshots": 0, "early_stopping_patience": None}, **MODEL
    )
    sentences = tiny_tokenizer(
        [SENTENCES[0], "A dog."], text_target=[SENTENCES[1], "Ein Hund liest."]
    )
    trainer = build(recipe, datasets.Dataset.from_dict({**sentences}), model_in_float64)
    by_hand = build(
        recipe, datasets.Dataset.from_dict({**sentences}), model_in_float64
    ).model.train()
    trainer.train()
    train_by_hand(by_hand, tiny_batch, num_updates=4)
    for name, weight in trainer.model.named_parameters():
        torch.testing.assert_close(weight, by_hand.get_parameter(name), rtol=0, atol=1e-7)
