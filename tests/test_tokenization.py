# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer: its special tokens, its words, white space around a text.

Any text: fuzz/test_fuzz_tokenizer.py.
"""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers import AddedToken, AutoTokenizer, TokenizersBackend
from transformers.utils import logging

from vaswani_transformer import VaswaniTransformerTokenizer

# lone surrogates are not text
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_special_tokens_have_the_documented_ids(tiny_tokenizer):
    assert tiny_tokenizer.convert_tokens_to_ids(["<pad>", "<s>", "</s>"]) == [0, 1, 2]
    assert (
        tiny_tokenizer.pad_token_id,
        tiny_tokenizer.bos_token_id,
        tiny_tokenizer.eos_token_id,
    ) == (0, 1, 2)


@pytest.mark.parametrize("space", ["\t", "\r", " ", "\u00a0", "\u3000", " \n "])
def test_white_space_around_a_text_changes_no_id(tiny_tokenizer, space):
    expected = tiny_tokenizer("two words").input_ids
    assert (
        tiny_tokenizer(f"{space}two words{space}", text_target=f"two words{space}").input_ids
        == expected
    )
    assert tiny_tokenizer(text_target=f"{space}two words").input_ids == expected


def test_spaces_beside_an_added_token_stay_and_special_tokens_stay_text(tiny_tokenizer, tmp_path):
    tiny_tokenizer.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens(["<ent>"])
    ids = tokenizer(" A <ent> runs ").input_ids
    assert 300 in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "A <ent> runs"
    # an ordinary token leaves it text
    assert tokenizer("</s>").input_ids == tiny_tokenizer("</s>").input_ids


@pytest.mark.parametrize(
    "words",
    [
        ["मैं", " हिन्दी", " बोलता", " हूँ"],
        ["நான்", " தமிழ்", " பேசுகிறேன்"],
        ["ฉันไม่รู้"],
        ["مُحَمَّدٌ", " رَسُولٌ"],
        ["cafe\u0301", " u\u0308ber"],
        ["I", "'ll", " go", ",", " x", " 12", "!?"],
    ],
)
def test_a_word_keeps_its_combining_marks(tiny_tokenizer, words):
    pieces = tiny_tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("".join(words))
    assert ["".join(words)[start:end] for _, (start, end) in pieces] == words


@given(TEXTS)
def test_a_text_without_combining_marks_has_the_words_of_gpt2(tiny_tokenizer, text):
    # Python may not know the newest marks: their category is Cn.
    text = "".join(each for each in text if unicodedata.category(each) not in "Mn Mc Me Cn")
    expected = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    assert tiny_tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text) == expected


def with_language_tag(tokenizer, folder):
    """A copy with a special token of its own, as multilingual models have."""
    tokenizer.save_pretrained(folder)
    copy = AutoTokenizer.from_pretrained(folder)
    copy.add_special_tokens({"extra_special_tokens": ["<2fr>"]})
    return copy


def test_a_special_token_of_ones_own_is_found_in_texts_with_and_without_this_package(
    tiny_tokenizer, tmp_path
):
    tokenizer = with_language_tag(tiny_tokenizer, tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for reader in (tokenizer, TokenizersBackend.from_pretrained(tmp_path)):
        assert reader("<2fr>a").input_ids == [300, *tiny_tokenizer("a").input_ids]


@pytest.mark.parametrize(
    "given",
    [
        {"extra_special_tokens": ["<2de>"]},
        {"additional_special_tokens": ["<2de>"]},
        {"mask_token": "<2de>"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_special_token_given_at_loading_is_found_in_texts(tiny_tokenizer, tmp_path, given):
    tiny_tokenizer.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, **given)
    assert tokenizer("<2de>a").input_ids == [300, *tiny_tokenizer("a").input_ids]


def test_an_added_token_that_is_special_is_found_in_texts(tiny_tokenizer, tmp_path):
    tiny_tokenizer.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens([AddedToken("<2de>", special=True)])
    assert tokenizer("<2de>a").input_ids == [300, *tiny_tokenizer("a").input_ids]


def test_special_tokens_can_be_text_again_after_one_was_added(tiny_tokenizer, tmp_path):
    with_language_tag(tiny_tokenizer, tmp_path).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, split_special_tokens=True)
    assert tokenizer("</s>").input_ids == tiny_tokenizer("</s>").input_ids


def test_adding_a_special_token_says_that_special_tokens_are_no_text_any_more(
    tiny_tokenizer, tmp_path, caplog
):
    logger = logging.get_logger("vaswani_transformer.tokenization_vaswani_transformer")
    logger.addHandler(caplog.handler)
    with_language_tag(tiny_tokenizer, tmp_path)
    logger.removeHandler(caplog.handler)
    assert "`</s>` included" in caplog.text


def test_a_folder_without_a_vocabulary_is_refused(tiny_tokenizer, tmp_path):
    tiny_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold a tokenizer\.json"):
        VaswaniTransformerTokenizer.from_pretrained(tmp_path)
