# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import sacrebleu
from test_paper_bleu import naive_bleu
from transformers import EvalPrediction

pytest.importorskip("sacrebleu", reason="needs the extra [eval]")

from vaswani_transformer.inference import METRICS
from vaswani_transformer.inference.metrics import (
    TranslationMetric,
    corpus_paper_bleu,
    make_compute_metrics,
    score_translations,
)

HYPOTHESES = ["the cat sat on the mat with a hat", "there is a small house near the old river"]
REFERENCES = [
    "the cat sat on the red mat with a hat",
    "there is one small house near the old river bank",
]


def test_paper_bleu_is_that_of_the_target_language():
    hypotheses, references = ["ein text-format und ein hund"], ["ein bild-format und ein hund"]
    for language in ("de", "fr", None):
        scores = score_translations(hypotheses, references, language)
        found = scores["paper_bleu"], scores["paper_bleu_signature"]
        assert found == corpus_paper_bleu(hypotheses, [references], language)


def test_tokenized_bleu_takes_words_as_they_are_in_lower_case():
    hypotheses = ["the cat &apos;s hat , (big) is Old .", "no-one sat on THE red mat"]
    references = ["the cat &apos;s hat , (big) was old .", "no-one sat on the mat"]
    expected = naive_bleu([text.lower() for text in hypotheses], [[each] for each in references])
    scores = score_translations(hypotheses, references, "de", tokenized=True)
    assert scores["tokenized_bleu"] == pytest.approx(expected)


def test_scores_carry_their_signatures():
    scores = score_translations(HYPOTHESES, REFERENCES, "de", tokenized=True)
    starts = {
        "sacrebleu": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:",
        "chrf": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:",
        "paper_bleu": "nrefs:1|case:mixed|tok:moses-de|punct:unicode-replaced|compounds:split|smooth:none|sacremoses:",  # noqa: E501
        "tokenized_bleu": "nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:",
    }
    assert list(starts) == list(METRICS)
    assert all(scores[f"{name}_signature"].startswith(start) for name, start in starts.items())


# ---- languages whose words have no spaces between them ----

# Nearly right translations: one word of each differs.
WITHOUT_SPACES = {
    "zh": ("那个男人在公园里看一本旧书", "那个男人在公园里看一本新书", "zh"),
    "zho_Hans": ("孩子们在雪地里玩", "孩子们在草地里玩", "zh"),
    "yue_Hant": ("佢哋喺公園度踢波", "我哋喺公園度踢波", "zh"),
    "th": ("ผู้ชายคนหนึ่งกำลังอ่านหนังสือ", "ผู้หญิงคนหนึ่งกำลังอ่านหนังสือ", "char"),
    "tha_Thai": ("หมาสองตัววิ่งอยู่ในสวน", "แมวสองตัววิ่งอยู่ในสวน", "char"),
    "lo": ("ຜູ້ຊາຍກຳລັງອ່ານປຶ້ມ", "ຜູ້ຍິງກຳລັງອ່ານປຶ້ມ", "char"),
    "km-KH": ("បុរសម្នាក់កំពុងអានសៀវភៅ", "ស្ត្រីម្នាក់កំពុងអានសៀវភៅ", "char"),
    "wuu_Hans": ("伊拉辣公園里踢球", "阿拉辣公園里踢球", "zh"),
    "bod_Tibt": ("ངས་དེབ་ཀློག་གི་ཡོད།", "ཁོས་དེབ་ཀློག་གི་ཡོད།", "char"),
    "dz": ("ང་ལུ་དེབ་གཅིག་ཡོད།", "ཁོ་ལུ་དེབ་གཅིག་ཡོད།", "char"),
    "shn_Mymr": ("ၵူၼ်းၸၢႆးဢၢၼ်ႇပပ်ႉယူႇ", "ၵူၼ်းယိင်းဢၢၼ်ႇပပ်ႉယူႇ", "char"),
    "mya": ("လူတစ်ယောက်စာအုပ်ဖတ်နေသည်", "မိန်းမတစ်ယောက်စာအုပ်ဖတ်နေသည်", "char"),
}


