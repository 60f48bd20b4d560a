# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping, saving and resuming inside the trainer, so that a resumed training is the uninterrupted one.

The methods are hooks of `Trainer`'s loop, in the order in which it calls them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers.trainer
from accelerate import skip_first_batches
from torch import nn
from transformers import EarlyStoppingCallback, TrainerState
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import TrainOutput
from transformers.utils import logging

from ..data import StreamLoader, TokenBatchSampler
from ..data.batching import PLAN_VERSION
from ..files import STAGING_FOLDER, STATE_FILE
from .averaging import drop_later_snapshots
from .callbacks import StopCallback, TrainingInterrupted, stop_signals
from .checkpoints import (
    RunningSums,
    best_checkpoint,
    check_checkpoint,
    clear_staging,
    find_checkpoint,
    publish_checkpoint,
    rotate_checkpoints,
    take_up_checkpoint,
)
from .cost import saved_callbacks
from .hub import HubTrainer

logger = logging.get_logger(__name__)


class ResumableTrainer(HubTrainer):
    """`Seq2SeqTrainer` that stops, saves and resumes without a trace in weights and logs.

    It keeps what `Trainer` loses at a resume: the sums between two log lines, what callbacks counted, the end of an
    epoch, an evaluation that a stop cut short, and the place of a stream. A checkpoint appears under its name only
    when every process has written its part.
    """

    _train_batches: TokenBatchSampler | None = None  # of a training set with a length
    _train_loader: StreamLoader | None = None  # of a stream, whose place lies in the checkpoint

    def __init__(self, *args: Any, **kwargs: Any):
        self._is_saving = False
        self._start_counting()
        super().__init__(*args, **kwargs)
        self._stop = StopCallback()
        self.add_callback(self._stop)

    def _start_counting(self) -> None:
        """Forgets the sums of another training."""
        self._resumed_from: Path | None = None
        self._last_saved_step: int | None = None
        self._last_epoch_end: int | None = None
        self._nll_since_log: float | torch.Tensor = 0.0
        self._step_of_last_log = self._first_step = 0
        self._skipped_updates = 0

    # ---- beginning a training, perhaps at a checkpoint ----

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> TrainOutput:
        """Trains as `Trainer` does; SIGINT and SIGTERM save a resumable checkpoint first.

        Args:
            resume_from_checkpoint: A checkpoint's folder, or True for the newest undamaged one in `output_dir`.
            *args: As for `Trainer`.
            **kwargs: The same.

        Raises:
            KeyboardInterrupt: After such a signal, when the checkpoint is written.
            FileNotFoundError: If there is no undamaged checkpoint.
            ValueError: If the given checkpoint is damaged, or if the loss is no number.
            OSError, RuntimeError: If a file cannot be written, or another process died; a note says how to resume.
        """
        self._start_counting()
        if resume_from_checkpoint:
            is_newest = resume_from_checkpoint is True
            checkpoint = take_up_checkpoint(self.args) if is_newest else check_checkpoint(str(resume_from_checkpoint))
            self._resumed_from = checkpoint
            if self.is_world_process_zero():
                logger.info(f"Resuming from {checkpoint}.")
        with stop_signals(self._stop, self.args.world_size):
            try:
                return super().train(None if self._resumed_from is None else str(self._resumed_from), *args, **kwargs)
            except TrainingInterrupted:
                if self.state.global_step not in (0, self._last_saved_step):
                    self._save_checkpoint(self.model_wrapped, trial=None)
                logger.warning(
                    f"Stopped after update {self.state.global_step}, whose checkpoint is saved. Resume with "
                    "--resume, or train(resume_from_checkpoint=True)."
                )
                raise
            except (OSError, RuntimeError) as error:  # of a disk, a device, another process or a data worker
                try:
                    advice = f"resume: {find_checkpoint(self.args.output_dir)} is the last whole checkpoint"
                except FileNotFoundError:
                    advice = "start again: there is no whole checkpoint yet"
                error.add_note(f"Mend the cause, then {advice}.")
                raise

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warns as `Trainer` does, but of no tied weight, which a checkpoint holds once."""
        tied = getattr(self.model, "all_tied_weights_keys", None) or {}
        missing = [name for name in load_result.missing_keys if name not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def set_initial_training_values(self, args: Any, dataloader: Any) -> Any:
        """Numbers of epochs and updates as in `Trainer`, and one epoch more where a new plan skips updates."""
        values = super().set_initial_training_values(args, dataloader)
        checkpoint, batches = self._resumed_from, self._train_batches
        if checkpoint is not None and batches is not None and (saved := RunningSums.load(checkpoint, self.args)):
            self._skipped_updates = saved.skipped_updates
            if saved.plan_version != PLAN_VERSION:
                step = TrainerState.load_from_json(str(checkpoint / STATE_FILE)).global_step
                self._skipped_updates = -step % batches.num_effective_batches
                if self.is_world_process_zero() and step != self.args.max_steps:
                    logger.warning(
                        f"{checkpoint} was saved by a version that planned batches differently: training resumes with "
                        f"update {step + 1} at the start of an epoch, with new batches."
                    )
        return values[0] + (self._skipped_updates > 0), *values[1:]

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Reads the state as `Trainer` does, but for three values.

        The best checkpoint is looked for in the run's folder, which may have been moved; the intervals of logs,
        evaluations and checkpoints are this run's; the place in the data counts skipped updates.
        """
        place: tuple[int, int] = super()._init_training_state(*args, **kwargs)
        if self._resumed_from is not None:
            self.state.best_model_checkpoint = best_checkpoint(self._resumed_from)
            self.state.compute_steps(self.args, self.state.max_steps)
        if self._train_batches is not None and self._skipped_updates:
            place_in_data = self.state.global_step + self._skipped_updates
            epoch, update = divmod(place_in_data, self._train_batches.num_effective_batches)
            place = epoch, update * self.args.gradient_accumulation_steps
        return place

    def _load_callback_state(self) -> None:
        """Restores what callbacks counted; unlike in `Trainer`, their arguments stay this run's."""
        super()._load_callback_state()
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ExportableState):
                saved = saved_callbacks(self.state).get(type(callback).__name__)
                vars(callback).update(saved["attributes"] if isinstance(saved, dict) else {})

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Runs an epoch; the first one after a resume makes no batches before its start."""
        if self._resumed_from is None:
            super()._run_epoch(*args, **kwargs)
            return
        self._take_up(self._resumed_from)
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        if not self.control.should_training_stop:
            with _skipping_with(self._start_loader_at):
                super()._run_epoch(*args, **kwargs)

    def _start_loader_at(self, loader: Any, num_batches: int) -> Any:
        """Skips the first batches of each process."""
        if self._train_loader is not None:
            return loader  # which knows its place
        if self._train_batches is None:
            return skip_first_batches(loader, num_batches)
        self._train_batches.start_at(num_batches // self.args.gradient_accumulation_steps)
        return loader

    def _take_up(self, checkpoint: Path) -> None:
        """Restores, once, what a checkpoint holds in addition to the state of transformers."""
        self._load_sums(checkpoint)
        self._load_rng_state(str(checkpoint))
        if self.is_world_process_zero():
            drop_later_snapshots(self.args.output_dir, self.state.global_step)
        self._resumed_from = None
        pending = saved_callbacks(self.state).get("TrainerControl", {}).get("args", {})
        if pending.get("should_evaluate"):
            self.control.should_evaluate, self.control.should_save = True, pending["should_save"]
            super()._maybe_log_save_evaluate(self._tr_loss, None, self.model_wrapped, None, 0, None, 0.0)
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, EarlyStoppingCallback):
                has_ended = callback.early_stopping_patience_counter >= callback.early_stopping_patience
                self.control.should_training_stop |= has_ended

    def _load_sums(self, checkpoint: Path) -> None:
        """Restores the sums and the stream of a checkpoint."""
        saved = RunningSums.load(checkpoint, self.args)
        if saved is None:
            self._step_of_last_log = self._first_step = self.state.global_step
            return
        self._tr_loss.fill_(saved.loss_since_log)
        self._nll_since_log = saved.nll_since_log
        self._total_loss_scalar, self._first_step = saved.logged_loss, saved.first_step
        self._globalstep_last_logged = self._step_of_last_log = saved.step_of_last_log
        before, now = saved.pairs_and_tokens, self._pairs_and_tokens()
        if before and now and before != now and self.is_world_process_zero():
            logger.warning(
                f"The training data have changed since {checkpoint}: pairs, source and target tokens were {before}, "
                f"now {now}. The training resumes at its place in an epoch of the new ones."
            )
        if self._train_loader is not None and saved.data is not None:
            self._train_loader.load_state_dict(saved.data)

    def _pairs_and_tokens(self) -> list[int] | None:
        """Pairs, source and target tokens of the training set, if known."""
        batches = self._train_batches
        return None if batches is None else [batches.num_pairs, *batches.num_tokens]

    # ---- an update, and what follows it ----

    def _maybe_log_save_evaluate(
        self, tr_loss: Any, grad_norm: Any, model: Any, trial: Any, epoch: float, *args: Any, **kwargs: Any
    ) -> None:
        """Logs, evaluates and saves, then stops if that was asked for.

        After the last update of an epoch it waits for the epoch's end, as a resumed training begins with the next one.
        """
        if self.state.epoch == epoch + 1 and self._last_epoch_end != self.state.global_step:
            self._last_epoch_end = self.state.global_step
            return
        super()._maybe_log_save_evaluate(tr_loss, grad_norm, model, trial, epoch, *args, **kwargs)
        self._stop.stop_if_requested(self.args, self.state)

    def _evaluate(self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False) -> dict[str, float]:
        """Evaluates without drawing from the training's random numbers, so that a resume can repeat it."""
        if skip_scheduler and self._resumed_from is not None:
            return {}  # the evaluation before the first update is done
        with torch.random.fork_rng(devices=[]):
            return super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)

    # ---- saving ----

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Saves a resumable checkpoint aside; it is moved to its place when every process is done."""
        output_dir = self._get_output_dir(trial)
        name = f"checkpoint-{self.state.global_step}"
        staged, checkpoint = os.path.join(output_dir, STAGING_FOLDER, name), os.path.join(output_dir, name)
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

    def _write_checkpoint(self, model: nn.Module, trial: Any, staged: Path, checkpoint: str) -> None:
        """Lets `Trainer` write all parts into a folder, as those of a checkpoint at another place."""
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ExportableState):  # `Trainer` saves only those that the state knows
                saved_callbacks(self.state).setdefault(type(callback).__name__, {})
        self._is_saving = True
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._is_saving = False
        if Path(self.state.best_model_checkpoint or "") == staged:
            self.state.best_model_checkpoint = checkpoint
            if self.args.should_save:
                self.state.save_to_json(str(staged / STATE_FILE))
        self._save_sums(staged)
        self.accelerator.wait_for_everyone()

    def _save_sums(self, checkpoint: Path) -> None:
        """Adds to a checkpoint what `_load_sums` reads from it."""
        sums = RunningSums(
            loss_since_log=self._tr_loss.item(),
            nll_since_log=float(self._nll_since_log),
            step_of_last_log=self._globalstep_last_logged,
            logged_loss=self._total_loss_scalar,
            first_step=self._first_step,
            data=None if self._train_loader is None else self._train_loader.state_dict(),
            pairs_and_tokens=self._pairs_and_tokens(),
            plan_version=PLAN_VERSION,
            skipped_updates=self._skipped_updates,
        )
        sums.save(checkpoint, self.args.process_index)

    def _get_output_dir(self, trial: Any) -> str:
        """Folder of the run; while a checkpoint is being saved, the one where that is done."""
        folder = super()._get_output_dir(trial)
        return os.path.join(folder, STAGING_FOLDER) if self._is_saving else folder

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Pushes a checkpoint that is in its place; `Trainer` asks for it before."""
        if not self._is_saving:
            super()._push_from_checkpoint(checkpoint_folder)

    # ---- the end ----

    def _finalize_training(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """Ends the training as `Trainer` does; the loss since the last line of the log is that of all processes."""
        if self._resumed_from is not None:
            self._take_up(self._resumed_from)
        self._tr_loss = self.accelerator.reduce(self._tr_loss, "mean")
        output: TrainOutput = super()._finalize_training(*args, **kwargs)
        return output._replace(training_loss=output.metrics["train_loss"])


@contextlib.contextmanager
def _skipping_with(skip: Callable[[Any, int], Any]) -> Iterator[None]:
    """Lets `Trainer` skip batches by another function than its own, which makes every batch it skips."""
    module: Any = transformers.trainer
    own = module.skip_first_batches
    module.skip_first_batches = skip
    try:
        yield
    finally:
        module.skip_first_batches = own
