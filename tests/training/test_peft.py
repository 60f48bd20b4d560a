# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Adapters under our trainer."""

import pytest
from safetensors.torch import load_file

from vaswani_transformer.training.averaging import list_snapshots

peft = pytest.importorskip("peft", reason="peft is not installed")


@pytest.fixture
def lora_trainer(make_trainer, dataset):
    """Trainer of a LoRA model with a snapshot after every update."""

    def wrap(model):
        return peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_2_SEQ_LM", target_modules=["q_proj", "fc1"]))

    return make_trainer(
        wrap=wrap, eval_dataset=dataset.select(range(4)), max_steps=2, snapshot_steps=1, num_averaged_snapshots=2
    )


def test_lora_model_trains_its_adapter_alone(lora_trainer):
    before = {name: tensor.clone() for name, tensor in lora_trainer.model.state_dict().items()}
    lora_trainer.train()
    changed = {name for name, tensor in lora_trainer.model.state_dict().items() if not tensor.equal(before[name])}
    assert changed and all("lora_" in name for name in changed)


def test_lora_snapshots_hold_each_tied_tensor_once(lora_trainer, tmp_path):
    lora_trainer.train()
    paths = list_snapshots(tmp_path / "run")
    tied = [name for name in load_file(paths[-1]) if name.endswith(("shared.weight", "lm_head.weight"))]
    assert (len(paths), tied) == (2, ["base_model.model.model.shared.weight"])


def test_lora_model_is_scored_by_its_translations(lora_trainer):
    assert 0 <= lora_trainer.evaluate(num_beams=2)["eval_sacrebleu"] <= 100
