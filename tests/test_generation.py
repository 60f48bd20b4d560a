# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.1's decoding inside `generate`: defaults, limits, stop and errors. The search itself: test_search.py."""

import copy

import pytest
import torch
from naive_search import generated_tokens
from search_checks import rescored
from tiny import make_config, make_model
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.generation.logits_process import (
    EncoderNoRepeatNGramLogitsProcessor,
    ForcedBOSTokenLogitsProcessor,
    InfNanRemoveLogitsProcessor,
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
from vaswani_transformer.search_vaswani_transformer import NEVER_POSITIVE, ForcedEndAtLimit, SearchRule


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
    rule = SearchRule(alpha=alpha, offset=5, limits=torch.tensor([[55]]), num_wanted=1, is_bounded=True)
    got = rule.can_improve(torch.tensor([[running, -9.0]]), torch.tensor([[finished, -9.0]]), length=3)
    assert got.tolist() == [[can_improve]]


def decoding_of(model):
    config = model.generation_config
    keys = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")
    return tuple(getattr(config, key, None) for key in keys)


def test_a_loaded_model_decodes_as_the_paper_does(tmp_path):
    VaswaniTransformerForConditionalGeneration(make_config()).save_pretrained(tmp_path)
    assert decoding_of(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) == (4, 0.6, 5, 50)


def test_a_model_from_a_configuration_searches_greedily_within_the_paper_s_limit():
    assert decoding_of(VaswaniTransformerForConditionalGeneration(make_config())) == (None, None, 5, 50)


def test_saving_a_model_from_a_configuration_leaves_its_search_greedy(tmp_path):
    model = VaswaniTransformerForConditionalGeneration(make_config())
    before = model.generation_config
    model.save_pretrained(tmp_path)
    assert model.generation_config is before
    assert decoding_of(model) == (None, None, 5, 50)


def test_a_search_that_a_folder_leaves_open_stays_open(tmp_path):
    model = VaswaniTransformerForConditionalGeneration(make_config())
    model.save_pretrained(tmp_path)
    model.generation_config.save_pretrained(tmp_path)
    assert decoding_of(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) == (None, None, 5, 50)


def test_beams_asked_of_a_model_from_a_configuration_are_scored_as_the_paper_does():
    source = torch.tensor([[5, 6, 7, 8, 2]])
    fresh, learned = VaswaniTransformerForConditionalGeneration(make_config()).eval(), make_model()
    fresh.load_state_dict(learned.state_dict())
    scores = [
        model.generate(source, num_beams=4, return_dict_in_generate=True).sequences_scores
        for model in (fresh, learned)
    ]
    assert torch.equal(*scores)


@pytest.mark.parametrize("own", [GenerationConfig(num_beams=1), GenerationConfig(max_new_tokens=9)])
def test_a_users_choice_of_search_survives_loading(own, tmp_path):
    model = make_model()
    model.generation_config = own
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    assert (loaded.num_beams, loaded.length_penalty) == (own.num_beams, None)


def test_a_chosen_number_of_beams_survives_loading_with_our_keys(tmp_path):
    model = make_model()
    model.generation_config.update(num_beams=1, length_penalty=None)
    model.save_pretrained(tmp_path)
    assert decoding_of(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) == (1, None, 5, 50)


def test_chosen_sampling_survives_saving(tmp_path):
    model = VaswaniTransformerForConditionalGeneration(make_config())
    model.generation_config.do_sample = True
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    assert (loaded.do_sample, loaded.num_beams) == (True, None)


def test_a_chosen_length_penalty_survives_saving(tmp_path):
    model = VaswaniTransformerForConditionalGeneration(make_config())
    model.generation_config.length_penalty = 1.3
    model.save_pretrained(tmp_path)
    assert decoding_of(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) == (4, 1.3, 5, 50)


def test_a_length_penalty_of_the_call_holds_for_a_model_without_one():
    fresh = VaswaniTransformerForConditionalGeneration(make_config()).eval()
    options = {"num_beams": 2, "max_new_tokens": 5, "return_dict_in_generate": True}
    scores = [
        fresh.generate(torch.tensor([[5, 2]]), length_penalty=alpha, suppress_tokens=[2], **options).sequences_scores
        for alpha in (0.0, 2.0)
    ]
    assert scores[1].item() == pytest.approx(scores[0].item() / ((5 + 5) / 6) ** 2, rel=1e-5)


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


@pytest.fixture
def warnings_of_generation(monkeypatch):
    """What `generate` warned of once."""
    told = []
    monkeypatch.setattr(generation.logger, "warning_once", told.append)
    return told


def length_of_a_long_output(model, **options):
    return model.generate(torch.randint(3, 300, (1, 5)), min_new_tokens=55, **options).shape[1]


@pytest.mark.parametrize("passed", [None, "itself", "equal"])
def test_a_max_length_of_the_models_own_config_is_ignored_and_told(passed, warnings_of_generation):
    model = make_model()
    model.generation_config.max_length = 20
    own = model.generation_config
    options = {None: {}, "itself": {"generation_config": own}, "equal": {"generation_config": copy.deepcopy(own)}}
    assert length_of_a_long_output(model, **options[passed]) == 56
    (told,) = warnings_of_generation
    assert told.startswith("`max_length` = 20 of the model's generation config is ignored")


def test_another_max_length_of_a_users_generation_config_is_obeyed(warnings_of_generation):
    model = make_model()
    model.generation_config.max_length = 20
    own = GenerationConfig(max_length=9, num_beams=2)
    assert length_of_a_long_output(model, generation_config=own) == 9
    assert warnings_of_generation == []


def test_a_max_length_of_the_call_is_obeyed_where_it_equals_an_ignored_one():
    model = make_model()
    model.generation_config.max_length = 20
    assert length_of_a_long_output(model, max_length=20) == 20


@pytest.mark.parametrize("with_config", [False, True])
def test_max_new_tokens_of_the_models_own_config_is_obeyed(with_config, warnings_of_generation):
    model, source = make_model(), torch.randint(3, 300, (1, 5))
    model.generation_config.update(max_new_tokens=3, max_length=20)
    options = {"generation_config": GenerationConfig(num_beams=2)} if with_config else {}
    assert model.generate(source, min_new_tokens=3, **options).shape[1] == 4
    assert warnings_of_generation == []


def test_a_limit_over_the_source_in_the_call_replaces_max_new_tokens_of_the_models_own_config():
    model = make_model()
    model.generation_config.max_new_tokens = 3
    assert length_of_a_long_output(model, max_new_tokens_over_source=50) == 56


def test_a_limit_over_the_source_in_the_call_replaces_those_of_the_passed_config():
    model = make_model()
    model.generation_config.max_new_tokens = 3
    options = {"generation_config": model.generation_config, "max_new_tokens_over_source": 50}
    assert length_of_a_long_output(model, **options) == 56


@pytest.fixture
def evaluated():
    """A model whose generation config holds what `Seq2SeqTrainer.evaluate` leaves there."""
    model = make_model()
    own = model.generation_config
    own.update(**own._get_default_generation_params(), defaults_only=True)
    assert own.max_length == 20
    return model


def test_a_leftover_limit_is_ignored_by_another_model_too(evaluated):
    assert length_of_a_long_output(make_model(), generation_config=evaluated.generation_config) == 56


def test_a_users_generation_config_that_equals_a_leftover_limit_is_obeyed(evaluated):
    assert length_of_a_long_output(evaluated, generation_config=GenerationConfig(max_length=20)) == 20


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


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), -10.5, 10.5])
def test_impossible_length_penalty_is_refused(tiny_model, alpha):
    with pytest.raises(ValueError, match="`length_penalty` must be a finite number in .-10, 10."):
        tiny_model.generate(torch.tensor([[5, 2]]), length_penalty=alpha)


