# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.1's decoding against exhaustive search, its limit, and what may and may not change it."""

import math

import pytest
import torch
from tiny import make_config, make_model
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, LogitsProcessor, LogitsProcessorList

from vaswani_transformer import VaswaniTransformerForConditionalGeneration
from vaswani_transformer.generation_vaswani_transformer import _SearchRule, gnmt_length_penalty

VOCABULARY = 6  # <pad>, <s>, </s> and three words
LIMIT = 4


def tiny_vocabulary_model(seed):
    torch.manual_seed(seed)
    model = VaswaniTransformerForConditionalGeneration(make_config(vocab_size=VOCABULARY)).eval()
    with torch.no_grad():
        model.model.shared.weight.mul_(2.0)
    return model


def exhaustive_best(model, source, alpha, limit=LIMIT):
    """Every output up to the limit: [(GNMT score, tokens after <s>)], best first. A naive second computation."""
    finished, running = [], [(0.0, [1])]
    for length in range(1, limit + 1):
        batch = torch.tensor([tokens for _, tokens in running])
        with torch.no_grad():
            logits = model(source.expand(len(running), -1), decoder_input_ids=batch).logits[:, -1]
        log_probs = torch.log_softmax(logits.double(), dim=-1).tolist()
        following = []
        for (log_prob, tokens), row in zip(running, log_probs, strict=True):
            for token, value in enumerate(row):
                candidate = (log_prob + value, [*tokens, token])
                (finished if token == 2 or length == limit else following).append((*candidate, length))
        running = [(log_prob, tokens) for log_prob, tokens, _ in following]
    scored = [(log_prob / ((5 + length) / 6) ** alpha, tokens[1:]) for log_prob, tokens, length in finished]
    return sorted(scored, key=lambda pair: -pair[0])


def strip(tokens):
    tokens = tokens.tolist()[1:]
    return tokens[: tokens.index(2) + 1] if 2 in tokens else tokens


@pytest.mark.parametrize("alpha", [0.6, 0.0, 1.5, -0.7])
def test_gnmt_search_finds_the_exhaustive_best_with_more_beams_than_words(alpha):
    for seed in range(6):
        model = tiny_vocabulary_model(seed)
        source = torch.randint(3, VOCABULARY, (1, 3))
        out = model.generate(
            source,
            num_beams=400,
            num_return_sequences=3,
            length_penalty=alpha,
            max_new_tokens=LIMIT,
            return_dict_in_generate=True,
            output_scores=True,
        )
        expected = exhaustive_best(model, source, alpha)[:3]
        assert [strip(row) for row in out.sequences] == [tokens for _, tokens in expected]
        assert out.sequences_scores.tolist() == pytest.approx([score for score, _ in expected], abs=1e-5)


def test_gnmt_length_penalty_is_the_formula():
    assert gnmt_length_penalty(7, 0.6) == pytest.approx((12 / 6) ** 0.6)
    assert gnmt_length_penalty(1, 0.6) == 1.0


def independent_beam_search(model, source, limit, num_beams=4, alpha=0.6):
    """Beam search of one sentence written from its definition: no early stop at all."""
    running, finished = [(0.0, [1])], []
    for length in range(1, limit + 1):
        with torch.no_grad():
            logits = model(
                source.expand(len(running), -1), decoder_input_ids=torch.tensor([t for _, t in running])
            ).logits[:, -1]
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        candidates = [
            (score + float(value), [*tokens, token])
            for (score, tokens), row in zip(running, log_probs, strict=True)
            for token, value in enumerate(row)
        ]
        candidates.sort(key=lambda c: -c[0])
        running = []
        for rank, (score, tokens) in enumerate(candidates[: 2 * num_beams]):
            if tokens[-1] == 2 or length == limit:
                if rank < num_beams:
                    finished.append((score / ((5 + length) / 6) ** alpha, tokens))
            elif len(running) < num_beams:
                running.append((score, tokens))
        if not running:
            break
    return max(finished, key=lambda f: f[0])


@pytest.mark.parametrize(("alpha", "limit"), [(0.6, 20), (0.0, 12), (-1.0, 12)])
def test_decoding_equals_an_independent_beam_search_that_never_stops_early(alpha, limit):
    lengths = []
    for seed in range(6):
        model = make_model(seed=seed, scale=2.5, vocab_size=12)
        source = torch.randint(3, 12, (1, 5))
        options = {"length_penalty": alpha, "max_new_tokens_over_source": limit}
        out = model.generate(source, return_dict_in_generate=True, output_scores=True, **options)
        score, tokens = independent_beam_search(model, source, limit=5 + limit, alpha=alpha)
        assert strip(out.sequences[0]) == tokens[1:]
        assert out.sequences_scores.item() == pytest.approx(score, abs=1e-4)
        lengths.append(len(tokens) - 1)
    assert min(lengths) < 5 + limit  # some end by themselves


