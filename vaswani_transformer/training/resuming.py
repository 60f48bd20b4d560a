# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trainer with exact resume: weights and logs equal those of an uninterrupted training.

The loop over the updates is that of transformers, in the private method `Trainer._run_epoch`. The
loop calls methods that `ResumableTrainer` and `VaswaniTransformerTrainer` (in trainer.py) override.
This is the order of the calls in an update; "ours" means the override:

1. `get_batch_samples` takes the update's micro-batches from the loader and counts their target
   tokens. Ours copies the micro-batches to the device.
2. For each micro-batch, `training_step` calls `compute_loss` and runs the backward pass. If memory
   runs out, our `training_step` raises an error that says what to do. Our `compute_loss` adds the
   unsmoothed loss to `_nll_since_log`. The loop then adds the loss to `_tr_loss` and calls
   `floating_point_ops`. Our `floating_point_ops` counts the tokens.
3. After the last micro-batch, the loop clips the gradients and calls `_get_grad_norm`. Ours adds
   the norm to `_grad_norms`. On a CPU, ours raises an error if `_tr_loss` or `_grad_norms` is not
   finite.
4. The optimizer and the learning-rate schedule make a step, and `global_step` grows by 1.
5. The callbacks get `on_step_end`. `DefaultFlowCallback` of transformers decides whether to log,
   evaluate and save, and `SnapshotCallback` writes a snapshot.
6. `_maybe_log_save_evaluate` does what the callbacks decided. If there is anything to do, ours
   first checks that `_tr_loss` and `_grad_norms` are finite. Then the method of transformers calls,
   in this order:

   - to log: `store_flos` and `log`. Ours adds up the tokens of all processes in `store_flos`, so
     that `log` can report the speed;
   - to evaluate: `_evaluate`. Ours does not change the random state of the training;
   - to save: `_save_checkpoint`. Ours also calls `_save_sums` and publishes the checkpoint.

   After that, ours stops the training if a signal asked for it.
7. After the last update of an epoch, the callbacks get `on_epoch_end`, and the loop calls
   `_maybe_log_save_evaluate` again. So there are two calls for this update, in steps 6 and 7. Ours
   does nothing in the first of these calls.

After the last epoch, `_finalize_training` calls `store_flos` and `log` once more.
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
from .checkpoints import (
    best_checkpoint,
    checkpoint_to_resume,
    clear_staging,
    publish_checkpoint,
    rotate_checkpoints,
)

logger = logging.get_logger(__name__)

_UPDATES_BETWEEN_AGREEMENTS = 10


