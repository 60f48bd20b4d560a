# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Stopping, saving and resuming inside the trainer, so that a resumed training is the uninterrupted one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers.trainer
from accelerate import skip_first_batches
from transformers import EarlyStoppingCallback
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import TrainOutput
from transformers.utils import logging

from .atomic import write_json
from .averaging import drop_later_snapshots
from .checkpoints import (
    PROGRESS_FILES,
    STAGING_FOLDER,
    STATE_FILE,
    best_checkpoint,
    check_checkpoint,
    check_no_links,
    clear_staging,
    how_to_go_on,
    naming_the_last_checkpoint,
    publish_checkpoint,
    rotate_checkpoints,
    set_aside_broken,
    take_up_checkpoint,
)
from .evaluating_trainer import EvaluatingTrainer
from .foreign_code import check_harmless
from .interruption import StopCallback, TrainingInterrupted, stop_signals

logger = logging.get_logger(__name__)


class CheckpointingTrainer(EvaluatingTrainer):
    """`Seq2SeqTrainer` that stops, saves and resumes without a trace in weights and logs.

    What the library's trainer loses at a resume is kept here: the sums between two log lines, what callbacks counted,
    the end of an epoch, an evaluation that a stop cut short, and the place of a data loader that has a `state_dict`.
    A checkpoint appears under its name only when every process has written its part.
    """

    def __init__(self, *args, **kwargs):
        self._train_loader = None  # of a stream, whose place lies in the checkpoint
        self._is_saving = False
        self._start_counting(0)
        super().__init__(*args, **kwargs)
        self._stop = StopCallback()
        self.add_callback(self._stop)

    def _start_counting(self, step: int) -> None:
        """Forgets the sums of another training; those of this one begin after update `step`."""
        self._resumed_from: Path | None = None
        self._last_saved_step = self._last_epoch_end = None
        self._nll_since_log: float | torch.Tensor = 0.0
        self._step_of_last_log = self._first_step = step

    # ---- stopping and resuming ----

    def train(self, resume_from_checkpoint=None, **kwargs):
        """Trains as the library does; SIGINT and SIGTERM save a resumable checkpoint first.

        Args:
            resume_from_checkpoint: A checkpoint's folder, or True for the newest whole one in `output_dir`.
            **kwargs: As for the library's trainer.

        Raises:
            KeyboardInterrupt: After such a signal, when the checkpoint is written.
            FileNotFoundError: If no checkpoint is whole.
            ValueError: If the given checkpoint is not whole, of another model or could run code (see
                `check_harmless`), if its best checkpoint or a link leads elsewhere, or if the loss is no number.
            OSError: If a checkpoint cannot be written; the message names the last whole one.
            RuntimeError: If a data worker or another process died; a note to it names the last whole checkpoint.
        """
        self._start_counting(0)
        if resume_from_checkpoint:
            check_no_links(self.args.output_dir)
        if resume_from_checkpoint is True:
            self._resumed_from = take_up_checkpoint(self.args)[0]
        elif resume_from_checkpoint:
            self._resumed_from = check_checkpoint(resume_from_checkpoint)
        if self._resumed_from is not None:
            check_harmless(self._resumed_from)
            _check_same_model(self._resumed_from, self.model)
            if self.is_world_process_zero():
                logger.info(f"Going on from {self._resumed_from}.")
        with stop_signals(self._stop, self.args.world_size):
            try:
                return super().train(self._resumed_from and str(self._resumed_from), **kwargs)
            except TrainingInterrupted:
                if self.state.global_step not in (0, self._last_saved_step):
                    self._save_checkpoint(self.model_wrapped, trial=None)
                logger.warning(
                    f"Stopped after update {self.state.global_step}, whose checkpoint is saved. Go on from it with "
                    "--resume, or train(resume_from_checkpoint=True)."
                )
                raise
            except RuntimeError as error:  # of a device, of another process or of a data worker that died
                error.add_note(f"Mend the cause, then {how_to_go_on(self.args.output_dir)}.")
                raise

    def _issue_warnings_after_load(self, load_result):
        """Warns as the library does, but of no tied weight, which a checkpoint holds once."""
        tied = getattr(self.model, "all_tied_weights_keys", None) or {}
        missing = [name for name in load_result.missing_keys if name not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def _init_training_state(self, max_steps, *args):
        """As the library's, but for two values that it takes from the checkpoint.

        The best checkpoint is one of the run's folder, wherever that lay when it was saved; the intervals of logs,
        evaluations and checkpoints are this run's.
        """
        if self._resumed_from is None:
            return super()._init_training_state(max_steps, *args)
        best = best_checkpoint(self._resumed_from)
        if best is not None:
            check_harmless(best)
        place = super()._init_training_state(max_steps, *args)
        self.state.best_model_checkpoint = best
        self.state.compute_steps(self.args, max_steps)
        return place

    def _load_callback_state(self):
        """Gives callbacks back what they counted; their arguments stay this run's, as the library's way does not."""
        super()._load_callback_state()
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ExportableState):
                saved = self.state.stateful_callbacks.get(type(callback).__name__)
                vars(callback).update(saved["attributes"] if isinstance(saved, dict) else {})

    def _run_epoch(self, **kwargs):
        """An epoch of the library's, the first one after a resume without making the batches before its start."""
        if self._resumed_from is None:
            super()._run_epoch(**kwargs)
            return
        self._take_up()
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        if not self.control.should_training_stop:
            with _skipping_with(self._start_loader_at):
                super()._run_epoch(**kwargs)

    def _start_loader_at(self, loader: Any, num_batches: int) -> Any:
        """The training's data loader without the first batches of each process."""
        return skip_first_batches(loader, num_batches) if self._train_loader is None else loader

    def _take_up(self) -> None:
        """Takes up, once, what the checkpoint holds beside the library's state."""
        if self._resumed_from is None:
            return
        self._load_progress(self._resumed_from)
        self._load_rng_state(str(self._resumed_from))
        if self.is_world_process_zero():
            drop_later_snapshots(self.args.output_dir, self.state.global_step)
            set_aside_broken(self.args.output_dir, self.state.global_step)
        self._resumed_from = None
        pending = self.state.stateful_callbacks.get("TrainerControl", {}).get("args", {})
        if pending.get("should_evaluate"):
            self.control.should_evaluate, self.control.should_save = True, pending["should_save"]
            super()._maybe_log_save_evaluate(self._tr_loss, None, self.model_wrapped, None, 0, None, 0.0)
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, EarlyStoppingCallback):
                has_ended = callback.early_stopping_patience_counter >= callback.early_stopping_patience
                self.control.should_training_stop |= has_ended

    def _evaluate(self, trial, ignore_keys_for_eval, skip_scheduler=False):
        """Evaluates during a training without drawing from its random numbers, so that a stop can repeat it."""
        if skip_scheduler and self._resumed_from is not None:
            return {}  # the evaluation before the first update was the first leg's
        with torch.random.fork_rng(devices=[]):
            return super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)

    def _maybe_log_save_evaluate(self, tr_loss, grad_norm, model, trial, epoch, *args, **kwargs):
        """Logs, evaluates and saves, then stops if that was asked for.

        After the last update of an epoch it waits for the epoch's end, as a resumed training begins with the next one.
        """
        if self.state.epoch == epoch + 1 and self._last_epoch_end != self.state.global_step:
            self._last_epoch_end = self.state.global_step
            return
        super()._maybe_log_save_evaluate(tr_loss, grad_norm, model, trial, epoch, *args, **kwargs)
        self._stop.stop_if_requested(self.args, self.state)

    # ---- sums over updates ----

    def _save_progress(self, checkpoint: Path) -> None:
        """Writes what this process has summed up since the last log line, and the place of its data stream."""
        progress = {
            "loss_since_log": self._tr_loss.item(),
            "nll_since_log": float(self._nll_since_log),
            "step_of_last_log": self._globalstep_last_logged,
            "logged_loss": self._total_loss_scalar,
            "first_step": self._first_step,
            "data": None if self._train_loader is None else self._train_loader.state_dict(),
            "pairs_and_tokens": self._pairs_and_tokens(),
        }
        write_json(checkpoint / PROGRESS_FILES.replace("*", str(self.args.process_index)), progress)

    def _pairs_and_tokens(self) -> list[int] | None:
        """Pairs, source tokens and target tokens of the training set, if known."""
        return None

    def _load_progress(self, checkpoint: Path) -> None:
        """Goes on with the sums and the data stream of a checkpoint; with another number of processes they share."""
        paths = sorted(checkpoint.glob(PROGRESS_FILES))
        if not paths:  # of an earlier version of this package
            self._step_of_last_log = self._first_step = self.state.global_step
            return
        own = checkpoint / PROGRESS_FILES.replace("*", str(self.args.process_index))
        is_same_layout = len(paths) == self.args.world_size and own in paths
        saved = [json.loads(path.read_text(encoding="utf-8")) for path in ([own] if is_same_layout else paths)]
        share = 1 / len(saved)
        self._tr_loss.fill_(sum(progress["loss_since_log"] for progress in saved) * share)
        if not is_same_layout and self.args.average_tokens_across_devices:
            share = 1 / self.args.world_size  # nll is summed over processes, loss is averaged
        self._nll_since_log = sum(progress["nll_since_log"] for progress in saved) * share
        before, now = saved[0].get("pairs_and_tokens"), self._pairs_and_tokens()
        if before and now and before != now and self.is_world_process_zero():
            logger.warning(
                f"The training data have changed since {checkpoint}: pairs, source and target tokens were {before}, "
                f"now {now}. The training goes on at its place in an epoch of the new ones."
            )
        self._total_loss_scalar, self._first_step = saved[0]["logged_loss"], saved[0]["first_step"]
        self._globalstep_last_logged = self._step_of_last_log = saved[0]["step_of_last_log"]
        if self._train_loader is not None and saved[0]["data"] is not None:
            if not is_same_layout:
                raise ValueError(
                    f"A training on a stream must be resumed with as many processes as it had, {len(paths)}, got "
                    f"{self.args.world_size}. Start {len(paths)}."
                )
            self._train_loader.load_state_dict(saved[0]["data"])

    def log(self, logs, start_time=None):
        """Logs as the library does, with a `train_loss` that is the mean over all legs of the training."""
        if "train_loss" in logs:
            logs["train_loss"] = self._total_loss_scalar / max(self.state.global_step - self._first_step, 0.001)
        super().log(logs, start_time)

    def _finalize_training(self, trial, num_train_samples, start_time) -> TrainOutput:
        """Ends the training as the library does; the loss that no line tells yet is that of all processes."""
        self._take_up()
        self._tr_loss = self.accelerator.reduce(self._tr_loss, "mean")
        output = super()._finalize_training(trial, num_train_samples, start_time)
        return output._replace(training_loss=output.metrics["train_loss"])

    # ---- saving ----

    def _get_output_dir(self, trial) -> str:
        """Folder of the run; while a checkpoint is being saved, the one where that is done."""
        folder = super()._get_output_dir(trial)
        return os.path.join(folder, STAGING_FOLDER) if self._is_saving else folder

    def _save_checkpoint(self, model, trial):
        """Saves a resumable checkpoint beside its place; it is moved there when every process is done."""
        output_dir = self._get_output_dir(trial)
        name = f"checkpoint-{self.state.global_step}"
        staged, checkpoint = os.path.join(output_dir, STAGING_FOLDER, name), os.path.join(output_dir, name)
        with naming_the_last_checkpoint(output_dir, f"a checkpoint of update {self.state.global_step}"):
            try:
                if self.args.should_save:
                    clear_staging(output_dir)
                self.accelerator.wait_for_everyone()
                self._write_checkpoint(model, trial, Path(staged), checkpoint)
                if self.args.should_save:
                    publish_checkpoint(Path(staged), Path(output_dir))
                self.accelerator.wait_for_everyone()
            finally:
                if self.args.should_save:  # alone: two processes would delete under each other's hands
                    clear_staging(output_dir)
        self._last_saved_step = self.state.global_step
        if self.args.push_to_hub:
            self._push_from_checkpoint(checkpoint)
        if self.args.should_save:
            rotate_checkpoints(Path(checkpoint), self.args.save_total_limit, self.state.best_model_checkpoint)

    def _write_checkpoint(self, model, trial, staged: Path, checkpoint: str) -> None:
        """Lets the library write all parts into a folder, as those of a checkpoint at another place."""
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ExportableState):  # the library saves only those that the state knows
                self.state.stateful_callbacks.setdefault(type(callback).__name__, {})
        self._is_saving = True
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._is_saving = False
        if Path(self.state.best_model_checkpoint or "") == staged:
            self.state.best_model_checkpoint = checkpoint
            if self.args.should_save:
                self.state.save_to_json(str(staged / STATE_FILE))
        self._save_progress(staged)
        self.accelerator.wait_for_everyone()

    def _push_from_checkpoint(self, checkpoint_folder):
        """Pushes a checkpoint that is in its place; the library asks for it before."""
        if not self._is_saving:
            super()._push_from_checkpoint(checkpoint_folder)


def _check_same_model(checkpoint: Path, model: Any) -> None:
    """Raises ValueError when a checkpoint is of another class: the library would load what fits and only warn."""
    config = checkpoint / "config.json"
    saved = json.loads(config.read_text(encoding="utf-8")).get("architectures") if config.is_file() else None
    if saved and type(model).__name__ not in saved:
        raise ValueError(
            f"`model` must be the {saved[0]} of {checkpoint}, got a {type(model).__name__}. Resume with what began "
            "the run, or train in another folder."
        )


@contextlib.contextmanager
def _skipping_with(skip: Callable[[Any, int], Any]) -> Iterator[None]:
    """Lets the library's loop skip batches by another function than its own, which makes every batch it skips."""
    own = transformers.trainer.skip_first_batches
    transformers.trainer.skip_first_batches = skip
    try:
        yield
    finally:
        transformers.trainer.skip_first_batches = own