@pytest.mark.parametrize("language", WITHOUT_SPACES)
def test_sacrebleu_counts_characters_when_the_target_has_no_spaces_between_words(
    language, tiny_tokenizer
):
    hypothesis, reference, tokenizer = WITHOUT_SPACES[language]
    scores = score_translations([hypothesis], [reference], language, tokenized=True)
    expected = naive_bleu([" ".join(hypothesis)], [[" ".join(reference)]])
    assert scores["sacrebleu"] == pytest.approx(expected) and expected > 40
    assert f"|tok:{tokenizer}|" in scores["sacrebleu_signature"]
    assert (scores["hypothesis_length"], scores["reference_length"]) == (
        len(hypothesis),
        len(reference),
    )
    assert scores["chrf"] == score_translations([hypothesis], [reference])["chrf"]
    assert set(METRICS) & scores.keys() == {"sacrebleu", "chrf"}  # the others need spaces
    ids = np.array([[1, 2]])
    assert make_compute_metrics(tiny_tokenizer, language)(EvalPrediction(ids, ids)).keys() == {
        "sacrebleu",
        "chrf",
    }


@pytest.mark.parametrize(
    "language", [None, "", "de", "deu", "fra_Latn", "pt-BR", "ru", "ar", "hi", "el", "vi", "tr"]
)
def test_scores_are_those_of_13a_when_words_have_spaces_between_them(language):
    hypotheses, references = ["Это новая книга, не так ли?"], ["Это старая книга, не так ли?"]
    scores = score_translations(hypotheses, references, language, tokenized=True)
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="13a")
    assert scores["sacrebleu"] == expected.score
    assert "|tok:13a|" in scores["sacrebleu_signature"]
    assert set(METRICS) <= scores.keys()


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("deu_Latn", "de"),
        ("ger", "de"),
        ("fra", "fr"),
        ("fre-CA", "fr"),
        ("ita", "it"),
        ("est_Latn", "et"),
    ],
)
def test_paper_bleu_is_that_of_the_language_when_its_code_is_long(long, short):
    pair = ["Das Text-Format ist's, dell'arte."], [["Das Bild-Format ist's, dell'arte."]]
    assert corpus_paper_bleu(*pair, long) == corpus_paper_bleu(*pair, short)


@pytest.mark.parametrize(
    ("language", "extra"), [("ja_JP", "ja"), ("jpn_Jpan", "ja"), ("ko", "ko"), ("kor", "ko")]
)
def test_scores_name_the_extra_when_the_tokeniser_is_missing(language, extra, monkeypatch):
    monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{extra}_mecab.MeCab", None)
    with pytest.raises(
        ImportError, match=rf"`target_language` {language} must .*'sacrebleu\[{extra}\]'"
    ):
        score_translations(["本"], ["本"], language)


# ---- references ----


@pytest.mark.parametrize(("hypotheses", "references"), [(["a"], REFERENCES), ([], [])])
def test_scores_refuse_different_numbers_of_sentences_and_none(hypotheses, references):
    with pytest.raises(ValueError, match="`references`"):
        score_translations(hypotheses, references)


@pytest.mark.parametrize("references", [REFERENCES, [[reference] for reference in REFERENCES]])
def test_metric_adds_batches_to_the_score_of_the_whole(references, tmp_path):
    metric = TranslationMetric(cache_dir=str(tmp_path))
    for hypothesis, reference in zip(HYPOTHESES, references, strict=True):
        metric.add_batch(predictions=[hypothesis], references=[reference])
    options = {"target_language": "de", "tokenized": True}
    assert metric.compute(**options) == score_translations(HYPOTHESES, REFERENCES, **options)


def test_compute_metrics_ignores_minus_100_in_predictions_and_labels(tiny_tokenizer):
    labels = tiny_tokenizer(["Ein Hund rennt im Park.", "Ein Buch."], padding=True)["input_ids"]
    ids = np.array(labels)
    padded = np.where(ids == tiny_tokenizer.pad_token_id, -100, ids)
    assert (padded == -100).any()
    metrics = make_compute_metrics(tiny_tokenizer)(
        EvalPrediction(predictions=padded, label_ids=padded)
    )
    assert metrics == dict.fromkeys(("sacrebleu", "chrf", "paper_bleu"), pytest.approx(100.0))
