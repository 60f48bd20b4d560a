# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import math
from collections import Counter

import numpy as np
import pytest
from transformers import EvalPrediction

pytest.importorskip("sacrebleu", reason="needs the extra [eval]")
pytest.importorskip("evaluate", reason="needs the extra [eval]")

from vaswani_transformer.evaluation.metrics import SacreBleu, make_compute_metrics, score_translations

HYPOTHESES = ["the cat sat on the mat with a hat", "there is a small house near the old river"]
REFERENCES = ["the cat sat on the red mat with a hat", "there is one small house near the old river bank"]


def naive_bleu(hypotheses, references):
    """BLEU-4 of sentences without punctuation, by the formula of Papineni et al. 2002."""
    log_precision = 0.0
    for order in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            h, r = hypothesis.split(), reference.split()
            ours = Counter(tuple(h[i : i + order]) for i in range(len(h) - order + 1))
            theirs = Counter(tuple(r[i : i + order]) for i in range(len(r) - order + 1))
            matches += sum((ours & theirs).values())
            total += sum(ours.values())
        log_precision += math.log(matches / total) / 4
    ours, theirs = (sum(len(text.split()) for text in texts) for texts in (hypotheses, references))
    return 100 * min(1.0, math.exp(1 - theirs / ours)) * math.exp(log_precision)


def test_sacrebleu_equals_the_formula():
    assert score_translations(HYPOTHESES, REFERENCES)["sacrebleu"] == pytest.approx(naive_bleu(HYPOTHESES, REFERENCES))


def test_chrf_equals_the_value_by_hand():
    # One common letter: precision 1/1, recall 1/2, F2 = 5 x 1 x 1/2 / (4 x 1 + 1/2); no longer n-gram counts.
    assert score_translations(["a"], ["ab"])["chrf"] == pytest.approx(100 * 2.5 / 4.5)


def test_sacrebleu_is_100_for_the_reference_and_sees_case():
    references = ["Das ist ein kleines Haus ."]
    assert score_translations(references, references)["sacrebleu"] == pytest.approx(100.0)
    assert score_translations(["das ist Ein kleines haus ."], references)["sacrebleu"] < 50.0


def test_scores_carry_their_signatures():
    scores = score_translations(HYPOTHESES, REFERENCES)
    assert scores["sacrebleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert scores["chrf_signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_scores_take_the_better_of_several_references():
    several = [["something else altogether here", reference] for reference in REFERENCES]
    assert score_translations(REFERENCES, several)["sacrebleu"] == pytest.approx(100.0)


def test_scores_refuse_different_numbers_of_sentences():
    with pytest.raises(ValueError, match=r"`hypotheses` must be as many as `references`, got 1 and 2"):
        score_translations(["a"], REFERENCES)


def test_scores_refuse_nothing():
    with pytest.raises(ValueError, match="`hypotheses` must not be empty"):
        score_translations([], [])


@pytest.mark.parametrize("references", [REFERENCES, [[reference] for reference in REFERENCES]])
def test_metric_adds_batches_to_the_score_of_the_whole(references, tmp_path):
    metric = SacreBleu(cache_dir=str(tmp_path))
    for hypothesis, reference in zip(HYPOTHESES, references, strict=True):
        metric.add_batch(predictions=[hypothesis], references=[reference])
    assert metric.compute() == score_translations(HYPOTHESES, REFERENCES)


def test_metric_computes_again_after_a_first_time(tmp_path):
    metric = SacreBleu(cache_dir=str(tmp_path))
    first = metric.compute(predictions=HYPOTHESES, references=REFERENCES)
    assert metric.compute(predictions=HYPOTHESES, references=REFERENCES) == first


def test_compute_metrics_ignores_minus_100_in_predictions_and_labels(tiny_tokenizer):
    labels = tiny_tokenizer(["Ein Hund rennt im Park.", "Ein Buch."], padding=True)["input_ids"]
    ids = np.array(labels)
    padded = np.where(ids == tiny_tokenizer.pad_token_id, -100, ids)
    assert (padded == -100).any()
    metrics = make_compute_metrics(tiny_tokenizer)(EvalPrediction(predictions=padded, label_ids=padded))
    assert metrics == {"sacrebleu": pytest.approx(100.0), "chrf": pytest.approx(100.0)}


def test_compute_metrics_takes_the_first_of_several_predictions(tiny_tokenizer):
    ids = np.array(tiny_tokenizer(["Zwei Frauen lesen ein Buch."])["input_ids"])
    prediction = EvalPrediction(predictions=(ids, np.zeros((1, 2))), label_ids=ids)
    assert make_compute_metrics(tiny_tokenizer)(prediction)["sacrebleu"] == pytest.approx(100.0)
