# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The published model under the library's own Seq2SeqTrainer."""

import numpy as np
import pytest
import torch
from tiny import SENTENCES, make_model
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)
from transformers.trainer_pt_utils import LabelSmoother


@pytest.fixture
def make_library_trainer(tiny_tokenizer, tmp_path):
    def make(model, **options):
        rows = [
            {key: value for key, value in tiny_tokenizer(s, text_target=t).items() if key != "attention_mask"}
            for s, t in zip(SENTENCES[::2] * 4, SENTENCES[1::2] * 4, strict=True)
        ]
        arguments = Seq2SeqTrainingArguments(
            output_dir=str(tmp_path / "run"), use_cpu=True, report_to="none", disable_tqdm=True, **options
        )
        return Seq2SeqTrainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=rows,
            processing_class=tiny_tokenizer,
            data_collator=DataCollatorForSeq2Seq(tiny_tokenizer, model=model),
            compute_metrics=lambda p: {"tokens": float(np.mean(p.predictions >= 0))},
        )

    return make


def test_evaluating_with_the_library_freezes_no_length(make_library_trainer, tmp_path):
    model = make_model(scale=2.5)
    trainer = make_library_trainer(model, predict_with_generate=True, max_steps=1, save_steps=1)
    trainer.train()
    trainer.evaluate()
    trainer.save_model(str(tmp_path / "saved"))
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")
    assert again.generation_config.max_length == 20  # written by the library, and without effect
    source = torch.randint(3, 300, (1, 12))
    out = again.generate(source, min_new_tokens=60)
    assert out.shape[1] in (61, 62, 63)  # 60 to 62 new tokens
    scores = [
        m.generate(source, return_dict_in_generate=True, output_scores=True).sequences_scores for m in (model, again)
    ]
    torch.testing.assert_close(*scores)


def test_library_training_lowers_the_loss(make_library_trainer):
    trainer = make_library_trainer(make_model(), max_steps=30, learning_rate=1e-2, logging_steps=1)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.7 * losses[0]


def test_library_evaluation_reports_a_loss(make_library_trainer, tiny_batch):
    trainer = make_library_trainer(make_model(), predict_with_generate=False, prediction_loss_only=True)
    metrics = trainer.evaluate(trainer.train_dataset)
    assert trainer.label_names == ["labels"]
    assert metrics["eval_loss"] > 0


def test_library_label_smoother_gives_our_smoothed_loss(tiny_batch):
    model = make_model().double()
    expected = LabelSmoother(0.1)({"logits": model(**tiny_batch).logits}, tiny_batch["labels"])
    torch.testing.assert_close(model(**tiny_batch, smoothing=0.1).loss, expected)


def test_accumulated_gradients_equal_those_of_the_whole_batch(make_library_trainer, tiny_tokenizer):
    weights = []
    for rows, steps in ((4, 1), (1, 4)):
        model = make_model()
        options = {"max_steps": 2, "optim": "sgd", "learning_rate": 0.5, "max_grad_norm": 0.0}
        make_library_trainer(
            model, per_device_train_batch_size=rows, gradient_accumulation_steps=steps, **options
        ).train()
        weights.append(model.model.shared.weight.detach())
    torch.testing.assert_close(*weights)
