# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's training inside `Seq2SeqTrainer`: batches by tokens, its schedule, token-exact loss and perplexity."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import datasets
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader
from transformers import EvalPrediction, PreTrainedModel, PrinterCallback, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput, TrainOutput, has_length, unwrap_peft_model

from ..analysis.cost import training_flops
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..data import CleaningReport, CleaningRules, StreamLoader, TokenBatchSampler, TranslationCollator
from ..data.preparation import check_token_ids
from ..loss_vaswani_transformer import IGNORE_INDEX
from .arguments import VaswaniTransformerTrainingArguments, warn_of_no_effect
from .averaging import SnapshotCallback
from .callbacks import LogLines
from .cost import CostCallback
from .loading import (
    SortedByLength,
    in_data_order,
    limit_shape_caches,
    load_batches,
    load_stream,
    plan_batches,
    plan_stream,
    reduce_report,
)
from .resuming import ResumableTrainer
from .schedule import create_paper_schedule, paper_peak_learning_rate


class VaswaniTransformerTrainer(ResumableTrainer):
    """`Seq2SeqTrainer` that trains the way the paper does, with `VaswaniTransformerTrainingArguments` as its `args`.

    The training set needs the columns `input_ids` and `labels` (both ending in `</s>`); `source_length` and
    `target_length` save counting. Differences from `Seq2SeqTrainer`:

    - Batches hold a number of tokens, not of sentences, and are the same on any number of devices. A
      `datasets.IterableDataset` is read in such batches too, endlessly; see `data.StreamLoader`.
    - `lr_scheduler_type="inverse_sqrt"` is the paper's schedule; the first update is number 1.
    - The model decodes as section 6.1 says from the start, unless its generation config names another search.
    - Label smoothing is done by the model's forward. `loss` in the log is smoothed, `nll` is not.
    - `eval_loss`, `eval_nll` and `eval_perplexity` are means per target token over the whole evaluation set, each
      sentence counted once on any number of devices; perplexity is exp(nll).
    - Evaluation translates sentences sorted by length, returns them in their own order and without -100, scores
      them (`eval_sacrebleu`, `eval_chrf`, `eval_paper_bleu`, `eval_tokenized_bleu`) if there is no
      `compute_metrics`, and leaves the model's generation config as it was.
    - SIGINT and SIGTERM save a resumable checkpoint after the running update, then raise KeyboardInterrupt.
    - A loss or gradient that is no finite number stops the training, unless `logging_nan_inf_filter` is set.
    - `perplexity` and `tokens_per_second` are in the log, too; without tqdm's bars each entry is a line on stderr.
    - `push_to_hub` uploads the model and its card, never snapshots or the state of the training.
    - Real tokens, device seconds and `total_flos` (`analysis.cost.training_flops`) count on after a resume.

    Paper: section 5.

    Args:
        model: The model to train, perhaps with an adapter of PEFT. Its forward must name `smoothing` and
            `return_logits` among its arguments, as that of `VaswaniTransformerForConditionalGeneration` does.
        args: `VaswaniTransformerTrainingArguments`.
        data_collator: None makes a `TranslationCollator` of `processing_class`.
        train_dataset: Tokenised pairs; or a `datasets.IterableDataset` of them or of text (`source` and `target`).
            Another data set without length is batched by sentences.
        eval_dataset: Tokenised pairs, or several sets by name.
        processing_class: The tokenizer.
        stream_rules: What pairs of a stream must satisfy; others are dropped and counted.
        **kwargs: Everything else as for `Seq2SeqTrainer`.

    Raises:
        TypeError: If the model has another forward.
    """

    processing_class: Any  # a tokenizer or None

    def __init__(
        self,
        model: PreTrainedModel | None = None,
        args: VaswaniTransformerTrainingArguments = None,  # type: ignore[assignment]  # the order is `Trainer`'s
        data_collator: Callable[[list[Any]], dict[str, Any]] | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        *,
        stream_rules: CleaningRules | None = None,
        **kwargs: Any,
    ):
        limit_shape_caches()
        if train_dataset is not None and has_length(train_dataset):
            self._train_batches = plan_batches(args, train_dataset)
        elif isinstance(train_dataset, datasets.IterableDataset):
            plan_stream(args)
        is_stream = isinstance(train_dataset, datasets.IterableDataset)
        warn_of_no_effect(args, is_batched_by_tokens=is_stream or self._train_batches is not None)
        self._stream_rules = stream_rules
        if data_collator is None and processing_class is not None:
            data_collator = TranslationCollator(processing_class)
        super().__init__(
            _with_default_search(model), args, data_collator, train_dataset, eval_dataset, processing_class, **kwargs
        )
        if self.is_fsdp_enabled:
            raise ValueError(
                "`fsdp` must be off, got it on: it shards weights that fit on every GPU. Use DDP, by torchrun or an "
                "accelerate config without FSDP."
            )
        plain = unwrap_peft_model(self.accelerator.unwrap_model(self.model, keep_torch_compile=False))
        if not {"smoothing", "return_logits"} <= inspect.signature(plain.forward).parameters.keys():
            raise TypeError(
                "`model` must be a VaswaniTransformerForConditionalGeneration, or have a forward that takes "
                f"`smoothing` and `return_logits`, got {type(plain).__name__}. Train it with Seq2SeqTrainer."
            )
        self.label_smoother = None
        self._install_defaults()

    def call_model_init(self, *args: Any) -> nn.Module:
        """Calls `model_init`; the model decodes as section 6.1 says."""
        made: nn.Module = _with_default_search(super().call_model_init(*args))
        return made

    def _install_defaults(self) -> None:
        """Adds the scores of translations and the callbacks that print, count and snapshot."""
        args, callbacks, tokenizer = self.args, self.callback_handler.callbacks, self.processing_class
        callbacks[:] = [LogLines() if type(each) is PrinterCallback else each for each in callbacks]
        scores_ids = args.predict_with_generate and not args.batch_eval_metrics
        if self.compute_metrics is None and scores_ids and tokenizer is not None:
            language = getattr(self.model.config, "target_language", None)

            def score(found: EvalPrediction) -> dict[str, float]:
                from ..evaluation.metrics import make_compute_metrics  # training alone needs no extra [eval]

                return make_compute_metrics(tokenizer, language)(found)

            self.compute_metrics = score
            if self.eval_dataset is not None:
                from ..evaluation.metrics import make_compute_metrics  # noqa: F401  (names a missing extra)
        self.add_callback(CostCallback())
        if args.num_averaged_snapshots > 0:
            self.add_callback(SnapshotCallback(args.snapshot_steps, args.num_averaged_snapshots))

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> TrainOutput:
        """Trains; see `ResumableTrainer.train`."""
        if hasattr(self.model, "_loading_info"):
            vars(self.model)["_loading_info"] = {}  # weights that its checkpoint lacked are about to be trained
        return super().train(resume_from_checkpoint, *args, **kwargs)

    # ---- data of an update ----

    def get_train_dataloader(self) -> DataLoader[Any] | StreamLoader:  # type: ignore[override]  # of which it asks less
        """Data loader of token-bounded micro-batches; another data set without length is batched by sentences."""
        if isinstance(self.train_dataset, datasets.IterableDataset):
            self._train_loader = load_stream(
                self.train_dataset,
                self.data_collator,
                self.args,
                rules=self._stream_rules,
                tokenizer=self.processing_class,
                vocab_size=self.model.config.vocab_size,
            )
            return self._train_loader
        if self._train_batches is None:
            return super().get_train_dataloader()
        dataset: Any = self.train_dataset
        check_token_ids(dataset, self.model.config.vocab_size)
        collator = self.data_collator
        if hasattr(dataset, "remove_columns"):
            dataset = self._remove_unused_columns(dataset, description="training")
        else:
            collator = self._get_collator_with_removed_columns(collator, description="training")
        return load_batches(dataset, self._train_batches, collator, self.args, self.accelerator)

    def train_batches(self) -> TokenBatchSampler:
        """The micro-batches of a training set with a length, for all processes and epochs."""
        if self._train_batches is None:
            raise ValueError("Batches of a stream are made while it is read.")
        return self._train_batches

    def get_total_train_batch_size(self, args: TrainingArguments) -> int:
        """Mean number of pairs of an update, from which `Trainer` reports samples per second."""
        if (batches := self._train_batches) is None:
            return super().get_total_train_batch_size(args)
        return round(batches.num_pairs / batches.num_effective_batches)

    def layout(self) -> dict[str, Any]:
        """Layout of an update under the names of `train_results.json`; the padding is a share of all tokens."""
        batches = self._train_batches
        return {
            "train_processes": self.args.world_size,
            "train_accumulation_steps": self.args.gradient_accumulation_steps,
            "train_max_padded_tokens_per_device": self.args.max_padded_tokens_per_device,
            "train_padding_fraction": None if batches is None else batches.padding_fraction,
        }

    def stream_report(self) -> CleaningReport | None:
        """Pairs of a stream kept and dropped so far, over all epochs and processes, which all call it."""
        return None if self._train_loader is None else reduce_report(self._train_loader.report, self.accelerator)

    # ---- an update ----

    def create_scheduler(self, num_training_steps: int, optimizer: Optimizer | None = None) -> LRScheduler:
        """Makes the paper's schedule for "inverse_sqrt", else the one of that name in transformers."""
        if self.lr_scheduler is None and self.args.lr_scheduler_type == "inverse_sqrt":
            self.lr_scheduler = create_paper_schedule(optimizer or self.optimizer, int(self.args.warmup_steps))
            self._created_lr_scheduler = True
        return super().create_scheduler(num_training_steps, optimizer)

    @staticmethod
    def get_optimizer_cls_and_kwargs(args: TrainingArguments, model: Any = None) -> tuple[Any, dict[str, Any]]:
        """Optimiser class and arguments; the paper's peak learning rate where `learning_rate` is None."""
        optimizer_cls, kwargs = ResumableTrainer.get_optimizer_cls_and_kwargs(args, model)
        if args.learning_rate is None:
            kwargs["lr"] = paper_peak_learning_rate(model.config.d_model, int(args.warmup_steps))
        return optimizer_cls, kwargs

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Computes the smoothed loss over the effective batch's real target tokens; notes the unsmoothed one."""
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

    def _loss_inputs(self, inputs: dict[str, Any], return_logits: bool) -> dict[str, Any]:
        """Forward arguments of training and evaluation: smoothing on, decoder caches off, logits only where used."""
        smoothing = self.args.label_smoothing_factor
        return {**inputs, "smoothing": smoothing, "use_cache": False, "return_logits": return_logits}

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Counts a micro-batch's real tokens; 0, as `store_flos` makes operations of them without a wait here."""
        self.cost.count(inputs)
        return 0

    # ---- log ----

    def store_flos(self) -> None:
        """Sets `total_flos` of the state to the operations of all real tokens so far, of all processes."""
        self.cost.settle(self.accelerator)
        config: Any = self.model.config
        if config.model_type == VaswaniTransformerConfig.model_type:
            self.state.total_flos = training_flops(config, self.cost.source_tokens, self.cost.target_tokens)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs as `Trainer` does, with `nll`, `perplexity` and `tokens_per_second` beside `loss`.

        The figures of the last line, which `Trainer` returns as the training's metrics, count on after a resume.
        """
        if "loss" in logs:
            if torch.is_tensor(self._nll_since_log):
                updates = self.state.global_step - self._step_of_last_log
                reduction = "sum" if self.args.average_tokens_across_devices else "mean"
                logs["nll"] = self.accelerator.reduce(self._nll_since_log, reduction).item() / max(updates, 1)
                logs["perplexity"] = perplexity(logs["nll"])
            if (speed := self.cost.lap()) is not None:
                logs["tokens_per_second"] = speed
            self._nll_since_log, self._step_of_last_log = 0.0, self.state.global_step
        if "train_loss" in logs:
            logs.update(self._final_figures())
        super().log(logs, start_time)

    def _final_figures(self) -> dict[str, float]:
        """Mean loss, real tokens, seconds and speeds of the whole training."""
        updates = self.state.global_step
        loss = self._total_loss_scalar / max(updates - self._first_step, 0.001)
        self.cost.stop()
        figures = self.cost.metrics()
        if not figures:
            return {"train_loss": loss}
        stream = self.stream_report()
        pairs = self.get_total_train_batch_size(self.args) * updates if stream is None else stream.num_kept
        speeds = {
            "train_samples_per_second": pairs / figures["train_runtime"],
            "train_steps_per_second": updates / figures["train_runtime"],
        }
        return {"train_loss": loss, **figures, **speeds}

    @property
    def cost(self) -> CostCallback:
        """Counts of real tokens and device seconds; looked up, as `Trainer` may exchange its callbacks."""
        return next(each for each in self.callback_handler.callbacks if isinstance(each, CostCallback))

    # ---- evaluation ----

    def _get_dataloader(  # type: ignore[override]  # `Trainer` names the options
        self, dataset: Any, description: str, batch_size: int, **options: Any
    ) -> DataLoader[Any]:
        """Data loader; outside training the sentences are sorted by length, so that batches hold little padding."""
        if not options.get("is_training") and has_length(dataset):
            check_token_ids(dataset, self.model.config.vocab_size)
            multiple = batch_size * self.args.world_size if self.args.world_size > 1 else 1
            dataset, options["sampler_fn"] = SortedByLength(dataset, multiple), None  # whose order it keeps
        return super()._get_dataloader(dataset, description, batch_size, **options)

    def evaluation_loop(  # type: ignore[override]  # `Trainer` names the options
        self, dataloader: DataLoader[Any], description: str, metric_key_prefix: str = "eval", **options: Any
    ) -> EvalLoopOutput:
        """Evaluates as `Trainer` does; predictions are in the data's order, figures per token over all processes."""
        dataset, compute_metrics = getattr(dataloader, "dataset", None), self.compute_metrics
        pad_id = self.model.config.pad_token_id if self.args.predict_with_generate else None
        self._token_sums = torch.zeros(3, dtype=torch.float64)

        def compute_in_order(found: EvalPrediction) -> Any:
            predictions = in_data_order(dataset, found.predictions, pad_id)
            labels, inputs = (in_data_order(dataset, each) for each in (found.label_ids, found.inputs))
            return compute_metrics and compute_metrics(EvalPrediction(predictions, labels, inputs, found.losses))

        if compute_metrics is not None and not self.args.batch_eval_metrics:
            self.compute_metrics = compute_in_order
        try:
            output = super().evaluation_loop(dataloader, description, metric_key_prefix=metric_key_prefix, **options)
        finally:
            self.compute_metrics = compute_metrics
        figures = self._token_figures()
        return output._replace(
            predictions=in_data_order(dataset, output.predictions, pad_id),
            label_ids=in_data_order(dataset, output.label_ids),
            metrics={**(output.metrics or {}), **{f"{metric_key_prefix}_{name}": figures[name] for name in figures}},
            num_samples=len(dataset.order) if isinstance(dataset, SortedByLength) else output.num_samples,
        )

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: Any = None, **gen: Any
    ) -> Any:
        """Loss of one batch and, with `predict_with_generate`, its translations; see `Seq2SeqTrainer`."""
        inputs = self._prepare_inputs(inputs)
        labels, loss, logits = inputs.get("labels"), None, None
        if labels is not None:
            needs_logits = not (prediction_loss_only or self.args.predict_with_generate)
            with torch.no_grad(), self.compute_loss_context_manager():
                outputs = model(**self._loss_inputs(inputs, needs_logits), num_items_in_batch=1)
            loss, num_tokens, logits = outputs["loss"].sum(), labels.ne(IGNORE_INDEX).sum(), outputs.get("logits")
            sums = torch.stack([loss, unsmoothed_loss(outputs).sum(), num_tokens.to(loss.dtype)])
            self._token_sums += sums.cpu().double()
            loss = loss / num_tokens.clamp(min=1)
        if prediction_loss_only:
            return loss, None, None
        if self.args.predict_with_generate:
            return loss, self._generate(inputs, gen), labels
        if labels is None:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        return loss, logits, labels

    def _token_figures(self) -> dict[str, float]:
        """`loss`, `nll` and `perplexity` per target token (Table 3's), over all processes; empty without labels."""
        sums = self._token_sums
        if self.accelerator.num_processes > 1:
            sums = self.accelerator.reduce(sums.to(self.accelerator.device))
        loss, nll, num_tokens = sums.tolist()
        if num_tokens == 0:
            return {}
        return {"loss": loss / num_tokens, "nll": nll / num_tokens, "perplexity": perplexity(nll / num_tokens)}

    def _generate(self, inputs: dict[str, Any], gen_kwargs: dict[str, Any]) -> Any:
        """Token ids of the batch's translations, by the model's own generation config and the caller's options."""
        options = {name: value for name, value in (gen_kwargs or self._gen_kwargs).items() if value is not None}
        inputs = {"input_ids": inputs["input_ids"], "attention_mask": inputs.get("attention_mask")}
        model: Any = self.model
        with self.compute_loss_context_manager():
            return model.generate(**inputs, **options)

    def evaluate_quietly(self, metric_key_prefix: str) -> dict[str, float]:
        """Figures of the evaluation set as `evaluate` gives them, without times, log or callbacks."""
        self.gather_function, self._gen_kwargs = self.accelerator.gather, {"num_beams": self.args.generation_num_beams}
        output = self.evaluation_loop(
            self.get_eval_dataloader(),
            "Evaluation",
            prediction_loss_only=not self.args.predict_with_generate,
            metric_key_prefix=metric_key_prefix,
        )
        times = ("_time", "_runtime", "_per_second")
        return {name: value for name, value in (output.metrics or {}).items() if not name.endswith(times)}


def _with_default_search(model: Any) -> Any:
    """The model, adapted or not, with section 6.1's decoding unless another search was chosen."""
    if hasattr(model, "set_default_search"):
        model.set_default_search()
    return model


def unsmoothed_loss(outputs: Mapping[str, Any]) -> torch.Tensor:
    """Unsmoothed loss of a forward pass; without smoothing the model reports it as the loss."""
    loss: torch.Tensor = outputs["loss"] if outputs.get("nll") is None else outputs["nll"]
    return loss


def perplexity(nll: float) -> float:
    """exp(nll), infinite where that overflows."""
    return math.exp(nll) if nll < 700 else math.inf
