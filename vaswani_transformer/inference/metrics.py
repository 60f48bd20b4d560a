# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation metrics with their signatures, as functions and as an offline `evaluate.Metric`.

Use sacreBLEU and chrF to compare with other work, and the paper's BLEU to compare with the paper's
tables. Use lowercased tokenized BLEU to compare with work on corpora that are already tokenized.
Tokenized BLEU is meaningless for raw text, so it is reported only on request. The paper's BLEU and
tokenized BLEU cannot split text without spaces between words. So these two are reported only for
languages that sacreBLEU tokenizes by 13a.

Paper: Table 2. The paper does not say how its BLEU was computed. The authors' script for
English-German, get_ende_bleu.sh of tensor2tensor, runs replace-unicode-punctuation.perl,
tokenizer.perl, a split of compounds and multi-bleu.perl. This is "the paper's BLEU" here, without
the split for languages other than German.

Text is tokenized as by Moses in June 2017, when the paper appeared. Since November 2018,
tokenizer.perl also splits off the full stop of the last word of a line if the word is a known
abbreviation or has another full stop ("usw." becomes "usw ."). This changes 7 of the 3,000 German
references of newstest2013, 8 of the 3,003 German references of newstest2014 and 6 of its 3,003
French references. With randomly edited references as hypotheses, BLEU changes by at most 0.02.

Deviation: The script reads references that are already tokenized, and splits only their compounds.
Here, references are raw text. Their punctuation is replaced and they are tokenized like the
hypotheses.

Deviation: sacremoses differs from Moses of 2017 in three cases. It does not know letters beyond
U+FFFF, nor Chinese characters, kana and Hangul if the target language does not use them, and makes
each of these letters a token of its own. It splits Irish apostrophes like German ones. It turns a
full-width 1 into 1, but Moses of 2017 turned it into a quotation mark by mistake. None of these
cases occurs in the newstests: sacremoses and Moses of 2017 agree on all their lines.
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

# One list with the first reference of each sentence, one with the second, and so on. An entry is
# None if its sentence has fewer references. sacreBLEU accepts None, but its types do not say so.
ReferenceStreams: TypeAlias = list[list[Any]]

