# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from tiny import SENTENCES, make_model, strip_white_space

from vaswani_transformer import VaswaniTransformerTokenizer
from vaswani_transformer.evaluation.scoring import align_pairs, align_words, token_words

SOURCES = [SENTENCES[0], "A  dog", "", "Two women read a book. ", "é 日 dog", " "]
TARGETS = [SENTENCES[1], "Ein Hund liest ein Buch, ein Hund rennt.", "Park", " Ein  Hundé", "Park Park", "Ein"]


def test_align_words_sums_over_the_tokens_of_a_source_word():
    # Word 0 is tokens 0 and 1, word 1 is token 2, the last token is </s>. 0.2 + 0.25 > 0.3.
    weights = np.array([[0.2, 0.25, 0.3, 0.25]])
    assert align_words(weights, [[0], [0], [1], []], [[0]]) == [(0, 0)]


def test_align_words_averages_over_the_tokens_of_a_target_word():
    # Two of its three tokens attend to word 0 most, but the mean is (0.4, 0.6).
    weights = np.array([[0.55, 0.45], [0.55, 0.45], [0.1, 0.9]])
    assert align_words(weights, [[0], [1]], [[0], [0], [0]]) == [(1, 0)]


def test_align_words_never_aligns_to_the_end_of_the_sentence():
    weights = np.array([[0.1, 0.2, 0.7], [0.2, 0.1, 0.7], [0.0, 0.0, 1.0]])
    assert align_words(weights, [[0], [1], []], [[0], [1], []]) == [(1, 0), (0, 1)]


def test_align_words_takes_the_first_of_equal_words():
    assert align_words(np.array([[0.125, 0.375, 0.375, 0.125]]), [[0], [1], [2], []], [[0]]) == [(1, 0)]


def test_align_words_counts_a_token_for_each_of_its_words():
    # Token 1 lies in both source words and token 0 in both target words: (0.5 + 0.3, 0.3 + 0.2) and, with the second
    # token of target word 1, the means of (0.8, 0.1) and (0.5, 0.9).
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
    assert align_words(weights, [[0], [0, 1], [1]], [[0, 1], [1]]) == [(0, 0), (1, 1)]


def test_align_words_leaves_out_a_target_word_without_tokens():
    assert align_words(np.array([[0.3, 0.7]]), [[0], [1]], [[1]]) == [(1, 1)]


@pytest.mark.parametrize("add_prefix_space", [False, True])
@pytest.mark.parametrize("text", ["A dog  runs", "  A dog ", "é日 dogé", "a\tb\u3000c\xa0d", "😀😀 e\u0301", "\n"])
def test_token_words_gather_the_tokens_that_spell_each_word(add_prefix_space, text):
    tokenizer = VaswaniTransformerTokenizer(add_prefix_space=add_prefix_space)
    tokenizer = tokenizer.train_new_from_iterator(SENTENCES * 5, vocab_size=300, show_progress=False)
    encoded = tokenizer(text, return_offsets_mapping=True)
    words = token_words(text, encoded["offset_mapping"])
    ids = [
        [id for id, row in zip(encoded["input_ids"], words, strict=True) if row == [number]]
        for number in range(len(text.split()))
    ]
    assert [tokenizer.decode(row).strip() for row in ids] == text.split()


def test_token_words_give_a_token_every_word_that_it_touches():
    offsets = [(0, 1), (1, 5), (5, 6), (2, 4), (0, 0)]
    assert token_words("ab  cd", offsets) == [[0], [0, 1], [1], [], []]


def tokens_of_words(tokenizer, text):
    """Places of the tokens of each word, counted in bytes: a character of a byte-level token stands for one."""
    text = strip_white_space(text)  # which no token has
    word_of_byte, number, previous = [], -1, " "
    for character in text:
        number += previous.isspace() and not character.isspace()
        word_of_byte += [None if character.isspace() else number] * len(character.encode())
        previous = character
    places, start = [[] for _ in text.split()], 0
    for place, token in enumerate(tokenizer.tokenize(text)):
        for word in set(word_of_byte[start : start + len(token)]) - {None}:
            places[word].append(place)
        start += len(token)
    return places


def naive_alignment(model, tokenizer, source, target, layer, heads):
    """Loops over words, tokens and heads of one unpadded pair, on the weights that an eager model returns."""
    source_ids, target_ids = (tokenizer(text, return_tensors="pt")["input_ids"] for text in (source, target))
    with torch.no_grad():
        weights = model(source_ids, labels=target_ids, output_attentions=True).cross_attentions[layer][0].tolist()
    pairs = []
    for number, target_tokens in enumerate(tokens_of_words(tokenizer, target)):
        sums = [
            sum(weights[head][t][s] for head in heads for t in target_tokens for s in source_tokens)
            for source_tokens in tokens_of_words(tokenizer, source)
        ]
        pairs += [(sums.index(max(sums)), number)] if sums else []
    return pairs


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize(("layer", "heads"), [(0, None), (1, [1]), (2, [0, 2])])
def test_align_pairs_equals_one_pair_at_a_time_on_returned_weights(tiny_tokenizer, backend, positions, layer, heads):
    sizes = {"num_decoder_layers": 3, "num_heads": 4, "position_encoding": positions}
    model = make_model(**sizes, attn_implementation=backend).double()
    eager = make_model(**sizes, attn_implementation="eager").double()
    expected = [
        naive_alignment(eager, tiny_tokenizer, *pair, layer, heads or range(4))
        for pair in zip(SOURCES, TARGETS, strict=True)
    ]
    got = align_pairs(model, tiny_tokenizer, SOURCES, TARGETS, layer=layer, heads=heads, max_tokens_per_batch=90)
    assert list(got) == expected


def test_align_pairs_reads_the_last_layer_by_default(tiny_model, tiny_tokenizer):
    by_default, last, first = (
        list(align_pairs(tiny_model, tiny_tokenizer, SOURCES, TARGETS, layer=layer)) for layer in (None, 1, 0)
    )
    assert by_default == last != first


def test_align_pairs_gives_nothing_for_an_empty_side(tiny_model, tiny_tokenizer):
    alignments = align_pairs(tiny_model, tiny_tokenizer, ["", "A dog", " ", "A"], ["Ein", "", "Hund", "Ein Hund"])
    assert list(alignments) == [[], [], [], [(0, 0), (0, 1)]]


@pytest.mark.parametrize("options", [{"layer": 2}, {"layer": -1}, {"heads": [0, 2]}, {"heads": [-1]}, {"heads": []}])
def test_align_pairs_refuses_layers_and_heads_that_do_not_exist(tiny_model, tiny_tokenizer, options):
    with pytest.raises(ValueError, match="`layer` must be below 2 and `heads` below 2"):
        align_pairs(tiny_model, tiny_tokenizer, [], [], **options)
