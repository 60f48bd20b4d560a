# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The trainer's pushes as far as they go without a Hub; tests/test_hub.py has the rest."""

from concurrent.futures import Future

from huggingface_hub import ModelCard

from vaswani_transformer.training import hub_trainer


def test_draft_of_a_card_names_task_and_languages(make_trainer, tmp_path):
    trainer = make_trainer()
    trainer.model.config.source_language, trainer.model.config.target_language = "en", "de"
    trainer.create_model_card(model_name="model")
    data = ModelCard.load(tmp_path / "run" / "README.md").data
    assert (data.pipeline_tag, data.language) == ("translation", ["en", "de"])


def test_draft_of_a_card_keeps_a_given_language(make_trainer, tmp_path):
    trainer = make_trainer()
    trainer.model.config.source_language, trainer.model.config.target_language = "en", "de"
    trainer.create_model_card(language="nl")
    assert ModelCard.load(tmp_path / "run" / "README.md").data.language == ["nl"]


def test_failed_push_at_a_save_is_a_warning(monkeypatch):
    warnings, job = [], Future()
    monkeypatch.setattr(hub_trainer.logger, "warning", warnings.append)
    job.set_exception(ConnectionError("no network"))
    hub_trainer._warn_of_failure(job)
    assert warnings == ["A push failed: no network"]


def test_process_without_a_repo_pushes_nothing_at_a_save(make_trainer, tmp_path, monkeypatch):
    trainer = make_trainer()
    monkeypatch.setattr(trainer, "is_world_process_zero", lambda: False)  # the library makes the repo in the main one
    trainer._push_from_checkpoint(str(tmp_path))
    assert trainer.hub_model_id is None
