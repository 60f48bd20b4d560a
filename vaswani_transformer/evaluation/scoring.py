# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a model thinks of given translations: log-probability, length and GNMT score of each pair.

Shapes: B batch, S source length, T target length, D d_model, V vocabulary, N target tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from .batches import (
    DEFAULT_MAX_TOKENS_PER_BATCH,
    Row,
    check_lengths,
    compute_in_batches,
    padded,
    paired,
    token_ids,
)
from .decoding import decoding_config, decoding_overrides, penalty_of


@dataclass(frozen=True)
class PairScore:
    """How likely a model finds a translation.

    Args:
        log_prob: Natural logarithm of the target's probability given the source, `</s>` included.
        length: Tokens of the target, `</s>` included.
        score: `log_prob` divided by GNMT's length penalty, by which beam search ranks.
    """

    log_prob: float
    length: int
    score: float


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
    """The score of each target as a translation of its source, in the order of the input.

    Both sides are read as streams, chunk by chunk. Nothing is truncated, and empty sentences are scored as any other:
    they are `</s>` alone.

    Args:
        model: In eval mode.
        tokenizer: Saved with the model.
        sources: Source sentences.
        targets: Their translations.
        length_penalty: Alpha of ((c + length) / (c + 1))^alpha; None takes the model's own.
        length_penalty_offset: c of it; 5 is the paper's, None takes the model's own.
        max_tokens_per_batch: Padded tokens of one batch: number of pairs x longest side. Output probabilities are
            never held for more tokens than that at once. It changes speed and memory, not the scores.
        progress: Whether to show a progress bar on stderr.
        total: Number of pairs, if known, for the progress bar.

    Raises:
        ValueError: A value is out of range, or there are more sentences on one side than on the other.

    Example:
        >>> list(score_pairs(model, tokenizer, ["A dog runs."], ["Ein Hund rennt."]))
        [PairScore(log_prob=-1.83, length=6, score=-1.27)]

    Paper: section 6.1.
    """
    penalty = decoding_overrides(length_penalty=length_penalty, length_penalty_offset=length_penalty_offset)
    decoding = decoding_config(model, **penalty)

    def encode(pairs: list[tuple[str, str]], first: int) -> list[Row]:
        sources, targets = map(list, zip(*pairs, strict=True))
        for side in (sources, targets):
            check_lengths(side, first)
        return list(zip(token_ids(tokenizer, sources), token_ids(tokenizer, targets), strict=True))

    def compute(rows: list[Row]) -> list[PairScore]:
        return score_tokens(model, rows, decoding, tokenizer.pad_token_id, max_tokens_per_batch)

    return compute_in_batches(
        paired(sources, targets),
        encode,
        partial(map, compute),
        empty=lambda: PairScore(0.0, 0, 0.0),
        max_tokens_per_batch=max_tokens_per_batch,
        doing="scoring" if progress else None,
        total=total,
    )


@torch.inference_mode()
def score_tokens(
    model: VaswaniTransformerForConditionalGeneration,
    pairs: list[Row],
    decoding: GenerationConfig,
    pad_token_id: int,
    max_tokens: int,
) -> list[PairScore]:
    """Scores of pairs of token ids, all in one batch.

    Args:
        model: In eval mode.
        pairs: Source and target tokens of each; neither side holds `<s>`.
        decoding: Its length penalty and offset score; from `decoding_config`.
        pad_token_id: Fills the batch.
        max_tokens: Target tokens whose distributions over the vocabulary are held at once.
    """
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    input_ids, attention_mask = padded(sources, pad_token_id, model.device)
    labels, target_mask = padded(targets, pad_token_id, model.device)
    states = model.model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels),
        use_cache=False,
    ).last_hidden_state
    is_real = target_mask.bool()
    states, labels = states[is_real.to(states.device)], labels[is_real]  # (B, T, D) -> (N, D), (B, T) -> (N,)
    log_probs = torch.cat(
        [
            _log_probs(model.lm_head(part), chosen)
            for part, chosen in zip(states.split(max_tokens), labels.split(max_tokens), strict=True)
        ]
    )
    lengths = [len(target) for target in targets]
    totals = [float(part.sum()) for part in log_probs.cpu().double().split(lengths)]
    return [
        PairScore(total, length, score=total / penalty_of(decoding, length))
        for total, length in zip(totals, lengths, strict=True)
    ]


def _log_probs(logits: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """(N,) log-probabilities of the chosen tokens under logits (N, V), in fp32 or, for a float64 model, in float64."""
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    return -torch.nn.functional.cross_entropy(logits, chosen.to(logits.device), reduction="none")
