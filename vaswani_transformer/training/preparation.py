# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Data of a training run: loaded or streamed, with their tokenizer, in the run's folder."""

from __future__ import annotations

import contextlib
import errno
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedTokenizerBase
from transformers.trainer_utils import has_length
from transformers.utils import logging

from ..data import (
    CleaningReport,
    CleaningRules,
    clean_corpus,
    corpus_sentences,
    load_corpus,
    stream_corpus,
    tokenize_corpus,
    train_tokenizer,
)
from ..data.rows import pair_lengths
from ..evaluation.checkpoint import load_tokenizer
from .arguments import VaswaniTransformerTrainingArguments
from .folder import clear_run
from .recipes import Recipe

logger = logging.get_logger(__name__)

_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)


@dataclass(frozen=True)
class RunData:
    """Tokenizer and tokenised data of a run.

    Attributes:
        tokenizer: The joint tokenizer.
        train: Cleaned training pairs, or a stream of text.
        validation: Validation pairs, or None.
        report: What cleaning dropped; None for a stream, which is cleaned while it is read.
    """

    tokenizer: PreTrainedTokenizerBase
    train: Any
    validation: Any
    report: CleaningReport | None


def prepare_data(
    recipe: Recipe, arguments: VaswaniTransformerTrainingArguments, checkpoint: Path | None, num_proc: int | None
) -> RunData:
    """Loads, tokenises and cleans the data; the main process does the work, the others read its cache.

    A run that goes on from a checkpoint takes the tokenizer in that, whose files are known to be as they were saved.
    The folder is touched (an old run deleted, tokenizer and recipe written) only when all data are ready.
    """
    output_dir = Path(arguments.output_dir)
    with arguments.main_process_first(local=False, desc="preparing the data"), _naming_the_cache():
        train = (stream_corpus if recipe.streaming else load_corpus)(**(recipe.data_arguments("train") or {}))
        validation_arguments = recipe.data_arguments("validation")
        validation = load_corpus(**validation_arguments) if validation_arguments else None
        if checkpoint is not None and (checkpoint / "tokenizer.json").is_file():
            tokenizer = _load_tokenizer(checkpoint)
        elif checkpoint is not None or arguments.process_index > 0:
            tokenizer = _load_tokenizer(output_dir)
        else:
            tokenizer = _load_or_train_tokenizer(recipe, train)
        report = None
        if not recipe.streaming:
            train, report = clean_corpus(tokenize_corpus(train, tokenizer, num_proc=num_proc), cleaning_rules(recipe))
        validation = tokenize_corpus(validation, tokenizer, num_proc=num_proc) if validation is not None else None
        _check_positions(recipe, {"training": train, "validation": validation})
        if arguments.process_index == 0:
            _start_folder(recipe, output_dir, tokenizer, resume=checkpoint is not None)
    if report is not None:
        logger.info(f"Training data: {report}.")
        if dropped := report.dropped.get("over_token_budget"):
            logger.warning(
                f"{dropped:,} pairs are not trained on, as they are longer than a batch or a device's share of it. "
                "Raise `max_source_tokens_per_batch`, `max_target_tokens_per_batch` or `max_padded_tokens_per_device`."
            )
    return RunData(tokenizer, train, validation, report)


@contextlib.contextmanager
def _naming_the_cache() -> Iterator[None]:
    """Gives a failure to write the tokenised data a message that says where they go and how to change it."""
    cache = datasets.config.HF_DATASETS_CACHE
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_WRITTEN or not str(error.filename or cache).startswith(str(cache)):
            raise
        raise OSError(
            f"`HF_DATASETS_CACHE` must be a folder that takes the tokenised data, got an error in {cache}, "
            f"{_free_space(cache)}: {error}. Make room, or set it to another folder, then repeat the command."
        ) from error


def _free_space(folder: str | Path) -> str:
    """How much room a folder has, or would have where it is to be."""
    place = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
    return f"where {shutil.disk_usage(place).free / 2**20:,.1f} MiB are free now"


def _check_positions(recipe: Recipe, parts: dict[str, Any]) -> None:
    """Raises ValueError when a sentence of a tokenised data set, or None, has more tokens than learned positions."""
    config = recipe.model_config()
    if config.position_encoding != "learned":
        return
    for name, dataset in parts.items():
        if dataset is None:
            continue
        if has_length(dataset):
            longest: float = max(int(lengths.max()) for lengths in pair_lengths(dataset))
        else:
            longest = recipe.max_tokens_per_sentence or math.inf
        if longest > config.max_position_embeddings:
            raise ValueError(
                f"`position_encoding` must be sinusoidal for sentences of more than {config.max_position_embeddings} "
                f"tokens, got learned and a {name} sentence of {longest}. Shorten it, or lower "
                "`max_tokens_per_sentence`, which drops long pairs from the training data."
            )


def _start_folder(recipe: Recipe, output_dir: Path, tokenizer: PreTrainedTokenizerBase, *, resume: bool) -> None:
    """Writes recipe and tokenizer into a folder, after deleting another run in it unless that is resumed."""
    if not resume:
        clear_run(output_dir)
        output_dir.mkdir(parents=True, exist_ok=True)
        tokenizer.save_pretrained(output_dir)
    recipe.save(output_dir)


def _load_or_train_tokenizer(recipe: Recipe, train: Any) -> PreTrainedTokenizerBase:
    """The recipe's tokenizer, else one trained on both sides of the training text."""
    if (given := recipe.tokenizer) is not None:
        if not Path(given).is_dir() and len(Path(given).parts) != 2:
            raise FileNotFoundError(f"`tokenizer` must be a folder or a Hub id, got {given}. Check the path.")
        tokenizer = _load_tokenizer(given)
        _check_special_ids(tokenizer)
        return tokenizer
    logger.info(f"Training a vocabulary of {recipe.vocab_size:,} entries.")
    return train_tokenizer(sentences=corpus_sentences(train), vocab_size=recipe.vocab_size)


def _load_tokenizer(place: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or the Hub, without how it was loaded, which the library would save with it."""
    tokenizer = load_tokenizer(place)
    for name in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer


def _check_special_ids(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises ValueError when a tokenizer's special ids are not those of the model's configuration."""
    pad, bos, eos = tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id
    if (pad, bos, eos) != (0, 1, 2):
        raise ValueError(
            f"`tokenizer` must have pad, bos and eos ids 0, 1 and 2, got {pad}, {bos} and {eos}. Train one with "
            "`vaswani-transformer train-tokenizer`."
        )


def cleaning_rules(recipe: Recipe) -> CleaningRules:
    """Limits on training pairs; a pair never exceeds one batch or one device's budget."""
    return CleaningRules(
        max_source_tokens=recipe.max_tokens_per_sentence,
        max_target_tokens=recipe.max_tokens_per_sentence,
        max_length_ratio=recipe.max_length_ratio,
        max_source_tokens_per_batch=recipe.max_source_tokens_per_batch,
        max_target_tokens_per_batch=recipe.max_target_tokens_per_batch,
        max_padded_tokens=recipe.max_padded_tokens_per_device,
    )
