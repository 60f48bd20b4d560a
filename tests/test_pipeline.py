# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""pipeline("translation") where the package is installed."""

import importlib
import itertools

import pandas
import pytest
import torch
from datasets import Dataset
from tiny import make_model
from toy_language import make_marian
from transformers import GenerationConfig, pipeline

import vaswani_transformer
from vaswani_transformer.pipeline_vaswani_transformer import word_scores

TEXTS = ["A dog runs.", "", "Two women read a book in the park.", " \n\t", "A book."]


def expected_text(translate, text):
    ids = translate.model.generate(**translate.tokenizer(text, return_tensors="pt"))
    return translate.tokenizer.decode(ids[0], skip_special_tokens=True)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_a_list_keeps_its_order_in_every_batch_size(translate, batch_size):
    got = [result["translation_text"] for result in translate(TEXTS, batch_size=batch_size)]
    assert got == [expected_text(translate, text) if text.strip() else text for text in TEXTS]


@pytest.mark.parametrize("split_sentences", [True, False])
def test_every_collection_is_taken_in_its_order(translate, split_sentences):
    def given(texts):
        return translate(texts, split_sentences=split_sentences)

    expected = given(TEXTS)
    assert given([]) == []
    assert given(tuple(TEXTS)) == given(Dataset.from_dict({"en": TEXTS})["en"]) == expected
    column = pandas.Series(TEXTS, index=[4, 1, 0, 2, 7])  # not in the order of its labels
    for texts in (map(str, TEXTS), dict.fromkeys(TEXTS).keys(), column, column.to_numpy()):
        assert list(given(texts)) == [[each] for each in expected]


def test_dictionaries_of_generate_are_no_matter_of_the_pipeline(checkpoint, translate):
    other = pipeline("translation", model=str(checkpoint))
    other.model.generation_config.return_dict_in_generate = True
    assert other(TEXTS) == translate(TEXTS)


def test_languages_may_have_a_hyphen(tmp_path, tiny_tokenizer):
    make_model(source_language="en", target_language="pt-BR").save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    assert len(pipeline("translation_en_to_pt-BR", model=str(tmp_path))("A dog.")) == 1


def test_workers_change_no_result(translate):
    assert translate(TEXTS, num_workers=2) == translate(TEXTS)


def test_a_generation_config_of_the_callers_is_taken_without_a_warning(translate, library_log):
    config = GenerationConfig(
        **{**translate.model.generation_config.to_dict(), "max_new_tokens": 2, "num_beams": 1}
    )
    assert translate(TEXTS[0], generation_config=config) == translate(
        TEXTS[0], max_new_tokens=2, num_beams=1
    )
    assert "deprecated" not in library_log.text


def test_a_generation_config_of_the_callers_leaves_the_models_number_of_translations(
    translate, monkeypatch
):
    monkeypatch.setattr(translate.model.generation_config, "num_return_sequences", 2)
    assert len(translate(TEXTS[0], generation_config=GenerationConfig(num_beams=4))) == 2


def test_words_are_scored_without_the_ids_that_the_tokenizer_lacks(tiny_tokenizer):
    words = word_scores(tiny_tokenizer, [350, *tiny_tokenizer("A dog").input_ids, 399], [-1.0] * 9)
    assert [each["word"] for each in words] == ["A", "dog"]


def test_half_of_a_character_is_refused(translate):
    with pytest.raises(ValueError, match="surrogates not allowed"):
        translate(["A dog.", "bad \ud800"], split_sentences=False)


@pytest.fixture
def batches(translate, monkeypatch):
    """Shapes of the batches that `generate` was given."""
    shapes = []
    generate = translate.model.generate
    monkeypatch.setattr(
        translate.model,
        "generate",
        lambda **kwargs: shapes.append(kwargs["input_ids"].shape) or generate(**kwargs),
    )
    return shapes


@pytest.mark.slow
def test_a_list_is_batched_by_length_under_a_budget_of_tokens(translate, batches, monkeypatch):
    texts = [f"{'long ' * (number % 7)}text {chr(97 + number % 26)}." for number in range(60)]
    alone = [translate(text, max_new_tokens=8)[0] for text in texts]
    batches.clear()
    monkeypatch.setattr("vaswani_transformer.pipeline_vaswani_transformer._TOKENS_PER_BATCH", 400)
    assert translate(texts, max_new_tokens=8) == alone
    assert len(batches) < 12
    assert all(rows * length <= 400 for rows, length in batches)
    lengths = [length for _, length in batches]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    ("number", "options", "rows"), [(7, {"batch_size": 3}, [3, 3, 1]), (300, {}, [128, 128, 44])]
)
def test_batches_have_the_callers_size_or_a_bounded_one(translate, batches, number, options, rows):
    translate(["a"] * number, **options)
    assert [size for size, _ in batches] == rows


