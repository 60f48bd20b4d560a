# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Adapters under our trainer."""

import pytest
import torch
from toy_language import check_same_weights, limits, logged, make_marian, naive_sums

from vaswani_transformer.training.averaging import list_snapshots

peft = pytest.importorskip("peft", reason="peft is not installed")


each_target = pytest.mark.parametrize(
    "targets", [["q_proj", "fc1"], ["q_proj", "lm_head"]], ids=" ".join
)


def adapted(model, targets=("q_proj", "fc1")):
    """The model with a LoRA adapter, always the same."""
    torch.manual_seed(0)
    return peft.get_peft_model(
        model, peft.LoraConfig(task_type="SEQ_2_SEQ_LM", target_modules=[*targets])
    )


@pytest.fixture
def make_lora_trainer(make_trainer):
    """Function that makes a trainer of a LoRA model."""

    def make(targets=("q_proj", "fc1"), **options):
        return make_trainer(wrap=lambda model: adapted(model, targets), **options)

    return make


@each_target
def test_lora_model_trains_all_of_its_adapter_alone(make_lora_trainer, targets):
    trainer = make_lora_trainer(targets)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.train()
    changed = {
        name
        for name, tensor in trainer.model.state_dict().items()
        if not tensor.equal(before[name])
    }
    assert changed == {name for name in before if "lora_" in name}


@pytest.mark.slow
@each_target
def test_lora_model_logs_smoothed_and_unsmoothed_loss_of_every_token(
    make_lora_trainer, dataset, targets
):
    trainer = make_lora_trainer(targets, **limits(10000), max_steps=1)
    loss, nll, tokens = naive_sums(trainer.model, dataset, smoothing=0.1)
    trainer.train()
    found = logged(trainer, "loss") + logged(trainer, "nll")
    assert found == pytest.approx([loss / tokens, nll / tokens], rel=1e-5)
    nll = naive_sums(trainer.model, dataset, smoothing=0.1)[1]
    assert trainer.evaluate(dataset, num_beams=1)["eval_nll"] == pytest.approx(
        nll / tokens, rel=1e-5
    )


@pytest.mark.slow
@each_target
def test_accumulation_does_not_change_the_training_of_a_lora_model(make_lora_trainer, targets):
    trainers = [
        make_lora_trainer(
            targets,
            dtype="float64",
            gradient_accumulation_steps=steps,
            max_steps=5,
            optim="sgd",
            learning_rate=0.5,
            lr_scheduler_type="constant",
        )
        for steps in (1, 3)
    ]
    for trainer in trainers:
        trainer.train()
    moved = [tensor for name, tensor in trainers[0].model.state_dict().items() if "lora_B" in name]
    assert all(tensor.abs().max() > 1e-4 for tensor in moved)
    check_same_weights(*trainers, atol=1e-9)


def test_lora_model_of_another_architecture_is_refused_by_name(make_trainer):
    with pytest.raises(TypeError, match="got MarianMTModel"):
        make_trainer(wrap=lambda model: adapted(make_marian(model), ["q_proj"]))


def test_adapters_leave_no_snapshots_which_nothing_averages(make_lora_trainer, tmp_path):
    make_lora_trainer(snapshot_steps=1, num_averaged_snapshots=2).train()
    assert not list_snapshots(tmp_path / "run")


def test_lora_model_searches_as_the_paper_does(make_lora_trainer):
    config = make_lora_trainer().model.get_base_model().generation_config
    assert (config.num_beams, config.length_penalty) == (4, 0.6)


def test_lora_model_is_scored_by_its_translations(make_lora_trainer, untranslated, monkeypatch):
    dataset, bleu = untranslated
    trainer = make_lora_trainer()
    monkeypatch.setattr(
        trainer.model.get_base_model(), "generate", lambda input_ids, **options: input_ids
    )
    assert trainer.evaluate(dataset)["eval_sacrebleu"] == pytest.approx(bleu)


@pytest.mark.slow
def test_lora_model_resumes_from_its_own_checkpoint(make_lora_trainer):
    make_lora_trainer(save_strategy="steps", save_steps=2, max_steps=2).train()
    resumed = make_lora_trainer()
    whole = make_lora_trainer()
    resumed.train(resume_from_checkpoint=True)
    whole.train()
    check_same_weights(whole, resumed)
