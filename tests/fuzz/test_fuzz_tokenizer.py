# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Any text through the tokenizer."""

import pytest
from hypothesis import strategies as st
from nasty import fuzz, texts
from tiny import strip_white_space
from transformers import AutoTokenizer, TokenizersBackend

from vaswani_transformer.data import train_tokenizer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reloaded(folder):
    return AutoTokenizer.from_pretrained(folder), TokenizersBackend.from_pretrained(folder)


@fuzz(60_000, short=100, text=texts)
def test_any_text_comes_back_in_ids_of_the_vocabulary(tiny_tokenizer, text):
    ids = tiny_tokenizer(text)["input_ids"]
    assert tiny_tokenizer.decode(ids, skip_special_tokens=True) == strip_white_space(text)
    assert ids[-1] == 2
    assert all(3 <= token < 300 for token in ids[:-1])  # special tokens as text are text


@fuzz(15_000, some=st.lists(texts, min_size=1, max_size=5))
def test_a_batch_is_its_texts_one_by_one_on_either_side_and_after_reloading(
    tiny_tokenizer, reloaded, some
):
    alone = [tiny_tokenizer(text)["input_ids"] for text in some]
    both = tiny_tokenizer(some, text_target=some)
    assert both["input_ids"] == both["labels"] == alone
    for tokenizer in reloaded:
        again = tokenizer(some, text_target=some)
        assert again["input_ids"] == again["labels"] == alone


@fuzz(300, short=5, some=st.lists(texts, min_size=1, max_size=6), vocab_size=st.integers(259, 300))
def test_a_vocabulary_trained_on_any_text_is_lossless_but_for_its_normalizer(some, vocab_size):
    tokenizer = train_tokenizer(sentences=some, vocab_size=vocab_size, show_progress=False)
    assert 259 <= len(tokenizer) <= vocab_size
    expected = [tokenizer.backend_tokenizer.normalizer.normalize_str(text) for text in some]
    assert (
        tokenizer.batch_decode(tokenizer(some)["input_ids"], skip_special_tokens=True) == expected
    )