class ResumableTrainer(Seq2SeqTrainer):
    """`Seq2SeqTrainer` with exact resume: stopping and resuming change neither weights nor logs.

    `Trainer` loses some things at a resume: the sums since the last log line, the counters that
    callbacks keep, and the position in a stream. This class saves and restores all of them. If the
    checkpoint is from the last update of an epoch, `Trainer` also loses the call of `on_epoch_end`.
    So this class saves such a checkpoint after `on_epoch_end`. A checkpoint gets its final name
    only after every process has written its part of the checkpoint.
    """

    args: VaswaniTransformerTrainingArguments
    model: PreTrainedModel
    optimizer: Optimizer
    # transformers initializes these two attributes with None, without annotations. So type checkers
    # infer that both are always None.
    hub_model_id: str | None  # type: ignore[assignment]
    push_in_progress: PushInProgress | None  # type: ignore[assignment]
    # The sampler of the micro-batches, if the training set has a length.
    train_batches: TokenBatchSampler | None = None
    # The loader, if the training set is a stream. Checkpoints contain its position.
    _train_loader: StreamLoader | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        self._is_saving = False
        self._start_counting()
        super().__init__(*args, **kwargs)

    def _start_counting(self) -> None:
        """Reset the sums and flags of an earlier training."""
        self._stop_requested = False
        # The checkpoint to resume from; None again once its sums are restored.
        self._resumed_from: Path | None = None
        self._last_checkpoint: Path | None = None
        self._last_epoch_end: int | None = None
        self._nll_since_log: float | torch.Tensor = 0.0
        # The sum of all gradient norms. It is finite only if every norm is finite.
        self._grad_norms: float | torch.Tensor = 0.0
        self._step_of_last_log = self._first_step = 0

    # ---- beginning a training, perhaps at a checkpoint ----

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
    ) -> TrainOutput:
        """Train as `Trainer` does, from the start or from a checkpoint.

        Args:
            resume_from_checkpoint: Folder of a checkpoint. True means the newest undamaged one of
                the run, and None means a new training.
            *args: Further arguments of `Trainer.train`.
            **kwargs: Further arguments of `Trainer.train`.

        Raises:
            KeyboardInterrupt: After SIGINT or SIGTERM, once a resumable checkpoint is saved.
            FileNotFoundError: If there is no undamaged checkpoint.
            ValueError: If the loss or a gradient is not finite.
        """
        self._start_counting()
        if hasattr(self.model, "_loading_info"):
            # Weights that were missing in the model's file are trained from now on, so they
            # no longer count as missing.
            vars(self.model)["_loading_info"] = {}
        if resume_from_checkpoint:
            is_newest = resume_from_checkpoint is True
            self._resumed_from = (
                checkpoint_to_resume(self.args) if is_newest else Path(str(resume_from_checkpoint))
            )
            self._last_checkpoint = self._resumed_from
            if self.is_world_process_zero():
                logger.info(f"Resuming from {self._resumed_from}.")
        with self._catching_stop_signals(), without_cudnn_attention(self.args.device):
            return super().train(
                None if self._resumed_from is None else str(self._resumed_from), *args, **kwargs
            )

    @contextlib.contextmanager
    def _catching_stop_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM request a stop instead of ending the process.

        If there is only one process, a second signal ends the process at once. With several
        processes, a second signal changes nothing, because launchers send signals repeatedly.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def request_stop(number: int, frame: FrameType | None) -> None:
            again = " A second signal stops at once, unsaved." if self.args.world_size == 1 else ""
            if not self._stop_requested:
                logger.warning(f"Stopping after the running update and a checkpoint.{again}")
            self._stop_requested = True
            if self.args.world_size == 1:
                restore()

        def restore() -> None:
            for number, handler in previous.items():
                signal.signal(number, handler)

        previous = {
            number: signal.signal(number, request_stop)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            restore()

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warn of missing weights as `Trainer` does, but do not warn of tied weights.

        A checkpoint stores tied weights only once, so all but one of their names are missing.
        """
        tied = getattr(self.model, "all_tied_weights_keys", None) or {}
        missing = [name for name in load_result.missing_keys if name not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Read the trainer's state from the checkpoint as `Trainer` does, with two exceptions.

        The best checkpoint is looked up in the run's current folder instead of at the saved path,
        because the folder may have been moved. The intervals of logs, evaluations and checkpoints
        come from the current arguments instead of the saved state.
        """
        position: tuple[int, int] = super()._init_training_state(*args, **kwargs)
        if self._resumed_from is not None:
            self.state.best_model_checkpoint = best_checkpoint(self._resumed_from)
            self.state.compute_steps(self.args, self.state.max_steps)
        return position

    def _load_callback_state(self) -> None:
        """Restore the attributes of callbacks from a checkpoint.

        `Trainer` also restores the arguments of callbacks. Here the callbacks keep their current
        arguments.
        """
        super()._load_callback_state()
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, ExportableState):
                saved = vars(self.state)["stateful_callbacks"].get(type(callback).__name__)
                vars(callback).update(
                    saved.get("attributes", {}) if isinstance(saved, dict) else {}
                )

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Run an epoch. After a resume, skip the finished batches without loading them."""
        if self._resumed_from is None:
            super()._run_epoch(*args, **kwargs)
            return
        self._restore_progress(self._resumed_from)
        if self.control.should_training_stop:
            return
        module: Any = transformers.trainer
        original = module.skip_first_batches  # This would load every batch that it skips.
        module.skip_first_batches = self._start_loader_at
        try:
            super()._run_epoch(*args, **kwargs)
        finally:
            module.skip_first_batches = original

    def _start_loader_at(self, loader: Any, num_batches: int) -> Any:
        """Return the loader, set to skip this process's first `num_batches` micro-batches."""
        if self._train_loader is not None:
            return loader  # `_load_sums` has already restored the position of the stream.
        if self.train_batches is None:
            return skip_first_batches(loader, num_batches)
        self.train_batches.start_at(num_batches // self.args.gradient_accumulation_steps)
        return loader

    def _restore_progress(self, checkpoint: Path) -> None:
        """Restore the loss sums from the checkpoint, and stop at once if the training had ended.

        The training had ended if all updates were done or early stopping had run out of patience.
        Clear `_resumed_from`, so that the sums are restored only once.
        """
        self._load_sums(checkpoint)
        self._resumed_from = None
        stoppers = [
            each
            for each in self.callback_handler.callbacks
            if isinstance(each, EarlyStoppingCallback)
        ]
        self.control.should_training_stop |= self.state.global_step >= self.state.max_steps or any(
            each.early_stopping_patience_counter >= each.early_stopping_patience
            for each in stoppers
        )

    def _load_sums(self, checkpoint: Path) -> None:
        """Restore the sums of a checkpoint and its position in the stream.

        If the checkpoint was saved by another trainer or by a different number of processes, the
        sums start at zero instead.

        Raises:
            ValueError: The number of processes has changed, and the training set is a stream.
        """
        num_processes = len(list(checkpoint.glob(PROGRESS_FILES)))
        if num_processes != self.args.world_size:
            if num_processes > 0 and self._train_loader is not None:
                raise ValueError(
                    "A training on a stream must be resumed with as many processes as it had, "
                    f"{num_processes}, got {self.args.world_size}. Start {num_processes}."
                )
            self._step_of_last_log = self._first_step = self.state.global_step
            logger.warning(
                "The next log line and `train_loss` are means of updates after "
                f"{self._first_step:,}."
            )
            return
        sums = read_json(checkpoint / self._sums_file())
        if sums.get("bf16", self.args.bf16) != self.args.bf16:
            logger.warning(
                f"bf16 was {sums['bf16']} in the run to resume, and is {self.args.bf16} now. "
                "Resume with the same precision for the same results."
            )
        self._tr_loss.fill_(sums["loss_since_log"])
        self._nll_since_log = sums["nll_since_log"]
        self._total_loss_scalar, self._first_step = sums["logged_loss"], sums["first_step"]
        self._globalstep_last_logged = self._step_of_last_log = sums["step_of_last_log"]
        if self._train_loader is not None and sums["data"] is not None:
            self._train_loader.load_state_dict(sums["data"])

    def _sums_file(self) -> str:
        return PROGRESS_FILES.replace("*", str(self.args.process_index))

    # ---- an update, and what follows it ----

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        """Compute the gradients of a micro-batch.

        If memory runs out, raise ValueError that suggests half as many tokens.
        """
        try:
            return super().training_step(model, inputs, *args, **kwargs)
        except torch.OutOfMemoryError as error:
            if self.train_batches is None and self._train_loader is None:
                raise  # These batches are bounded by sentences, so the advice would not help.
            num_tokens = inputs["input_ids"].numel() + inputs["labels"].numel()
            raise ValueError(
                f"`max_padded_tokens_per_device` must fit the device's memory, got {num_tokens} "
                f"padded tokens that do not. Pass {num_tokens // 2}, which accumulates more "
                "gradients, and resume. With a stream or without a checkpoint, start again."
            ) from error

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Return the gradient norm of an update, and add it to `_grad_norms`.

        On a CPU, if the loss or the norm is not finite, this method raises an error before the
        weights change.
        """
        grad_norm = super()._get_grad_norm(model, grad_norm)
        if not self.args.fp16:  # In fp16, the loss scaler skips updates that overflow.
            self._grad_norms = self._grad_norms + grad_norm
        if self.args.device.type == "cpu":
            self._check_finite()
        return grad_norm

    def _check_finite(self) -> None:
        """Raise ValueError if the loss or a gradient is NaN or infinite.

        This method waits for the device. So on an accelerator, it is called only at the end of the
        training, and before a log line is written, an evaluation is run or a checkpoint is saved.
        Thus no log line, evaluation or checkpoint is made from diverged weights.
        """
        if self.args.logging_nan_inf_filter:
            return
        for name, value in (("loss", float(self._tr_loss)), ("grad_norm", float(self._grad_norms))):
            if not math.isfinite(value):
                last = self._last_checkpoint
                raise ValueError(
                    f"`{name}` must stay a finite number, got {value} after "
                    f"{self.state.global_step:,} updates. Train with a longer `warmup_steps`, a "
                    "lower `learning_rate` or larger batches, and not in fp16. "
                    + (
                        f"The last good checkpoint is {last}."
                        if last
                        else "There is no good checkpoint yet."
                    )
                )

    def _maybe_log_save_evaluate(
        self,
        tr_loss: Any,
        grad_norm: Any,
        model: Any,
        trial: Any,
        epoch: float,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Log, evaluate and save as the callbacks decided, then stop if a signal asked for it.

        transformers calls this method twice after the last update of an epoch: after the update,
        and at the end of the epoch. The first of these calls does nothing. So a checkpoint of this
        update is saved after the epoch has ended, and a resumed training starts with the next
        epoch.

        `tr_loss` is ignored, because it is the value that `_tr_loss` had before `_bring_sums`.
        """
        # The comparison is exact: after the last update, `epoch` has grown by n / n = 1.0.
        is_epoch_complete = self.state.epoch == epoch + 1
        is_first_call = self._last_epoch_end != self.state.global_step
        if is_epoch_complete and is_first_call:
            self._last_epoch_end = self.state.global_step
            return
        if self.control.should_log or self.control.should_evaluate or self.control.should_save:
            # Under torchrun, transformers runs in distributed mode, even with one process. In this
            # mode, transformers gathers the loss on the device before it reads the loss, so the
            # sums must stay on the device.
            gathers_on_device = self.args.parallel_mode == ParallelMode.DISTRIBUTED
            if self.args.device.type != "cpu" and not gathers_on_device:
                grad_norm = self._bring_sums(grad_norm)
            self._check_finite()
        super()._maybe_log_save_evaluate(
            self._tr_loss, grad_norm, model, trial, epoch, *args, **kwargs
        )
        self._tr_loss = self._tr_loss.to(self.args.device, non_blocking=True)
        if self._agree_to_stop():
            if (
                self._last_checkpoint is None
                or self._last_checkpoint.name != f"checkpoint-{self.state.global_step}"
            ):
                self._check_finite()
                self._save_checkpoint(self.model_wrapped, trial=None)
            logger.warning(
                f"Stopped after update {self.state.global_step}, and its checkpoint is saved. "
                "Resume with --resume (in Python: train(resume_from_checkpoint=True)). To finish "
                f"here with a model, add --max-steps {self.state.global_step}."
            )
            raise KeyboardInterrupt

    def _bring_sums(self, grad_norm: Any) -> Any:
        """Copy the gradient norm and all running sums to the CPU, and return the norm.

        The running sums are those of losses and of gradient norms. All values are copied together,
        so the CPU waits for the device only once.
        """
        values: tuple[Any, ...] = (self._tr_loss, grad_norm, self._grad_norms, self._nll_since_log)
        copied = iter(
            torch.stack(
                [value.to(self.args.device) for value in values if torch.is_tensor(value)]
            ).cpu()
        )
        self._tr_loss, grad_norm, self._grad_norms, self._nll_since_log = (
            next(copied) if torch.is_tensor(value) else value for value in values
        )
        return grad_norm

    def _agree_to_stop(self) -> bool:
        """Return True if a signal asked to stop.

        Several processes compare their requests every 10 updates, so that all of them stop after
        the same update.
        """
        if self.args.world_size == 1:
            return self._stop_requested
        if self.state.global_step % _UPDATES_BETWEEN_AGREEMENTS != 0:
            return False
        # torch.tensor would wait for the device.
        requests = torch.full((), int(self._stop_requested), device=self.args.device)
        return bool(self.accelerator.reduce(requests, "sum").item())

    def _evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate without changing the training's random state."""
        with torch.random.fork_rng([self.args.device] if self.args.device.type == "cuda" else []):
            return super()._evaluate(*args, **kwargs)

    # ---- saving ----

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save a resumable checkpoint.

        Write the checkpoint to the staging folder. When every process has written its part, move
        the checkpoint to the run's folder.
        """
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
            if self.args.should_save:  # Two processes that delete the same files would collide.
                clear_staging(output_dir)
        self._last_checkpoint = checkpoint
        if self.args.should_save:
            rotate_checkpoints(
                checkpoint, self.args.save_total_limit, self.state.best_model_checkpoint
            )

    def _write_checkpoint(
        self, model: nn.Module, trial: Any, staged: Path, checkpoint: Path
    ) -> None:
        """Let `Trainer` write a checkpoint to the staging folder, and add the running sums to it.

        If the new checkpoint is the best one, the saved state of the trainer names the final path
        of the checkpoint, not the path in the staging folder.
        """
        for callback in self.callback_handler.callbacks:
            # `Trainer` saves only callbacks that have an entry in the state.
            if isinstance(callback, ExportableState):
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
        """Write the file that `_load_sums` reads. Each process writes its own file."""
        sums = {
            "loss_since_log": self._tr_loss.item(),
            "nll_since_log": float(self._nll_since_log),
            "step_of_last_log": self._globalstep_last_logged,
            # Sum of the losses from update `first_step` (excluded) to the last log line.
            "logged_loss": self._total_loss_scalar,
            "first_step": self._first_step,
            "bf16": self.args.bf16,
            "data": None if self._train_loader is None else self._train_loader.state_dict(),
        }
        # The process that makes the folder may be slower than this one.
        checkpoint.mkdir(parents=True, exist_ok=True)
        write_json(checkpoint / self._sums_file(), sums)

    def _get_output_dir(self, trial: Any) -> str:
        """Return the run's folder, or its staging folder while a checkpoint is saved."""
        folder = super()._get_output_dir(trial)
        return os.path.join(folder, STAGING_FOLDER) if self._is_saving else folder

    # ---- the end ----

    def _finalize_training(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """End the training as `Trainer` does, but average the remaining loss over all processes.

        The remaining loss is the loss since the last log line.
        """
        if self._resumed_from is not None:
            self._restore_progress(self._resumed_from)
        self._check_finite()
        self._tr_loss = self.accelerator.reduce(self._tr_loss, "mean")
        # With `save_total_limit=1`, `Trainer` would delete the newest checkpoint here if an older
        # one is the best.
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        output: TrainOutput = super()._finalize_training(*args, **kwargs)
        self.args.save_total_limit = limit
        return output._replace(training_loss=output.metrics["train_loss"])