_COMPOUND = re.compile(r"(\S)-(\S)")
# Characters that are white space in Python but not in Perl. Moses deletes them like other control
# characters.
_SEPARATORS = dict.fromkeys(range(0x1C, 0x20))
# Languages that put no spaces between words, and that sacreBLEU has no tokenizer for.
_SPLIT_INTO_CHARACTERS = "bo km lo my th".split()
# For languages with special rules in some metric: maps three-letter codes to two-letter codes, and
# languages to a language that is split in the same way.
_SHORT_CODES = dict(
    pair.split(":")
    for pair in """
chi:zh cmn:zh yue:zh zho:zh jpn:ja kor:ko khm:km lao:lo bur:my mya:my tha:th deu:de ger:de fra:fr
fre:fr ita:it spa:es por:pt hun:hu slv:sl slk:sk slo:sk ron:ro rum:ro nld:nl dut:nl ces:cs cze:cs
pol:pl rus:ru swe:sv fin:fi ell:el gre:el isl:is ice:is lav:lv cat:ca gle:ga tam:ta lit:lt est:et
ekk:et hin:hi ben:bn tel:te kan:kn mal:ml mar:mr guj:gu pan:pa ory:or ori:or asm:as wuu:zh nan:zh
lzh:zh hak:zh gan:zh hsn:zh cdo:zh bod:bo tib:bo dzo:bo dz:bo shn:my mnw:my ksw:my
""".split()
)


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    target_language: str | None = None,
    tokenized: bool = False,
) -> dict[str, Any]:
    """Score translations at corpus level, on a scale from 0 to 100, with `inference.METRICS`.

    Args:
        hypotheses: One translation for each sentence, detokenized unless `tokenized` is True.
        references: One reference for each sentence, or a list of references for each.
        target_language: Language code. It decides how BLEU splits words. None uses the rules of
            English.
        tokenized: Whether hypotheses and references are already tokenized. If so, the scores
            include `tokenized_bleu`.

    Returns:
        Scores and signatures: `sacrebleu` (case-sensitive), `sacrebleu_signature` and so on.
        `paper_bleu` and `tokenized_bleu` are left out if sacreBLEU's tokenizer is not 13a. The
        other entries are sacreBLEU's `brevity_penalty`, and `hypothesis_length` and
        `reference_length` in sacreBLEU's tokens.

    Raises:
        ValueError: There are no hypotheses, or a sentence has no reference.
        ImportError: The tokenizer for the target language is not installed.

    Example:
        >>> text = ["Das ist ein Haus ."]
        >>> round(score_translations(text, text, "de")["paper_bleu"], 2)
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
        found["paper_bleu"] = corpus_paper_bleu(hypotheses, streams, target_language)
        if tokenized:
            scorer = BLEU(tokenize="none", lowercase=True, force=True)
            found["tokenized_bleu"] = _score(scorer, hypotheses, streams)
    scores: dict[str, Any] = {}
    for metric, (score, signature) in found.items():
        scores[metric] = score
        scores[f"{metric}_signature"] = signature
    scores["brevity_penalty"] = whole.bp
    scores["hypothesis_length"] = whole.sys_len
    scores["reference_length"] = whole.ref_len
    return scores


def make_sacrebleu(target_language: str | None = None) -> BLEU:
    """Return sacreBLEU with its tokenizer for the target language.

    If a language has no spaces between words, and sacreBLEU has no tokenizer for the language, text
    in this language is split into characters.

    Raises:
        ImportError: The tokenizer is not installed. Japanese and Korean need an extra of sacrebleu.
    """
    language = base_language(target_language)
    tokenizer = "char" if language in _SPLIT_INTO_CHARACTERS else None
    try:
        return BLEU(tokenize=tokenizer, trg_lang=language, force=True)
    except RuntimeError as error:
        raise ImportError(
            f"sacreBLEU's tokenizer for `target_language` {target_language} must be installed, got "
            f"none. Run: pip install 'sacrebleu[{language}]'"
        ) from error


def _score(
    scorer: BLEU | CHRF, hypotheses: Sequence[str], streams: ReferenceStreams
) -> tuple[float, str]:
    """Return the score and the signature of one of sacreBLEU's metrics."""
    return scorer.corpus_score(hypotheses, streams).score, str(scorer.get_signature())