@pytest.mark.parametrize(
    ("alpha", "running", "finished", "can_improve"),
    [
        # At the limit of 55 tokens -4 is worth -4 / 10^0.6 = -1.005; at the present 3 tokens only -3.37.
        (0.6, -4.0, -3.0, True),
        (0.6, -4.0, -1.0, False),
        # Under a negative alpha the next length, 4, is the best that can come: -4 * (9 / 6) = -6.
        (-1.0, -4.0, -6.1, True),
        (-1.0, -4.0, -5.9, False),
        # A beam that does not exist can improve nothing.
        (0.6, -1.0e9, -3.0, False),
    ],
)
def test_the_bound_takes_the_best_length_that_can_come(alpha, running, finished, can_improve):
    rule = _SearchRule(alpha=alpha, limits=torch.tensor([[55]]), num_wanted=1, is_bounded=True)
    got = rule.can_improve(torch.tensor([[running, -9.0]]), torch.tensor([[finished, -9.0]]), length=3)
    assert got.tolist() == [[can_improve]]


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
    assert out.sequences[VOCABULARY:, 1].tolist() == [0, 0]
    assert out.sequences_scores[VOCABULARY:].max() < -1e8


def test_default_decoding_is_the_paper_s(tiny_model):
    config = tiny_model.generation_config
    assert (config.num_beams, config.length_penalty, config.max_new_tokens_over_source) == (4, 0.6, 50)


class NeverEnd(LogitsProcessor):
    """Forbids </s>, so that every sentence runs into its limit."""

    def __call__(self, input_ids, scores):
        scores[:, 2] = -torch.inf
        return scores


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("prefix", [1, 3])
def test_output_limit_is_source_length_plus_50_for_each_sentence(num_beams, prefix):
    model = make_model()
    source = torch.tensor([[5, 6, 7, 8, 2], [5, 6, 2, 0, 0]])
    out = model.generate(
        source,
        attention_mask=(source != 0).long(),
        decoder_input_ids=torch.tensor([[1, 9, 9][:prefix]] * 2),
        logits_processor=LogitsProcessorList([NeverEnd()]),
        num_beams=num_beams,
    )
    generated = (out[:, prefix:] != 0).sum(dim=1)  # the untrained model never says <pad> here
    assert generated.tolist() == [55, 53]


def test_places_after_the_end_hold_padding():
    model = make_model(seed=3)
    source = torch.tensor([[5, 6, 7, 8, 2], [5, 6, 2, 0, 0]])
    out = model.generate(
        source, attention_mask=(source != 0).long(), logits_processor=LogitsProcessorList([NeverEnd()])
    )
    assert out[1, 54:].tolist() == [0, 0]
    assert 2 not in out


@pytest.mark.parametrize("kwargs", [{"max_new_tokens": 3}, {"max_length": 4}])
def test_a_limit_given_in_the_call_overrides_the_limit_over_the_source(kwargs):
    source = torch.randint(3, 300, (1, 5))
    assert make_model().generate(source, min_new_tokens=3, **kwargs).shape[1] == 4


def test_a_limit_in_a_users_generation_config_overrides_the_limit_over_the_source():
    source = torch.randint(3, 300, (1, 5))
    own = GenerationConfig(max_new_tokens=3, min_new_tokens=3, num_beams=2)
    assert make_model().generate(source, generation_config=own).shape[1] == 4


def test_a_users_generation_config_without_a_limit_keeps_the_limit_over_the_source():
    own = GenerationConfig(num_beams=1, min_new_tokens=55)
    assert make_model().generate(torch.randint(3, 300, (1, 5)), generation_config=own).shape[1] == 56


def test_a_limit_in_the_models_own_config_is_ignored_while_the_key_is_set():
    model = make_model()
    model.generation_config.max_length = 20
    assert model.generate(torch.randint(3, 300, (1, 5)), min_new_tokens=55).shape[1] == 56


def test_the_limit_over_the_source_can_be_given_in_the_call():
    source = torch.randint(3, 300, (1, 5))
    assert make_model().generate(source, min_new_tokens=7, max_new_tokens_over_source=2).shape[1] == 8


