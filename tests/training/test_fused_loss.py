# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The trainer asks for logits only where it uses them."""

import functools

import pytest

from vaswani_transformer import VaswaniTransformerForConditionalGeneration


@pytest.fixture
def logits_were_asked_for(monkeypatch):
    """For each forward pass of a model with labels, whether it was to return logits."""
    asked, forward = [], VaswaniTransformerForConditionalGeneration.forward

    @functools.wraps(forward)  # the trainer looks at the signature
    def recording(self, *args, labels=None, return_logits=True, **kwargs):
        asked.extend([return_logits] * (labels is not None))
        return forward(self, *args, labels=labels, return_logits=return_logits, **kwargs)

    monkeypatch.setattr(VaswaniTransformerForConditionalGeneration, "forward", recording)
    return asked


def test_training_and_evaluation_ask_for_no_logits(trained, dataset, logits_were_asked_for):
    trained(max_steps=1).evaluate(dataset)
    assert logits_were_asked_for and not any(logits_were_asked_for)


def test_predictions_without_generate_ask_for_logits(make_trainer, dataset, logits_were_asked_for):
    trainer = make_trainer(predict_with_generate=False)
    assert trainer.predict(dataset).predictions is not None
    assert all(logits_were_asked_for)


def test_a_loss_asked_for_with_its_outputs_comes_with_logits(make_trainer, dataset):
    trainer = make_trainer()
    batch = trainer.data_collator([dataset[0], dataset[1]])
    _, outputs = trainer.compute_loss(trainer.model, batch, return_outputs=True)
    assert outputs.logits is not None
