# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import json
from types import SimpleNamespace

import pytest
import torch
from tables import estimate_cost
from toy_language import make_pairs, tokenize
from transformers import TrainerState

from vaswani_transformer.analysis import cost
from vaswani_transformer.analysis.cost import layer_parameters, measure_cost, measure_matrix_rate
from vaswani_transformer.training import callbacks
from vaswani_transformer.training.callbacks import CostCallback
from vaswani_transformer.training.recipes import get_recipe

SAVING = {"dropout": 0.1, "save_strategy": "steps", "save_steps": 2}


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


def saved_state(folder):
    return json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))


@pytest.fixture
def fixed_rate(monkeypatch):
    """Devices that multiply 2 GFLOP/s."""
    monkeypatch.setattr(cost, "measure_matrix_rate", lambda device, dtype: 2e9)


# ---- counts ----


@pytest.mark.parametrize("steps", [1, 3, 25], ids=["whole", "accumulated", "mostly_empty"])
def test_real_tokens_are_counted_without_padding_and_filling_rows(make_trainer, dataset, steps):
    trainer = make_trainer(max_steps=2, gradient_accumulation_steps=steps)
    expected = naive_counts(trainer, dataset, 2)
    trainer.train()
    assert counts(trainer) == expected


def test_tokens_of_an_epoch_are_those_of_the_data(make_trainer, dataset):
    everything = {"max_source_tokens_per_batch": 10_000, "max_target_tokens_per_batch": 10_000}
    trainer = make_trainer(max_steps=1, **everything)
    trainer.train()
    assert counts(trainer) == (sum(dataset["source_length"]), sum(dataset["target_length"]))


def test_tokens_of_a_stream_are_counted(make_trainer, dataset):
    trainer, seen = make_trainer(train_dataset=dataset.to_iterable_dataset(), max_steps=3), []
    collate = trainer.data_collator
    trainer.data_collator = lambda rows: seen.extend(rows) or collate(rows)
    trainer.train()
    assert counts(trainer) == tuple(sum(len(row[side]) for row in seen) for side in ("input_ids", "labels"))


def test_every_source_token_counts_where_nothing_is_masked():
    callback = CostCallback()
    callback._unsettled = torch.zeros(2, dtype=torch.int64)
    callback.count({"input_ids": torch.tensor([[5, 6, 2]]), "labels": torch.tensor([[7, 2, -100, -100]])})
    assert callback._unsettled.tolist() == [3, 2]


def test_counting_does_not_wait_for_the_device():
    callback = CostCallback()
    callback._unsettled = torch.zeros(2, dtype=torch.int64, device="meta")  # where reading a value is an error
    ids = torch.zeros(4, 5, dtype=torch.int64, device="meta")
    callback.count({"input_ids": ids, "attention_mask": ids, "labels": ids})
    with pytest.raises(RuntimeError):
        callback._unsettled.tolist()


def test_total_flos_are_the_counted_operations(make_trainer):
    trainer = make_trainer(max_steps=3)
    trainer.train()
    encoder, decoder = layer_parameters(trainer.model.config)
    source, target = counts(trainer)
    expected = 6 * (encoder * source + (decoder + trainer.model.lm_head.weight.numel()) * target)
    assert trainer.state.log_history[-1]["total_flos"] == trainer.state.total_flos == expected


def test_training_metrics_and_log_tell_tokens_and_time(make_trainer):
    trainer = make_trainer(max_steps=3)
    metrics = trainer.train().metrics
    assert (metrics["train_source_tokens"], metrics["train_target_tokens"]) == counts(trainer)
    assert metrics["train_device_seconds"] == metrics["train_runtime"]
    assert metrics["train_tokens_per_second"] == pytest.approx(sum(counts(trainer)) / metrics["train_device_seconds"])
    assert trainer.state.log_history[-1].items() >= {"train_source_tokens": counts(trainer)[0]}.items()


def test_a_second_training_starts_from_zero(make_trainer):
    trainer = make_trainer(max_steps=3)
    trainer.train()
    first = counts(trainer)
    trainer.train()
    assert counts(trainer) == first


def test_clock_stands_still_after_the_training(make_trainer):
    trainer = make_trainer(max_steps=1)
    trainer.train()
    assert trainer.cost.state() == trainer.cost.state()


# ---- resuming ----


@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 3}], ids=["whole", "accumulated"])
def test_resumed_training_counts_the_same_tokens(make_trainer, tmp_path, options):
    whole = make_trainer(max_steps=4, output_dir=tmp_path / "whole", **SAVING, **options)
    whole.train()
    make_trainer(max_steps=2, output_dir=tmp_path / "parts", **SAVING, **options).train()
    resumed = make_trainer(max_steps=4, output_dir=tmp_path / "parts", **SAVING, **options)
    resumed.train(resume_from_checkpoint=True)
    assert counts(resumed) == counts(whole)
    assert resumed.state.total_flos == whole.state.total_flos
    assert saved_state(tmp_path / "parts" / "checkpoint-4")["total_flos"] == whole.state.total_flos


def test_the_code_of_every_leg_is_told(make_trainer, tmp_path, monkeypatch, fixed_rate):
    for steps, version in ((1, "0.1.0 (abc)"), (2, "0.1.0 (abc)"), (3, "0.2.0")):
        monkeypatch.setattr(callbacks, "code_version", lambda version=version: version)
        trainer = make_trainer(max_steps=steps, output_dir=tmp_path, **{**SAVING, "save_steps": 1})
        trainer.train(resume_from_checkpoint=steps > 1)
    assert measure_cost(trainer)["train_code"] == "0.1.0 (abc), then 0.2.0"


