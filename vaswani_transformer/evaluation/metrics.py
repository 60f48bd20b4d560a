# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation metrics side by side, each with its signature, as functions and as an offline `evaluate.Metric`.

sacreBLEU and chrF are what other work is compared by; the paper's BLEU compares with the paper's tables; tokenised
BLEU, lower-cased, compares with work on corpora that come tokenised, and says nothing about raw text. These two are
reported only for languages that sacreBLEU splits by 13a: neither splits text that has no spaces between words.

Paper: Table 2, scored by tensor2tensor's get_ende_bleu.sh: replace-unicode-punctuation.perl, tokenizer.perl, the
compound split and multi-bleu.perl.

Tokens are those of Moses in June 2017, when the paper appeared. Since November 2018 tokenizer.perl also cuts the full
stop off the last word of a line if that is in its list of abbreviations or has another full stop ("usw." becomes
"usw ."): in German 7 of the 3,000 references of newstest2013 and 8 of the 3,003 of newstest2014, in French 6 of 3,003.
BLEU of perturbed references moves by at most 0.02.

Deviation: the script takes references that are tokenised already; ours are raw text and go the way of the hypotheses.
Deviation: letters that sacremoses does not know as such (Chinese characters, kana and Hangul unless the target
language has them, letters beyond U+FFFF) become tokens of their own, and Irish apostrophes are split as German ones.
A full-width 1 becomes 1, where Moses of 2017 wrote a quote by mistake. None of these occurs in the newstests, where
sacremoses and Moses of 2017 agree on every line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from transformers import EvalPrediction, PreTrainedTokenizerBase

from ..extras import requiring
from . import METRICS

with requiring("eval", "to score translations"):
    import datasets
    import evaluate
    import sacremoses
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

# First references of all sentences, second references, ...; None where a sentence has fewer. sacreBLEU accepts None,
# but its types do not say so.
ReferenceStreams: TypeAlias = list[list[Any]]

_COMPOUND = re.compile(r"(\S)-(\S)")
# Python takes these for white space; Perl does not, so that Moses deletes them as it does other control characters.
_SEPARATORS = dict.fromkeys(range(0x1C, 0x20))
# No spaces between words, and no tokeniser of their own in sacreBLEU.
_SPLIT_INTO_CHARACTERS = ("km", "lo", "my", "th")
# Codes of three letters, for the languages that a metric treats in a way of their own.
_SHORT_CODES = dict(
    pair.split(":")
    for pair in (
        "chi:zh cmn:zh yue:zh zho:zh jpn:ja kor:ko khm:km lao:lo bur:my mya:my tha:th "
        "deu:de ger:de fra:fr fre:fr ita:it spa:es por:pt hun:hu slv:sl slk:sk slo:sk ron:ro rum:ro nld:nl dut:nl "
        "ces:cs cze:cs pol:pl rus:ru swe:sv fin:fi ell:el gre:el isl:is ice:is lav:lv cat:ca gle:ga tam:ta lit:lt"
    ).split()
)


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    target_language: str | None = None,
) -> dict[str, Any]:
    """Return the corpus-level scores of translations by `evaluation.METRICS`, in points from 0 to 100.

    Args:
        hypotheses: One detokenised translation for each sentence.
        references: One reference for each sentence, or a list of references for each.
        target_language: Language code, which decides how BLEU splits words; None means as English.

    Returns:
        `sacrebleu` (case-sensitive), `sacrebleu_signature` and so on, without `paper_bleu` and `tokenized_bleu` if
        sacreBLEU's tokeniser is not 13a; and `brevity_penalty`, `hypothesis_length` and `reference_length` in
        sacreBLEU's tokens.

    Raises:
        ValueError: There is nothing to score, or a sentence without a reference.
        ImportError: The tokeniser of the target language is not installed.

    Example:
        >>> round(score_translations(["Das ist ein Haus ."], ["Das ist ein Haus ."], "de")["paper_bleu"], 2)
        100.0
    """
    streams = _reference_streams(hypotheses, references)
    bleu = make_sacrebleu(target_language)
    whole = bleu.corpus_score(hypotheses, streams)
    found = {
        "sacrebleu": (whole.score, str(bleu.get_signature())),
        "chrf": _score(CHRF(), hypotheses, streams),
    }
    if bleu.tokenizer_signature == "13a":
        tokenized = BLEU(tokenize="none", lowercase=True, force=True)
        found["paper_bleu"] = corpus_paper_bleu(hypotheses, streams, target_language)
        found["tokenized_bleu"] = _score(tokenized, hypotheses, streams)
    scores: dict[str, Any] = {}
    for metric, (score, signature) in found.items():
        scores[metric] = score
        scores[f"{metric}_signature"] = signature
    scores["brevity_penalty"] = whole.bp
    scores["hypothesis_length"] = whole.sys_len
    scores["reference_length"] = whole.ref_len
    return scores


def make_sacrebleu(target_language: str | None = None) -> BLEU:
    """Return sacreBLEU with its own tokeniser for the target language, or with characters as tokens.

    Raises:
        ImportError: The tokeniser is not installed; those of Japanese and Korean need an extra of sacrebleu.
    """
    language = base_language(target_language)
    tokenizer = "char" if language in _SPLIT_INTO_CHARACTERS else None
    try:
        return BLEU(tokenize=tokenizer, trg_lang=language, force=True)
    except RuntimeError as error:
        raise ImportError(
            f"sacreBLEU's tokeniser for `target_language` {target_language} must be installed, got none. Run: "
            f"pip install 'sacrebleu[{language}]'"
        ) from error


