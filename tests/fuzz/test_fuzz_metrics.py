# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Any texts through the metrics, against sacreBLEU's own functions and against themselves."""

import math

import pytest
import sacrebleu
from hypothesis import strategies as st
from nasty import fuzz, texts

pytest.importorskip("evaluate", reason="needs the extra [eval]")

from vaswani_transformer.inference import METRICS
from vaswani_transformer.inference.metrics import score_translations, tokenize_for_paper_bleu

pytestmark = pytest.mark.slow

PAIRS = st.lists(st.tuples(texts, texts), min_size=1, max_size=5)
LANGUAGES = st.sampled_from([None, "de", "fr", "en", "zh", "th-TH", "ga", "de-AT", "xx", ""])


def split(pairs):
    return [list(side) for side in zip(*pairs, strict=True)]


@fuzz(2000, short=30, pairs=PAIRS, language=LANGUAGES)
def test_scores_lie_between_0_and_100_and_equal_sacrebleus(pairs, language):
    hypotheses, references = split(pairs)
    scores = score_translations(hypotheses, references, language, tokenized=True)
    found = METRICS.keys() & scores.keys()
    assert all(math.isfinite(scores[name]) and 0 <= scores[name] <= 100 + 1e-9 for name in found)
    tokenizer = {"zh": "zh", "th-TH": "char"}.get(language, "13a")
    expected = sacrebleu.corpus_bleu(hypotheses, [references], force=True, tokenize=tokenizer).score
    assert scores["sacrebleu"] == expected
    assert scores["chrf"] == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert (
        score_translations(hypotheses, [[reference] for reference in references], language, True)
        == scores
    )


@fuzz(4000, short=15, text=texts, language=LANGUAGES)
def test_tokens_of_the_paper_bleu_stand_in_one_line_between_single_spaces(text, language):
    (line,) = tokenize_for_paper_bleu([text], language)
    assert line == " ".join(line.split(" "))
    assert not {"\n", "\r"} & set(line)