def test_the_limit_over_the_source_can_be_removed_in_the_call():
    out = make_model().generate(torch.randint(3, 300, (1, 5)), max_new_tokens_over_source=None, min_new_tokens=20)
    assert out.shape[1] == 21  # the library's own default


def test_library_limits_hold_when_the_key_is_removed():
    model = make_model()
    model.generation_config.max_new_tokens_over_source = None
    assert model.generate(torch.randint(3, 300, (1, 5)), max_new_tokens=6, min_new_tokens=6).shape[1] == 7


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translation_does_not_depend_on_the_other_sentences_of_the_batch(num_beams):
    model = make_model(scale=2.5).double()
    torch.manual_seed(5)
    lengths = [3, 9, 5, 12, 4, 7]
    source = torch.zeros(6, 12, dtype=torch.long)
    for row, length in enumerate(lengths):
        source[row, :length] = torch.randint(3, 300, (length,))
    together = model.generate(source, attention_mask=(source != 0).long(), num_beams=num_beams)
    for row, length in enumerate(lengths):
        alone = model.generate(source[row : row + 1, :length], num_beams=num_beams)[0]
        assert together[row, : len(alone)].tolist() == alone.tolist()
        assert not together[row, len(alone) :].any()


class FirstEndThenRaise(LogitsProcessor):
    """Makes an early end all but certain, and lifts a later one above log-probability 0."""

    def __call__(self, input_ids, scores):
        scores[:, 2] = 10.0 if input_ids.shape[1] > 5 else -0.01
        return scores


def test_a_processor_that_can_raise_scores_switches_the_bound_off():
    model = make_model(scale=2.5, vocab_size=20)
    source = torch.randint(3, 20, (1, 5))
    processors = LogitsProcessorList([FirstEndThenRaise()])
    out = model.generate(source, logits_processor=processors, return_dict_in_generate=True, output_scores=True)
    assert out.sequences_scores.item() > 0
    assert len(strip(out.sequences[0])) > 5


def test_scores_are_gnmt_scores_of_the_returned_sequences():
    model = make_model(scale=2.5, vocab_size=20)
    source = torch.randint(3, 20, (2, 5))
    out = model.generate(source, num_return_sequences=3, return_dict_in_generate=True, output_scores=True)
    for row, sequence in enumerate(out.sequences):
        tokens = torch.tensor([strip(sequence)])
        logits = model(source[row // 3 : row // 3 + 1], labels=tokens).logits
        log_prob = torch.log_softmax(logits, -1).gather(2, tokens.unsqueeze(-1)).sum().item()
        expected = log_prob / math.pow((5 + tokens.shape[1]) / 6, 0.6)
        assert out.sequences_scores[row].item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), -10.5])
def test_impossible_length_penalty_is_refused(tiny_model, alpha):
    with pytest.raises(ValueError, match="`length_penalty` must be a finite number of at least -10"):
        tiny_model.generate(torch.tensor([[5, 2]]), length_penalty=alpha)


def test_impossible_limit_is_refused(tiny_model):
    with pytest.raises(ValueError, match="`max_new_tokens_over_source` must be a whole number"):
        tiny_model.generate(torch.tensor([[5, 2]]), max_new_tokens_over_source=-1)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_forced_prefix_outside_the_vocabulary_is_refused(tiny_model, num_beams):
    with pytest.raises(ValueError, match=r"`decoder_input_ids` must lie in \[0, 300\), got 999"):
        tiny_model.generate(torch.tensor([[5, 2]]), decoder_input_ids=torch.tensor([[1, 999]]), num_beams=num_beams)


@pytest.mark.parametrize("content", [None, '{"num_beams": 4, '])
def test_decoding_is_the_papers_when_the_generation_config_is_missing_or_broken(tmp_path, content):
    make_model().save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    if content:
        (tmp_path / "generation_config.json").write_text(content)
    config = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    assert (config.num_beams, config.length_penalty, config.max_new_tokens_over_source) == (4, 0.6, 50)


def test_decoding_defaults_survive_saving_and_loading(tmp_path):
    make_model().save_pretrained(tmp_path)
    config = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    assert (config.num_beams, config.length_penalty, config.max_new_tokens_over_source) == (4, 0.6, 50)
    assert config.max_length is None


def test_greedy_decoding_logs_no_warning(tiny_model, caplog, recwarn):
    tiny_model.generate(torch.tensor([[5, 2]]), num_beams=1)
    assert not caplog.records
    assert not recwarn.list
