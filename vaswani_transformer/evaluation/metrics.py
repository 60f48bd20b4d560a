# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation metrics: sacreBLEU and chrF with their signatures, as functions and as an offline `evaluate.Metric`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import numpy as np
from transformers import EvalPrediction, PreTrainedTokenizerBase

try:
    import datasets
    import evaluate
    from sacrebleu.metrics import BLEU, CHRF
except ImportError as error:
    raise ImportError(
        "`sacrebleu` and `evaluate` must be installed to score translations, got neither or only one of them. "
        "Run: pip install 'vaswani-transformer[eval]'"
    ) from error


class TranslationScores(TypedDict):
    """Scores of a set of translations; BLEU and chrF in points from 0 to 100, lengths in tokens of 13a."""

    sacrebleu: float
    sacrebleu_signature: str
    chrf: float
    chrf_signature: str
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> TranslationScores:
    """Corpus-level sacreBLEU (tokeniser 13a, case-sensitive) and chrF2 of translations.

    Args:
        hypotheses: One detokenised translation for each sentence.
        references: One reference for each sentence, or a list of references for each.

    Raises:
        ValueError: There is nothing to score, or hypotheses and references differ in number.

    Example:
        >>> score_translations(["Das ist ein Haus ."], ["Das ist ein Haus ."])["sacrebleu"]
        100.0
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"`hypotheses` must be as many as `references`, got {len(hypotheses)} and {len(references)}. "
            "Translate every source sentence, also the empty ones."
        )
    if not hypotheses:
        raise ValueError("`hypotheses` must not be empty, got 0 sentences. Pass at least one.")
    streams = _reference_streams(references)
    bleu, chrf = BLEU(tokenize="13a", force=True), CHRF()
    bleu_score, chrf_score = bleu.corpus_score(hypotheses, streams), chrf.corpus_score(hypotheses, streams)
    return {
        "sacrebleu": bleu_score.score,
        "sacrebleu_signature": str(bleu.get_signature()),
        "chrf": chrf_score.score,
        "chrf_signature": str(chrf.get_signature()),
        "brevity_penalty": bleu_score.bp,
        "hypothesis_length": bleu_score.sys_len,
        "reference_length": bleu_score.ref_len,
    }


def _reference_streams(references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str | None]]:
    """One list of references per stream, as sacreBLEU wants them; None where a sentence has fewer than others."""
    rows = [[row] if isinstance(row, str) else list(row) for row in references]
    if empty := [index for index, row in enumerate(rows) if not row]:
        raise ValueError(f"`references` must hold at least one for each sentence, got none for index {empty[0]}.")
    num_streams = max(len(row) for row in rows)
    return [[row[stream] if stream < len(row) else None for row in rows] for stream in range(num_streams)]


_DESCRIPTION = "sacreBLEU (tokeniser 13a, case-sensitive) and chrF2 of translations, each with its signature."

_INPUTS = """
Args:
    predictions: Detokenised translations, one string each.
    references: One reference string for each translation, or a list of them.

Returns:
    sacrebleu and chrf in points from 0 to 100, their signatures, brevity_penalty and the two lengths in tokens.
"""


class SacreBleu(evaluate.Metric):
    """sacreBLEU and chrF as an `evaluate.Metric` that needs no network, unlike `evaluate.load("sacrebleu")`.

    Example:
        >>> metric = SacreBleu()
        >>> metric.add_batch(predictions=["Guten Tag !"], references=["Guten Tag !"])
        >>> metric.compute()["sacrebleu_signature"]
        'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0'
    """

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="Post, 2018, A Call for Clarity in Reporting BLEU Scores.",
            inputs_description=_INPUTS,
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
            reference_urls=["https://github.com/mjpost/sacrebleu"],
        )

    def _compute(self, *, predictions: Sequence[str], references: Sequence[Any], **kwargs: Any) -> dict[str, Any]:
        return dict(score_translations(predictions, references))


def make_compute_metrics(tokenizer: PreTrainedTokenizerBase) -> Callable[[EvalPrediction], dict[str, float]]:
    """The function that `Seq2SeqTrainer(compute_metrics=...)` takes: sacreBLEU and chrF of generated translations.

    It returns numbers only, since every logger can show those; the signature is in the results of `evaluate`.
    References are decoded from the labels.

    Args:
        tokenizer: Decodes predictions and labels.
    """

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        ids = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        scores = score_translations(_decode(tokenizer, ids), _decode(tokenizer, prediction.label_ids))
        return {"sacrebleu": scores["sacrebleu"], "chrf": scores["chrf"]}

    return compute_metrics


def _decode(tokenizer: PreTrainedTokenizerBase, ids: np.ndarray) -> list[str]:
    """Texts of a padded matrix of token ids, in which a negative id (the ignored label) counts as padding."""
    ids = np.asarray(ids)
    return tokenizer.batch_decode(np.where(ids < 0, tokenizer.pad_token_id, ids), skip_special_tokens=True)
