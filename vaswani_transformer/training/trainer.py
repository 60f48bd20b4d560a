# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's training inside `Seq2SeqTrainer`: batches by tokens, its schedule, token-exact loss and perplexity."""

from __future__ import annotations

import math
from typing import Any

import datasets
import torch
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase
from transformers.trainer_utils import has_length
from transformers.utils import logging

from ..analysis.cost import training_flops
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..data import (
    BATCHES_PER_POOL,
    ArrowPairs,
    CleaningReport,
    CleaningRules,
    StreamLoader,
    StreamSettings,
    TokenBatchSampler,
    TranslationCollator,
    plan_accumulation_steps,
)
from .arguments import VaswaniTransformerTrainingArguments
from .averaging import SnapshotCallback
from .cost import CostCallback
from .evaluating_trainer import EvaluatingTrainer, unsmoothed_loss
from .interruption import StopCallback, TrainingInterrupted, ignore_interrupts, stop_signals
from .schedule import create_paper_schedule, paper_peak_learning_rate
from .validation import pair_lengths

logger = logging.get_logger(__name__)

_DEEP = 6  # decoder layers from which post-norm is known to diverge when hurried
_SHORT_WARMUP = 1000  # updates
_SMALL_BATCH = 4096  # target tokens


class VaswaniTransformerTrainer(EvaluatingTrainer):
    """`Seq2SeqTrainer` that trains the way the paper does; a drop-in for it.

    The training set needs the columns `input_ids` and `labels` (both ending in `</s>`); `source_length` and
    `target_length` save counting. What differs from the library's trainer:

    - Batches hold a number of tokens, not of sentences, and are the same on any number of devices. A stream of the
      library `datasets` is read in such batches too, endlessly; see `data.StreamLoader`.
    - `lr_scheduler_type="inverse_sqrt"` is the paper's schedule; the first update is number 1.
    - Label smoothing is done by the model's forward. `loss` in the log is smoothed, `nll` is not.
    - `eval_loss`, `eval_nll` and `eval_perplexity` are means per target token over the whole evaluation set, each
      sentence counted once on any number of devices; perplexity is exp(nll).
    - Evaluation translates sentences sorted by length, returns them in their own order and without -100, scores
      them (`eval_sacrebleu`, `eval_chrf`, `eval_paper_bleu`, `eval_tokenized_bleu`) if there is no
      `compute_metrics`, and leaves the model's generation config as it was.
    - SIGINT and SIGTERM save a resumable checkpoint after the running update, then raise KeyboardInterrupt.
    - A loss that is no number stops the training.
    - `push_to_hub` uploads the model and its card, never snapshots or the state of the training.
    - Real tokens and device seconds are counted over all legs of a training and logged at its end; `total_flos` are
      those of real tokens, see `analysis.cost.training_flops`.

    Paper: section 5.

    Args:
        model: The model to train.
        args: `VaswaniTransformerTrainingArguments`.
        data_collator: None makes a `TranslationCollator` of `processing_class`.
        train_dataset: Tokenised pairs; or a `datasets.IterableDataset` of them or of text (`source` and `target`).
            Another data set without length is batched by sentences.
        eval_dataset: Tokenised pairs, or several sets by name.
        processing_class: The tokenizer.
        stream_rules: What pairs of a stream must satisfy; others are dropped and counted.
        **kwargs: Everything else as for `Seq2SeqTrainer`.

    Raises:
        TypeError: If `args` are not `VaswaniTransformerTrainingArguments`.

    Example:
        >>> trainer = VaswaniTransformerTrainer(model, args, train_dataset=train, processing_class=tokenizer)
        >>> trainer.train()
    """

    def __init__(
        self,
        model=None,
        args=None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        *,
        stream_rules: CleaningRules | None = None,
        **kwargs,
    ):
        if not isinstance(args, VaswaniTransformerTrainingArguments):
            raise TypeError(
                f"`args` must be VaswaniTransformerTrainingArguments, got {type(args).__name__}. They take every "
                "argument of Seq2SeqTrainingArguments."
            )
        self._train_lengths, self._train_batches = None, None
        if train_dataset is not None and has_length(train_dataset):
            self._train_lengths = pair_lengths(train_dataset)
            _plan_accumulation(args, *self._train_lengths)
        elif isinstance(train_dataset, datasets.IterableDataset):
            _plan_stream_accumulation(args)
        self._train_loader, self._stream_rules = None, stream_rules
        if data_collator is None and processing_class is not None:
            data_collator = TranslationCollator(processing_class)
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, processing_class, **kwargs)
        self.label_smoother = None
        self._nll_since_log, self._step_of_last_log = None, 0
        self._install_defaults()
        _warn_of_danger(self.args, self.model.config)

    def _install_defaults(self) -> None:
        """Adds the BLEU metric and the callbacks that count, snapshot and stop."""
        args = self.args
        scores_ids = args.predict_with_generate and not args.batch_eval_metrics
        if self.compute_metrics is None and scores_ids and isinstance(self.processing_class, PreTrainedTokenizerBase):
            from ..evaluation.metrics import make_compute_metrics  # needs the extra [eval], which training does not

            language = getattr(self.model.config, "target_language", None)
            self.compute_metrics = make_compute_metrics(self.processing_class, language)
        self.add_callback(CostCallback())
        if args.num_averaged_snapshots > 0:
            self.add_callback(SnapshotCallback(args.snapshot_steps, args.num_averaged_snapshots))
        self._stop = StopCallback()
        self.add_callback(self._stop)

    def train(self, resume_from_checkpoint=None, **kwargs):
        """Trains as the library does; SIGINT and SIGTERM save a resumable checkpoint first.

        Raises:
            KeyboardInterrupt: After such a signal, when the checkpoint is written.
            ValueError: If the loss stops being a number.
        """
        self._nll_since_log, self._step_of_last_log = None, 0
        if hasattr(self.model, "_loading_info"):
            self.model._loading_info = {}  # weights that were missing in its checkpoint are about to be trained
        with stop_signals(self._stop, self.args.world_size):
            try:
                return super().train(resume_from_checkpoint, **kwargs)
            except TrainingInterrupted:
                if self.state.global_step > 0:
                    self._save_checkpoint(self.model_wrapped, trial=None)
                    logger.warning(f"Stopped after update {self.state.global_step}; resume from its checkpoint.")
                raise

    def train_batches(self) -> TokenBatchSampler:
        """The micro-batches of the training set, for all processes and epochs."""
        if self._train_batches is None:
            self._train_batches = TokenBatchSampler(
                *self._train_lengths,
                max_source_tokens=self.args.max_source_tokens_per_batch,
                max_target_tokens=self.args.max_target_tokens_per_batch,
                max_padded_tokens=self.args.max_padded_tokens_per_device,
                world_size=self.args.world_size,
                accumulation_steps=self.args.gradient_accumulation_steps,
                seed=self.args.seed if self.args.data_seed is None else self.args.data_seed,
            )
        return self._train_batches

    def get_train_dataloader(self) -> DataLoader:
        """Data loader of token-bounded micro-batches; another data set than `datasets` has is batched by sentences."""
        if isinstance(self.train_dataset, datasets.IterableDataset):
            self._train_loader = self._stream_loader()
            return self._train_loader
        if self._train_lengths is None:
            return super().get_train_dataloader()
        sampler = self.train_batches()
        dataset, collator = self.train_dataset, self.data_collator
        if hasattr(dataset, "remove_columns"):
            dataset = self._remove_unused_columns(dataset, description="training")
        else:
            collator = self._get_collator_with_removed_columns(collator, description="training")
        if type(collator) is TranslationCollator and ArrowPairs.fits(dataset):
            dataset = ArrowPairs(dataset)
        loader = DataLoader(
            dataset,
            batch_sampler=sampler,
            collate_fn=collator,
            num_workers=self.args.dataloader_num_workers,
            **self._loader_options(),
        )
        loader = self.accelerator.prepare(loader)
        if loader.batch_sampler is not sampler:
            # accelerate's shard has no set_epoch of its own, so a resumed epoch would replay the order of epoch 0
            loader.batch_sampler.set_epoch = sampler.set_epoch
        return loader

    def _loader_options(self) -> dict[str, Any]:
        """Arguments of the `DataLoader` of any training set."""
        return {
            "pin_memory": self.args.dataloader_pin_memory,
            "persistent_workers": self.args.dataloader_persistent_workers,
            "prefetch_factor": self.args.dataloader_prefetch_factor,
            "worker_init_fn": ignore_interrupts,
        }

    def _stream_loader(self) -> StreamLoader:
        """Loader of a stream, which deals it out to processes itself and keeps the place where it stands."""
        args = self.args
        args.ignore_data_skip = True  # a resumed stream goes on by the state of its loader
        parts = args.world_size * args.gradient_accumulation_steps
        settings = StreamSettings(
            max_source_tokens=args.max_source_tokens_per_batch // parts,
            max_target_tokens=args.max_target_tokens_per_batch // parts,
            max_padded_tokens=args.max_padded_tokens_per_device,
            num_processes=args.world_size,
            process_index=args.process_index,
            num_workers=args.dataloader_num_workers,
            seed=args.seed if args.data_seed is None else args.data_seed,
            batches_per_pool=BATCHES_PER_POOL * args.gradient_accumulation_steps,
        )
        tokenizer = self.processing_class if isinstance(self.processing_class, PreTrainedTokenizerBase) else None
        return StreamLoader(
            self.train_dataset,
            self.data_collator,
            settings,
            rules=self._stream_rules,
            tokenizer=tokenizer,
            **self._loader_options(),
        )

    def stream_report(self) -> CleaningReport | None:
        """Pairs of a stream that all processes kept and dropped so far, over all epochs; None if none was read.

        Every process calls it.
        """
        if self._train_loader is None:
            return None
        report = self._train_loader.report
        counts = torch.tensor([report.num_kept, *report.dropped.values()], device=self.args.device)
        num_kept, *dropped = self.accelerator.reduce(counts, "sum").tolist()
        return CleaningReport(num_kept, dict(zip(report.dropped, dropped, strict=True)))

    def get_total_train_batch_size(self, args) -> int:
        """Mean number of pairs of an update, from which the library reports samples per second."""
        if self._train_lengths is None:
            return super().get_total_train_batch_size(args)
        return round(len(self.train_dataset) / self.train_batches().num_effective_batches)

    def create_scheduler(self, num_training_steps, optimizer=None):
        """The paper's schedule for "inverse_sqrt", else the library's of that name."""
        if self.lr_scheduler is None and self.args.lr_scheduler_type == "inverse_sqrt":
            self.lr_scheduler = create_paper_schedule(optimizer or self.optimizer, int(self.args.warmup_steps))
            self._created_lr_scheduler = True
        return super().create_scheduler(num_training_steps, optimizer)

    @staticmethod
    def get_optimizer_cls_and_kwargs(args, model=None):
        """Optimiser class and arguments; the paper's peak learning rate where `learning_rate` is None."""
        optimizer_cls, kwargs = EvaluatingTrainer.get_optimizer_cls_and_kwargs(args, model)
        if args.learning_rate is None:
            kwargs["lr"] = paper_peak_learning_rate(model.config.d_model, int(args.warmup_steps))
        return optimizer_cls, kwargs

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """Smoothed loss over the effective batch's real target tokens; notes the unsmoothed one for the log."""
        if self.compute_loss_func is not None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        outputs = model(**self._loss_inputs(inputs, return_outputs), num_items_in_batch=num_items_in_batch)
        loss = outputs["loss"]
        if self.model.training:
            nll = unsmoothed_loss(outputs).detach().sum()
            self._nll_since_log = nll if self._nll_since_log is None else self._nll_since_log + nll
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            # each process's share of one sum, which the averaging of gradients divides by the number of processes
            loss = loss * (self.accelerator.num_processes if self.args.n_gpu <= 1 else self.args.n_gpu)
        return (loss, outputs) if return_outputs else loss

    def _maybe_log_save_evaluate(self, *args, **kwargs):
        """As the library does; on a stream, all of whose updates it counts as one epoch, from the first one on."""
        if isinstance(self.train_dataset, datasets.IterableDataset):
            self.state.epoch = self.state.global_step / self.state.max_steps
        super()._maybe_log_save_evaluate(*args, **kwargs)

    def log(self, logs, start_time=None):
        """Logs as the library does, with `nll` beside `loss`; raises ValueError when the loss is no number."""
        if "loss" in logs:
            self._raise_if_diverged(logs["loss"])
            if self._nll_since_log is not None:
                updates = self.state.global_step - max(self._step_of_last_log, self._initial_global_step)
                reduction = "sum" if self.args.average_tokens_across_devices else "mean"
                logs["nll"] = self.accelerator.reduce(self._nll_since_log, reduction).item() / max(updates, 1)
            self._nll_since_log, self._step_of_last_log = None, self.state.global_step
        if "train_runtime" in logs:  # the last line; the library returns the same dict as the training's metrics
            self.cost.stop()
            logs.update(self.cost.metrics())
        super().log(logs, start_time)

    @property
    def cost(self) -> CostCallback:
        """Counts of real tokens and device seconds of the training."""
        return next(callback for callback in self.callback_handler.callbacks if isinstance(callback, CostCallback))

    def floating_point_ops(self, inputs):
        """Counts a micro-batch's real tokens; 0, as `store_flos` makes operations of them without a wait here."""
        self.cost.count(inputs)
        return 0

    def store_flos(self):
        """Sets `total_flos` of the state to the operations of all real tokens so far, of all processes."""
        self.cost.settle(self.accelerator)
        if self.model.config.model_type == VaswaniTransformerConfig.model_type:
            tokens = self.cost.source_tokens, self.cost.target_tokens
            self.state.total_flos = training_flops(self.model.config, *tokens)

    def _save_checkpoint(self, model, trial):
        """Saves a resumable checkpoint, unless the training has diverged since the last log."""
        self._raise_if_diverged(self._tr_loss.item())
        super()._save_checkpoint(model, trial)

    def _raise_if_diverged(self, loss: float) -> None:
        """Raises ValueError on a loss that is no finite number."""
        if math.isfinite(loss) or self.args.logging_nan_inf_filter:
            return
        raise ValueError(
            f"`loss` must stay a finite number, got {loss} up to step {self.state.global_step}. Train in bf16 or fp32 "
            "instead of fp16, with a longer `warmup_steps`, a lower `learning_rate` or larger batches; the last "
            f"checkpoint in {self.args.output_dir} was saved before."
        )


