# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Prepare the training data: read, tokenize and clean the pairs, and load them in batches."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from tokenizers import AddedToken
from torch.utils.data import DataLoader, Dataset
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ..analysis.cost import layer_parameters
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..cores import available_cores
from ..data import (
    BATCHES_PER_POOL,
    CleaningReport,
    CleaningRules,
    StreamLoader,
    StreamSettings,
    TokenBatchSampler,
    clean_corpus,
    corpus_sentences,
    load_corpus,
    stream_corpus,
    tokenize_corpus,
    train_tokenizer,
)
from ..data.bpe_dropout import SIDES, BpeDropout
from ..data.hygiene import check_training_text
from ..data.preparation import pair_lengths
from ..inference.loading import check_model_path, load_tokenizer
from ..loss_vaswani_transformer import IGNORE_INDEX
from ..recipe import Recipe, as_list
from .arguments import VaswaniTransformerTrainingArguments

logger = logging.get_logger(__name__)

_CPU_BUDGET = 4096  # padded tokens of a micro-batch, both sides together


# ---- from a recipe to tokenized pairs ----


@dataclass
class TrainingCorpus:
    """One of the corpora that a run trains on.

    Attributes:
        name: Names of its files, or of its dataset.
        weight: How many times its pairs occur in an epoch.
        report: What cleaning dropped; None for a stream, which is cleaned while it is read.
    """

    name: str | None
    weight: int
    report: CleaningReport | None = None


@dataclass(frozen=True)
class RunData:
    """Tokenizer and data of a run.

    Attributes:
        tokenizer: The tokenizer, with its added tokens.
        train: Tokenized and cleaned pairs of all corpora, or a stream of text.
        validation: Tokenized pairs, or None.
        corpora: The training corpora.
        texts: Text of each training corpus, as it was read.
    """

    tokenizer: PreTrainedTokenizerBase
    train: Any
    validation: Any
    corpora: list[TrainingCorpus] = field(default_factory=list)
    texts: list[Any] = field(default_factory=list)

    @property
    def report(self) -> CleaningReport | None:
        """Sum of all corpora's reports; None for a stream, which is cleaned while it is read."""
        reports: list[Any] = [corpus.report for corpus in self.corpora]
        return None if not reports or None in reports else sum(reports, CleaningReport(0, {}))


def prepare_data(
    recipe: Recipe,
    arguments: VaswaniTransformerTrainingArguments,
    checkpoint: Path | None,
    num_proc: int | None,
) -> RunData:
    """Load, tokenize and clean the data.

    The main process calls this function first, and the other processes read the cache that the main
    process wrote. A resumed run takes the tokenizer from its checkpoint and not from the run's
    folder, because only the checkpoint is checked for damage.
    """
    folder: str | Path | None = recipe.tokenizer
    if checkpoint is not None or arguments.process_index > 0:
        folder = Path(arguments.output_dir)
        if checkpoint is not None and (checkpoint / "tokenizer.json").is_file():
            folder = checkpoint
    if folder is not None:
        check_model_path(folder, "tokenizer")
    validation_arguments = recipe.data_arguments("validation")
    validation = load_corpus(**validation_arguments) if validation_arguments else None
    texts: list[Any] = []
    corpora: list[TrainingCorpus] = []
    for origin, weight in recipe.train_corpora():
        texts.append((stream_corpus if recipe.streaming else load_corpus)(**origin))
        corpora.append(TrainingCorpus(_file_names(origin) or recipe.dataset, weight))
    if folder is None:
        logger.info(f"Training a vocabulary of {recipe.vocab_size:,} entries.")
        tokenizer: PreTrainedTokenizerBase = train_tokenizer(
            sentences=itertools.chain.from_iterable(map(corpus_sentences, texts)),
            vocab_size=recipe.vocab_size,
            show_progress=sys.stderr.isatty(),
        )
    else:
        tokenizer = load_tokenizer(folder)
        # transformers would save these options with the tokenizer.
        for name in ("is_local", "local_files_only"):
            tokenizer.init_kwargs.pop(name, None)
    special_ids = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    if special_ids != (0, 1, 2):
        raise ValueError(
            "`tokenizer` must have pad, bos and eos ids 0, 1 and 2, got {}, {} and {}. Train one "
            "with `vaswani-transformer train-tokenizer`.".format(*special_ids)
        )
    added = [
        AddedToken(text, rstrip=True, normalized=False) for text in as_list(recipe.added_tokens)
    ]
    tokenizer.add_tokens(added)
    rules = cleaning_rules(recipe)
    parts = []
    for text, corpus in zip(texts, corpora, strict=True):
        part = text
        if not recipe.streaming:
            tokenized = tokenize_corpus(text, tokenizer, num_proc=num_proc)
            part, corpus.report = clean_corpus(tokenized, rules)
        parts += [part] * corpus.weight
    train = parts[0] if len(parts) == 1 else datasets.concatenate_datasets(parts)
    validation = (
        tokenize_corpus(validation, tokenizer, num_proc=num_proc)
        if validation is not None
        else None
    )
    return RunData(tokenizer, train, validation, corpora, texts)


