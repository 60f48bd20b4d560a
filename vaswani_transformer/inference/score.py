# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Scores of given translations: log-probability, length and GNMT score."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from ..files import STANDARD_STREAM, check_outputs, write_lines
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..pipeline_vaswani_transformer import (
    Batching,
    compute_in_order,
    padded,
    token_log_probs,
    tokenize,
    word_scores,
)
from .translate import (
    DEFAULT_MAX_TOKENS_PER_BATCH,
    SENTENCES_PER_CHUNK,
    count_lines,
    decoding_config,
    decoding_overrides,
    open_lines,
    paired,
    penalty_of,
)

Pair: TypeAlias = tuple[list[int], list[int]]  # token ids of both sides


@dataclasses.dataclass(frozen=True)
class PairScore:
    """Score of a given translation.

    Args:
        log_prob: Log-probability of the target given the source, `</s>` included.
        length: Number of target tokens, `</s>` included.
        score: `log_prob` divided by GNMT's length penalty. Beam search ranks by this score.
        words: Each `word` of the target with its `score`, the mean log-probability of its tokens.
    """

    log_prob: float
    length: int
    score: float
    words: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def score_pairs(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    sources: Iterable[str],
    targets: Iterable[str],
    *,
    length_penalty: float | None = None,
    length_penalty_offset: float | None = None,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
) -> Iterator[PairScore]:
    """Score each target as a translation of its source, and yield the scores in order.

    Both sides are read in chunks, so the streams may be endless. Nothing is truncated. An empty
    sentence consists of `</s>` alone and is scored like any other.

    Args:
        model: Model in eval mode.
        tokenizer: Tokenizer that was saved with the model.
        sources: Source sentences, each of at most 65,536 bytes.
        targets: A translation of each source sentence, each of at most 65,536 bytes.
        length_penalty: Alpha of the length penalty ((c + length) / (c + 1))^alpha. None uses the
            model's own.
        length_penalty_offset: c of the length penalty, 5 in the paper. None uses the model's own.
        max_tokens_per_batch: Largest number of tokens in a batch, padding included (number of pairs
            x longest side). A forward pass computes logits for at most this many target tokens. A
            sentence with more tokens is computed alone. The value changes speed and memory, not
            the scores.
        progress: Whether to show a progress bar on stderr.
        total: Number of pairs, if known, for the progress bar.

    Raises:
        ValueError: The length penalty is out of range, or the two sides differ in their number of
            sentences.

    Example:
        >>> list(score_pairs(model, tokenizer, ["A dog runs."], ["Ein Hund rennt."]))
        [PairScore(log_prob=-1.83, length=6, score=-1.27, words=[...])]

    Paper: section 6.1.
    """
    decoding = decoding_config(
        model,
        **decoding_overrides(
            length_penalty=length_penalty, length_penalty_offset=length_penalty_offset
        ),
    )
    batching = Batching(max_tokens_per_batch)

    def compute(batches: list[list[Pair]]) -> Iterator[list[list[float]]]:
        for pairs in batches:
            yield score_batch(model, tokenizer, pairs, max_tokens_per_batch)

    rest = paired(sources, targets)
    with tqdm(total=total, unit=" sentences", desc="scoring", disable=not progress) as bar:
        while True:
            chunk = list(itertools.islice(rest, SENTENCES_PER_CHUNK))
            if not chunk:
                return
            source_ids, target_ids = (
                tokenize(tokenizer, list(side))["input_ids"] for side in zip(*chunk, strict=True)
            )
            pairs = list(zip(source_ids, target_ids, strict=True))
            lengths = [max(len(source), len(target)) for source, target in pairs]
            found = compute_in_order(pairs, lengths, compute, batching, bar)
            for target, log_probs in zip(target_ids, found, strict=True):
                log_prob = math.fsum(log_probs)
                score = log_prob / penalty_of(decoding, len(target))
                yield PairScore(
                    log_prob, len(target), score, word_scores(tokenizer, target, log_probs)
                )


def score_batch(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    pairs: list[Pair],
    max_tokens: int,
) -> list[list[float]]:
    """Return, for each pair of a batch, the log-probability of each target token.

    A forward pass computes logits for at most `max_tokens` target tokens. A sentence with more
    tokens is computed alone.
    """
    input_ids, attention_mask = padded(
        [source for source, _ in pairs], tokenizer.pad_token_id, model.device
    )
    labels, _ = padded([target for _, target in pairs], tokenizer.pad_token_id, model.device)
    start = model.prepare_decoder_input_ids_from_labels(labels[:, :1])
    sequences = torch.cat([start, labels], dim=1)
    log_probs = token_log_probs(model, input_ids, attention_mask, sequences, max_tokens).tolist()
    return [each[: len(target)] for each, (_, target) in zip(log_probs, pairs, strict=True)]


def score_files(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    source_file: str | Path,
    target_file: str | Path,
    output_file: str | Path = STANDARD_STREAM,
    **options: Any,
) -> int:
    """Score the line pairs of two files, and return the number of pairs.

    The output has JSON lines `{"log_prob": ..., "length": ..., "score": ..., "words": ...}`. The
    output file appears, or replaces an older one, only when it is complete. "-" is stdin or stdout.

    Args:
        model: Model in eval mode.
        tokenizer: Tokenizer that was saved with the model.
        source_file: UTF-8 text with one sentence per line.
        target_file: UTF-8 text with a translation of each line of `source_file`.
        output_file: File for the JSON lines.
        **options: Arguments of `score_pairs`, for example length_penalty or progress.

    Raises:
        ValueError: Both inputs are stdin, an input is not UTF-8, or the inputs differ in their
            number of lines.

    Example:
        >>> score_files(model, tokenizer, "newstest2014.en", "newstest2014.de", "scores.jsonl")
    """
    if source_file == target_file == STANDARD_STREAM:
        raise ValueError("`source` and `target` must not both be stdin. Name a file for one.")
    check_outputs({"output": output_file}, [source_file, target_file])
    num_source, num_target = count_lines(source_file), count_lines(target_file)
    if None not in (num_source, num_target) and num_source != num_target:
        raise ValueError(
            f"`target` must have as many lines as `source`, got {num_source} lines in "
            f"{source_file} and {num_target} lines in {target_file}. Align the files line by line."
        )
    total = num_source or num_target
    with open_lines(source_file) as sources, open_lines(target_file) as targets:
        scores = score_pairs(model, tokenizer, sources, targets, total=total, **options)
        rows = (json.dumps(dataclasses.asdict(score), ensure_ascii=False) for score in scores)
        return write_lines(rows, output_file)
