# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's training inside `Seq2SeqTrainer`: batches by tokens, its schedule, token-exact loss and perplexity."""

from __future__ import annotations

import os
from typing import Any

import datasets
import torch
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase, PrinterCallback, ProgressCallback
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
)
from .arguments import VaswaniTransformerTrainingArguments
from .averaging import SnapshotCallback
from .checkpointing_trainer import CheckpointingTrainer
from .cost import CostCallback
from .danger import dangers
from .evaluating_trainer import perplexity, unsmoothed_loss
from .guard import DivergenceGuard
from .interruption import ignore_interrupts
from .progress import ProgressReport
from .recipe import Recipe
from .schedule import create_paper_schedule, paper_peak_learning_rate
from .validation import pair_lengths

logger = logging.get_logger(__name__)

# oneDNN and torch each keep what they prepared for 1,024 shapes of matrix products. Token-bounded batches have ever
# new shapes: a CPU training would grow by a gigabyte. They are read at the first product; a value that is set stays.
_SHAPE_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
_KEPT_SHAPES = 64

_CPU_BUDGET = 4096  # padded tokens of a micro-batch, both sides together


class VaswaniTransformerTrainer(CheckpointingTrainer):
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
    - A loss or gradient that is no number, or a loss that rises for long, stops the training: see `DivergenceGuard`.
    - Progress is reported by `ProgressReport`; `perplexity` and `tokens_per_second` are in the log, too.
    - `push_to_hub` uploads the model and its card, never snapshots or the state of the training.
    - Real tokens and device seconds are counted over all legs of a training and logged at its end; `total_flos` are
      those of real tokens, see `analysis.cost.training_flops`.

    Attributes:
        recipe: Recipe whose values the training's are compared with, for warnings; None: the paper's.

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
        for name in _SHAPE_CACHES:
            os.environ.setdefault(name, str(_KEPT_SHAPES))
        self._train_lengths, self._train_batches = None, None
        if train_dataset is not None and has_length(train_dataset):
            self._train_lengths = pair_lengths(train_dataset)
            self._train_batches = _plan_batches(args, *self._train_lengths)
        elif isinstance(train_dataset, datasets.IterableDataset):
            _plan_stream_accumulation(args)
        self._train_loader, self._stream_rules = None, stream_rules
        if data_collator is None and processing_class is not None:
            data_collator = TranslationCollator(processing_class)
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, processing_class, **kwargs)
        self.label_smoother = None
        self.recipe: Recipe | None = None
        self._install_defaults()

    def _install_defaults(self) -> None:
        """Adds the BLEU metric and the callbacks that report, count, guard and snapshot."""
        args, callbacks = self.args, self.callback_handler.callbacks
        of_library = [each for each in callbacks if type(each) in (PrinterCallback, ProgressCallback)]
        if of_library:  # else it is a notebook's table
            callbacks[callbacks.index(of_library[-1])] = ProgressReport()
        scores_ids = args.predict_with_generate and not args.batch_eval_metrics
        if self.compute_metrics is None and scores_ids and isinstance(self.processing_class, PreTrainedTokenizerBase):
            from ..evaluation.metrics import make_compute_metrics  # needs the extra [eval], which training does not

            language = getattr(self.model.config, "target_language", None)
            self.compute_metrics = make_compute_metrics(self.processing_class, language)
        self.add_callback(CostCallback())
        self.add_callback(DivergenceGuard())  # before the snapshots
        if args.num_averaged_snapshots > 0:
            self.add_callback(SnapshotCallback(args.snapshot_steps, args.num_averaged_snapshots))

    def train(self, resume_from_checkpoint=None, **kwargs):
        """Trains; see `CheckpointingTrainer.train`.

        Raises:
            ValueError: If the training diverges.
        """
        for danger in dangers(self.args, self.model.config, self.recipe, self.tokens_per_update()):
            logger.warning(danger)
        if hasattr(self.model, "_loading_info"):
            self.model._loading_info = {}  # weights that were missing in its checkpoint are about to be trained
        return super().train(resume_from_checkpoint, **kwargs)

    def tokens_per_update(self) -> tuple[float, float] | None:
        """Real source and target tokens of an update, on average; None where lengths are not known."""
        if self._train_lengths is None:
            return None
        updates = self.train_batches().num_effective_batches
        return tuple(float(lengths.sum() / updates) for lengths in self._train_lengths)

    def _pairs_and_tokens(self):
        """As the base class says."""
        if self._train_lengths is None:
            return None
        return [len(self._train_lengths[0]), *(int(lengths.sum()) for lengths in self._train_lengths)]

    def train_batches(self) -> TokenBatchSampler:
        """The micro-batches of the training set, for all processes and epochs."""
        return self._train_batches

    def layout(self) -> dict[str, Any]:
        """How an update is split, under the names of `train_results.json`; the share of padding is of all tokens."""
        return {
            "train_processes": self.args.world_size,
            "train_accumulation_steps": self.args.gradient_accumulation_steps,
            "train_max_padded_tokens_per_device": self.args.max_padded_tokens_per_device,
            "train_padding_fraction": None if self._train_lengths is None else self.train_batches().padding_fraction,
        }

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

    def _start_loader_at(self, loader, num_batches):
        """The data loader, whose next epoch starts at a later batch."""
        if self._train_lengths is None:
            return super()._start_loader_at(loader, num_batches)
        self.train_batches().start_at(num_batches // self.args.gradient_accumulation_steps)
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
        if not isinstance(self._train_loader, StreamLoader):
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
        optimizer_cls, kwargs = CheckpointingTrainer.get_optimizer_cls_and_kwargs(args, model)
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
            self._nll_since_log = self._nll_since_log + unsmoothed_loss(outputs).detach().sum()
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            # each process's share of one sum, which the averaging of gradients divides by the number of processes
            loss = loss * (self.accelerator.num_processes if self.args.n_gpu <= 1 else self.args.n_gpu)
        return (loss, outputs) if return_outputs else loss

    def log(self, logs, start_time=None):
        """Logs as the library does, with `nll`, `perplexity` and `tokens_per_second` beside `loss`."""
        if "loss" in logs:
            if torch.is_tensor(self._nll_since_log):
                updates = self.state.global_step - self._step_of_last_log
                reduction = "sum" if self.args.average_tokens_across_devices else "mean"
                logs["nll"] = self.accelerator.reduce(self._nll_since_log, reduction).item() / max(updates, 1)
                logs["perplexity"] = perplexity(logs["nll"])
            if (speed := self.cost.lap()) is not None:
                logs["tokens_per_second"] = speed
            self._nll_since_log, self._step_of_last_log = 0.0, self.state.global_step
        if "train_runtime" in logs:  # the last line; the library returns the same dict as the training's metrics
            self.cost.stop()
            if figures := self.cost.metrics():  # of all legs, as are then the library's own speeds
                updates_per_second = self.state.global_step / figures["train_runtime"]
                pairs = self.get_total_train_batch_size(self.args) * self.state.global_step
                if (report := self.stream_report()) is not None:
                    pairs = report.num_kept
                pairs_per_second = pairs / figures["train_runtime"]
                speeds = {"train_samples_per_second": pairs_per_second, "train_steps_per_second": updates_per_second}
                logs.update(figures | speeds)
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

    def _get_grad_norm(self, model, grad_norm=None):
        """The library's norm of an update's gradients; the guard notes it with the loss."""
        grad_norm = super()._get_grad_norm(model, grad_norm)
        if (guard := self._guard()) is not None:
            guard.watch(self.args, self.state, self._tr_loss, grad_norm, self.accelerator.optimizer_step_was_skipped)
        return grad_norm

    def _save_checkpoint(self, model, trial):
        """Saves a resumable checkpoint, unless the training has diverged since the last log."""
        if (guard := self._guard()) is not None:
            guard.check(self.args, self.state)
        super()._save_checkpoint(model, trial)

    def _guard(self) -> DivergenceGuard | None:
        return next((each for each in self.callback_handler.callbacks if isinstance(each, DivergenceGuard)), None)


def _set_cpu_budget(args: VaswaniTransformerTrainingArguments, longest: int) -> None:
    """Sets `max_padded_tokens_per_device` on CPUs where it is None: small micro-batches pad little, at no cost."""
    if args.max_padded_tokens_per_device is None and args.device.type == "cpu":
        args.max_padded_tokens_per_device = max(_CPU_BUDGET, longest)


def _plan_batches(args: VaswaniTransformerTrainingArguments, source_lengths, target_lengths) -> TokenBatchSampler:
    """Plans the batches, and raises `gradient_accumulation_steps` to what `max_padded_tokens_per_device` needs."""
    _set_cpu_budget(args, int((source_lengths + target_lengths).max(initial=0)))
    batches = TokenBatchSampler(
        source_lengths,
        target_lengths,
        max_source_tokens=args.max_source_tokens_per_batch,
        max_target_tokens=args.max_target_tokens_per_batch,
        max_padded_tokens=args.max_padded_tokens_per_device,
        world_size=args.world_size,
        accumulation_steps=args.gradient_accumulation_steps,
        seed=args.seed if args.data_seed is None else args.data_seed,
    )
    args.gradient_accumulation_steps = batches.accumulation_steps
    return batches


def _plan_stream_accumulation(args: VaswaniTransformerTrainingArguments) -> None:
    """Raises `gradient_accumulation_steps` until a process's share of real tokens fits the padded budget."""
    _set_cpu_budget(args, longest=1)
    if args.max_padded_tokens_per_device is not None:
        num_tokens = args.max_source_tokens_per_batch + args.max_target_tokens_per_batch
        planned = -(-num_tokens // (args.max_padded_tokens_per_device * args.world_size))
        args.gradient_accumulation_steps = max(planned, args.gradient_accumulation_steps)
