# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.1's search (`SearchRule`) against exhaustive and naive ones, alone and in a batch."""

from functools import partial

import pytest
import search_checks
import torch
from naive_search import (
    beam_search,
    best,
    continuations,
    exhaustive_search,
    generated_tokens,
    gnmt_score,
)
from search_checks import (
    MAX_FLIPPED,
    count_flips,
    decode,
    in_own_precision,
    rescored,
    without_padding,
)
from tiny import make_model

random_model = partial(search_checks.random_model, vocab_size=12)
random_sentences = partial(search_checks.random_sentences, vocab_size=12)


# ---- exhaustive search, over <pad>, <s>, </s> and three words ----


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.6, 0.0, 1.5, -0.7])
def test_search_finds_the_exhaustive_best_with_more_beams_than_hypotheses(alpha):
    for seed in range(3):
        model = random_model(seed, vocab_size=6)
        source = torch.randint(3, 6, (1, 3))
        found = decode(
            model,
            source.tolist(),
            num_beams=400,
            num_return_sequences=3,
            length_penalty=alpha,
            max_new_tokens=4,
        )
        expected = exhaustive_search(model, source, alpha, limit=4)[:3]
        assert [tokens for tokens, _ in found] == [tokens for _, tokens in expected]
        assert [score for _, score in found] == pytest.approx(
            [score for score, _ in expected], abs=1e-12
        )


def test_hypotheses_that_do_not_exist_are_returned_as_padding():
    out = random_model(0, vocab_size=6).generate(
        torch.tensor([[3, 4, 2]]),
        num_beams=8,
        num_return_sequences=8,
        max_new_tokens=1,
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert sorted(out.sequences[:6, 1].tolist()) == list(range(6))
    assert out.sequences[6:].tolist() == [[1, 0], [1, 0]]
    assert out.sequences_scores[6:].max() < -1e8
    assert (out.beam_indices[6:] == -1).all() and (out.beam_indices[:6, 0] >= 0).all()


# ---- a naive beam search ----


def assert_equals_naive_search(
    model, sentence, found, *, limit, num_best=1, prefix=(1,), **options
):
    expected = beam_search(model, torch.tensor([sentence]), limit, prefix=prefix, **options)[
        :num_best
    ]
    found = [(without_padding(tokens), score) for tokens, score in found[: len(expected)]]
    assert [tokens for tokens, _ in found] == [without_padding(tokens) for _, tokens in expected]
    assert [score for _, score in found] == pytest.approx(
        [score for score, _ in expected], abs=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "offset", "over_source"),
    [(0.6, 5, 30), (0.0, 5, 8), (1.0, 5, 8), (-1.0, 5, 8), (1.0, 0, 8), (-1.0, 0, 8), (2.0, 20, 8)],
)
def test_search_equals_a_naive_beam_search_that_never_stops_early(alpha, offset, over_source):
    lengths = []
    for seed in range(4):
        model = random_model(seed)
        sentence = random_sentences(seed, 1)[0]
        penalty = {"length_penalty": alpha, "length_penalty_offset": offset}
        if seed % 2:
            model.generation_config.update(**penalty)
            penalty = {}
        found = decode(
            model,
            [sentence],
            max_new_tokens_over_source=over_source,
            num_return_sequences=2,
            **penalty,
        )
        limit = len(sentence) + over_source
        assert_equals_naive_search(
            model, sentence, found, limit=limit, num_best=2, alpha=alpha, offset=offset
        )
        lengths.append(len(found[0][0]) < limit)
    assert any(lengths)  # some end by themselves


@pytest.mark.slow
def test_search_equals_a_naive_beam_search_on_random_batches():
    for seed in range(10):
        model = random_model(seed)
        sentences = random_sentences(seed)
        num_beams = 2 + seed % 4
        num_best = 1 + seed % 2
        found = decode(
            model,
            sentences,
            num_beams=num_beams,
            num_return_sequences=num_best,
            max_new_tokens_over_source=6,
        )
        for row, sentence in enumerate(sentences):
            own = found[row * num_best : (row + 1) * num_best]
            limit = len(sentence) + 6
            assert_equals_naive_search(
                model, sentence, own, limit=limit, num_beams=num_beams, num_best=num_best
            )


@pytest.mark.parametrize("num_best", [1, 4])
def test_forced_prefix_counts_neither_in_the_score_nor_in_the_limit(num_best):
    for seed in range(6):
        model = random_model(seed)
        sentence = random_sentences(seed, 1)[0]
        prefix = [1, 5, 7]
        with in_own_precision(model):
            out = model.generate(
                torch.tensor([sentence]),
                decoder_input_ids=torch.tensor([prefix]),
                num_return_sequences=num_best,
                max_new_tokens_over_source=4,
                return_dict_in_generate=True,
                output_scores=True,
            )
        assert out.sequences[:, :3].tolist() == [prefix] * num_best
        rows = [generated_tokens(row, 3) for row in out.sequences]
        limit = len(sentence) + 4
        found = list(zip(rows, out.sequences_scores.tolist(), strict=True))
        assert_equals_naive_search(
            model, sentence, found, limit=limit, num_best=num_best, prefix=prefix
        )


