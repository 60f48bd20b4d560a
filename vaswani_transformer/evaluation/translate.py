# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation of many sentences, the best or the n best of each, in the order of the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..generation_vaswani_transformer import check_length_penalty
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from .batches import DEFAULT_MAX_TOKENS_PER_BATCH, Row, compute_in_batches, padded, token_ids
from .scoring import PairScore, decoding_config, score_tokens


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


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    *,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
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
        lambda chunk: _encode(tokenizer, chunk),
        compute,
        empty=str,
        doing="translating",
        max_tokens_per_batch=max_tokens_per_batch,
        progress=progress,
        total=total,
    )


def translate_n_best(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    num_best: int,
    *,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
    **generate_kwargs: Any,
) -> Iterator[list[Hypothesis]]:
    """The best translations of each sentence, best first, with their scores; otherwise as `translate`.

    The scores are the `sequences_scores` of `generate`, computed from the finished translations: a logits processor
    has a say in what is found, but changes no score. Where the search found fewer than `num_best`, there are fewer.
    The same text may come twice, in other tokens. An empty or blank sentence has one hypothesis, empty and unscored.

    Args:
        model: In eval mode; decodes as its generation config says.
        tokenizer: Saved with the model.
        sentences: Source sentences.
        num_best: Translations of each sentence, at most as many as beams.
        max_tokens_per_batch: Padded source tokens of one batch: number of sentences x longest sentence.
        progress: Whether to show a progress bar on stderr.
        total: Number of sentences, if known, for the progress bar.
        **generate_kwargs: Passed to `model.generate`, for example num_beams or length_penalty.

    Raises:
        ValueError: `num_best` is below 1 or above the number of beams, or `max_tokens_per_batch` is below 1.

    Example:
        >>> next(translate_n_best(model, tokenizer, ["A dog runs."], 2))[1]
        Hypothesis(text='Ein Hund läuft.', score=-1.27, log_prob=-1.83, length=6)

    Paper: section 6.1.
    """
    decoding = decoding_config(model, **generate_kwargs)
    if not 1 <= num_best <= decoding.num_beams:
        raise ValueError(
            f"`num_best` must be at least 1 and at most `num_beams`, which is {decoding.num_beams}, got {num_best}. "
            "Raise `num_beams`, or ask for fewer translations."
        )
    generate_kwargs["num_return_sequences"] = num_best

    def compute(rows: list[Row]) -> list[list[Hypothesis]]:
        sequences = _generate(model, tokenizer, rows, generate_kwargs)[:, 1:].tolist()  # (B * num_best, T) without <s>
        targets = [_without_filling(sequence, tokenizer) for sequence in sequences]
        sources = [row[0] for row in rows for _ in range(num_best)]
        found = _hypotheses(model, tokenizer, sources, targets, decoding.length_penalty, max_tokens_per_batch)
        return [
            [hypothesis for hypothesis in found[start : start + num_best] if hypothesis is not None]
            for start in range(0, len(found), num_best)
        ]

    return compute_in_batches(
        sentences,
        lambda chunk: _encode(tokenizer, chunk),
        compute,
        empty=lambda: [Hypothesis("", None, None, 0)],
        doing="translating",
        max_tokens_per_batch=max_tokens_per_batch,
        progress=progress,
        total=total,
    )


def _encode(tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> list[Row]:
    """Token ids of each sentence; none of a blank one."""
    ids = iter(token_ids(tokenizer, [sentence for sentence in sentences if sentence.strip()]))
    return [(next(ids),) if sentence.strip() else () for sentence in sentences]


@torch.inference_mode()
def _generate(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: list[Row], generate_kwargs: dict[str, Any]
) -> torch.Tensor:
    """(B * returned sequences, T) output tokens behind `<s>`, filled up with `<pad>`."""
    input_ids, attention_mask = padded([row[0] for row in rows], tokenizer.pad_token_id, model.device)
    return model.generate(input_ids=input_ids, attention_mask=attention_mask, **generate_kwargs)


def _without_filling(tokens: list[int], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Tokens up to `</s>`, or up to the filling where the limit cut them; none of a hypothesis that does not exist."""
    if tokenizer.eos_token_id in tokens:
        return tokens[: tokens.index(tokenizer.eos_token_id) + 1]
    while tokens and tokens[-1] == tokenizer.pad_token_id:
        tokens = tokens[:-1]
    return tokens


def _hypotheses(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    sources: list[list[int]],
    targets: list[list[int]],
    alpha: float,
    max_tokens_per_batch: int,
) -> list[Hypothesis | None]:
    """Text and scores of each target; None where it has no token."""

    def compute(rows: list[Row]) -> list[PairScore | None]:
        return list(score_tokens(model, rows, alpha, tokenizer.pad_token_id, max_tokens_per_batch))

    scores = compute_in_batches(
        zip(sources, targets, strict=True),
        lambda pairs: [pair if pair[1] else () for pair in pairs],
        compute,
        empty=lambda: None,
        doing="scoring",
        max_tokens_per_batch=max_tokens_per_batch,
        progress=False,
        total=None,
    )
    texts = tokenizer.batch_decode(targets, skip_special_tokens=True)
    return [
        None if score is None else Hypothesis(text, score.score, score.log_prob, score.length)
        for text, score in zip(texts, scores, strict=True)
    ]


def decoding_overrides(
    *,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    max_new_tokens_over_source: int | None = None,
) -> dict[str, Any]:
    """Arguments of `generate` for the values that are given; None leaves the model's own.

    Args:
        num_beams: Hypotheses kept for each sentence; 1 is greedy search.
        length_penalty: Alpha of the length penalty.
        max_new_tokens_over_source: Output limit in tokens beyond the source's length.

    Raises:
        ValueError: A value is out of range.
    """
    if num_beams is not None and num_beams < 1:
        raise ValueError(f"`num_beams` must be at least 1, got {num_beams}. The paper uses 4; 1 is greedy search.")
    check_length_penalty(length_penalty)
    if max_new_tokens_over_source is not None and max_new_tokens_over_source < 0:
        raise ValueError(
            f"`max_new_tokens_over_source` must be at least 0, got {max_new_tokens_over_source}. The paper uses 50."
        )
    given = {
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "max_new_tokens_over_source": max_new_tokens_over_source,
    }
    return {name: value for name, value in given.items() if value is not None}
