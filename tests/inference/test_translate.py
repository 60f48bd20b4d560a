# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import pytest
from tiny import make_model

from vaswani_transformer.inference import translate as translating
from vaswani_transformer.inference.score import score_pairs
from vaswani_transformer.inference.translate import (
    Hypothesis,
    decoding_overrides,
    translate,
    translate_n_best,
)

# Limits the output of the untrained model, which seldom ends a sentence itself.
SHORT = {"max_new_tokens_over_source": 3}


@pytest.fixture
def model(tiny_model):
    """Float64, so that a translation does not depend on its batch in the last bits."""
    return tiny_model.double()


def test_translate_gives_one_text_whatever_generate_is_told_to_return(model, tiny_tokenizer):
    expected = list(translate(model, tiny_tokenizer, ["A dog."], num_beams=4, **SHORT))
    model.generation_config.update(
        return_dict_in_generate=True, num_return_sequences=2, num_beams=4
    )
    assert list(translate(model, tiny_tokenizer, ["A dog."], **SHORT)) == expected


def test_translate_reads_a_stream_chunk_by_chunk(model, tiny_tokenizer, monkeypatch):
    monkeypatch.setattr(translating, "SENTENCES_PER_CHUNK", 2)
    read = []
    stream = (read.append(sentence) or sentence for sentence in ["A", "dog", "runs", "in", "the"])
    translations = translate(model, tiny_tokenizer, stream, **SHORT)
    next(translations)
    assert read == ["A", "dog"]
    assert len(list(translations)) == 4


@pytest.mark.parametrize(
    "options",
    [{}, {"num_beams": 2, "length_penalty": -0.5, "length_penalty_offset": 0}, {"num_beams": 1}],
)
def test_translate_n_best_gives_the_scores_of_generate(tiny_tokenizer, options):
    model = make_model(scale=2.5).double()
    sentences = ["A dog runs in the park.", "Two", "dog park"]
    num_best = options.get("num_beams", 4)
    found = translate_n_best(
        model, tiny_tokenizer, sentences, num_best, max_tokens_per_batch=20, **options, **SHORT
    )
    for sentence, hypotheses in zip(sentences, found, strict=True):
        output = model.generate(
            **tiny_tokenizer([sentence], return_tensors="pt"),
            num_return_sequences=num_best,
            return_dict_in_generate=True,
            output_scores=True,
            **options,
            **SHORT,
        )
        texts = tiny_tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        assert [hypothesis.text for hypothesis in hypotheses] == texts
        if num_best > 1:  # greedy search has no scores of its own
            assert [each.score for each in hypotheses] == pytest.approx(
                output.sequences_scores.tolist()
            )


def test_translate_n_best_counts_the_tokens_up_to_the_end(model, tiny_tokenizer):
    few = {"suppress_tokens": [id for id in range(300) if id not in (2, 40, 50)], **SHORT}
    (hypotheses,) = translate_n_best(model, tiny_tokenizer, ["dog"], 4, **few)
    sequences = model.generate(
        **tiny_tokenizer(["dog"], return_tensors="pt"), num_return_sequences=4, **few
    ).tolist()
    limit = len(tiny_tokenizer("dog")["input_ids"]) + 3
    lengths = [row.index(2) if 2 in row else limit for row in sequences]  # <s> is at place 0
    assert len(set(lengths)) > 1
    assert [hypothesis.length for hypothesis in hypotheses] == lengths


def test_translate_n_best_gives_words_the_scores_that_score_pairs_gives(model, tiny_tokenizer):
    sentences, num_compared = ["A dog runs in the park.", "Two women"], 0
    for sentence, found in zip(
        sentences, translate_n_best(model, tiny_tokenizer, sentences, 3), strict=True
    ):
        for each in found:
            assert [word["word"] for word in each.words] == each.text.split()
            (pair,) = score_pairs(model, tiny_tokenizer, [sentence], [each.text])
            if pair.log_prob == pytest.approx(each.log_prob, abs=1e-4):  # of the same tokens
                scores = [word["score"] for word in pair.words]
                assert [word["score"] for word in each.words] == pytest.approx(scores, abs=1e-4)
                num_compared += 1
    assert num_compared > 2


def test_translate_n_best_does_not_run_the_model_for_a_blank_sentence(
    model, tiny_tokenizer, monkeypatch
):
    monkeypatch.setattr(model, "generate", None)
    assert (
        list(translate_n_best(model, tiny_tokenizer, ["", " \t"], 3))
        == [[Hypothesis("", None, None, 0)]] * 2
    )


@pytest.mark.parametrize("penalty", [{}, {"length_penalty": -1.0, "length_penalty_offset": 0}])
def test_translate_n_best_leaves_out_hypotheses_that_do_not_exist(model, tiny_tokenizer, penalty):
    words = [40, 50, 60]
    options = {
        "max_new_tokens": 1,
        "num_beams": 8,
        "suppress_tokens": [id for id in range(300) if id not in words],
    }
    (hypotheses,) = translate_n_best(model, tiny_tokenizer, ["A dog"], 8, **options, **penalty)
    assert sorted(hypothesis.text for hypothesis in hypotheses) == sorted(
        tiny_tokenizer.decode([id]) for id in words
    )


@pytest.mark.parametrize(
    ("num_best", "options"), [(5, {}), (3, {"num_beams": 2}), (2, {"num_beams": 1}), (0, {})]
)
def test_translate_n_best_refuses_more_translations_than_beams_or_none(
    model, tiny_tokenizer, num_best, options
):
    with pytest.raises(ValueError, match="`num_best`"):
        translate_n_best(model, tiny_tokenizer, ["A"], num_best, **options)


def test_decoding_overrides_hold_only_what_is_given():
    given = {"num_beams": 2, "length_penalty": 0.0, "length_penalty_offset": 0.0}
    assert decoding_overrides(**given) == given


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("length_penalty", float("nan")),
        ("length_penalty", -10.5),
        ("length_penalty", "0.6"),
        ("length_penalty_offset", -1.0),
        ("length_penalty_offset", "5"),
    ],
)
def test_decoding_overrides_refuse_values_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        decoding_overrides(**{name: value})
