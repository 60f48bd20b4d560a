# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.1's search against exhaustive search, against a naive beam search, and alone against in a batch."""

import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from naive_search import beam_search, best, continuations, exhaustive_search, generated_tokens, gnmt_score
from search_checks import MAX_FLIPPED, count_flips, decode, needs_trained_model, pad, without_padding
from tiny import make_config, make_model
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, LogitsProcessor, LogitsProcessorList, StoppingCriteria
from transformers.generation.logits_process import MinNewTokensLengthLogitsProcessor

from vaswani_transformer import VaswaniTransformerForConditionalGeneration
from vaswani_transformer.search_vaswani_transformer import gnmt_length_penalty

VOCABULARY = 6  # <pad>, <s>, </s> and three words
LIMIT = 4

# What the search must not depend on: depth, head widths, positions.
SHAPES = [
    {},
    {"num_encoder_layers": 1, "num_decoder_layers": 3},
    {"d_k": 4, "d_v": 12},
    {"position_encoding": "learned", "max_position_embeddings": 64},
]


def tiny_vocabulary_model(seed):
    torch.manual_seed(seed)
    model = VaswaniTransformerForConditionalGeneration(make_config(vocab_size=VOCABULARY)).eval()
    with torch.no_grad():
        model.model.shared.weight.mul_(2.0)
    return model


def random_model(seed, vocab_size=12):
    return make_model(seed=seed, scale=2.5, vocab_size=vocab_size, **SHAPES[seed % len(SHAPES)])


def random_sentences(seed, num_sentences=None, vocab_size=12):
    draw = random.Random(seed)
    lengths = [draw.randint(1, 9) for _ in range(num_sentences or draw.randint(2, 5))]
    return [[draw.randrange(3, vocab_size) for _ in range(length)] + [2] for length in lengths]


def test_gnmt_length_penalty_is_the_formula():
    assert gnmt_length_penalty(7, 0.6) == pytest.approx((12 / 6) ** 0.6)
    assert gnmt_length_penalty(1, 0.6) == 1.0
    assert gnmt_length_penalty(7, 0.6, 0) == pytest.approx(7**0.6)


# ---- exhaustive search ----


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.6, 0.0, 1.5, -0.7])
def test_search_finds_the_exhaustive_best_with_more_beams_than_hypotheses(alpha):
    for seed in range(6):
        model = tiny_vocabulary_model(seed).double()
        source = torch.randint(3, VOCABULARY, (1, 3))
        options = {"num_beams": 400, "num_return_sequences": 3, "length_penalty": alpha, "max_new_tokens": LIMIT}
        found = decode(model, source.tolist(), **options)
        expected = exhaustive_search(model, source, alpha, LIMIT)[:3]
        assert [tokens for tokens, _ in found] == [tokens for _, tokens in expected]
        assert [score for _, score in found] == pytest.approx([score for score, _ in expected], abs=1e-12)


def test_hypotheses_that_do_not_exist_are_returned_as_padding():
    model = tiny_vocabulary_model(0)
    out = model.generate(
        torch.tensor([[3, 4, 2]]),
        num_beams=8,
        num_return_sequences=8,
        max_new_tokens=1,
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert sorted(out.sequences[:VOCABULARY, 1].tolist()) == list(range(VOCABULARY))
    assert out.sequences[VOCABULARY:].tolist() == [[1, 0], [1, 0]]
    assert out.sequences_scores[VOCABULARY:].max() < -1e8
    assert (out.beam_indices[VOCABULARY:] == -1).all() and (out.beam_indices[:VOCABULARY, 0] >= 0).all()


# ---- a naive beam search ----


def assert_equals_naive_search(model, sentence, found, *, limit, num_best=1, prefix=(1,), **options):
    expected = beam_search(model, torch.tensor([sentence]), limit, prefix=prefix, **options)[:num_best]
    found = [(without_padding(tokens), score) for tokens, score in found[: len(expected)]]
    assert [tokens for tokens, _ in found] == [without_padding(tokens) for _, tokens in expected]
    assert [score for _, score in found] == pytest.approx([score for score, _ in expected], abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "over_source"), [(0.6, 50), (0.0, 8), (1.0, 8), (-1.0, 8)])
