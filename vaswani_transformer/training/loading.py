# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Token-bounded training batches on these devices: planned from the training arguments, then loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import datasets
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase

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
from ..data.rows import pair_lengths
from .arguments import VaswaniTransformerTrainingArguments
from .interruption import ignore_interrupts

_CPU_BUDGET = 4096  # padded tokens of a micro-batch, both sides together
_SHAPE_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
_KEPT_SHAPES = 64


def limit_shape_caches() -> None:
    """Lets oneDNN and torch keep what they prepared for 64 shapes of matrix products instead of 1,024 each.

    Token-bounded batches have ever new shapes: a CPU training would grow by a gigabyte. The limits are read at the
    first product; a value that is set stays.
    """
    for name in _SHAPE_CACHES:
        os.environ.setdefault(name, str(_KEPT_SHAPES))


def plan_batches(args: VaswaniTransformerTrainingArguments, dataset: Any) -> TokenBatchSampler:
    """Plans the batches, and raises `gradient_accumulation_steps` to what `max_padded_tokens_per_device` needs."""
    source_lengths, target_lengths = pair_lengths(dataset)
    _set_cpu_budget(args, int((source_lengths + target_lengths).max(initial=0)))
    batches = TokenBatchSampler(
        source_lengths,
        target_lengths,
        max_source_tokens=args.max_source_tokens_per_batch,
        max_target_tokens=args.max_target_tokens_per_batch,
        max_padded_tokens=args.max_padded_tokens_per_device,
        world_size=args.world_size,
        accumulation_steps=args.gradient_accumulation_steps,
        seed=_data_seed(args),
    )
    args.gradient_accumulation_steps = batches.accumulation_steps
    return batches


def plan_stream(args: VaswaniTransformerTrainingArguments) -> None:
    """Raises `gradient_accumulation_steps` until a process's share of real tokens fits the padded budget."""
    _set_cpu_budget(args, longest=1)
    if args.max_padded_tokens_per_device is not None:
        num_tokens = args.max_source_tokens_per_batch + args.max_target_tokens_per_batch
        planned = -(-num_tokens // (args.max_padded_tokens_per_device * args.world_size))
        args.gradient_accumulation_steps = max(planned, args.gradient_accumulation_steps)


def load_batches(
    dataset: Any,
    batches: TokenBatchSampler,
    collator: Callable[[list[Any]], Any],
    args: VaswaniTransformerTrainingArguments,
    accelerator: Accelerator,
) -> DataLoader[Any]:
    """This process's loader of planned batches."""
    if type(collator) is TranslationCollator and ArrowPairs.fits(dataset):
        dataset = ArrowPairs(dataset)
    loader: DataLoader[Any] = accelerator.prepare(
        DataLoader(
            dataset,
            batch_sampler=batches,
            collate_fn=collator,
            num_workers=args.dataloader_num_workers,
            **_loader_options(args),
        )
    )
    if (shard := loader.batch_sampler) is not batches:
        # accelerate's shard has no set_epoch of its own, so a resumed epoch would replay the order of epoch 0
        vars(shard)["set_epoch"] = batches.set_epoch
    return loader


def load_stream(
    stream: datasets.IterableDataset,
    collator: Callable[[list[Any]], Any],
    args: VaswaniTransformerTrainingArguments,
    *,
    rules: CleaningRules | None,
    tokenizer: PreTrainedTokenizerBase | None,
    vocab_size: int,
) -> StreamLoader:
    """This process's loader of a stream, which deals the stream out to processes itself and keeps its place."""
    parts = args.world_size * args.gradient_accumulation_steps
    settings = StreamSettings(
        max_source_tokens=args.max_source_tokens_per_batch // parts,
        max_target_tokens=args.max_target_tokens_per_batch // parts,
        max_padded_tokens=args.max_padded_tokens_per_device,
        num_processes=args.world_size,
        process_index=args.process_index,
        num_workers=args.dataloader_num_workers,
        seed=_data_seed(args),
        batches_per_pool=BATCHES_PER_POOL * args.gradient_accumulation_steps,
    )
    options = {"rules": rules, "tokenizer": tokenizer, "vocab_size": vocab_size, **_loader_options(args)}
    return StreamLoader(stream, collator, settings, **options)


def reduce_report(report: CleaningReport, accelerator: Accelerator) -> CleaningReport:
    """The sum of all processes' reports; every process calls it."""
    counts = torch.tensor([report.num_kept, *report.dropped.values()], device=accelerator.device)
    num_kept, *dropped = accelerator.reduce(counts, "sum").tolist()
    return CleaningReport(num_kept, dict(zip(report.dropped, dropped, strict=True)))


def _set_cpu_budget(args: VaswaniTransformerTrainingArguments, longest: int) -> None:
    """Sets `max_padded_tokens_per_device` on CPUs where it is None: small micro-batches pad little, at no cost."""
    if args.max_padded_tokens_per_device is None and args.device.type == "cpu":
        args.max_padded_tokens_per_device = max(_CPU_BUDGET, longest)


def _data_seed(args: VaswaniTransformerTrainingArguments) -> int:
    return args.seed if args.data_seed is None else args.data_seed


def _loader_options(args: VaswaniTransformerTrainingArguments) -> dict[str, Any]:
    """Arguments of the `DataLoader` of any training set."""
    return {
        "pin_memory": args.dataloader_pin_memory,
        "persistent_workers": args.dataloader_persistent_workers,
        "prefetch_factor": args.dataloader_prefetch_factor,
        "worker_init_fn": ignore_interrupts,
    }
