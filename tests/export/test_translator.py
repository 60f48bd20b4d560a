# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`Translator`: the pipeline's interface and `generate`'s results over a CTranslate2 export."""

import logging
from types import SimpleNamespace

import pytest
import torch
from naive_search import gnmt_score
from torch.utils.data import Subset

from vaswani_transformer.inference.translate import Hypothesis, translate_n_best

pytest.importorskip("ctranslate2", reason="the extra export is not installed")

from vaswani_transformer.export import Translator, export_ctranslate2
from vaswani_transformer.inference.ctranslate2 import CTranslate2Search, Decoding

# ---- the interface ----

INPUTS = {
    "text": lambda texts: texts[0],
    "blank text": lambda texts: " \n",
    "list": lambda texts: texts,
    "list with blanks": lambda texts: ["", texts[0], "  ", texts[1]],
    "tuple": tuple,
    "no texts": lambda texts: [],
    "generator": lambda texts: (text for text in texts),
}


@pytest.mark.parametrize("num_return_sequences", [1, 3])
@pytest.mark.parametrize("inputs", INPUTS)
def test_results_have_the_pipelines_form_and_texts(both, texts, inputs, num_return_sequences):
    found, expected = (
        each(INPUTS[inputs](texts), num_return_sequences=num_return_sequences) for each in both
    )
    if inputs == "generator":
        found, expected = list(found), list(expected)
    assert found == expected


def test_a_data_set_gives_lists_as_often_as_it_is_read(both):
    translate, _ = both
    results = translate(Subset(["A dog.", "Two women.", "A book."], range(3)))
    assert next(iter(results)) == translate("A dog.")
    assert len(results) == len(list(results)) == 3


@pytest.mark.parametrize(("batch_size", "num_read"), [(None, 1), (2, 2)])
def test_a_generator_is_read_as_its_results_are_asked_for(both, batch_size, num_read):
    read = []
    texts = (read.append(text) or text for text in ["A dog.", "Two women.", "A book."])
    next(both[0](texts, batch_size=batch_size))
    assert len(read) == num_read
    with pytest.raises(ValueError, match="`batch_size` must be at least 1, got -1"):
        both[0](texts, batch_size=-1)


@pytest.mark.parametrize(
    "threads", [{"num_threads": 3}, {"num_threads": 3, "threads_per_batch": 2}], ids=str
)
def test_batches_that_are_computed_together_come_in_order(save_model, tmp_path, texts, threads):
    out = export_ctranslate2(save_model()[1], tmp_path / "out")
    expected = Translator(out, num_threads=1)(texts * 2)
    assert Translator(out, **threads)(texts * 2, max_tokens_per_batch=16) == expected


def test_n_best_gives_a_blank_sentence_one_unscored_hypothesis(both):
    found = translate_n_best(both[0], both[0].tokenizer, [" "], 3)
    assert list(found) == [[Hypothesis("")]]


# ---- the search ----


def check_n_best(translate, model, tokenizer, texts, num_best, **options):
    """Compares n-best lists with those of `generate`; both lists of scores and of texts must be the
    same.
    """
    ours = translate_n_best(model, tokenizer, texts, num_best, **options)
    theirs = translate_n_best(translate, tokenizer, texts, num_best, **options)
    for expected, found in zip(ours, theirs, strict=True):
        assert [(each.text, each.length) for each in found] == [
            (each.text, each.length) for each in expected
        ]
        for field in ("score", "log_prob"):
            values = [[getattr(each, field) for each in side] for side in (found, expected)]
            torch.testing.assert_close(*values, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 1},
        {"num_beams": 7},
        {"length_penalty": 0.0},
        {"length_penalty": 2.0},
        {"length_penalty": -1.0},
        {"length_penalty": 1.0, "length_penalty_offset": 0.0},
        {"max_new_tokens_over_source": 0},
        {"max_new_tokens_over_source": 20},
        {"max_new_tokens": 1},
        {"max_new_tokens": 3},
        {"max_new_tokens": 3, "max_new_tokens_over_source": 20},
    ],
    ids=str,
)
def test_options_do_what_they_do_in_generate(export_model, tiny_tokenizer, texts, options):
    model, translate = export_model()
    check_n_best(
        translate, model, tiny_tokenizer, texts, min(options.get("num_beams", 4), 4), **options
    )


@pytest.mark.parametrize(("alpha", "offset"), [(2.0, 0.0), (2.0, 5.0), (4.0, 5.0)])
def test_search_goes_on_to_the_limit_where_length_is_rewarded(
    export_model, tiny_tokenizer, texts, alpha, offset
):
    model, translate = export_model(seed=1, over_source=30, end=3.0)
    options = {"length_penalty": alpha, "length_penalty_offset": offset}
    check_n_best(translate, model, tiny_tokenizer, texts, 1, **options)


@pytest.mark.parametrize("seed", range(5))
def test_each_sentence_of_a_batch_ends_at_its_own_limit(export_model, tiny_tokenizer, seed):
    model, translate = export_model(seed=seed, over_source=0)
    texts = ["A", "A dog runs in the park. " * 4, "A dog", "Two women read"]
    limits = [len(ids) for ids in tiny_tokenizer(texts)["input_ids"]]
    found = list(translate_n_best(translate, tiny_tokenizer, texts, 4))
    assert all(
        max(each.length for each in row) <= limit for row, limit in zip(found, limits, strict=True)
    )
    check_n_best(translate, model, tiny_tokenizer, texts, 4)