def test_search_equals_a_naive_beam_search_that_never_stops_early(alpha, over_source):
    lengths = []
    for seed in range(8):
        model, sentence = random_model(seed).double(), random_sentences(seed, 1)[0]
        found = decode(model, [sentence], length_penalty=alpha, max_new_tokens_over_source=over_source)
        assert_equals_naive_search(model, sentence, found, limit=len(sentence) + over_source, alpha=alpha)
        lengths.append(len(found[0][0]) < len(sentence) + over_source)
    assert any(lengths)  # some end by themselves


@pytest.mark.slow
@pytest.mark.parametrize("given", ["in the call", "in the model's config"])
@pytest.mark.parametrize(("alpha", "offset"), [(1.0, 0), (-1.0, 0), (2.0, 20)])
def test_search_equals_a_naive_beam_search_under_another_offset(alpha, offset, given):
    for seed in range(8):
        model, sentence = random_model(seed).double(), random_sentences(seed, 1)[0]
        penalty = {"length_penalty": alpha, "length_penalty_offset": offset}
        if given == "in the model's config":
            model.generation_config.update(**penalty)
            penalty = {}
        found = decode(model, [sentence], max_new_tokens_over_source=8, num_return_sequences=2, **penalty)
        expected = {"limit": len(sentence) + 8, "alpha": alpha, "offset": offset}
        assert_equals_naive_search(model, sentence, found, num_best=2, **expected)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_scores_know_the_offset(num_beams):
    model, sentence = random_model(0).double(), random_sentences(0, 1)[0]
    (tokens, score), *_ = decode(model, [sentence], num_beams=num_beams, length_penalty=1.0, length_penalty_offset=0)
    tokens = without_padding(tokens)
    expected = log_probability(model, torch.tensor([sentence]), tokens) / len(tokens)
    assert score == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("offset", [-1, float("nan")])
def test_an_impossible_offset_is_refused(offset):
    with pytest.raises(ValueError, match="`length_penalty_offset` must be a finite number of at least 0, got"):
        random_model(0).generate(torch.tensor([[5, 2]]), length_penalty_offset=offset)


@pytest.mark.slow
def test_search_equals_a_naive_beam_search_on_random_batches():
    for seed in range(24):
        model, sentences = random_model(seed).double(), random_sentences(seed)
        num_beams, num_best = 2 + seed % 4, 1 + seed % 2
        options = {"num_beams": num_beams, "max_new_tokens_over_source": 6}
        found = decode(model, sentences, num_return_sequences=num_best, **options)
        for row, sentence in enumerate(sentences):
            own, limit = found[row * num_best : (row + 1) * num_best], len(sentence) + 6
            assert_equals_naive_search(model, sentence, own, limit=limit, num_beams=num_beams, num_best=num_best)


@pytest.mark.parametrize("num_best", [1, 4])
def test_forced_prefix_counts_neither_in_the_score_nor_in_the_limit(num_best):
    for seed in range(6):
        model, sentence = random_model(seed).double(), random_sentences(seed, 1)[0]
        prefix = [1, 5, 7]
        out = model.generate(
            torch.tensor([sentence]),
            decoder_input_ids=torch.tensor([prefix]),
            num_return_sequences=num_best,
            max_new_tokens_over_source=4,
            return_dict_in_generate=True,
            output_scores=True,
        )
        assert out.sequences[:, :3].tolist() == [prefix] * num_best
        rows, limit = [generated_tokens(row, 3) for row in out.sequences], len(sentence) + 4
        found = list(zip(rows, out.sequences_scores.tolist(), strict=True))
        assert_equals_naive_search(model, sentence, found, limit=limit, num_best=num_best, prefix=prefix)


# ---- one rule for the score ----


def log_probability(model, source, tokens, prefix=(1,)):
    """Sum over the generated tokens of their log-probability, one forward pass at a time."""
    total, decoder = 0.0, list(prefix)
    for token in tokens:
        with torch.no_grad():
            logits = model(source, decoder_input_ids=torch.tensor([decoder])).logits[0, -1]
        total += torch.log_softmax(logits, -1)[token].item()
        decoder.append(token)
    return total


