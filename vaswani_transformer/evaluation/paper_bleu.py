# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The BLEU of the paper's tables: Moses tokens, German compounds split, counted as by multi-bleu.perl.

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

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from ..extras import requiring

with requiring("eval", "for the paper's BLEU"):
    import sacremoses
    from sacrebleu.metrics.bleu import BLEU

# First references of all sentences, second references, ...; None, of which sacreBLEU's types do not know, where a
# sentence has fewer.
ReferenceStreams: TypeAlias = list[list[Any]]

_FALLBACK_LANGUAGE = "en"
_COMPOUND = re.compile(r"(\S)-(\S)")
# Python takes these for white space; Perl does not, so that Moses deletes them as it does other control characters.
_SEPARATORS = dict.fromkeys(range(0x1C, 0x20))


def tokenize_for_paper_bleu(sentences: Sequence[str], target_language: str | None = None) -> list[str]:
    """Sentences as the paper's BLEU counts them: tokens between single spaces, special characters escaped.

    Args:
        sentences: Raw text.
        target_language: Its language code, for example "de" or "fr_CA"; None means the rules of English.

    Example:
        >>> tokenize_for_paper_bleu(["Das „Rich-Text“-Format."], "de")
        ['Das „ Rich ##AT##-##AT## Text &quot; -Format .']
    """
    language = _language(target_language)
    replace_punctuation = sacremoses.MosesPunctNormalizer().replace_unicode_punct
    tokenize = sacremoses.MosesTokenizer(language).tokenize
    texts = [replace_punctuation(sentence.translate(_SEPARATORS)) for sentence in sentences]
    lines = [tokenize(text, return_str=True) for text in texts]
    return [_split_compounds(line) for line in lines] if language == "de" else lines


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
    streams = [_tokenize_stream(stream, target_language) for stream in reference_streams]
    score: float = bleu.corpus_score(tokenize_for_paper_bleu(hypotheses, target_language), streams).score
    return score, _signature(bleu, _language(target_language))


def _language(target_language: str | None) -> str:
    """The language without its region, as Moses names its rules."""
    return re.split("[-_]", (target_language or _FALLBACK_LANGUAGE).lower())[0]


def _split_compounds(line: str) -> str:
    """Hyphens within words made tokens of their own, in one pass: the next word is looked at behind the last match."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def _tokenize_stream(stream: list[Any], target_language: str | None) -> list[Any]:
    tokenized = iter(tokenize_for_paper_bleu([line for line in stream if line is not None], target_language))
    return [None if line is None else next(tokenized) for line in stream]


def _signature(bleu: BLEU, language: str) -> str:
    known = bleu.get_signature().info
    compounds = "split" if language == "de" else "whole"
    return (
        f"nrefs:{known['nrefs']}|case:mixed|tok:moses-{language}|punct:unicode-replaced|compounds:{compounds}|"
        f"smooth:none|sacremoses:{sacremoses.__version__}|version:{known['version']}"
    )