def test_impossible_limit_is_refused(tiny_model):
    with pytest.raises(ValueError, match="`max_new_tokens_over_source` must be a whole number"):
        tiny_model.generate(torch.tensor([[5, 2]]), max_new_tokens_over_source=-1)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("options", [{"max_new_tokens": 0}, {"repetition_penalty": -1.0}], ids=str)
def test_impossible_options_of_the_library_are_refused(tiny_model, num_beams, options):
    with pytest.raises(ValueError, match="greater than 0|strictly positive"):
        tiny_model.generate(torch.tensor([[5, 2]]), num_beams=num_beams, **options)


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [1, 4])
def test_a_source_of_ten_thousand_tokens_is_decoded_whole(tiny_model, num_beams):
    source = torch.randint(3, 300, (1, 10_000))
    out = tiny_model.generate(source, num_beams=num_beams, max_new_tokens=3, return_dict_in_generate=True)
    tokens = generated_tokens(out.sequences[0])
    expected = rescored(tiny_model, source[0].tolist(), tokens, 0.6)
    assert out.sequences_scores.item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("max_length", [2, 3])
def test_forced_prefix_longer_than_the_limit_is_refused(tiny_model, num_beams, max_length):
    prefix = torch.tensor([[1, 5, 7]])
    with pytest.raises(ValueError, match=f"decoder_input_ids is 3, but `max_length` is set to {max_length}"):
        tiny_model.generate(
            torch.tensor([[5, 2]]), decoder_input_ids=prefix, num_beams=num_beams, max_length=max_length
        )