def _score(scorer: BLEU | CHRF, hypotheses: Sequence[str], streams: ReferenceStreams) -> tuple[float, str]:
    """The score of one of sacreBLEU's metrics, and its signature."""
    return scorer.corpus_score(hypotheses, streams).score, str(scorer.get_signature())


def _reference_streams(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> ReferenceStreams:
    """One list of references per stream; None where a sentence has fewer than others."""
    rows: list[list[Any]] = [list(row) if isinstance(row, (list, tuple)) else [row] for row in references]
    if not hypotheses or len(hypotheses) != len(rows) or not all(rows):
        raise ValueError(
            f"`references` must hold at least one for each of the `hypotheses`, which must be some, got "
            f"{len(hypotheses)} hypotheses and {sum(map(bool, rows))} sentences with references."
        )
    return [list(stream) for stream in itertools.zip_longest(*rows)]


# ---- the paper's BLEU ----


def tokenize_for_paper_bleu(sentences: Sequence[str], target_language: str | None = None) -> list[str]:
    """Sentences as the paper's BLEU counts them: tokens between single spaces, special characters escaped.

    Args:
        sentences: Raw text.
        target_language: Its language code, for example "de" or "fr_CA"; None means the rules of English.

    Example:
        >>> tokenize_for_paper_bleu(["Das „Rich-Text“-Format."], "de")
        ['Das „ Rich ##AT##-##AT## Text &quot; -Format .']
    """
    language = base_language(target_language)
    replace_punctuation = sacremoses.MosesPunctNormalizer().replace_unicode_punct
    tokenize = sacremoses.MosesTokenizer(language).tokenize
    texts = [replace_punctuation(sentence.translate(_SEPARATORS)) for sentence in sentences]
    lines = [tokenize(text, return_str=True) for text in texts]
    # hyphens within words become tokens in one pass: the next word is looked at behind the last match
    return [_COMPOUND.sub(r"\1 ##AT##-##AT## \2", line) for line in lines] if language == "de" else lines


def corpus_paper_bleu(
    hypotheses: Sequence[str], reference_streams: ReferenceStreams, target_language: str | None = None
) -> tuple[float, str]:
    """The paper's BLEU of raw translations, and its signature.

    Case-sensitive and not smoothed: 0 if no 4-gram of any sentence is right.

    Args:
        hypotheses: One translation for each sentence.
        reference_streams: As sacreBLEU takes them.
        target_language: As for `tokenize_for_paper_bleu`.

    Returns:
        BLEU from 0 to 100; the signature names what the score depends on, in the manner of sacreBLEU.

    Example:
        >>> score, signature = corpus_paper_bleu(["Ein Haus."], [["Ein Haus."], ["Das Haus."]], "de")
        >>> signature
        'nrefs:2|case:mixed|tok:moses-de|punct:unicode-replaced|compounds:split|smooth:none|sacremoses:0.2.0|version:2.6.0'
    """
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    streams: ReferenceStreams = []
    for stream in reference_streams:
        tokenized = iter(tokenize_for_paper_bleu([line for line in stream if line is not None], target_language))
        streams.append([None if line is None else next(tokenized) for line in stream])
    score: float = bleu.corpus_score(tokenize_for_paper_bleu(hypotheses, target_language), streams).score
    language, known = base_language(target_language), bleu.get_signature().info
    signature = (
        f"nrefs:{known['nrefs']}|case:mixed|tok:moses-{language}|punct:unicode-replaced|"
        f"compounds:{'split' if language == 'de' else 'whole'}|smooth:none|sacremoses:{sacremoses.__version__}|"
        f"version:{known['version']}"
    )
    return score, signature


def base_language(target_language: str | None) -> str:
    """Return the language code without region and script, in two letters where a metric needs them; en for None."""
    language = re.split("[-_]", (target_language or "en").lower())[0]
    return _SHORT_CODES.get(language, language)


# ---- for evaluate and the trainer ----


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
            description="The metrics of `evaluation.METRICS`, each with its signature.",
            citation="Post, 2018, A Call for Clarity in Reporting BLEU Scores; Vaswani et al., 2017, section 6.",
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def _compute(
        self, *, predictions: Sequence[str], references: Sequence[Any], target_language: str | None = None
    ) -> dict[str, Any]:
        return score_translations(predictions, references, target_language)


def make_compute_metrics(
    tokenizer: PreTrainedTokenizerBase, target_language: str | None = None
) -> Callable[[EvalPrediction], dict[str, float]]:
    """The function that `Seq2SeqTrainer(compute_metrics=...)` takes: every score of generated translations.

    It returns numbers only, since every logger can show those; the signatures are in the results of `evaluate`.
    References are decoded from the labels.

    Args:
        tokenizer: Decodes predictions and labels.
        target_language: As for `score_translations`.
    """

    def decode(ids: Any) -> list[str]:  # a negative id, the ignored label, counts as padding
        ids = np.where(np.asarray(ids) < 0, tokenizer.pad_token_id, ids)
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        scores = score_translations(decode(prediction.predictions), decode(prediction.label_ids), target_language)
        return {name: scores[name] for name in METRICS if name in scores}

    return compute_metrics