def _plan_accumulation(args: VaswaniTransformerTrainingArguments, source_lengths, target_lengths) -> None:
    """Raises `gradient_accumulation_steps` until every micro-batch fits `max_padded_tokens_per_device`."""
    if args.max_padded_tokens_per_device is None:
        return
    planned = plan_accumulation_steps(
        source_lengths,
        target_lengths,
        max_source_tokens=args.max_source_tokens_per_batch,
        max_target_tokens=args.max_target_tokens_per_batch,
        max_padded_tokens=args.max_padded_tokens_per_device,
        world_size=args.world_size,
    )
    args.gradient_accumulation_steps = max(planned, args.gradient_accumulation_steps)


def _plan_stream_accumulation(args: VaswaniTransformerTrainingArguments) -> None:
    """Raises `gradient_accumulation_steps` until a process's share of real tokens fits the padded budget."""
    if args.max_padded_tokens_per_device is not None:
        num_tokens = args.max_source_tokens_per_batch + args.max_target_tokens_per_batch
        planned = -(-num_tokens // (args.max_padded_tokens_per_device * args.world_size))
        args.gradient_accumulation_steps = max(planned, args.gradient_accumulation_steps)


def _warn_of_danger(args: VaswaniTransformerTrainingArguments, config: Any) -> None:
    """Warns of what post-norm models are known to diverge on."""
    if args.fp16:
        logger.warning("Post-norm transformers tend to diverge in fp16. Train in bf16, or in fp32.")
    if getattr(config, "num_decoder_layers", 0) < _DEEP:
        return
    if args.warmup_steps < _SHORT_WARMUP:
        logger.warning(
            f"A warm-up of {args.warmup_steps:g} updates is short for {config.num_decoder_layers} post-norm layers, "
            "which may diverge. The paper's is 4,000."
        )
    if args.max_target_tokens_per_batch < _SMALL_BATCH:
        logger.warning(
            f"Batches of {args.max_target_tokens_per_batch} target tokens are small for {config.num_decoder_layers} "
            "post-norm layers, which may diverge or stay behind. The paper's hold 25,000."
        )