def check_text(recipe: Recipe, texts: list[Any]) -> dict[str, Any] | None:
    """Return the report of `check_training_text` on the texts of a run; None for a stream.

    A validation or test set that cannot be read is left out of the check for overlap with the
    training text. A line in the log then says that the set was left out.
    """
    if recipe.streaming:
        return None
    held_out = {}
    for split in ("validation", "test"):
        arguments = recipe.data_arguments(split)
        if arguments is None:
            continue
        name = f"{_file_names(arguments) or 'dataset'} ({split})"
        try:
            held_out[name] = load_corpus(**arguments)
        except (OSError, ValueError) as error:
            logger.info(f"The {split} text is not compared with the training text: {error}")
    return check_training_text(texts, held_out)


def _file_names(arguments: dict[str, Any]) -> str:
    """Return the file names in the arguments of `load_corpus`, joined by commas."""
    return ", ".join(
        Path(value).name for name, value in arguments.items() if name.endswith("_file")
    )


def cleaning_rules(recipe: Recipe) -> CleaningRules:
    """Return the limits on training pairs.

    With these limits, every pair fits into a batch and into a micro-batch of a device.
    """
    return CleaningRules(
        max_source_tokens=recipe.max_tokens_per_sentence,
        max_target_tokens=recipe.max_tokens_per_sentence,
        max_length_ratio=recipe.max_length_ratio,
        max_source_tokens_per_batch=recipe.max_source_tokens_per_batch,
        max_target_tokens_per_batch=recipe.max_target_tokens_per_batch,
        max_padded_tokens=recipe.max_padded_tokens_per_device,
    )


# ---- from tokenized pairs to batches ----