class Numbered(torch.utils.data.Dataset):
    """A data set that knows its length and raises nothing behind it."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return f"text {index}"


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_data_set_ends_at_its_length_and_may_be_read_twice(translate, batch_size):
    expected = [translate(f"text {index}") for index in range(3)]
    results = translate(Numbered(), batch_size=batch_size)
    assert (len(results), list(results), list(results)) == (3, expected, expected)
    assert next(iter(results)) == expected[0]


def test_a_streamer_sees_the_texts_one_by_one(translate, batches):
    class Streamer:
        def put(self, value):
            pass

        def end(self):
            pass

    assert len(translate(["A dog.", "A book."], streamer=Streamer(), num_beams=1)) == 2
    assert [rows for rows, _ in batches] == [1, 1]


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_of_no_text_is_refused(translate, batch_size):
    with pytest.raises(ValueError, match=f"`batch_size` must be at least 1, got {batch_size}"):
        translate(TEXTS, batch_size=batch_size)


@pytest.mark.parametrize(("batch_size", "read_ahead"), [(None, 2), (2, 32)])
def test_an_endless_generator_is_read_as_far_as_needed(translate, batch_size, read_ahead):
    numbers = []

    def texts():
        for number in itertools.count():
            numbers.append(number)
            yield f"text {number % 5}"

    results = translate(texts(), batch_size=batch_size)
    assert next(iter(results)) == translate("text 0")
    assert len(numbers) <= read_ahead


def test_another_pair_is_refused_with_the_call_that_works(checkpoint):
    with pytest.raises(ValueError, match=r'pipeline\("translation_en_to_de", model=...\)'):
        pipeline("translation_de_to_en", model=str(checkpoint))


@pytest.mark.parametrize(("name", "own"), [("src_lang", "en"), ("tgt_lang", "de")])
def test_a_language_that_the_model_does_not_have_is_refused(name, own, translate):
    assert translate(TEXTS[0], **{name: own}) == translate(TEXTS[0])
    with pytest.raises(ValueError, match=f"must be en and de, .*'{name}': 'fr'"):
        translate(TEXTS[0], **{name: "fr"})


def test_importing_again_does_not_break(checkpoint, translate):
    importlib.reload(vaswani_transformer)
    assert pipeline("translation_en_to_de", model=str(checkpoint))(TEXTS[0]) == translate(TEXTS[0])


def test_a_text_beyond_the_longest_training_sentence_is_translated_whole_with_one_warning(
    translate, batches, caplog, monkeypatch
):
    monkeypatch.setattr(
        translate.model.generation_config, "longest_training_source", 7, raising=False
    )
    texts = ["word " * 30, "word " * 31]
    translate(texts, batch_size=1, max_new_tokens=2)
    assert batches == [(1, len(ids)) for ids in translate.tokenizer(texts)["input_ids"]]
    assert (
        sum("longer than the longest training sentence" in r.getMessage() for r in caplog.records)
        == 1
    )


def test_steps_that_transformers_knows_translate_a_text(translate):
    assert translate.run_single(TEXTS[0], {}, {"num_beams": 1}, {}) == translate(
        TEXTS[0], num_beams=1
    )


def test_a_checkpoint_with_missing_tensors_is_refused(tiny_tokenizer):
    broken = make_model()
    broken._loading_info = {"missing_keys": ["lm_head.weight"]}
    with pytest.raises(ValueError, match=r"missing lm_head\.weight"):
        pipeline("translation", model=broken, tokenizer=tiny_tokenizer)


@pytest.fixture
def marian():
    return make_marian()


def test_a_text_for_a_model_of_another_package_is_split_only_if_that_is_asked_for(
    tiny_tokenizer, marian, monkeypatch
):
    seen = []
    generate = marian.generate

    def noting(input_ids, **options):
        seen.append(tiny_tokenizer.decode(input_ids[0]))
        return generate(input_ids, **options)

    monkeypatch.setattr(marian, "generate", noting)
    translate = pipeline("translation", model=marian, tokenizer=tiny_tokenizer, max_new_tokens=5)
    text = ">>fra<< A dog runs. Two women read."
    ids = generate(**tiny_tokenizer(text, return_tensors="pt"), max_new_tokens=5)
    expected = tiny_tokenizer.decode(ids[0], skip_special_tokens=True)
    assert translate([text, ""]) == [{"translation_text": expected}, {"translation_text": ""}]
    assert seen == [f"{text}</s>"]
    translate(text, split_sentences=True)
    assert seen[1:] == [">>fra<< A dog runs.</s>", "Two women read.</s>"]


def test_a_tokenizer_that_needs_languages_gets_them(tiny_tokenizer, translate):
    class NeedsLanguages(type(tiny_tokenizer)):
        def _build_translation_inputs(self, text, return_tensors, src_lang, tgt_lang):
            return self(f"{src_lang} {tgt_lang} {text}", return_tensors=return_tensors)

    tokenizer = NeedsLanguages(tokenizer_object=tiny_tokenizer.backend_tokenizer)
    told = pipeline("translation", model=translate.model, tokenizer=tokenizer)
    languages = {"src_lang": "en", "tgt_lang": "de"}
    assert told("A dog.", **languages) == translate("en de A dog.")
    with pytest.raises(ValueError, match="at most 65536 bytes, got 70000"):
        told("a" * 70_000, **languages)


def test_the_languages_of_a_call_replace_those_of_construction_and_these_the_tasks_name(
    tiny_tokenizer, marian, monkeypatch
):
    def noting(text, return_tensors, **languages):
        seen[text] = list(languages.values())
        return tiny_tokenizer(text)

    seen = {}
    monkeypatch.setattr(tiny_tokenizer, "_build_translation_inputs", noting, raising=False)
    given = {"model": marian, "tokenizer": tiny_tokenizer, "max_new_tokens": 1}
    pipeline("translation_en_to_de", **given)("A dog.")
    translate = pipeline("translation_en_to_de", **given, src_lang="eng_Latn", tgt_lang="deu_Latn")
    translate("A book.", src_lang=None)
    # Python would write Turkish capitals wrongly, so the sentence is left in capitals.
    translate("TWO DOGS.", tgt_lang="tur_Latn", split_sentences=True)
    del seen[""]
    assert seen == {
        "A dog.": ["en", "de"],
        "A book.": ["eng_Latn", "deu_Latn"],
        "TWO DOGS.": ["eng_Latn", "tur_Latn"],
    }


def test_arguments_that_nothing_takes_are_refused_by_name(translate):
    with pytest.raises(ValueError, match="not used by the model.*truncation"):
        translate("A dog runs.", truncation=True)
