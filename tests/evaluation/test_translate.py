# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from vaswani_transformer.evaluation import translate as translate_module
from vaswani_transformer.evaluation.translate import decoding_overrides, length_batches, translate

# Limits the output of the untrained model, which seldom ends a sentence itself.
SHORT = {"max_new_tokens_over_source": 3}


@pytest.fixture
def model(tiny_model):
    """Float64, so that a translation does not depend on its batch in the last bits."""
    return tiny_model.double()


def translate_alone(model, tokenizer, sentence, **options):
    batch = tokenizer([sentence], return_tensors="pt")
    return tokenizer.batch_decode(model.generate(**batch, **options), skip_special_tokens=True)[0]


def test_translate_keeps_the_order_of_the_input(model, tiny_tokenizer):
    sentences = ["A dog runs in the park.", "A", "Two women read a book.", "dog park", "Two women"]
    expected = [translate_alone(model, tiny_tokenizer, sentence, **SHORT) for sentence in sentences]
    assert len(set(expected)) > 1
    assert list(translate(model, tiny_tokenizer, sentences, max_tokens_per_batch=25, **SHORT)) == expected


@pytest.mark.parametrize("blank", ["", " ", "\t \u3000"])
def test_translate_gives_an_empty_string_for_a_blank_sentence(model, tiny_tokenizer, blank):
    translations = list(translate(model, tiny_tokenizer, [blank, "A dog.", blank], **SHORT))
    assert translations[0] == translations[2] == ""
    assert translations[1] == translate_alone(model, tiny_tokenizer, "A dog.", **SHORT)


def test_translate_gives_nothing_for_nothing(model, tiny_tokenizer):
    assert list(translate(model, tiny_tokenizer, [])) == []


def test_translate_reads_a_stream_chunk_by_chunk(model, tiny_tokenizer, monkeypatch):
    monkeypatch.setattr(translate_module, "SENTENCES_PER_CHUNK", 2)
    read = []
    stream = (read.append(sentence) or sentence for sentence in ["A", "dog", "runs", "in", "the"])
    translations = translate(model, tiny_tokenizer, stream, **SHORT)
    next(translations)
    assert read == ["A", "dog"]
    assert len(list(translations)) == 4


def test_translate_does_not_cut_a_sentence_longer_than_the_budget(model, tiny_tokenizer, monkeypatch):
    sentence = "A dog runs in the park. " * 30
    shapes = []
    generate = model.generate
    monkeypatch.setattr(model, "generate", lambda **k: shapes.append(tuple(k["input_ids"].shape)) or generate(**k))
    list(translate(model, tiny_tokenizer, [sentence, "A"], max_tokens_per_batch=8, max_new_tokens=1))
    assert shapes[0] == (1, len(tiny_tokenizer(sentence)["input_ids"]))


def test_translate_refuses_a_budget_below_one_token_before_reading(model, tiny_tokenizer):
    with pytest.raises(ValueError, match="`max_tokens_per_batch` must be at least 1, got 0"):
        translate(model, tiny_tokenizer, ["A"], max_tokens_per_batch=0)


def test_length_batches_hold_every_row_once_within_the_budget():
    choose = random.Random(1)
    lengths = [choose.randint(1, 40) for _ in range(300)] + [500]
    batches = list(length_batches(lengths, 100))
    assert sorted(index for batch in batches for index in batch) == list(range(301))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 100 for batch in batches)
    assert batches[0] == [300]


def test_decoding_overrides_hold_only_what_is_given():
    assert decoding_overrides(num_beams=2, length_penalty=0.0) == {"num_beams": 2, "length_penalty": 0.0}


@pytest.mark.parametrize(
    ("name", "value"), [("num_beams", 0), ("length_penalty", float("nan")), ("max_new_tokens_over_source", -1)]
)
def test_decoding_overrides_refuse_values_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        decoding_overrides(**{name: value})