SEARCHES = {
    "beam": {"num_beams": 4},
    "n-best": {"num_beams": 4, "num_return_sequences": 3},
    "greedy": {"num_beams": 1},
    "sampling": {"do_sample": True, "num_beams": 1, "num_return_sequences": 3},
    "beam sampling": {"do_sample": True, "num_beams": 4, "num_return_sequences": 2},
    "attentions": {"num_beams": 4, "output_attentions": True, "output_logits": True},
    "no cache": {"num_beams": 4, "use_cache": False},
    "greedy with logits": {"num_beams": 1, "output_logits": True},
    "no early tokens": {
        "num_beams": 4,
        "logits_processor": LogitsProcessorList([MinNewTokensLengthLogitsProcessor(1, 6, 2)]),
    },
    "greedy, no early tokens": {
        "num_beams": 1,
        "logits_processor": LogitsProcessorList([MinNewTokensLengthLogitsProcessor(1, 6, 2)]),
    },
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SEARCHES)
def test_sequences_scores_are_gnmt_scores_of_the_returned_sequences(name, dtype):
    model, sentences = random_model(0, vocab_size=20).to(dtype), random_sentences(3, 2, vocab_size=20)
    torch.manual_seed(0)
    found = decode(model, sentences, max_new_tokens_over_source=8, **SEARCHES[name])
    num_best = SEARCHES[name].get("num_return_sequences", 1)
    assert len(found) == 2 * num_best
    for row, (tokens, score) in enumerate(found):
        tokens, source = without_padding(tokens), torch.tensor([sentences[row // num_best]])
        expected = gnmt_score(log_probability(model, source, tokens), len(tokens), 0.6)
        assert score == pytest.approx(expected, abs=1e-4 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_scores_come_without_keeping_those_of_every_step(num_beams):
    out = random_model(0).generate(torch.tensor([[5, 2]]), num_beams=num_beams, return_dict_in_generate=True)
    assert out.sequences_scores.shape == (1,)
    assert out.scores is None and out.logits is None


@pytest.mark.slow
def test_scores_of_greedy_search_count_the_end():
    ended = 0
    for seed in range(30):
        model, sentence = random_model(seed).double(), random_sentences(seed, 1)[0]
        (tokens, score), *_ = decode(model, [sentence], num_beams=1)
        if tokens[-1] != 2:
            continue
        ended += 1
        expected = gnmt_score(log_probability(model, torch.tensor([sentence]), tokens), len(tokens), 0.6)
        assert score == pytest.approx(expected, abs=1e-12)
    assert ended >= 3


@pytest.mark.parametrize("output_logits", [False, True], ids=["own search", "the library's"])
def test_scores_of_greedy_search_count_the_end_when_it_is_the_padding_too(output_logits):
    """Some sentences end by themselves, some at limits of their own."""
    ended = 0
    for seed in range(6):
        model, sentences = random_model(seed).double(), random_sentences(seed, 4)
        options = {"num_beams": 1, "suppress_tokens": [0], "output_logits": output_logits}
        options |= {"max_new_tokens_over_source": 2, "return_dict_in_generate": True}
        found = model.generate(**pad(sentences), **options, pad_token_id=2)
        expected = model.generate(**pad(sentences), **options)
        assert found.sequences_scores.tolist() == expected.sequences_scores.tolist()
        ended += (expected.sequences == 2).any(dim=1).sum().item()
    assert 0 < ended < 6 * 4


class Forced(LogitsProcessor):
    """Lets nothing but these tokens be generated."""

    def __init__(self, tokens):
        self.tokens = tokens

    def __call__(self, input_ids, scores):
        token = torch.tensor(self.tokens[input_ids.shape[1] - 1])
        return torch.full_like(scores, -torch.inf).index_fill(1, token, 0.0)


def test_scores_of_greedy_search_count_padding_between_words():
    model, source, tokens = random_model(0).double(), torch.tensor([[5, 6, 2]]), [5, 0, 0, 6, 2]
    out = model.generate(source, num_beams=1, logits_processor=[Forced(tokens)], return_dict_in_generate=True)
    assert out.sequences[0].tolist() == [1, *tokens]
    expected = gnmt_score(log_probability(model, source, tokens), 5, 0.6)
    assert out.sequences_scores.item() == pytest.approx(expected, abs=1e-12)


class FirstRowStopsEarly(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return torch.tensor([input_ids.shape[1] >= 3, False])


def test_scores_of_greedy_search_end_where_a_criterion_of_the_callers_ends_it():
    model, source = random_model(0).double(), torch.tensor([[5, 6, 2], [7, 8, 2]])
    options = {"num_beams": 1, "max_new_tokens": 6, "suppress_tokens": [0, 2], "return_dict_in_generate": True}
    out = model.generate(source, stopping_criteria=[FirstRowStopsEarly()], **options)
    tokens = out.sequences[0].tolist()
    assert tokens[3:] == [0, 0, 0, 0]
    expected = gnmt_score(log_probability(model, source[:1], tokens[1:3]), 2, 0.6)
    assert out.sequences_scores[0].item() == pytest.approx(expected, abs=1e-12)


def test_scores_of_greedy_search_know_the_shortest_output():
    model, source = random_model(0).double(), torch.tensor([[5, 6, 2]])
    out = model.generate(source, num_beams=1, forced_bos_token_id=2, return_dict_in_generate=True)
    assert generated_tokens(out.sequences[0]) == [2]
    assert out.sequences_scores.item() == pytest.approx(log_probability(model, source, [2]), abs=1e-12)


def test_attentions_of_the_search_cover_prefix_and_source():
    model = random_model(0)
    batch = pad([[5, 6, 7, 2], [5, 2]])
    out = model.generate(**batch, return_dict_in_generate=True, output_attentions=True, max_new_tokens=5)
    assert out.cross_attentions[0][0].shape == (8, 2, 1, 4)
    assert torch.allclose(out.cross_attentions[-1][-1].sum(-1), torch.tensor(1.0))
    assert not out.cross_attentions[0][0][4:, :, :, 2:].any()  # padding of the second sentence


class FirstEndThenRaise(LogitsProcessor):
    """Makes an early end all but certain, and lifts a later one above log-probability 0."""

    def __call__(self, input_ids, scores):
        scores[:, 2] = 10.0 if input_ids.shape[1] > 5 else -0.01
        return scores


def test_search_waits_for_every_beam_when_a_processor_can_raise_scores():
    model = make_model(scale=2.5, vocab_size=20)
    source = torch.randint(3, 20, (1, 5))
    options = {"suppress_tokens": [0], "return_dict_in_generate": True, "output_scores": True}
    out = model.generate(source, logits_processor=LogitsProcessorList([FirstEndThenRaise()]), **options)
    assert out.sequences_scores.item() > 0
    assert len(generated_tokens(out.sequences[0])) > 5


def naive_number_of_steps(model, sentence, limit, num_beams, num_best, alpha):
    """Steps after which no running hypothesis, at its best possible length, can enter the `num_best` finished ones."""
    running, finished = [(0.0, [1])], []
    for length in range(1, limit + 1):
        candidates = best(continuations(model, torch.tensor([sentence]), running), 2 * num_beams)
        for total, tokens in candidates[:num_beams]:
            if tokens[-1] == 2 or length == limit:
                finished.append(gnmt_score(total, length, alpha))
        running = [candidate for candidate in candidates if candidate[1][-1] != 2][:num_beams]
        best_length = limit if alpha >= 0 else length + 1
        finished = sorted(finished, reverse=True)[:num_beams]
        if len(finished) >= num_best and finished[num_best - 1] >= gnmt_score(running[0][0], best_length, alpha):
            return length
    return limit


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.6, 0.0, -1.0])
def test_search_stops_exactly_when_the_bound_proves_that_nothing_can_change(alpha):
    early = 0
    for seed in range(12):
        model, sentence = random_model(seed).double(), random_sentences(seed, 1)[0]
        num_best = 1 + seed % 2
        out = model.generate(
            torch.tensor([sentence]),
            num_return_sequences=num_best,
            length_penalty=alpha,
            max_new_tokens_over_source=12,
            return_dict_in_generate=True,
            output_scores=True,
        )
        limit = len(sentence) + 12
        assert len(out.scores) == naive_number_of_steps(model, sentence, limit, 4, num_best, alpha)
        early += len(out.scores) < limit
    assert early >= 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unfinished_fragments_are_no_hypotheses(dtype):
    model, allowed = make_model(seed=2).to(dtype), [[5, 2], [6, 7, 2]]

    def following(batch, ids):
        prefix = ids.tolist()[1:]
        return [row[len(prefix)] for row in allowed if row[: len(prefix)] == prefix and len(row) > len(prefix)] or [2]

    options = {"prefix_allowed_tokens_fn": following, "num_beams": 4, "num_return_sequences": 4}
    out = model.generate(torch.tensor([[5, 6, 2]]), return_dict_in_generate=True, **options)
    assert sorted(generated_tokens(row) for row in out.sequences[:2]) == allowed
    assert not out.sequences[2:, 1:].any()
    assert out.sequences_scores[2:].tolist() == [-torch.inf] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [-10.0, 10.0])
def test_extreme_length_penalties_rank_as_any_other(alpha, dtype):
    model, sentence = random_model(1).to(dtype), [5, 6, 2]
    found = decode(model, [sentence], length_penalty=alpha, max_new_tokens=40, min_new_tokens=30, suppress_tokens=[0])
    (tokens, score), *_ = found
    assert len(tokens) >= 30
    expected = gnmt_score(log_probability(model, torch.tensor([sentence]), tokens), len(tokens), alpha)
    assert score == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_threads_do_not_disturb_each_other_in_float64():
    model, sentences = random_model(0).double(), random_sentences(5, 8) * 3
    expected = [decode(model, [sentence], max_new_tokens_over_source=6) for sentence in sentences]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda sentence: decode(model, [sentence], max_new_tokens_over_source=6), sentences))
    finally:
        sys.setswitchinterval(interval)
    assert found == expected


