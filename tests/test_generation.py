# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.1's decoding inside `generate`: defaults, limits, stop and errors.

The search itself: test_search.py.
"""

import copy

import pytest
import torch
from naive_search import generated_tokens
from search_checks import each_search, log_probs_of, rescored
from tiny import make_config, make_model
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, LogitsProcessor
from transformers.generation.logits_process import (
    EncoderNoRepeatNGramLogitsProcessor,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    LogitNormalization,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from vaswani_transformer import VaswaniTransformerForConditionalGeneration
from vaswani_transformer import generation_vaswani_transformer as generation
from vaswani_transformer.beam_search_vaswani_transformer import NEVER_POSITIVE, SearchRule

SCORED = {"return_dict_in_generate": True}


@pytest.mark.parametrize(
    ("alpha", "running", "finished", "can_improve"),
    [
        # At the limit of 55 tokens -4 is worth -4 / 10^0.6 = -1.005; at the present 3 tokens only
        # -3.37.
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
    rule = SearchRule(
        alpha=alpha, offset=5, limits=torch.tensor([[55]]), num_wanted=1, is_bounded=True
    )
    got = rule.can_improve(
        torch.tensor([[running, -9.0]]), torch.tensor([[finished, -9.0]]), length=3
    )
    assert got.tolist() == [[can_improve]]


PROCESSORS = [
    EncoderNoRepeatNGramLogitsProcessor(2, torch.tensor([[5, 6, 5]])),
    ForcedBOSTokenLogitsProcessor(1),
    ForcedEOSTokenLogitsProcessor(5, 2),
    LogitNormalization(),
    MinLengthLogitsProcessor(5, 2),
    MinNewTokensLengthLogitsProcessor(1, 6, 2),
    NoBadWordsLogitsProcessor([[5]], 2),
    NoRepeatNGramLogitsProcessor(2),
    PrefixConstrainedLogitsProcessor(lambda batch, ids: [2, 5], 1),
    RepetitionPenaltyLogitsProcessor(0.5),
    SuppressTokensAtBeginLogitsProcessor([5], 1),
    SuppressTokensLogitsProcessor([5]),
    TemperatureLogitsWarper(2.0),
    TopKLogitsWarper(3),
    TopPLogitsWarper(0.5),
]


def test_processors_on_which_the_bound_rests_lift_nothing_above_0():
    torch.manual_seed(0)
    scores, ids = torch.log_softmax(5 * torch.randn(20, 12), dim=-1), torch.randint(3, 12, (20, 4))
    assert {type(processor) for processor in PROCESSORS} == NEVER_POSITIVE
    assert all(processor(ids, scores.clone()).max() <= 0 for processor in PROCESSORS)


# ---- which search is the default ----


def decoding_of(model):
    config = model.generation_config
    keys = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")
    return tuple(getattr(config, key, None) for key in keys)


@pytest.fixture
def fresh():
    """A model from a configuration, whose search is greedy."""
    torch.manual_seed(0)
    return VaswaniTransformerForConditionalGeneration(make_config()).eval()


@pytest.mark.parametrize("content", ["whole", None, '{"num_beams": 4, '])
def test_a_loaded_model_decodes_as_the_paper_also_without_a_good_generation_config(
    tmp_path, fresh, content
):
    before = fresh.generation_config
    fresh.save_pretrained(tmp_path)
    if content is None:
        (tmp_path / "generation_config.json").unlink()
    elif content != "whole":
        (tmp_path / "generation_config.json").write_text(content)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert decoding_of(model) == (4, 0.6, 5, 50) and model.generation_config.max_length is None
    assert fresh.generation_config is before and decoding_of(fresh) == (None, None, 5, 50)


def test_beams_asked_of_a_model_from_a_configuration_are_scored_as_the_paper_does(fresh):
    source, options = torch.tensor([[5, 6, 7, 8, 2]]), {"num_beams": 4, **SCORED}
    assert torch.equal(
        fresh.generate(source, **options).sequences_scores,
        make_model().generate(source, **options).sequences_scores,
    )


@pytest.mark.parametrize("own", [GenerationConfig(num_beams=1), GenerationConfig(max_new_tokens=9)])
def test_a_generation_config_without_our_keys_survives_loading(own, tmp_path, fresh):
    fresh.generation_config = own
    fresh.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    assert (loaded.num_beams, loaded.length_penalty) == (own.num_beams, None)


@pytest.mark.parametrize(
    ("part", "chosen", "expected"),
    [
        ("model", {"num_beams": 1}, (1, None, 5, 50)),
        ("model", {"length_penalty": 1.3}, (4, 1.3, 5, 50)),
        ("model", {"do_sample": True}, (None, None, 5, 50)),
        ("configuration", {}, (None, None, 5, 50)),  # which leaves the search open
    ],
)
def test_a_chosen_search_survives_saving(part, chosen, expected, tmp_path, fresh):
    fresh.generation_config.update(**chosen)
    fresh.save_pretrained(tmp_path)
    if part == "configuration":
        fresh.generation_config.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert decoding_of(loaded) == expected
    assert chosen.items() <= loaded.generation_config.to_dict().items()


def test_a_length_penalty_of_the_call_holds_for_a_model_without_one(fresh):
    options = {"num_beams": 2, "max_new_tokens": 5, "suppress_tokens": [2], **SCORED}
    first, second = (
        fresh.generate(
            torch.tensor([[5, 2]]), length_penalty=alpha, **options
        ).sequences_scores.item()
        for alpha in (0.0, 2.0)
    )
    assert second == pytest.approx(first / ((5 + 5) / 6) ** 2, rel=1e-5)


@pytest.mark.parametrize("own", [None, 0])
def test_offset_of_the_model_survives_saving_and_a_config_of_the_callers_without_it(tmp_path, own):
    model = make_model()
    model.generation_config.update(length_penalty=1.0, length_penalty_offset=own)
    if own is None:
        del model.generation_config.length_penalty_offset  # as models of before the key
    model.save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    source, plain = torch.tensor([[5, 2]]), {"max_new_tokens": 6, **SCORED}
    expected = model.generate(source, length_penalty_offset=5 if own is None else own, **plain)
    for options in ({}, {"generation_config": GenerationConfig(num_beams=4, length_penalty=1.0)}):
        found = model.generate(source, **options, **plain)
        assert found.sequences_scores.tolist() == expected.sequences_scores.tolist()


def test_beams_of_a_config_without_our_keys_are_scored_as_the_librarys():
    model = make_model().double()
    model.generation_config = GenerationConfig(
        num_beams=3, eos_token_id=2, pad_token_id=0, decoder_start_token_id=1
    )
    options = {"max_new_tokens": 5, **SCORED}
    found = model.generate(torch.tensor([[5, 2]]), **options)
    found_tokens = found.sequences[0, 1:].tolist()
    log_prob = log_probs_of(model, [5, 2], found_tokens).sum()
    assert found.sequences_scores.item() == pytest.approx(log_prob.item() / len(found_tokens))


def test_greedy_search_is_saved_beside_a_length_penalty(tmp_path):
    model = make_model()
    # of which transformers saves 1.0 alone
    for penalty, kept in ((0.6, 0.6), (1.0, 1.0), (1.2, 0.6)):
        model.generation_config.update(num_beams=1, length_penalty=penalty)
        model.save_pretrained(tmp_path)
        loaded = VaswaniTransformerForConditionalGeneration.from_pretrained(tmp_path)
        assert (model.generation_config.length_penalty, loaded.generation_config.num_beams) == (
            penalty,
            1,
        )
        assert loaded._prepare_generation_config(None, num_beams=4)[0].length_penalty == kept


# ---- which limit holds ----


class NeverEnd(LogitsProcessor):
    """Forbids </s>, so that every sentence runs into its limit."""

    def __call__(self, input_ids, scores):
        scores[:, 2] = -torch.inf
        return scores


@each_search
@pytest.mark.parametrize("prefix", [1, 3])
def test_output_limit_is_source_length_plus_50_for_each_sentence(num_beams, prefix):
    source = torch.tensor([[5, 6, 7, 8, 2], [5, 6, 2, 0, 0]])
    out = make_model().generate(
        source,
        attention_mask=(source != 0).long(),
        decoder_input_ids=torch.tensor([[1, 9, 9][:prefix]] * 2),
        logits_processor=[NeverEnd()],
        num_beams=num_beams,
    )
    generated = (out[:, prefix:] != 0).sum(dim=1)  # the untrained model never says <pad> here
    assert generated.tolist() == [55, 53]
    assert out[1, prefix + 53 :].tolist() == [0, 0]


@pytest.fixture
def warnings_of_generation(monkeypatch):
    """What `generate` warned of once."""
    told = []
    monkeypatch.setattr(generation.logger, "warning_once", told.append)
    return told


def length_of_a_long_output(model, **options):
    return model.generate(torch.randint(3, 300, (1, 5)), min_new_tokens=55, **options).shape[1]


def passed(**options):
    return {"generation_config": GenerationConfig(**options)}


LIMITS = {
    "of the paper": ({}, {}, 1 + 5 + 50),
    "max_new_tokens of the call": ({}, {"max_new_tokens": 3}, 4),
    "max_length of the call": ({}, {"max_length": 4}, 4),
    "max_length of the call that equals an ignored one": (
        {"max_length": 20},
        {"max_length": 20},
        20,
    ),
    "max_new_tokens of a passed config": ({}, passed(max_new_tokens=3, num_beams=2), 4),
    "max_length of a passed config": ({"max_length": 20}, passed(max_length=9, num_beams=2), 9),
    "a passed config without one": ({}, passed(num_beams=1), 56),
    "the model's max_new_tokens": ({"max_new_tokens": 3, "max_length": 20}, {}, 4),
    "the model's max_new_tokens beside a passed config": (
        {"max_new_tokens": 3},
        passed(num_beams=2),
        4,
    ),
    "over the source, of the call": ({}, {"max_new_tokens_over_source": 2}, 8),
    "over the source, not max_new_tokens": (
        {"max_new_tokens": 3},
        {"max_new_tokens_over_source": 50},
        56,
    ),
    "the library's default": ({}, {"max_new_tokens_over_source": None}, 21),
    "the library's": ({"max_new_tokens_over_source": None}, {"max_new_tokens": 6}, 7),
}


@pytest.mark.parametrize(("own", "options", "length"), LIMITS.values(), ids=LIMITS)
def test_the_limit_that_was_chosen_last_holds(own, options, length, warnings_of_generation):
    model = make_model()
    model.generation_config.update(**own)
    assert length_of_a_long_output(model, **options) == length
    assert warnings_of_generation == []


def test_a_limit_over_the_source_in_the_call_replaces_those_of_the_passed_config():
    model = make_model()
    model.generation_config.max_new_tokens = 3
    options = {"generation_config": model.generation_config, "max_new_tokens_over_source": 50}
    assert length_of_a_long_output(model, **options) == 56


@pytest.mark.parametrize("passed", [None, "itself", "equal"])
def test_a_max_length_of_the_models_own_config_is_ignored_and_told(passed, warnings_of_generation):
    model = make_model()
    own = model.generation_config
    own.max_length = 20
    options = {
        None: {},
        "itself": {"generation_config": own},
        "equal": {"generation_config": copy.deepcopy(own)},
    }
    assert length_of_a_long_output(model, **options[passed]) == 56
    (told,) = warnings_of_generation
    assert told.startswith("`max_length` = 20 of the model's generation config is ignored")


def test_what_seq2seq_trainer_left_in_a_config_is_no_limit_but_an_equal_one_of_the_users_is():
    model = make_model()
    own = model.generation_config
    own.update(**own._get_default_generation_params(), defaults_only=True)
    assert own.max_length == 20
    assert length_of_a_long_output(make_model(), generation_config=own) == 56
    assert length_of_a_long_output(model, **passed(max_length=20)) == 20


def test_limit_over_a_source_without_a_mask_counts_all_of_it():
    model = make_model()
    model.generation_config.pad_token_id = None  # or the library would make a mask
    out = model.generate(
        torch.tensor([[5, 6, 2]]), num_beams=1, max_new_tokens_over_source=4, suppress_tokens=[2]
    )
    assert out.shape[1] == 1 + 3 + 4


@pytest.mark.parametrize("has_padding", [True, False])
@each_search
def test_generation_without_an_end_runs_into_the_limit_and_fills_the_rest_with_0(
    num_beams, has_padding
):
    model = make_model()
    model.generation_config.eos_token_id = model.config.eos_token_id = None
    if not has_padding:
        model.generation_config.pad_token_id = model.config.pad_token_id = None
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
    options = {"num_beams": num_beams, "max_new_tokens_over_source": 1, **SCORED}
    out = model.generate(5 * mask, attention_mask=mask, **options)
    assert out.sequences.shape[1] == 1 + 4 + 1
    assert out.sequences[1].tolist()[-3:] == [0, 0, 0] and 0 not in out.sequences[0]
    assert num_beams == 1 or out.sequences_scores.isfinite().all()


@pytest.mark.slow
def test_a_source_of_ten_thousand_tokens_is_decoded_whole(tiny_model):
    source = torch.randint(3, 300, (1, 10_000))
    out = tiny_model.generate(source, num_beams=4, max_new_tokens=3, **SCORED)
    expected = rescored(tiny_model, source[0].tolist(), generated_tokens(out.sequences[0]), 0.6)
    assert out.sequences_scores.item() == pytest.approx(expected, abs=1e-4)


# ---- errors, warnings, side effects ----


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("length_penalty", alpha) for alpha in (float("nan"), float("inf"), -10.5, 10.5)),
        ("length_penalty_offset", -1),
        ("length_penalty_offset", float("nan")),
        ("max_new_tokens_over_source", -1),
    ],
)
def test_impossible_options_are_refused(tiny_model, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        tiny_model.generate(torch.tensor([[5, 2]]), **{name: value})


class PadAlone(LogitsProcessor):
    def __call__(self, input_ids, scores):
        return torch.full_like(scores, -torch.inf).index_fill(1, torch.tensor([0]), 0.0)


def test_length_zero_divides_by_nothing_at_offset_zero():
    options = {
        "num_beams": 4,
        "max_new_tokens": 3,
        "length_penalty": 1.0,
        "length_penalty_offset": 0,
    }
    out = make_model().generate(
        torch.tensor([[5, 2]]), logits_processor=[PadAlone()], **options, **SCORED
    )
    assert not out.sequences_scores.isnan().any()


def test_greedy_decoding_logs_no_warning(tiny_model, library_log, recwarn):
    tiny_model.generate(torch.tensor([[5, 2]]), num_beams=1)
    assert not library_log.records
    assert not recwarn.list


@each_search
def test_generation_leaves_the_model_and_its_configuration_as_they_were(num_beams):
    model = make_model().double()
    before = model.generation_config.to_dict()
    model.generate(torch.tensor([[5, 2]]), num_beams=num_beams)
    assert model.generation_config.to_dict() == before
    assert not model._forward_hooks