def test_counts_are_the_same_where_the_library_restores_callbacks_itself(make_trainer, tmp_path):
    make_trainer(max_steps=2, **SAVING).train()
    saved = saved_state(tmp_path / "run" / "checkpoint-2")["stateful_callbacks"]["CostCallback"]["attributes"]
    resumed = make_trainer(max_steps=3, restore_callback_states_from_checkpoint=True, **SAVING)
    resumed.train(resume_from_checkpoint=True)
    two, three = (naive_counts(resumed, resumed.train_dataset, num_steps) for num_steps in (2, 3))
    assert (saved["source_tokens"], counts(resumed)) == (two[0], three)


def test_seconds_and_device_seconds_add_up_over_legs(make_trainer, tmp_path):
    make_trainer(max_steps=2, **SAVING).train()
    path = tmp_path / "run" / "checkpoint-2" / "trainer_state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    state["stateful_callbacks"]["CostCallback"]["attributes"] |= {"seconds": 1000.0, "device_seconds": 4000.0}
    path.write_text(json.dumps(state), encoding="utf-8")
    (path.parent / "manifest.json").unlink()
    resumed = make_trainer(max_steps=3, **SAVING)
    metrics = resumed.train(resume_from_checkpoint=True).metrics
    leg = metrics["train_runtime"] - 1000
    assert 0 < leg < 100
    assert (metrics["train_runtime"], metrics["train_device_seconds"]) == (resumed.cost.seconds, 4000 + leg)
    assert metrics["train_tokens_per_second"] == pytest.approx(sum(counts(resumed)) / metrics["train_runtime"])
    assert metrics["train_steps_per_second"] == pytest.approx(3 / metrics["train_runtime"])


def test_speed_of_a_lap_leaves_validations_out(monkeypatch):
    clock = iter([100.0, 104.0, 110.0, 112.0, 120.0, 121.0])
    monkeypatch.setattr(callbacks, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(callbacks, "code_version", lambda: "1")
    counted, nothing = CostCallback(), {"args": None, "state": None, "control": None}
    counted.on_train_begin(SimpleNamespace(device="cpu", world_size=1, n_gpu=0), TrainerState(), None)  # at 100
    counted.on_step_end(**nothing)  # at 104
    counted.on_evaluate(**nothing)  # at 110: 6 seconds that do not count
    counted.source_tokens, counted.target_tokens = 30, 50
    assert counted.lap() == pytest.approx(80 / (112 - 100 - 6))
    counted.on_save(**nothing)  # at 120
    counted.source_tokens += 7
    assert counted.lap() == pytest.approx(7 / 1)


def test_logged_speed_is_that_of_the_tokens_since_the_last_log(make_trainer, monkeypatch):
    monkeypatch.setattr(CostCallback, "lap", lambda cost: float(cost.source_tokens + cost.target_tokens))
    trainer = make_trainer(max_steps=4, logging_steps=2)
    expected = [sum(naive_counts(trainer, trainer.train_dataset, steps)) for steps in (2, 4)]
    trainer.train()
    assert [entry["tokens_per_second"] for entry in trainer.state.log_history if "loss" in entry] == expected


# ---- cost ----


@pytest.mark.parametrize(("options", "dtype"), [({}, torch.float32), ({"bf16": True}, torch.bfloat16)])
def test_matrix_rate_is_measured_in_the_trainings_dtype(make_trainer, monkeypatch, options, dtype):
    asked = []
    monkeypatch.setattr(cost, "measure_matrix_rate", lambda *given: asked.append(given) or 1e9)
    trainer = make_trainer(max_steps=1, **options)
    trainer.train()
    assert measure_cost(trainer)["train_matrix_flops_per_second"] == 1e9
    assert asked == [(torch.device("cpu"), dtype)]


def test_cost_is_empty_where_nothing_was_counted(make_trainer):
    assert measure_cost(make_trainer()) == {}


def test_recipe_is_estimated_with_full_batches():
    changed = {"max_source_tokens_per_batch": 900, "max_target_tokens_per_batch": 1000}
    recipe = get_recipe("quickstart", **changed, max_steps=2500, vocab_size=3000, d_model=128)
    full = estimate_cost(recipe, tokens_per_second=1000)
    assert (full.num_steps, full.source_tokens, full.target_tokens) == (2500, 2500 * 900, 2500 * 1000)
    assert (full.config.vocab_size, full.config.d_model) == (3000, 128)


def test_matrix_rate_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    assert measure_matrix_rate(torch.device("cpu"), torch.float32) > 0
    assert torch.equal(before, torch.random.get_rng_state())


def test_longer_sentences_are_counted_too(make_trainer, tokenizer):
    long = tokenize(tokenizer, [(" ".join([source] * 9), " ".join([target] * 9)) for source, target in make_pairs(5)])
    limits = {"max_source_tokens_per_batch": 5000, "max_target_tokens_per_batch": 5000}
    trainer = make_trainer(train_dataset=long, max_steps=2, **limits)
    trainer.train()
    assert counts(trainer) == (2 * sum(long["source_length"]), 2 * sum(long["target_length"]))
