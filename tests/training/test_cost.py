# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import json
from types import SimpleNamespace

import pytest
import torch
from toy_language import logged, tokenize
from transformers import TrainerState

from vaswani_transformer.analysis import cost
from vaswani_transformer.analysis.cost import layer_parameters, measure_cost, measure_matrix_rate
from vaswani_transformer.training import callbacks
from vaswani_transformer.training.callbacks import CostCallback

SAVING = {"dropout": 0.1, "save_strategy": "steps", "save_steps": 2}


@pytest.fixture(scope="module")
def dataset(tokenizer, pairs):
    """Rows with more target than source tokens."""
    return tokenize(tokenizer, [(source, f"{target} und") for source, target in pairs])


def counts(trainer):
    return trainer.cost.source_tokens, trainer.cost.target_tokens


def naive_counts(trainer, dataset, num_steps):
    """Real tokens of the first updates, from the batches' rows."""
    sampler, tokens = trainer.train_batches, [0, 0]
    num_epochs = -(-num_steps // sampler.num_effective_batches)
    batches = []
    for epoch in range(num_epochs):
        sampler.set_epoch(epoch)
        batches += list(sampler)
    for batch in batches[: num_steps * trainer.args.gradient_accumulation_steps]:
        tokens[0] += sum(dataset["source_length"][row] for row in batch)
        tokens[1] += sum(dataset["target_length"][row] for row in batch)
    return tuple(tokens)


# ---- counts ----


@pytest.mark.parametrize("steps", [1, 3, 25], ids=["whole", "accumulated", "mostly_empty"])
def test_real_tokens_are_counted_without_padding_and_filling_rows(make_trainer, dataset, steps):
    trainer = make_trainer(max_steps=2, gradient_accumulation_steps=steps)
    expected = naive_counts(trainer, dataset, 2)
    for _ in range(2):  # a second training starts from zero
        trainer.train()
        assert counts(trainer) == expected
    assert trainer.cost.state() == trainer.cost.state()  # the clock stands still


def test_every_source_token_counts_where_nothing_is_masked():
    callback = CostCallback()
    callback._unsettled = torch.zeros(2, dtype=torch.int64)
    callback.count(
        {"input_ids": torch.tensor([[5, 6, 2]]), "labels": torch.tensor([[7, 2, -100, -100]])}
    )
    assert callback._unsettled.tolist() == [3, 2]


def test_total_flos_are_the_counted_operations(trained):
    trainer = trained(max_steps=3)
    encoder, decoder = layer_parameters(trainer.model.config)
    source, target = counts(trainer)
    expected = 6 * (encoder * source + (decoder + trainer.model.lm_head.weight.numel()) * target)
    metrics = trainer.state.log_history[-1]
    assert metrics["total_flos"] == trainer.state.total_flos == expected
    assert (metrics["train_source_tokens"], metrics["train_target_tokens"]) == (source, target)


# ---- resuming ----


def test_the_code_of_every_leg_is_told(trained, monkeypatch):
    monkeypatch.setattr(cost, "measure_matrix_rate", lambda device, dtype: 2e9)
    for steps, version in ((1, "0.1.0"), (2, "0.1.0"), (3, "0.2.0")):
        monkeypatch.setattr(callbacks, "__version__", version)
        trainer = trained(resume=steps > 1, max_steps=steps, **{**SAVING, "save_steps": 1})
    assert measure_cost(trainer)["train_code"] == "0.1.0, then 0.2.0"


def test_counts_are_the_same_where_the_library_restores_callbacks_itself(trained):
    trained(max_steps=2, **SAVING)
    resumed = trained(
        resume=True, max_steps=3, restore_callback_states_from_checkpoint=True, **SAVING
    )
    assert counts(resumed) == naive_counts(resumed, resumed.train_dataset, 3)


def test_seconds_and_device_seconds_add_up_over_legs(trained, make_trainer, tmp_path):
    trained(max_steps=2, **SAVING)
    path = tmp_path / "run" / "checkpoint-2" / "trainer_state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    state["stateful_callbacks"]["CostCallback"]["attributes"] |= {
        "seconds": 1000.0,
        "device_seconds": 4000.0,
    }
    path.write_text(json.dumps(state), encoding="utf-8")
    (path.parent / "manifest.json").unlink()
    resumed = make_trainer(max_steps=3, **SAVING)
    metrics = resumed.train(resume_from_checkpoint=True).metrics
    leg = metrics["train_runtime"] - 1000
    assert 0 < leg < 100
    assert (metrics["train_runtime"], metrics["train_device_seconds"]) == (
        resumed.cost.seconds,
        4000 + leg,
    )
    assert metrics["train_tokens_per_second"] == pytest.approx(
        sum(counts(resumed)) / metrics["train_runtime"]
    )


def test_speed_of_a_lap_is_that_since_the_last_one(monkeypatch):
    clock = iter([100.0, 112.0, 121.0])
    monkeypatch.setattr(callbacks, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    counted = CostCallback()
    args = SimpleNamespace(device="cpu", world_size=1, bpe_dropout=0.0)
    counted.on_train_begin(args, TrainerState(), None)  # at 100
    counted.source_tokens, counted.target_tokens = 30, 50
    assert counted.lap() == pytest.approx((30 + 50) / (112 - 100))
    counted.source_tokens += 7
    assert counted.lap() == pytest.approx(7 / (121 - 112))


def test_logged_speed_is_that_of_the_tokens_since_the_last_log(make_trainer, monkeypatch):
    monkeypatch.setattr(
        CostCallback, "lap", lambda cost: float(cost.source_tokens + cost.target_tokens)
    )
    trainer = make_trainer(max_steps=4, logging_steps=2)
    expected = [sum(naive_counts(trainer, trainer.train_dataset, steps)) for steps in (2, 4)]
    trainer.train()
    assert logged(trainer, "tokens_per_second") == expected


# ---- cost ----


@pytest.mark.parametrize(("bf16", "dtype"), [(False, torch.float32), (True, torch.bfloat16)])
def test_matrix_rate_is_measured_in_the_trainings_dtype(trained, monkeypatch, bf16, dtype):
    asked = []
    monkeypatch.setattr(cost, "measure_matrix_rate", lambda *given: asked.append(given) or 1e9)
    assert measure_cost(trained(max_steps=1, bf16=bf16))["train_matrix_flops_per_second"] == 1e9
    assert asked == [(torch.device("cpu"), dtype)]


def test_cost_is_empty_where_nothing_was_counted(make_trainer):
    assert measure_cost(make_trainer()) == {}


def test_matrix_rate_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    assert measure_matrix_rate(torch.device("cpu"), torch.float32) > 0
    assert torch.equal(before, torch.random.get_rng_state())