def limit_shape_caches() -> None:
    """Let oneDNN and torch each cache 64 shapes of matrix products instead of 1,024.

    Token-bounded batches keep bringing new shapes. With caches of 1,024 shapes, the memory of a
    training on a CPU would grow by a gigabyte. Call this before the first matrix product.
    Environment variables that are already set do not change.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")


def padded_tokens_that_fit(
    config: VaswaniTransformerConfig, free_bytes: int, in_half_precision: bool
) -> int:
    """Return how many padded tokens of both sides fit into 3/4 of a GPU's free memory.

    The number is rounded down to a power of two, so that a resumed run finds the same number. The
    weights are already on the GPU. The memory needed besides them is estimated as 18 bytes for each
    weight (gradient, Adam, DDP's copy, half precision), 1 GiB for the loss, and the bytes per token
    that are kept for the backward pass. Attention weights do not count, because the sdpa kernels
    keep none.
    """
    # Bytes per target token that a layer keeps for the backward pass: 12 D for 3 inputs of
    # LayerNorm, 12 D for 3 inputs of projections, and 3 D for 3 dropout masks. The layer also keeps
    # q, k, v, the heads' outputs and ReLU's output, in the precision of matrix products. Embedding
    # and loss add 5 D to the sum over the layers. A source token needs fewer bytes.
    width = 2 if in_half_precision else 4
    layer = 27 * config.d_model + width * (
        3 * config.num_heads * (config.d_k + config.d_v) + config.d_ff
    )
    if config.activation_dropout > 0:
        layer += (width + 1) * config.d_ff
    kept = max(config.num_encoder_layers, config.num_decoder_layers) * layer + 5 * config.d_model
    num_weights = sum(layer_parameters(config)) + config.vocab_size * config.d_model
    rest = 0.75 * free_bytes - 18 * num_weights - 2**30
    return 1 << max(int(rest / kept), 1).bit_length() - 1


def make_bpe_dropout(
    args: VaswaniTransformerTrainingArguments, tokenizer: Any
) -> BpeDropout | None:
    """Return the BPE-dropout that the arguments ask for, or None."""
    if args.bpe_dropout == 0:
        return None
    if not 0 < args.bpe_dropout < 1 or args.bpe_dropout_side not in SIDES or tokenizer is None:
        raise ValueError(
            "`bpe_dropout` must be in [0, 1), `bpe_dropout_side` source, target or both, and "
            f"`processing_class` a tokenizer, got {args.bpe_dropout}, {args.bpe_dropout_side} and "
            f"{type(tokenizer).__name__}."
        )
    return BpeDropout(tokenizer, args.bpe_dropout, args.bpe_dropout_side, _data_seed(args))


def _data_seed(args: VaswaniTransformerTrainingArguments) -> int:
    return args.seed if args.data_seed is None else args.data_seed


def plan_batches(
    args: VaswaniTransformerTrainingArguments,
    dataset: Any,
    config: Any = None,
    bpe_dropout: BpeDropout | None = None,
) -> TokenBatchSampler:
    """Plan the batches, and set `gradient_accumulation_steps` in the arguments.

    The number of steps is raised until every micro-batch fits `max_padded_tokens_per_device`. If
    this limit is None, this function first sets it in two cases. On a CPU, `_set_cpu_budget` sets
    the limit. On CUDA devices, if `config` is of this package, the limit becomes the number of
    tokens that fits into the GPU with the least free memory.
    """
    if bpe_dropout is None:
        source_lengths, target_lengths = pair_lengths(dataset)
    else:
        source_lengths, target_lengths = bpe_dropout.mean_lengths(dataset)
    longest = int((source_lengths + target_lengths).max(initial=0))
    _set_cpu_budget(args, longest)
    is_known = getattr(config, "model_type", None) == VaswaniTransformerConfig.model_type
    if args.max_padded_tokens_per_device is None and args.device.type == "cuda" and is_known:
        free_bytes = min(gather_object([torch.cuda.mem_get_info(args.device)[0]]))
        fitting = padded_tokens_that_fit(config, free_bytes, args.bf16 or args.fp16)
        args.max_padded_tokens_per_device = max(fitting, longest)
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
    """Set `gradient_accumulation_steps` for a stream.

    The number of steps is raised until each micro-batch has at most `max_padded_tokens_per_device`
    tokens. Padding is not counted here, despite the argument's name.
    """
    _set_cpu_budget(args, longest=1)
    if args.max_padded_tokens_per_device is not None:
        num_tokens = args.max_source_tokens_per_batch + args.max_target_tokens_per_batch
        needed_steps = math.ceil(num_tokens / (args.max_padded_tokens_per_device * args.world_size))
        args.gradient_accumulation_steps = max(needed_steps, args.gradient_accumulation_steps)


def default_workers(use_cpu: bool) -> int:
    """Return how many processes load batches by default: at most 4 for a GPU, none for a CPU.

    For a GPU, the number is also at most this process's share of the machine's cores. The training
    processes of a machine share its cores equally.
    """
    if use_cpu or not torch.cuda.is_available():
        return 0
    return min(4, available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def load_batches(
    dataset: Any,
    batches: TokenBatchSampler,
    collator: Callable[[list[Any]], Any],
    args: VaswaniTransformerTrainingArguments,
    accelerator: Accelerator,
) -> DataLoader[Any]:
    """Return the loader of this process's micro-batches, which `batches` has planned."""
    # The fill row of empty micro-batches: one source token, `</s>`, and one label to be ignored.
    first = dataset[0]
    fill = {**first, "labels": [IGNORE_INDEX]}
    fill |= {name: first[name][-1:] for name in ("input_ids", "attention_mask") if name in first}
    loader: DataLoader[Any] = accelerator.prepare(
        DataLoader(
            dataset,
            batch_sampler=batches,
            collate_fn=partial(_collate, collator, fill),
            num_workers=args.dataloader_num_workers,
            **_loader_options(args),
        ),
        device_placement=[False],  # accelerate would wait for the device at each copy.
    )
    return loader


def _collate(collator: Callable[[list[Any]], Any], fill: dict[str, Any], rows: list[Any]) -> Any:
    """Collate the rows of a micro-batch.

    If an effective batch has too few pairs for all processes, `TokenBatchSampler` yields empty
    micro-batches. Each of them gets a fill row, whose only label is ignored by the loss.
    """
    return collator(rows or [fill])


def load_stream(
    stream: datasets.IterableDataset,
    collator: Callable[[list[Any]], Any],
    args: VaswaniTransformerTrainingArguments,
    *,
    rules: CleaningRules | None,
    tokenizer: PreTrainedTokenizerBase | None,
    vocab_size: int,
    bpe_dropout: BpeDropout | None = None,
) -> StreamLoader:
    """Return a loader that reads this process's share of a stream and can save its position."""
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
    options = {
        "rules": rules,
        "tokenizer": tokenizer,
        "vocab_size": vocab_size,
        **_loader_options(args),
    }
    return StreamLoader(stream, collator, settings, bpe_dropout=bpe_dropout, **options)


def _set_cpu_budget(args: VaswaniTransformerTrainingArguments, longest: int) -> None:
    """Set `max_padded_tokens_per_device` on a CPU if it is None.

    Small micro-batches have less padding than large ones, and on a CPU they are not slower.
    """
    if args.max_padded_tokens_per_device is None and args.device.type == "cpu":
        args.max_padded_tokens_per_device = max(_CPU_BUDGET, longest)


def _loader_options(args: VaswaniTransformerTrainingArguments) -> dict[str, Any]:
    """Return the `DataLoader` arguments that all training sets share."""
    return {
        "pin_memory": args.dataloader_pin_memory,
        "persistent_workers": args.dataloader_persistent_workers,
        "prefetch_factor": args.dataloader_prefetch_factor,
        # Only newer versions of transformers have this argument.
        "multiprocessing_context": getattr(args, "dataloader_multiprocessing_context", None),
        "worker_init_fn": ignore_signals,
    }


def ignore_signals(worker: int) -> None:
    """Ignore SIGINT and SIGTERM in a worker of a data loader. The training process handles them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def end_workers() -> None:
    """Kill the workers of data loaders that are left after an error.

    The trainer registers this function with `atexit`. The workers ignore SIGTERM. So without this
    function, Python would send them SIGTERM and then wait for them forever.
    """
    if hasattr(signal, "SIGCHLD"):
        # torch's own handler would report each worker as killed.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    left = [process for process in multiprocessing.active_children() if process.daemon]
    for process in left:
        process.terminate()  # Gives other daemons, which are no workers, time to clean up.
    for process in left:
        process.join(0.5)  # seconds
        process.kill()


# ---- evaluation ----


class SortedByLength(Dataset[dict[str, Any]]):
    """View of a tokenized dataset, sorted from the longest source to the shortest.

    All processes need the same number of rows. Therefore, fill rows are appended until the number
    of rows is a multiple of `multiple`. Fill rows have no target tokens, so the loss ignores them.
    `in_data_order` drops the fill rows.
    """

    def __init__(self, dataset: Any, multiple: int):
        self.dataset = dataset
        self.order = np.argsort(-pair_lengths(dataset)[0], kind="stable")
        self._num_rows = math.ceil(len(self.order) / multiple) * multiple

    def __len__(self) -> int:
        return self._num_rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        row: dict[str, Any] = self.dataset[int(self.order[min(index, len(self.order) - 1)])]
        is_fill = index >= len(self.order) and "labels" in row
        return {**row, "labels": [IGNORE_INDEX]} if is_fill else row


def in_data_order(dataset: Any, rows: Any) -> Any:
    """Return the gathered rows of an evaluation in the order of its data, without fill rows.

    Args:
        dataset: Dataset of the evaluation. Only rows of a `SortedByLength` are reordered.
        rows: An array, or a tuple of arrays.
    """
    if isinstance(rows, tuple):
        return tuple(in_data_order(dataset, part) for part in rows)
    is_sorted = isinstance(dataset, SortedByLength) and isinstance(rows, np.ndarray)
    return rows[np.argsort(dataset.order, kind="stable")] if is_sorted else rows