@pytest.mark.parametrize("content", ["whole", None, '{"num_beams": 4, '])
def test_decoding_is_the_papers_also_when_the_generation_config_is_missing_or_broken(tmp_path, content):
    make_model().save_pretrained(tmp_path)
    if content is None:
        (tmp_path / "generation_config.json").unlink()
    elif content != "whole":
        (tmp_path / "generation_config.json").write_text(content)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert decoding_of(model) == (4, 0.6, 5, 50) and model.generation_config.max_length is None


@pytest.mark.parametrize("own", [None, 0])
def test_offset_of_the_model_survives_saving_and_a_config_of_the_callers_without_it(tmp_path, own):
    model = make_model()
    model.generation_config.update(length_penalty=1.0)
    if own is None:
        del model.generation_config.length_penalty_offset  # as models of before the key
    else:
        model.generation_config.length_penalty_offset = own
    model.save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    plain = {"return_dict_in_generate": True, "max_new_tokens": 6}
    expected = model.generate(torch.tensor([[5, 2]]), length_penalty_offset=5 if own is None else own, **plain)
    for options in ({}, {"generation_config": GenerationConfig(num_beams=4, length_penalty=1.0)}):
        found = model.generate(torch.tensor([[5, 2]]), **options, **plain)
        assert found.sequences_scores.tolist() == expected.sequences_scores.tolist()


@pytest.mark.parametrize("num_beams", [1, 2])
def test_length_zero_divides_by_nothing_at_offset_zero(num_beams):
    class PadAlone(LogitsProcessor):
        def __call__(self, input_ids, scores):
            return torch.full_like(scores, -torch.inf).index_fill(1, torch.tensor([0]), 0.0)

    options = {"num_beams": num_beams, "max_new_tokens": 3, "return_dict_in_generate": True}
    penalty = {"length_penalty": 1.0, "length_penalty_offset": 0}
    out = make_model().generate(torch.tensor([[5, 2]]), logits_processor=[PadAlone()], **options, **penalty)
    assert not out.sequences_scores.isnan().any()


def test_greedy_decoding_logs_no_warning(tiny_model, library_log, recwarn):
    tiny_model.generate(torch.tensor([[5, 2]]), num_beams=1)
    assert not library_log.records
    assert not recwarn.list


@pytest.mark.parametrize("num_beams", [1, 4])
def test_a_forced_end_comes_at_each_sentences_own_limit(num_beams):
    model = make_model(seed=1)
    source = torch.tensor([[5, 6, 7, 8, 9, 10, 2], [5, 2, 0, 0, 0, 0, 0]])
    options = {
        "num_beams": num_beams,
        "max_new_tokens_over_source": 3,
        "forced_eos_token_id": 2,
        "suppress_tokens": [0],
    }
    together = model.generate(source, attention_mask=(source != 0).long(), **options)
    assert [generated_tokens(row) for row in together] == [
        generated_tokens(model.generate(row[row != 0][None], **options)[0]) for row in source
    ]
    assert (together == 2).nonzero().tolist() == [[0, 7 + 3], [1, 2 + 3]]


@pytest.mark.parametrize("num_beams", [1, 4])
def test_generation_leaves_the_model_and_its_configuration_as_they_were(num_beams):
    model = make_model().double()
    before = model.generation_config.to_dict()
    model.generate(torch.tensor([[5, 2]]), num_beams=num_beams)
    assert model.generation_config.to_dict() == before
    assert not model._forward_hooks


def test_limit_over_a_source_without_a_mask_counts_all_of_it():
    model = make_model()
    model.generation_config.pad_token_id = None  # or the library would make a mask
    out = model.generate(torch.tensor([[5, 6, 2]]), num_beams=1, max_new_tokens_over_source=4, suppress_tokens=[2])
    assert out.shape[1] == 1 + 3 + 4


