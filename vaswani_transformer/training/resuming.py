# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping, saving and resuming inside the trainer, so that a resumed training is the uninterrupted one.

The methods are hooks of `Trainer`'s loop, in the order in which it calls them.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import transformers.trainer
from accelerate import skip_first_batches
from torch import nn
from torch.optim import Optimizer
from transformers import EarlyStoppingCallback, PreTrainedModel, Seq2SeqTrainer
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import TrainOutput
from transformers.training_args import ParallelMode
from transformers.utils import logging
from transformers.utils.hub import PushInProgress

from ..data import StreamLoader, TokenBatchSampler
from ..files import PROGRESS_FILES, STAGING_FOLDER, STATE_FILE, read_json, write_json
from ..generation_vaswani_transformer import without_cudnn_attention
from .arguments import VaswaniTransformerTrainingArguments
from .checkpoints import best_checkpoint, clear_staging, publish_checkpoint, rotate_checkpoints, take_up_checkpoint

logger = logging.get_logger(__name__)

_UPDATES_BETWEEN_AGREEMENTS = 10


class ResumableTrainer(Seq2SeqTrainer):
    """`Seq2SeqTrainer` that stops, saves and resumes without a trace in weights and logs.

    It keeps what `Trainer` loses at a resume: the sums between two log lines, what callbacks counted, the end of an
    epoch, and the place of a stream. A checkpoint appears under its name only when every process has written its part.
    """

    args: VaswaniTransformerTrainingArguments
    model: PreTrainedModel
    optimizer: Optimizer
    hub_model_id: str | None  # type: ignore[assignment]  # transformers annotates its first values
    push_in_progress: PushInProgress | None  # type: ignore[assignment]
    train_batches: TokenBatchSampler | None = None  # micro-batches of a training set with a length
    _train_loader: StreamLoader | None = None  # of a stream, whose place lies in the checkpoint

    def __init__(self, *args: Any, **kwargs: Any):
        self._is_saving = False
        self._start_counting()
        super().__init__(*args, **kwargs)

    def _start_counting(self) -> None:
        """Forgets the sums of another training."""
        self._stop_requested = False
        self._resumed_from: Path | None = None  # until its sums are restored
        self._last_checkpoint: Path | None = None
        self._last_epoch_end: int | None = None
        self._nll_since_log: float | torch.Tensor = 0.0
        self._grad_norms: float | torch.Tensor = 0.0  # their sum, to find one that is not finite
        self._step_of_last_log = self._first_step = 0

    # ---- beginning a training, perhaps at a checkpoint ----

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> TrainOutput:
        """Trains as `Trainer` does, from a checkpoint's folder, or with True from the newest undamaged one.

        Raises:
            KeyboardInterrupt: After SIGINT or SIGTERM, when a resumable checkpoint is written.
            FileNotFoundError: If there is no undamaged checkpoint.
            ValueError: If the loss or a gradient is no finite number.
        """
        self._start_counting()
        if hasattr(self.model, "_loading_info"):
            vars(self.model)["_loading_info"] = {}  # weights that its checkpoint lacked are about to be trained
        if resume_from_checkpoint:
            is_newest = resume_from_checkpoint is True
            self._resumed_from = take_up_checkpoint(self.args) if is_newest else Path(str(resume_from_checkpoint))
            self._last_checkpoint = self._resumed_from
            if self.is_world_process_zero():
                logger.info(f"Resuming from {self._resumed_from}.")
        with self._catching_stop_signals(), without_cudnn_attention(self.args.device):
            return super().train(None if self._resumed_from is None else str(self._resumed_from), *args, **kwargs)

    @contextlib.contextmanager
    def _catching_stop_signals(self) -> Iterator[None]:
        """Turns SIGINT and SIGTERM into requests to stop; a second one has its usual effect on a single process.

        Launchers repeat a signal to each of several processes, so there a repeated one changes nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def request_stop(number: int, frame: FrameType | None) -> None:
            again = " A second signal stops at once, unsaved." if self.args.world_size == 1 else ""
            if not self._stop_requested:
                logger.warning(f"Stopping: the running update is finished and a checkpoint saved first.{again}")
            self._stop_requested = True
            if self.args.world_size == 1:
                restore()

        def restore() -> None:
            for number, handler in previous.items():
                signal.signal(number, handler)

        previous = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            restore()

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warns as `Trainer` does, but of no tied weight, which a checkpoint holds once."""
        tied = getattr(self.model, "all_tied_weights_keys", None) or {}
        missing = [name for name in load_result.missing_keys if name not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Reads the state as `Trainer` does, but for two values.

        The best checkpoint is looked for in the run's folder, which may have been moved; the intervals of logs,
        evaluations and checkpoints are this run's.
        """
        place: tuple[int, int] = super()._init_training_state(*args, **kwargs)
        if self._resumed_from is not None:
            self.state.best_model_checkpoint = best_checkpoint(self._resumed_from)
            self.state.compute_steps(self.args, self.state.max_steps)
        return place

    def _load_callback_state(self) -> None:
        """Restores what callbacks counted; unlike in `Trainer`, their arguments stay this run's."""
        super()._load_callback_state()
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ExportableState):
                saved = vars(self.state)["stateful_callbacks"].get(type(callback).__name__)
                vars(callback).update(saved.get("attributes", {}) if isinstance(saved, dict) else {})

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Runs an epoch; the first one after a resume makes no batches before its start."""
        if self._resumed_from is None:
            super()._run_epoch(*args, **kwargs)
            return
        self._restore_progress(self._resumed_from)
        if self.control.should_training_stop:
            return
        module: Any = transformers.trainer
        own = module.skip_first_batches  # makes every batch that it skips
        module.skip_first_batches = self._start_loader_at
        try:
            super()._run_epoch(*args, **kwargs)
        finally:
            module.skip_first_batches = own

    def _start_loader_at(self, loader: Any, num_batches: int) -> Any:
        """Skips the first batches of each process."""
        if self._train_loader is not None:
            return loader  # which knows its place
        if self.train_batches is None:
            return skip_first_batches(loader, num_batches)
        self.train_batches.start_at(num_batches // self.args.gradient_accumulation_steps)
        return loader

    def _restore_progress(self, checkpoint: Path) -> None:
        """Restores, once, what a checkpoint holds in addition to the state of transformers."""
        self._load_sums(checkpoint)
        self._resumed_from = None
        stoppers = [each for each in self.callback_handler.callbacks if isinstance(each, EarlyStoppingCallback)]
        self.control.should_training_stop |= self.state.global_step >= self.state.max_steps or any(
            each.early_stopping_patience_counter >= each.early_stopping_patience for each in stoppers
        )

    def _load_sums(self, checkpoint: Path) -> None:
        """Restore the sums and the stream of a checkpoint.

        The sums start at a checkpoint of transformers' own trainer, or of another number of processes.
        """
        num_processes = len(list(checkpoint.glob(PROGRESS_FILES)))
        if num_processes != self.args.world_size:
            if num_processes > 0 and self._train_loader is not None:
                raise ValueError(
                    f"A training on a stream must be resumed with as many processes as it had, {num_processes}, got "
                    f"{self.args.world_size}. Start {num_processes}."
                )
            self._step_of_last_log = self._first_step = self.state.global_step
            logger.warning(
                f"The next line of the log and `train_loss` are means of updates after {self._first_step:,}."
            )
            return
        sums = read_json(checkpoint / self._sums_file())
        if sums.get("bf16", self.args.bf16) != self.args.bf16:
            logger.warning(f"bf16 was {sums['bf16']} in the run to resume, and is {self.args.bf16} now.")
        self._tr_loss.fill_(sums["loss_since_log"])
        self._nll_since_log = sums["nll_since_log"]
        self._total_loss_scalar, self._first_step = sums["logged_loss"], sums["first_step"]
        self._globalstep_last_logged = self._step_of_last_log = sums["step_of_last_log"]
        if self._train_loader is not None and sums["data"] is not None:
            self._train_loader.load_state_dict(sums["data"])

    def _sums_file(self) -> str:
        return PROGRESS_FILES.replace("*", str(self.args.process_index))

    # ---- an update, and what follows it ----

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """Compute the gradients of a micro-batch. On out-of-memory, raise ValueError that suggests half the tokens."""
        try:
            return super().training_step(model, inputs, *args, **kwargs)
        except torch.OutOfMemoryError as error:
            if self.train_batches is None and self._train_loader is None:
                raise  # batches are of sentences
            num_tokens = inputs["input_ids"].numel() + inputs["labels"].numel()
            raise ValueError(
                f"`max_padded_tokens_per_device` must fit the device's memory, got {num_tokens} padded tokens that do "
                f"not. Pass {num_tokens // 2}, which accumulates more gradients, and resume, or start again with a "
                "stream or without a checkpoint."
            ) from error

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Norm of an update's gradients; on CPUs it is checked before it changes the weights."""
        grad_norm = super()._get_grad_norm(model, grad_norm)
        if not self.args.fp16:  # whose loss scaler skips updates that overflow
            self._grad_norms = self._grad_norms + grad_norm
        if self.args.device.type == "cpu":
            self._check_finite()
        return grad_norm

    def _check_finite(self) -> None:
        """Raises ValueError when a loss or gradient since the last check is NaN or infinite; it waits for the device.

        On accelerators this is done at each log, evaluation and checkpoint, so that none comes from diverged weights.
        """
        if self.args.logging_nan_inf_filter:
            return
        for name, value in (("loss", float(self._tr_loss)), ("grad_norm", float(self._grad_norms))):
            if not math.isfinite(value):
                last = self._last_checkpoint
                raise ValueError(
                    f"`{name}` must stay a finite number, got {value} after {self.state.global_step:,} updates. "
                    "Train with a longer `warmup_steps`, a lower `learning_rate` or larger batches, and not in fp16. "
                    + (f"The last good checkpoint is {last}." if last else "There is no good checkpoint yet.")
                )

    def _maybe_log_save_evaluate(
        self, tr_loss: Any, grad_norm: Any, model: Any, trial: Any, epoch: float, *args: Any, **kwargs: Any
    ) -> None:
        """Logs, evaluates and saves, then stops if that was asked for.

        After the last update of an epoch it waits for the epoch's end, as a resumed training begins with the next one.
        """
        if self.state.epoch == epoch + 1 and self._last_epoch_end != self.state.global_step:
            self._last_epoch_end = self.state.global_step
            return
        if self.control.should_log or self.control.should_evaluate or self.control.should_save:
            is_gathered = self.args.parallel_mode == ParallelMode.DISTRIBUTED  # on the devices, of one process, too
            if self.args.device.type != "cpu" and not is_gathered:
                grad_norm = self._bring_sums(grad_norm)
            self._check_finite()
        super()._maybe_log_save_evaluate(self._tr_loss, grad_norm, model, trial, epoch, *args, **kwargs)
        self._tr_loss = self._tr_loss.to(self.args.device, non_blocking=True)
        if self._agree_to_stop():
            if self._last_checkpoint is None or self._last_checkpoint.name != f"checkpoint-{self.state.global_step}":
                self._check_finite()
                self._save_checkpoint(self.model_wrapped, trial=None)
            logger.warning(
                f"Stopped after update {self.state.global_step}, whose checkpoint is saved. Resume with --resume (in "
                "Python: train(resume_from_checkpoint=True))."
            )
            raise KeyboardInterrupt

    def _bring_sums(self, grad_norm: Any) -> Any:
        """Brings the sums since the last log to the host with one wait, and returns the norm of the last gradients."""
        values: tuple[Any, ...] = (self._tr_loss, grad_norm, self._grad_norms, self._nll_since_log)
        brought = iter(torch.stack([value.to(self.args.device) for value in values if torch.is_tensor(value)]).cpu())
        self._tr_loss, grad_norm, self._grad_norms, self._nll_since_log = (
            next(brought) if torch.is_tensor(value) else value for value in values
        )
        return grad_norm

    def _agree_to_stop(self) -> bool:
        """Returns True if a signal asked to stop; processes agree on it every 10 updates, to stop after the same."""
        if self.args.world_size == 1:
            return self._stop_requested
        if self.state.global_step % _UPDATES_BETWEEN_AGREEMENTS != 0:
            return False
        requests = torch.full((), int(self._stop_requested), device=self.args.device)  # a tensor's copy would wait
        return bool(self.accelerator.reduce(requests, "sum").item())

    def _evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluates without drawing from the training's random numbers."""
        with torch.random.fork_rng(devices=[]):
            return super()._evaluate(*args, **kwargs)

    # ---- saving ----

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Saves a resumable checkpoint aside; it is moved to its place when every process is done."""
        output_dir, name = Path(self._get_output_dir(trial)), f"checkpoint-{self.state.global_step}"
        staged, checkpoint = output_dir / STAGING_FOLDER / name, output_dir / name
        try:
            if self.args.should_save:
                clear_staging(output_dir)
            self.accelerator.wait_for_everyone()
            self._write_checkpoint(model, trial, staged, checkpoint)
            if self.args.should_save:
                publish_checkpoint(staged, output_dir)
            self.accelerator.wait_for_everyone()
        finally:
            if self.args.should_save:  # alone: two processes would delete under each other's hands
                clear_staging(output_dir)
        self._last_checkpoint = checkpoint
        if self.args.should_save:
            rotate_checkpoints(checkpoint, self.args.save_total_limit, self.state.best_model_checkpoint)

    def _write_checkpoint(self, model: nn.Module, trial: Any, staged: Path, checkpoint: Path) -> None:
        """Lets `Trainer` write all parts into a folder, as those of a checkpoint at another place."""
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ExportableState):  # `Trainer` saves only those that the state knows
                vars(self.state)["stateful_callbacks"].setdefault(type(callback).__name__, {})
        self._is_saving = True
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._is_saving = False
        if Path(self.state.best_model_checkpoint or "") == staged:
            self.state.best_model_checkpoint = str(checkpoint)
            if self.args.should_save:
                self.state.save_to_json(str(staged / STATE_FILE))
        self._save_sums(staged)
        self.accelerator.wait_for_everyone()

    def _save_sums(self, checkpoint: Path) -> None:
        """Adds to a checkpoint what `_load_sums` reads from it, a file for each process."""
        sums = {
            "loss_since_log": self._tr_loss.item(),
            "nll_since_log": float(self._nll_since_log),
            "step_of_last_log": self._globalstep_last_logged,
            "logged_loss": self._total_loss_scalar,  # of all updates up to that line of the log
            "first_step": self._first_step,  # before the first update that it counts
            "bf16": self.args.bf16,
            "data": None if self._train_loader is None else self._train_loader.state_dict(),
        }
        checkpoint.mkdir(parents=True, exist_ok=True)  # where no process has written anything yet
        write_json(checkpoint / self._sums_file(), sums)

    def _get_output_dir(self, trial: Any) -> str:
        """Folder of the run; while a checkpoint is being saved, the one where that is done."""
        folder = super()._get_output_dir(trial)
        return os.path.join(folder, STAGING_FOLDER) if self._is_saving else folder

    # ---- the end ----

    def _finalize_training(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """Ends the training as `Trainer` does; the loss since the last line of the log is that of all processes."""
        if self._resumed_from is not None:
            self._restore_progress(self._resumed_from)
        self._check_finite()
        self._tr_loss = self.accelerator.reduce(self._tr_loss, "mean")
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # 1 would delete the newest checkpoint
        output: TrainOutput = super()._finalize_training(*args, **kwargs)
        self.args.save_total_limit = limit
        return output._replace(training_loss=output.metrics["train_loss"])