# ---- one rule for the score ----


SEARCHES = {
    "beam": {"num_beams": 4},
    "n-best": {"num_beams": 4, "num_return_sequences": 3},
    "beam sampling": {"do_sample": True, "num_beams": 4, "num_return_sequences": 2},
    "attentions": {"num_beams": 4, "output_attentions": True, "output_logits": True},
    "no cache": {"num_beams": 4, "use_cache": False},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_sequences_scores_are_gnmt_scores_of_the_returned_sequences(options, dtype):
    model = random_model(2, dtype, vocab_size=20)
    sentences = random_sentences(2, 6, vocab_size=20)
    torch.manual_seed(0)
    found = decode(model, sentences, max_new_tokens_over_source=8, **options)
    num_best = options.get("num_return_sequences", 1)
    assert len(found) == 6 * num_best
    assert any(2 in tokens for tokens, _ in found)
    for row, (tokens, score) in enumerate(found):
        expected = rescored(model, sentences[row // num_best], without_padding(tokens), 0.6)
        assert score == pytest.approx(expected, abs=1e-4 if dtype == torch.float32 else 1e-12)


def test_scores_come_without_keeping_those_of_every_step():
    out = random_model(0).generate(
        torch.tensor([[5, 2]]), num_beams=4, return_dict_in_generate=True
    )
    assert out.sequences_scores.shape == (1,)
    assert out.scores is None and out.logits is None


def naive_number_of_steps(model, sentence, limit, num_beams, num_best, alpha):
    """Steps after which no running hypothesis, at its best possible length, can enter the
    `num_best` finished ones.
    """
    running = [(0.0, [1])]
    finished = []
    for length in range(1, limit + 1):
        candidates = best(continuations(model, torch.tensor([sentence]), running), 2 * num_beams)
        for total, tokens in candidates[:num_beams]:
            if tokens[-1] == 2 or length == limit:
                finished.append(gnmt_score(total, length, alpha))
        running = [candidate for candidate in candidates if candidate[1][-1] != 2][:num_beams]
        best_length = limit if alpha >= 0 else length + 1
        finished = sorted(finished, reverse=True)[:num_beams]
        if len(finished) >= num_best and finished[num_best - 1] >= gnmt_score(
            running[0][0], best_length, alpha
        ):
            return length
    return limit


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.6, 0.0, -1.0])
def test_search_stops_exactly_when_the_bound_proves_that_nothing_can_change(alpha):
    early = 0
    for seed in range(8):
        model = random_model(seed)
        sentence = random_sentences(seed, 1)[0]
        num_best = 1 + seed % 2
        with in_own_precision(model):
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
    assert early >= 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unfinished_fragments_are_no_hypotheses(dtype):
    model = make_model(seed=2).to(dtype)
    allowed = [[5, 2], [6, 7, 2]]

    def following(batch, ids):
        prefix = ids.tolist()[1:]
        return [
            row[len(prefix)]
            for row in allowed
            if row[: len(prefix)] == prefix and len(row) > len(prefix)
        ] or [2]

    out = model.generate(
        torch.tensor([[5, 6, 2]]),
        prefix_allowed_tokens_fn=following,
        num_beams=4,
        num_return_sequences=4,
        return_dict_in_generate=True,
    )
    assert sorted(generated_tokens(row) for row in out.sequences[:2]) == allowed
    assert not out.sequences[2:, 1:].any()
    assert out.sequences_scores[2:].tolist() == [-torch.inf] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [-10.0, 10.0])
def test_extreme_length_penalties_rank_as_any_other(alpha, dtype):
    model = random_model(1, dtype)
    sentence = [5, 6, 2]
    ((tokens, score),) = decode(
        model,
        [sentence],
        length_penalty=alpha,
        max_new_tokens=40,
        min_new_tokens=30,
        suppress_tokens=[0],
    )
    assert len(tokens) >= 30
    assert score == pytest.approx(rescored(model, sentence, tokens, alpha), rel=1e-4)


# ---- alone and in a batch ----


@pytest.mark.slow
@pytest.mark.parametrize("num_cases", [2, pytest.param(24, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [{"num_beams": 1}, {"num_beams": 4}, {"early_stopping": True}, {"early_stopping": "never"}],
    ids=str,
)
def test_search_depends_on_the_batch_in_near_ties_of_fp32_alone(options, dtype, num_cases):
    counts = [
        count_flips(
            random_model(seed, dtype),
            [random_sentences(seed)],
            max_new_tokens_over_source=6,
            **options,
        )
        for seed in range(5, 5 + num_cases)  # the first 5 have large batches
    ]
    num_sentences, num_flipped = map(sum, zip(*counts, strict=True))
    assert num_flipped <= MAX_FLIPPED * num_sentences