def test_places_after_the_end_hold_0_when_there_is_no_padding():
    model = make_model()
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
    model.config.eos_token_id = model.config.pad_token_id = None
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
    out = model.generate(5 * mask, attention_mask=mask, num_beams=1, max_new_tokens_over_source=1)
    assert out[1].tolist()[-3:] == [0, 0, 0] and 0 not in out[0]


def test_positions_that_never_end_are_not_reminded_of(library_log):
    model = make_model(max_position_embeddings=4)
    options = {"max_new_tokens": 8, "suppress_tokens": [2], "output_scores": True, "return_dict_in_generate": True}
    assert model.generate(torch.tensor([[5, 2]]), num_beams=1, **options).sequences.shape[1] == 9
    assert not library_log.records


def test_beams_of_a_config_without_our_keys_are_scored_as_the_librarys():
    model = make_model().double()
    model.generation_config = GenerationConfig(num_beams=3, eos_token_id=2, pad_token_id=0, decoder_start_token_id=1)
    options = {"max_new_tokens": 5, "return_dict_in_generate": True}
    found = model.generate(torch.tensor([[5, 2]]), **options)
    expected = model.generate(torch.tensor([[5, 2]]), length_penalty=1.0, **options)
    assert found.sequences_scores.tolist() == expected.sequences_scores.tolist()


@pytest.mark.parametrize("has_padding", [True, False])
@pytest.mark.parametrize("num_beams", [1, 2])
def test_generation_without_an_end_runs_into_the_limit(num_beams, has_padding):
    model = make_model()
    model.generation_config.eos_token_id = model.config.eos_token_id = None
    if not has_padding:
        model.generation_config.pad_token_id = model.config.pad_token_id = None
    options = {"num_beams": num_beams, "max_new_tokens_over_source": 1, "return_dict_in_generate": True}
    out = model.generate(torch.tensor([[5, 2]]), **options)
    assert out.sequences.shape[1] == 4
    assert out.sequences_scores.isfinite().all()


@pytest.mark.parametrize(
    "processor",
    [
        EncoderNoRepeatNGramLogitsProcessor(2, torch.tensor([[5, 6, 5]])),
        ForcedBOSTokenLogitsProcessor(1),
        ForcedEndAtLimit(torch.tensor([3]), 1, torch.tensor([2])),
        InfNanRemoveLogitsProcessor(),
        LogitNormalization(),
        MinLengthLogitsProcessor(5, 2),
        MinNewTokensLengthLogitsProcessor(1, 6, 2),
        NoBadWordsLogitsProcessor([[5]], 2),
        NoRepeatNGramLogitsProcessor(2),
        PrefixConstrainedLogitsProcessor(lambda batch, ids: [2, 5], 1),
        RepetitionPenaltyLogitsProcessor(0.5),
        RepetitionPenaltyLogitsProcessor(1.5),
        SuppressTokensAtBeginLogitsProcessor([5], 1),
        SuppressTokensLogitsProcessor([5]),
        TemperatureLogitsWarper(0.5),
        TemperatureLogitsWarper(2.0),
        TopKLogitsWarper(3),
        TopPLogitsWarper(0.5),
    ],
    ids=lambda processor: type(processor).__name__,
)
def test_processors_on_which_the_bound_rests_lift_nothing_above_0(processor):
    torch.manual_seed(0)
    scores = torch.log_softmax(5 * torch.randn(20, 12), dim=-1)
    ids = torch.randint(3, 12, (20, 4))
    lifted = processor(ids, scores.clone()).max() > 0
    assert (type(processor) in NEVER_POSITIVE) == (type(processor) is not InfNanRemoveLogitsProcessor)
    assert not lifted


def test_greedy_search_is_saved_beside_a_length_penalty(tmp_path):
    model = make_model()
    for penalty, kept in ((0.6, 0.6), (1.0, 1.0), (1.2, 0.6)):  # of which transformers saves 1.0 alone
        model.generation_config.update(num_beams=1, length_penalty=penalty)
        model.save_pretrained(tmp_path)
        loaded = VaswaniTransformerForConditionalGeneration.from_pretrained(tmp_path)
        assert (model.generation_config.length_penalty, loaded.generation_config.num_beams) == (penalty, 1)
        assert loaded._prepare_generation_config(None, num_beams=4)[0].length_penalty == kept
