# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation metrics side by side, each with its signature, as functions and as an offline `evaluate.Metric`.

sacreBLEU and chrF are what other work is compared by; the paper's BLEU compares with the paper's tables; tokenised
BLEU, lower-cased, compares with work on corpora that come tokenised, and says nothing about raw text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import numpy as np
from transformers import EvalPrediction, PreTrainedTokenizerBase

from ..extras import requiring

with requiring("eval", "to score translations"):
    import datasets
    import evaluate
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

from .paper_bleu import ReferenceStreams, corpus_paper_bleu
from .results import METRICS

_SACREBLEU: dict[str, Any] = {"tokenize": "13a", "force": True}


class TranslationScores(TypedDict):
    """Scores of a set of translations, in points from 0 to 100.

    The brevity penalty is sacreBLEU's, and lengths are in its tokens of 13a.
    """

    sacrebleu: float
    sacrebleu_signature: str
    chrf: float
    chrf_signature: str
    paper_bleu: float
    paper_bleu_signature: str
    tokenized_bleu: float
    tokenized_bleu_signature: str
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    target_language: str | None = None,
) -> TranslationScores:
    """Corpus-level scores of translations: sacreBLEU, chrF2, the paper's BLEU and BLEU of tokenised text.

    Args:
        hypotheses: One detokenised translation for each sentence.
        references: One reference for each sentence, or a list of references for each.
        target_language: Language code, which decides how the paper's BLEU splits words; None means as English.

    Returns:
        `sacrebleu` (tokeniser 13a, case-sensitive), `chrf`, `paper_bleu` (Moses tokens, German compounds split, see
        `paper_bleu`) and `tokenized_bleu` (words as the text has them, lower-cased), each with its signature.

    Raises:
        ValueError: There is nothing to score, or hypotheses and references differ in number.
        TypeError: One of them is no text.

    Example:
        >>> round(score_translations(["Das ist ein Haus ."], ["Das ist ein Haus ."], "de")["paper_bleu"], 2)
        100.0
    """
    streams = _reference_streams(hypotheses, references)
    bleu, chrf, tokenized = BLEU(**_SACREBLEU), CHRF(), BLEU(tokenize="none", lowercase=True, force=True)
    bleu_score = bleu.corpus_score(hypotheses, streams)
    chrf_score, tokenized_score = chrf.corpus_score(hypotheses, streams), tokenized.corpus_score(hypotheses, streams)
    paper_bleu, paper_bleu_signature = corpus_paper_bleu(hypotheses, streams, target_language)
    return {
        "sacrebleu": bleu_score.score,
        "sacrebleu_signature": str(bleu.get_signature()),
        "chrf": chrf_score.score,
        "chrf_signature": str(chrf.get_signature()),
        "paper_bleu": paper_bleu,
        "paper_bleu_signature": paper_bleu_signature,
        "tokenized_bleu": tokenized_score.score,
        "tokenized_bleu_signature": str(tokenized.get_signature()),
        "brevity_penalty": bleu_score.bp,
        "hypothesis_length": bleu_score.sys_len,
        "reference_length": bleu_score.ref_len,
    }


def corpus_sacrebleu(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> float:
    """The `sacrebleu` of `score_translations` alone, eight times as fast; arguments and errors are the same."""
    score: float = BLEU(**_SACREBLEU).corpus_score(hypotheses, _reference_streams(hypotheses, references)).score
    return score


def _reference_streams(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> ReferenceStreams:
    """One list of references per stream; None where a sentence has fewer than others."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"`hypotheses` must be as many as `references`, got {len(hypotheses)} and {len(references)}. "
            "Translate every source sentence, also the empty ones."
        )
    if not hypotheses:
        raise ValueError("`hypotheses` must not be empty, got 0 sentences. Pass at least one.")
    _check_texts("hypotheses", hypotheses)
    rows: list[list[Any]] = [list(row) if isinstance(row, (list, tuple)) else [row] for row in references]
    for row in rows:
        _check_texts("references", row)
    if empty := [index for index, row in enumerate(rows) if not row]:
        raise ValueError(
            f"`references` must hold at least one for each sentence, got none for index {empty[0]}. Add one, or "
            "drop the sentence."
        )
    num_streams = max(len(row) for row in rows)
    return [[row[stream] if stream < len(row) else None for row in rows] for stream in range(num_streams)]


def _check_texts(name: str, texts: Sequence[Any]) -> None:
    """Raises TypeError unless all are texts: sacreBLEU's own check is of the first alone."""
    for text in [texts] if isinstance(texts, str) else texts:
        if not isinstance(text, str) or text is texts:
            raise TypeError(f"`{name}` must be a list of texts, got {text!r:.100} in it or for it. Pass str alone.")


_DESCRIPTION = (
    "sacreBLEU (tokeniser 13a, case-sensitive), chrF2, the BLEU of Attention Is All You Need (Moses tokens, German "
    "compounds split) and lower-cased BLEU of tokenised text, each with its signature."
)

_INPUTS = """
Args:
    predictions: Detokenised translations, one string each.
    references: One reference string for each translation, or a list of them.
    target_language: Language code for the paper's BLEU, of `compute` only; None means the rules of English.

Returns:
    sacrebleu, chrf, paper_bleu and tokenized_bleu in points from 0 to 100, their signatures, brevity_penalty and the
    two lengths in tokens.
"""


class TranslationMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate has no types
    """All scores of `score_translations` as an `evaluate.Metric` that needs no network.

    Example:
        >>> metric = TranslationMetric()
        >>> metric.add_batch(predictions=["Guten Tag !"], references=["Guten Tag !"])
        >>> metric.compute(target_language="de")["sacrebleu_signature"]
        'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0'
    """

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="Post, 2018, A Call for Clarity in Reporting BLEU Scores; Vaswani et al., 2017, section 6.",
            inputs_description=_INPUTS,
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
            reference_urls=["https://github.com/mjpost/sacrebleu", "https://github.com/hplt-project/sacremoses"],
        )

    def _compute(
        self, *, predictions: Sequence[str], references: Sequence[Any], target_language: str | None = None
    ) -> dict[str, Any]:
        return dict(score_translations(predictions, references, target_language))


def make_compute_metrics(
    tokenizer: PreTrainedTokenizerBase, target_language: str | None = None
) -> Callable[[EvalPrediction], dict[str, float]]:
    """The function that `Seq2SeqTrainer(compute_metrics=...)` takes: all four scores of generated translations.

    It returns numbers only, since every logger can show those; the signatures are in the results of `evaluate`.
    References are decoded from the labels.

    Args:
        tokenizer: Decodes predictions and labels.
        target_language: As for `score_translations`.
    """

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        ids = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        texts, references = _decode(tokenizer, ids), _decode(tokenizer, prediction.label_ids)
        scores: dict[str, Any] = {**score_translations(texts, references, target_language)}
        return {name: scores[name] for name in METRICS}

    return compute_metrics


def _decode(tokenizer: PreTrainedTokenizerBase, ids: Any) -> list[str]:
    """Texts of a padded matrix of token ids, in which a negative id (the ignored label) counts as padding."""
    ids = np.asarray(ids)
    return tokenizer.batch_decode(np.where(ids < 0, tokenizer.pad_token_id, ids), skip_special_tokens=True)