def _reference_streams(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> ReferenceStreams:
    """Return one list of all first references, one of all second references, and so on.

    If a sentence has fewer references than others, the missing entries are None.
    """
    rows: list[list[Any]] = [
        list(row) if isinstance(row, (list, tuple)) else [row] for row in references
    ]
    if not hypotheses or len(hypotheses) != len(rows) or not all(rows):
        raise ValueError(
            "`references` must hold at least one for each hypothesis, and `hypotheses` must not "
            f"be empty, got {len(hypotheses)} hypotheses and {sum(map(bool, rows))} sentences with "
            "references."
        )
    return [list(stream) for stream in itertools.zip_longest(*rows)]


# ---- the paper's BLEU ----


def tokenize_for_paper_bleu(
    sentences: Sequence[str], target_language: str | None = None
) -> list[str]:
    """Tokenize sentences for the paper's BLEU, and join the tokens by single spaces.

    Special characters are escaped: a quotation mark becomes `&quot;`.

    Args:
        sentences: Raw text.
        target_language: Language code of the text, for example "de" or "fr_CA". None uses the
            rules of English.

    Example:
        >>> tokenize_for_paper_bleu(["Das „Rich-Text“-Format."], "de")
        ['Das „ Rich ##AT##-##AT## Text &quot; -Format .']
    """
    language = base_language(target_language)
    replace_punctuation = sacremoses.MosesPunctNormalizer().replace_unicode_punct
    tokenize = sacremoses.MosesTokenizer(language).tokenize
    texts = [replace_punctuation(sentence.translate(_SEPARATORS)) for sentence in sentences]
    lines = [tokenize(text, return_str=True) for text in texts]
    if language != "de":
        return lines
    # Matches do not overlap, as in the script: in "a-b-c", only the first hyphen becomes a token.
    return [_COMPOUND.sub(r"\1 ##AT##-##AT## \2", line) for line in lines]


def corpus_paper_bleu(
    hypotheses: Sequence[str],
    reference_streams: ReferenceStreams,
    target_language: str | None = None,
) -> tuple[float, str]:
    """Return the paper's BLEU of raw translations, and its signature.

    The score is case-sensitive and not smoothed: it is 0 if no 4-gram of the corpus matches.

    Args:
        hypotheses: One translation for each sentence.
        reference_streams: One list of all first references, one of all second references, and so
            on. An entry is None if its sentence has fewer references than there are lists.
        target_language: Language code, as in `tokenize_for_paper_bleu`.

    Returns:
        BLEU from 0 to 100, and a signature in the format of sacreBLEU.

    Example:
        >>> references = [["Ein Haus."], ["Das Haus."]]
        >>> score, signature = corpus_paper_bleu(["Ein Haus."], references, "de")
        >>> signature
        'nrefs:2|case:mixed|tok:moses-de|punct:unicode-replaced|compounds:split|smooth:none|sacremoses:0.2.0|version:2.6.0'
    """
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    streams: ReferenceStreams = []
    for stream in reference_streams:
        tokenized = iter(
            tokenize_for_paper_bleu([line for line in stream if line is not None], target_language)
        )
        streams.append([None if line is None else next(tokenized) for line in stream])
    score: float = bleu.corpus_score(
        tokenize_for_paper_bleu(hypotheses, target_language), streams
    ).score
    language = base_language(target_language)
    known = bleu.get_signature().info
    compounds = "split" if language == "de" else "whole"
    signature = "|".join(
        (
            f"nrefs:{known['nrefs']}",
            "case:mixed",
            f"tok:moses-{language}",
            "punct:unicode-replaced",
            f"compounds:{compounds}",
            "smooth:none",
            f"sacremoses:{sacremoses.__version__}",
            f"version:{known['version']}",
        )
    )
    return score, signature


def base_language(target_language: str | None) -> str:
    """Return the language code without region and script, or "en" for None.

    If a metric has special rules for the language, a three-letter code is replaced by the
    two-letter code, and Wu Chinese, for example, by Chinese.
    """
    language = re.split("[-_]", (target_language or "en").lower())[0]
    return _SHORT_CODES.get(language, language)


# ---- for evaluate and the trainer ----


class TranslationMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate has no types
    """The scores of `score_translations` as an `evaluate.Metric` that needs no network.

    Example:
        >>> metric = TranslationMetric()
        >>> metric.add_batch(predictions=["Guten Tag !"], references=["Guten Tag !"])
        >>> metric.compute(target_language="de")["sacrebleu_signature"]
        'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0'
    """

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description="The metrics of `inference.METRICS`, each with its signature.",
            citation=(
                "Post, 2018, A Call for Clarity in Reporting BLEU Scores; Vaswani et al., 2017, "
                "section 6."
            ),
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def _compute(
        self, *, predictions: Sequence[str], references: Sequence[Any], **options: Any
    ) -> dict[str, Any]:
        return score_translations(predictions, references, **options)


def make_compute_metrics(
    tokenizer: PreTrainedTokenizerBase, target_language: str | None = None
) -> Callable[[EvalPrediction], dict[str, float]]:
    """Return a `compute_metrics` function for `Seq2SeqTrainer` that scores generated translations.

    The function decodes the references from the labels. It returns scores without signatures,
    because some loggers accept only numbers. `evaluate_model` returns the signatures, too.

    Args:
        tokenizer: Tokenizer of predictions and labels.
        target_language: Language code, as in `score_translations`.
    """

    def decode(ids: Any) -> list[str]:
        # A tokenizer cannot decode the negative ids of ignored labels.
        ids = np.where(np.asarray(ids) < 0, tokenizer.pad_token_id, ids)
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        scores = score_translations(
            decode(prediction.predictions), decode(prediction.label_ids), target_language
        )
        return {name: scores[name] for name in METRICS if name in scores}

    return compute_metrics
