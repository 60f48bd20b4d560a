# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import math

import pytest
import torch
from search_checks import log_probs_of
from tiny import SENTENCES, make_model

from vaswani_transformer.beam_search_vaswani_transformer import gnmt_length_penalty
from vaswani_transformer.inference import score as scoring
from vaswani_transformer.inference.score import score_batch, score_pairs

SOURCES = [SENTENCES[0], "A", "", "Two women read  a book.", "dog", ""]
TARGETS = [SENTENCES[1], "Ein Hund liest ein Buch, ein Hund rennt.", "Park", "", "é 日", ""]


def naive_log_prob(model, tokenizer, source, target):
    """Sum over the target's tokens of log P(token | source, tokens before it), one unpadded call
    for each.
    """
    source_ids, target_ids = (tokenizer(text)["input_ids"] for text in (source, target))
    total = 0.0
    for number, token in enumerate(target_ids):
        prefix = torch.tensor([[1, *target_ids[:number]]])
        with torch.no_grad():
            logits = model(torch.tensor([source_ids]), decoder_input_ids=prefix).logits[0, -1]
        total += math.log(
            math.exp(logits[token].item()) / sum(math.exp(logit) for logit in logits.tolist())
        )
    return total


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("max_tokens_per_batch", [1, 40, 4096])
def test_score_pairs_equals_one_call_for_each_token(
    tiny_tokenizer, positions, max_tokens_per_batch
):
    model = make_model(scale=2.5, position_encoding=positions).double()
    scores = list(
        score_pairs(
            model, tiny_tokenizer, SOURCES, TARGETS, max_tokens_per_batch=max_tokens_per_batch
        )
    )
    expected = [
        naive_log_prob(model, tiny_tokenizer, *pair) for pair in zip(SOURCES, TARGETS, strict=True)
    ]
    assert [score.log_prob for score in scores] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "alpha", "offset"), [(None, 0.3, 5), (0.0, 0.0, 5), (-1.5, -1.5, 5), (None, 0.3, 0)]
)
def test_score_pairs_divides_by_the_length_penalty(
    tiny_model, tiny_tokenizer, given, alpha, offset
):
    tiny_model.generation_config.update(length_penalty=0.3, length_penalty_offset=offset)
    for score in score_pairs(tiny_model, tiny_tokenizer, SOURCES, TARGETS, length_penalty=given):
        penalty = math.pow((offset + score.length) / (offset + 1), alpha)
        assert score.score == pytest.approx(score.log_prob / penalty)


def test_words_have_the_mean_of_their_tokens(tiny_model, tiny_tokenizer):
    source, target = (
        tiny_tokenizer("A dog runs.")["input_ids"],
        tiny_tokenizer("Ein Hund liest.")["input_ids"],
    )
    each = log_probs_of(tiny_model, source, target).tolist()
    (score,) = score_pairs(tiny_model, tiny_tokenizer, ["A dog runs."], ["Ein Hund liest."])
    start, words = 0, ["Ein", "Hund", "liest."]
    for number, found in enumerate(score.words):
        end = len(tiny_tokenizer(" ".join(words[: number + 1]))["input_ids"]) - 1
        mean = sum(each[start:end]) / (end - start)
        assert found == {"word": words[number], "score": pytest.approx(mean, abs=1e-5)}
        start = end
    assert start == len(target) - 1 and len(score.words) == 3


def test_score_batch_equals_the_scores_of_beam_search(tiny_tokenizer):
    model = make_model(scale=2.5).double()
    source = [5, 6, 7, 2]
    found = model.generate(
        torch.tensor([source]), num_return_sequences=4, return_dict_in_generate=True
    )
    targets = [
        [*row[1 : row.index(2)], 2] if 2 in row else row[1:] for row in found.sequences.tolist()
    ]
    log_probs = score_batch(model, tiny_tokenizer, [(source, target) for target in targets], 50)
    scores = [sum(each) / gnmt_length_penalty(len(each), 0.6) for each in log_probs]
    assert scores == pytest.approx(found.sequences_scores.tolist(), rel=1e-12)


@pytest.mark.parametrize(("budget", "most"), [(10, 20), (40, 40), (1000, 60)])
def test_score_batch_holds_no_more_distributions_than_the_budget_or_one_sentence_has(
    budget, most, tiny_tokenizer
):
    model = make_model()
    sizes = []
    model.lm_head.register_forward_hook(
        lambda module, args, output: sizes.append(output.shape[:-1].numel())
    )
    found = score_batch(
        model, tiny_tokenizer, [([5, 2], [7] * 20), ([5, 6, 2], [8] * 3), ([5], [9])], budget
    )
    assert max(sizes) == most
    assert [len(each) for each in found] == [20, 3, 1]


def test_score_batch_takes_the_logarithm_of_half_precision_logits_in_fp32(tiny_tokenizer):
    model = make_model(scale=2.5).to(torch.bfloat16)
    logits = []
    model.lm_head.register_forward_hook(lambda module, args, output: logits.append(output))
    ((first, second, third),) = score_batch(model, tiny_tokenizer, [([5, 2], [7, 8, 2])], 10)
    expected = logits[0][0].double().log_softmax(-1)[[0, 1, 2], [7, 8, 2]].tolist()
    assert [first, second, third] == pytest.approx(expected, rel=1e-6)


def test_score_pairs_refuses_batches_of_no_token(tiny_model, tiny_tokenizer):
    with pytest.raises(ValueError, match="`max_tokens_per_batch` must be at least 1, got 0"):
        next(score_pairs(tiny_model, tiny_tokenizer, SOURCES, TARGETS, max_tokens_per_batch=0))


def test_score_pairs_reads_streams_chunk_by_chunk(tiny_model, tiny_tokenizer, monkeypatch):
    monkeypatch.setattr(scoring, "SENTENCES_PER_CHUNK", 2)
    read = []
    sources = (read.append(source) or source for source in SOURCES)
    next(score_pairs(tiny_model, tiny_tokenizer, sources, iter(TARGETS)))
    assert read == SOURCES[:2]