# ---- alone and in a batch ----


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [1, 4])
def test_search_does_not_depend_on_the_batch_at_all_in_float64(num_beams):
    options = {"num_beams": num_beams, "max_new_tokens_over_source": 6}
    for seed in range(24):
        count_flips(random_model(seed).double(), [random_sentences(seed)], **options)


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [1, 4])
def test_search_depends_on_the_batch_in_near_ties_alone_in_fp32(num_beams):
    options = {"num_beams": num_beams, "max_new_tokens_over_source": 6}
    counts = [count_flips(random_model(seed), [random_sentences(seed)], **options) for seed in range(40)]
    num_sentences, num_flipped = map(sum, zip(*counts, strict=True))
    assert num_flipped <= MAX_FLIPPED * num_sentences


@pytest.mark.slow
@pytest.mark.parametrize("early_stopping", [True, "never"])
def test_search_with_another_stop_does_not_depend_on_the_batch(early_stopping):
    options = {"early_stopping": early_stopping, "max_new_tokens_over_source": 8}
    for seed in range(12):
        count_flips(random_model(seed).double(), [random_sentences(seed)], **options)


def test_scores_do_not_depend_on_the_batch_in_float64():
    for seed in range(8):
        model, sentences = random_model(seed).double(), random_sentences(seed)
        together = decode(model, sentences, max_new_tokens_over_source=6)
        alone = [decode(model, [sentence], max_new_tokens_over_source=6)[0] for sentence in sentences]
        assert [score for _, score in together] == pytest.approx([score for _, score in alone], abs=1e-12)


@pytest.mark.heavy
@needs_trained_model
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_search_of_a_trained_model_does_not_depend_on_the_batch(dtype, num_beams):
    """Run by hand after a training; the quickstart's heavy test does the same on its own model."""
    folder = os.environ["TRAINED_MODEL"]
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).eval()
    with open(os.environ["TRAINED_SOURCE"], encoding="utf-8") as file:
        sentences = AutoTokenizer.from_pretrained(folder)(file.read().splitlines()[:1000])["input_ids"]
    batches = [sentences[start : start + 32] for start in range(0, len(sentences), 32)]
    num_sentences, num_flipped = count_flips(model, batches, num_beams=num_beams)
    assert num_flipped <= MAX_FLIPPED * num_sentences
