# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The published model under the library's own Seq2SeqTrainer."""

import json

import pytest
import torch
from tiny import SENTENCES, make_model
from toy_language import naive_sums
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from vaswani_transformer import generation_vaswani_transformer as generation

each_smoothing = pytest.mark.parametrize("smoothing", [0.0, 0.1])


@pytest.fixture
def rows(tiny_tokenizer):
    """Eight tokenised pairs of two lengths, as a list of the library's columns."""
    pairs = zip(SENTENCES[::2] * 4, SENTENCES[1::2] * 4, strict=True)
    columns = [tiny_tokenizer(source, text_target=target) for source, target in pairs]
    return [{"input_ids": row["input_ids"], "labels": row["labels"]} for row in columns]


@pytest.fixture
def make_library_trainer(tiny_tokenizer, rows, tmp_path):
    def make(model, **options):
        arguments = Seq2SeqTrainingArguments(
            output_dir=str(tmp_path / "run"),
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            **options,
        )
        return Seq2SeqTrainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=rows,
            processing_class=tiny_tokenizer,
            data_collator=DataCollatorForSeq2Seq(tiny_tokenizer, model=model),
            compute_metrics=lambda predictions: {},  # without it, the library does not generate
        )

    return make


def test_evaluating_with_the_library_freezes_no_length(make_library_trainer, tmp_path, monkeypatch):
    model, told = make_model(scale=2.5), []
    monkeypatch.setattr(generation.logger, "warning_once", told.append)
    trainer = make_library_trainer(model, predict_with_generate=True, max_steps=1, save_steps=1)
    trainer.train()
    trainer.evaluate()
    trainer.save_model(str(tmp_path / "saved"))
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")
    assert again.generation_config.max_length == 20  # written by the library, and without effect
    source = torch.randint(3, 300, (1, 12))
    for options in (
        {},
        {"generation_config": GenerationConfig.from_pretrained(tmp_path / "saved")},
    ):
        out = again.generate(source, min_new_tokens=60, **options)
        assert out.shape[1] in (61, 62, 63)  # 60 to 62 new tokens
    assert told == []  # nobody chose that length


def test_evaluating_with_the_library_keeps_what_the_model_says_of_decoding(
    make_library_trainer, tmp_path
):
    make_model().save_pretrained(tmp_path / "start")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "start")
    make_library_trainer(model, predict_with_generate=True).evaluate()
    model.save_pretrained(tmp_path / "saved")
    before, after = (
        json.loads((tmp_path / f / "generation_config.json").read_text())
        for f in ("start", "saved")
    )
    # which the library writes where nothing is said
    defaults = GenerationConfig._get_default_generation_params()
    assert before == {
        key: value for key, value in after.items() if key in before or value != defaults.get(key)
    }


@each_smoothing
@pytest.mark.parametrize(("batch_size", "accumulation"), [(8, 1), (3, 3), (1, 8)])
def test_library_training_logs_the_loss_of_every_token_alike(
    make_library_trainer, rows, smoothing, batch_size, accumulation
):
    model = make_model(scale=2.5)
    loss, _, tokens = naive_sums(model, rows, smoothing)
    trainer = make_library_trainer(
        model,
        label_smoothing_factor=smoothing,
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=accumulation,
        max_steps=1,
        logging_steps=1,
    )
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss / tokens, rel=1e-5)


@each_smoothing
@pytest.mark.parametrize("with_generate", [True, False])
def test_library_evaluation_reports_the_loss(make_library_trainer, rows, smoothing, with_generate):
    model = make_model(scale=2.5)
    options = {"label_smoothing_factor": smoothing, "predict_with_generate": with_generate}
    loss, _, tokens = naive_sums(model, rows, smoothing)
    metrics = make_library_trainer(model, **options).evaluate(max_new_tokens=3)
    assert metrics["eval_loss"] == pytest.approx(loss / tokens, rel=1e-5)


@each_smoothing
def test_accumulated_gradients_equal_those_of_the_whole_batch(make_library_trainer, smoothing):
    weights = []
    for rows, steps in ((4, 1), (1, 4)):
        model = make_model().double()
        options = {"max_steps": 2, "optim": "sgd", "learning_rate": 0.5, "max_grad_norm": 0.0}
        options["label_smoothing_factor"] = smoothing
        make_library_trainer(
            model, per_device_train_batch_size=rows, gradient_accumulation_steps=steps, **options
        ).train()
        weights.append(model.model.shared.weight.detach())
    torch.testing.assert_close(*weights, rtol=0, atol=1e-9)
