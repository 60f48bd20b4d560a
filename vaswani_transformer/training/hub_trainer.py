# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the trainer shares on the Hub: the model's files and its card, without the state of the training."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, ModelCard, run_as_future, upload_folder
from torch.optim import Optimizer
from transformers import PreTrainedModel, Seq2SeqTrainer
from transformers.trainer_utils import HubStrategy
from transformers.utils import logging
from transformers.utils.hub import PushInProgress

from ..files import CARD_FILE, MANIFEST_FILE, PROGRESS_FILES, SNAPSHOT_FOLDER, STATE_FILE
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from .arguments import VaswaniTransformerTrainingArguments
from .card import keep_card
from .publish import push_model

logger = logging.get_logger(__name__)

_STATE = (
    *("optimizer*", "scheduler*", "scaler*", "rng_state*", "training_args.bin"),
    *(STATE_FILE, MANIFEST_FILE, PROGRESS_FILES),
)


class HubTrainer(Seq2SeqTrainer):
    """`Seq2SeqTrainer` that pushes what `push_model` pushes, and keeps the card that a run's folder has.

    The library's trainer would upload the whole folder, with the snapshots and with `training_args.bin`, a pickle that
    holds the user's token. Of models of other classes, such as adapters, all files but these are pushed.
    """

    args: VaswaniTransformerTrainingArguments
    model: PreTrainedModel
    optimizer: Optimizer
    hub_model_id: str | None  # type: ignore[assignment]  # the library's annotations are those of its first values
    push_in_progress: PushInProgress | None  # type: ignore[assignment]

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Saves the model and pushes it in one commit; arguments and result are the library's.

        Without a card in the folder, the library's draft is written first, of which `kwargs` are fields.
        """
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        if self.hub_model_id is None:
            self.init_hf_repo(token=token or self.args.hub_token, private=private)
        self.save_model(_internal_call=True)
        if not self.is_world_process_zero():
            return None
        given, model_tags = kwargs.pop("tags", None) or [], getattr(self.model, "model_tags", None) or []
        tags = [*([given] if isinstance(given, str) else given), *model_tags]
        self.create_model_card(tags=tags or None, **{"model_name": self._model_name(), **kwargs})
        self._finish_current_push()
        upload = self._upload if blocking else partial(run_as_future, self._upload)
        return upload(commit_message, token=token, revision=revision)

    def _model_name(self) -> str:
        return str(self.hub_model_id).split("/")[-1]

    def _upload(
        self, commit_message: str | None, *, token: str | None = None, revision: str | None = None
    ) -> CommitInfo:
        """Pushes the output folder."""
        folder, repo_id = self.args.output_dir, str(self.hub_model_id)
        token, revision = token or self.args.hub_token, revision or self.args.hub_revision
        if isinstance(self.accelerator.unwrap_model(self.model), VaswaniTransformerForConditionalGeneration):
            return push_model(folder, repo_id, commit_message=commit_message, token=token, revision=revision)
        return upload_folder(
            folder_path=folder,
            repo_id=repo_id,
            commit_message=commit_message,
            token=token,
            revision=revision,
            ignore_patterns=["_*", "checkpoint-*", f"{SNAPSHOT_FOLDER}/*", *_STATE],
        )

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Pushes a checkpoint's model in the background; other values of `hub_strategy` ask for the library's way."""
        if self.args.hub_strategy != HubStrategy.EVERY_SAVE:
            super()._push_from_checkpoint(checkpoint_folder)
            return
        if not self.is_world_process_zero():
            return
        busy = self.push_in_progress
        if busy is not None and busy.is_done():
            busy = None
        if busy is not None and not self.args.hub_always_push:
            return
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        for path in Path(checkpoint_folder).iterdir():
            if path.is_file() and not any(fnmatch(path.name, pattern) for pattern in _STATE):
                shutil.copy(path, self.args.output_dir)
        self.create_model_card(model_name=self._model_name())
        job = run_as_future(self._upload, f"Training in progress, step {self.state.global_step}")
        job.add_done_callback(_warn_of_failure)
        pushes: Any = PushInProgress() if busy is None else busy
        pushes.jobs.append(job)
        self.push_in_progress = pushes

    def create_model_card(
        self,
        language: str | None = None,
        license: str | None = None,
        tags: str | list[str] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Writes the library's draft of a card, unless the folder holds another: `push_to_hub` keeps that one.

        To the draft it adds what the Hub's search needs: task and languages.
        """
        folder = self.args.output_dir
        if not self.is_world_process_zero() or keep_card(folder, language=language, license=license, tags=tags):
            return
        super().create_model_card(language, license, tags, *args, **kwargs)
        card = ModelCard.load(Path(folder) / CARD_FILE)
        card.data["pipeline_tag"] = "translation"
        if not card.data.get("language"):
            card.data["language"] = list(getattr(self.model.config, "language_pair", None) or ()) or None
        card.save(Path(folder) / CARD_FILE)


def _warn_of_failure(job: Future[Any]) -> None:
    """The training goes on when a push at a save has failed, as the next one may not."""
    if error := job.exception():
        logger.warning(f"A push failed: {error}")
