# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Evaluation inside the trainer: figures per token, translations in the data's order, over all processes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from transformers import EvalPrediction
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.integrations.fsdp import is_fsdp_managed_module
from transformers.trainer_utils import has_length

from .hub_trainer import HubTrainer
from .validation import IGNORED, SortedByLength

_TIMES = ("_time", "_runtime", "_per_second")


class EvaluatingTrainer(HubTrainer):
    """`Seq2SeqTrainer` whose losses are means per target token and whose translations keep the data's order."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._eval_sums = torch.zeros(3, dtype=torch.float64)

    def _loss_inputs(self, inputs: dict[str, Any], return_logits: bool) -> dict[str, Any]:
        """Forward arguments of training and evaluation: smoothing on, decoder caches off, logits only where used."""
        smoothing = self.args.label_smoothing_factor
        return {**inputs, "smoothing": smoothing, "use_cache": False, "return_logits": return_logits}

    def _get_dataloader(self, dataset, description, batch_size, sampler_fn=None, is_training=False, **kwargs):
        """Data loader; outside training the sentences are sorted by length, so that batches hold little padding."""
        if not is_training and has_length(dataset):
            multiple = batch_size * self.args.world_size if self.args.world_size > 1 else 1
            dataset = SortedByLength(dataset, multiple)
        return super()._get_dataloader(dataset, description, batch_size, sampler_fn, is_training, **kwargs)

    def evaluation_loop(
        self, dataloader, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
    ):
        """The library's loop, with predictions in the data's own order and figures per token over all processes."""
        dataset, compute_metrics = getattr(dataloader, "dataset", None), self.compute_metrics

        def in_order(array):
            return dataset.restore_order(array) if isinstance(dataset, SortedByLength) else array

        def compute_in_order(prediction: EvalPrediction) -> dict[str, float]:
            predictions = in_order(self._without_ignored(prediction.predictions))
            labels, inputs = in_order(prediction.label_ids), in_order(prediction.inputs)
            return compute_metrics(EvalPrediction(predictions, labels, inputs, prediction.losses))

        self._eval_sums = torch.zeros(3, dtype=torch.float64)
        if compute_metrics is not None and not self.args.batch_eval_metrics:
            self.compute_metrics = compute_in_order
        try:
            output = super().evaluation_loop(
                dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
            )
        finally:
            self.compute_metrics = compute_metrics
        return output._replace(
            predictions=in_order(self._without_ignored(output.predictions)),
            label_ids=in_order(output.label_ids),
            metrics={**output.metrics, **self._token_metrics(metric_key_prefix)},
            num_samples=len(dataset.order) if isinstance(dataset, SortedByLength) else output.num_samples,
        )

    def evaluate_quietly(self, metric_key_prefix: str) -> dict[str, float]:
        """Figures of the evaluation set as `evaluate` gives them, without times, log or callbacks."""
        self.gather_function, self._gen_kwargs = self.accelerator.gather, {"num_beams": self.args.generation_num_beams}
        output = self.evaluation_loop(
            self.get_eval_dataloader(),
            "Evaluation",
            prediction_loss_only=not self.args.predict_with_generate,
            metric_key_prefix=metric_key_prefix,
        )
        return {name: value for name, value in output.metrics.items() if not name.endswith(_TIMES)}

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None, **gen_kwargs):
        """Loss of one batch and, with `predict_with_generate`, its translations; see `Seq2SeqTrainer`."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs.get("labels")
        needs_logits = not (prediction_loss_only or self.args.predict_with_generate)
        loss, logits = (None, None) if labels is None else self._evaluate_batch(model, inputs, needs_logits)
        if prediction_loss_only:
            return loss, None, None
        if self.args.predict_with_generate:
            return loss, self._generate(inputs, gen_kwargs), labels
        if labels is None:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        return loss, logits, labels

    def _evaluate_batch(
        self, model, inputs: dict[str, Any], needs_logits: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Loss per token of one batch and its logits if needed; adds its sums to those of the evaluation."""
        with torch.no_grad(), self.compute_loss_context_manager():
            outputs = model(**self._loss_inputs(inputs, needs_logits), num_items_in_batch=1)
        loss, num_tokens = outputs["loss"].sum(), inputs["labels"].ne(IGNORED).sum()
        sums = [loss, unsmoothed_loss(outputs).sum(), num_tokens.to(loss.dtype)]
        self._eval_sums += torch.stack(sums).cpu().double()
        return loss / num_tokens.clamp(min=1), outputs.get("logits")

    def _generate(self, inputs: dict[str, Any], gen_kwargs: dict[str, Any]) -> torch.Tensor:
        """Token ids of the batch's translations, by the model's own generation config and the caller's options."""
        options = {name: value for name, value in (gen_kwargs or self._gen_kwargs).items() if value is not None}
        options.setdefault("synced_gpus", is_deepspeed_zero3_enabled() or is_fsdp_managed_module(self.model))
        inputs = {"input_ids": inputs["input_ids"], "attention_mask": inputs.get("attention_mask")}
        with self.compute_loss_context_manager():
            return self.model.generate(**inputs, **options)

    def _without_ignored(self, predictions):
        """Generated ids with the -100 that batches are joined with replaced by the padding id."""
        if not self.args.predict_with_generate or not isinstance(predictions, np.ndarray):
            return predictions
        return np.where(predictions == IGNORED, self.model.config.pad_token_id, predictions)

    def _token_metrics(self, prefix: str) -> dict[str, float]:
        """`loss`, `nll` and `perplexity` per target token, over all batches and processes; empty without labels.

        Paper: section 5 and Table 3, perplexity per token of the unsmoothed likelihood.
        """
        sums = self._eval_sums
        if self.args.world_size > 1:
            sums = self.accelerator.reduce(sums.to(self.args.device))
        loss, nll, num_tokens = sums.tolist()
        if num_tokens == 0:
            return {}
        nll /= num_tokens
        return {f"{prefix}_loss": loss / num_tokens, f"{prefix}_nll": nll, f"{prefix}_perplexity": perplexity(nll)}


def unsmoothed_loss(outputs) -> torch.Tensor:
    """Unsmoothed loss of a forward pass; without smoothing the model reports it as the loss."""
    return outputs["loss"] if outputs.get("nll") is None else outputs["nll"]


def perplexity(nll: float) -> float:
    """exp(nll), infinite where that is no number."""
    return math.exp(nll) if nll < 700 else math.inf