@pytest.mark.parametrize(
    "search",
    [
        {
            "num_beams": 3,
            "length_penalty": 1.5,
            "length_penalty_offset": 2,
            "max_new_tokens_over_source": 3,
        },
        {"num_beams": 3, "max_new_tokens_over_source": None, "max_new_tokens": 3},
        {"eos_token_id": [2, 20]},
    ],
    ids=str,
)
def test_the_models_generation_config_is_the_default(export_model, tiny_tokenizer, texts, search):
    model, translate = export_model(search=search)
    check_n_best(translate, model, tiny_tokenizer, texts, 3)


class Scripted:
    """An engine that finishes hypotheses of some (length, log-probability) and, at each horizon,
    has one running.
    """

    def __init__(self, finished, running):
        self.finished, self.running, self.horizons = finished, running, []

    def translate_batch(self, sources, *, max_decoding_length, **options):
        self.horizons.append(max_decoding_length)
        found = [(["a"] * (length - 1) + ["</s>"], log_prob) for length, log_prob in self.finished]
        found = [one for one in found if len(one[0]) <= max_decoding_length]
        found.append((["a"] * max_decoding_length, self.running[max_decoding_length]))
        hypotheses, scores = zip(*found, strict=True)
        return [SimpleNamespace(hypotheses=hypotheses, scores=scores) for _ in sources]


# Under alpha 0.6 the penalty at the limit of 20 tokens is 2.35: the first is -0.912 and may be
# beaten by what runs at more than -2.15. Alpha -1 punishes length, so the next token is the best
# end: the first has -1 x 7/6, and what runs can have its log-probability x 14/6, at 9 tokens.
@pytest.mark.parametrize(
    ("alpha", "finished", "running", "horizons", "best"),
    [
        (0.6, [(2, -1.0)], {8: -2.2}, [8], (2, -1.0)),
        (0.6, [(2, -1.0)], {8: -2.1, 12: -3.0}, [8, 12], (2, -1.0)),
        (0.6, [(2, -1.0), (10, -1.2)], {8: -1.1, 12: -9.0}, [8, 12], (10, -1.2)),
        (0.6, [(2, -1.0)], {8: -1.1, 12: -1.2, 18: -1.3, 20: -2.1}, [8, 12, 18, 20], (20, -2.1)),
        (0.6, [], {8: -9.0, 12: -9.1, 18: -9.2, 20: -9.3}, [8, 12, 18, 20], (20, -9.3)),
        (-1.0, [(2, -1.0)], {8: -0.52}, [8], (2, -1.0)),
        (-1.0, [(2, -1.0)], {8: -0.48, 12: -9.0}, [8, 12], (2, -1.0)),
    ],
)
def test_search_goes_on_exactly_while_a_better_hypothesis_may_come(
    alpha, finished, running, horizons, best
):
    engine = Scripted(finished, running)
    found = CTranslate2Search(engine, ["</s>", "a"], [0], 100)(
        [[1, 1, 0]], Decoding(2, 1, alpha, 5, 20, False)
    )[0]
    assert engine.horizons == horizons
    assert [(len(one.tokens), one.log_prob) for one in found] == [best]
    assert [one.score for one in found] == pytest.approx([gnmt_score(best[1], best[0], alpha)])


def test_scores_know_of_an_empty_translation(export_model, tiny_tokenizer, texts):
    """CTranslate2 forbids one unless it is told not to, which lifts the scores of all others."""
    model, translate = export_model(end=4.0)
    check_n_best(translate, model, tiny_tokenizer, texts, 4)


# ---- long texts ----


def test_a_text_of_more_than_1024_tokens_is_translated_whole(export_model, tiny_tokenizer):
    model, translate = export_model()
    text = "A dog runs in the park. " * 100
    assert len(tiny_tokenizer(text)["input_ids"]) > 1024
    check_n_best(translate, model, tiny_tokenizer, [text], 2, max_new_tokens=3)


@pytest.mark.parametrize(("encoding", "limit"), [("sinusoidal", 2048), ("learned", 32)])
def test_a_text_beyond_the_stored_positions_is_refused(export_model, encoding, limit):
    _, translate = export_model(position_encoding=encoding, max_position_embeddings=32)
    with pytest.raises(ValueError, match=f"at most {limit} tokens.* got [0-9]+ in 'A dog runs in"):
        translate("A dog runs in the park. " * 600, split_sentences=False)


def test_output_ends_where_learned_positions_do(export_model, tiny_tokenizer):
    shape = {"position_encoding": "learned", "max_position_embeddings": 12}
    model, translate = export_model(over_source=50, **shape)
    check_n_best(translate, model, tiny_tokenizer, ["A dog", "Zwei"], 4)


def test_a_text_longer_than_any_of_the_training_warns_once(export_model, caplog):
    _, translate = export_model(search={"longest_training_source": 5})
    with caplog.at_level(logging.WARNING):
        translate(["A dog runs in the park."] * 3)
    assert caplog.text.count("longer than the longest training sentence (5 tokens)") == 1


# ---- faults ----


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("num_return_sequences", 5, ValueError),
        ("num_beams", 0, ValueError),
        ("max_tokens_per_batch", 0, ValueError),
        ("max_new_tokens_over_source", -1, ValueError),
        ("length_penalty", float("nan"), ValueError),
        ("do_sample", True, TypeError),
    ],
)
def test_wrong_options_are_refused(both, name, value, error):
    with pytest.raises(error, match=name):
        both[0]("A dog.", **{name: value})
