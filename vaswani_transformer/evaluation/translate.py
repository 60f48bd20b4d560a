# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation of many sentences, the best or the n best of each, in the order of the input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from .batches import DEFAULT_MAX_TOKENS_PER_BATCH, Row, check_lengths, compute_in_batches, padded, token_ids
from .decoding import GenerativeModel, check_num_best, decoding_config, penalty_of
from .processes import ALONE, Processes


@dataclass(frozen=True)
class Hypothesis:
    """One of the translations that beam search found for a sentence.

    Args:
        text: The translation.
        score: `log_prob` divided by GNMT's length penalty, by which beam search ranks; None for a blank sentence,
            which no model sees.
        log_prob: Natural logarithm of its probability given the source, `</s>` included; None likewise.
        length: Its tokens, `</s>` included.
    """

    text: str
    score: float | None
    log_prob: float | None
    length: int


BLANK = Hypothesis("", None, None, 0)


def translate(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    *,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
    processes: Processes = ALONE,
    **generate_kwargs: Any,
) -> Iterator[str]:
    """Translations of the sentences, one for each and in their order.

    Sentences are read in chunks, so an endless stream or a large file is never held as a whole. Empty and blank
    sentences become empty strings. Nothing is truncated: a sentence longer than the budget is translated whole, alone
    in its batch.

    Args:
        model: In eval mode; decodes as its generation config says.
        tokenizer: Saved with the model.
        sentences: Source sentences.
        max_tokens_per_batch: Padded source tokens of one batch: number of sentences x longest sentence. It changes
            speed and memory, not what is translated.
        progress: Whether to show a progress bar on stderr.
        total: Number of sentences, if known, for the progress bar.
        processes: Share the work, each with the same model and sentences; from `join_processes`.
        **generate_kwargs: Passed to `model.generate`, for example num_beams or length_penalty.

    Raises:
        ValueError: `max_tokens_per_batch` is below 1.

    Example:
        >>> list(translate(model, tokenizer, ["A dog runs.", ""]))
        ['Ein Hund rennt.', '']

    Paper: section 6.1.
    """

    def compute(rows: list[Row]) -> list[str]:
        return tokenizer.batch_decode(_generate(model, tokenizer, rows, generate_kwargs), skip_special_tokens=True)

    return compute_in_batches(
        sentences,
        partial(encode_sentences, tokenizer),
        partial(processes.map, compute),
        empty=str,
        max_tokens_per_batch=max_tokens_per_batch,
        doing="translating" if progress and processes.is_main else None,
        total=total,
    )


def translate_n_best(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    num_best: int,
    *,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
    processes: Processes = ALONE,
    **generate_kwargs: Any,
) -> Iterator[list[Hypothesis]]:
    """The best translations of each sentence, best first, with their scores.

    The scores are the `sequences_scores` of `generate`. Where the search found fewer than `num_best`, there are fewer.
    The same text may come twice, in other tokens. An empty or blank sentence has one hypothesis, empty and unscored.

    Args:
        model: Of this package. It and all other arguments are those of `translate`.
        num_best: Translations of each sentence, at most as many as beams.

    Raises:
        ValueError: `num_best` is below 1 or above the number of beams, or `max_tokens_per_batch` is below 1.

    Example:
        >>> next(translate_n_best(model, tokenizer, ["A dog runs."], 2))[1]
        Hypothesis(text='Ein Hund läuft.', score=-1.27, log_prob=-1.83, length=6)

    Paper: section 6.1.
    """
    for name in ("decoder_input_ids", "num_return_sequences", "return_dict_in_generate"):
        if name in generate_kwargs:
            raise ValueError(
                f"`{name}` must be left out of n-best translation, got {generate_kwargs[name]!r}. Call "
                "`model.generate` for it."
            )
    decoding = decoding_config(model, **generate_kwargs)
    check_num_best(num_best, decoding.num_beams)
    options = {**generate_kwargs, "num_return_sequences": num_best, "return_dict_in_generate": True}

    def compute(rows: list[Row]) -> list[list[Hypothesis]]:
        found = _generate(model, tokenizer, rows, options)
        hypotheses = _hypotheses(tokenizer, found, decoding)
        return [
            [hypothesis for hypothesis in hypotheses[start : start + num_best] if hypothesis is not None]
            for start in range(0, len(hypotheses), num_best)
        ]

    return compute_in_batches(
        sentences,
        partial(encode_sentences, tokenizer),
        partial(processes.map, compute),
        empty=lambda: [BLANK],
        max_tokens_per_batch=max_tokens_per_batch,
        doing="translating" if progress and processes.is_main else None,
        total=total,
    )


def encode_sentences(tokenizer: PreTrainedTokenizerBase, sentences: list[str], first: int) -> list[Row]:
    """Token ids of each sentence; none of a blank one. `first` is how many sentences were before."""
    check_lengths(sentences, first)
    ids = iter(token_ids(tokenizer, [sentence for sentence in sentences if sentence.strip()]))
    return [(next(ids),) if sentence.strip() else () for sentence in sentences]


@torch.inference_mode()
def _generate(
    model: GenerativeModel, tokenizer: PreTrainedTokenizerBase, rows: list[Row], generate_kwargs: dict[str, Any]
) -> Any:
    """What `generate` returns for rows of token ids: a matrix of them, or an output that holds one."""
    input_ids, attention_mask = padded([row[0] for row in rows], tokenizer.pad_token_id, model.device)
    return model.generate(input_ids=input_ids, attention_mask=attention_mask, **generate_kwargs)


def _hypotheses(tokenizer: PreTrainedTokenizerBase, found: Any, decoding: GenerationConfig) -> list[Hypothesis | None]:
    """Text and scores of each output of `generate`; None where the search found none."""
    sequences, scores = found.sequences[:, 1:], found.sequences_scores.double().tolist()  # without <s>
    if "beam_indices" in found:
        lengths = (found.beam_indices >= 0).sum(dim=1).tolist()
    else:
        lengths = (sequences != tokenizer.pad_token_id).sum(dim=1).tolist()
    texts = tokenizer.batch_decode(sequences, skip_special_tokens=True)
    return [
        Hypothesis(text, score, score * penalty_of(decoding, max(length, 1)), length) if math.isfinite(score) else None
        for text, score, length in zip(texts, scores, lengths, strict=True)
    ]
