# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Models and sentences for tests of the search, and the rule for translations that may differ in
fp32.

In float64 nothing may differ. In fp32 matrix products of different row counts differ in the last
bits, so a near-tie may flip: a difference counts as one only if both outputs' float64 scores are
within 1e-4, and for at most 0.2 % of the sentences.
"""

import copy
import random
from unittest import mock

import pytest
import torch
import transformers
from naive_search import generated_tokens, gnmt_score
from tiny import make_model

NEAR_TIE = 1e-4
MAX_FLIPPED = 0.002
each_search = pytest.mark.parametrize("num_beams", [1, 4])

# What the search must not depend on: depth, head widths, biases, positions, tied weights.
SHAPES = [
    {},
    {"num_encoder_layers": 1, "num_decoder_layers": 3},
    {"d_k": 4, "d_v": 12, "attention_bias": True},
    {"position_encoding": "learned", "max_position_embeddings": 64},
    {"tie_word_embeddings": False},
]


def random_model(seed, dtype=torch.float64, vocab_size=24):
    """A model of one of the shapes, some of whose translations end by themselves."""
    model = make_model(seed=seed, scale=2.5, vocab_size=vocab_size, **SHAPES[seed % len(SHAPES)])
    with torch.no_grad():
        model.lm_head.weight[2] *= 1.3  # the end
    model.generation_config.max_new_tokens_over_source = 7
    return model.to(dtype)


def random_sentences(seed, num_sentences=None, vocab_size=24):
    draw = random.Random(seed)
    lengths = [draw.randint(1, 12) for _ in range(num_sentences or draw.randint(1, 6))]
    return [[draw.randrange(3, vocab_size) for _ in range(length)] + [2] for length in lengths]


def random_case(seed, num_sentences=None, dtype=torch.float64):
    """A model and a padded batch."""
    return random_model(seed, dtype), pad(random_sentences(seed, num_sentences))


def pad(sentences):
    """Lists of token ids as (B, S) ids and mask."""
    ids = torch.zeros(len(sentences), max(map(len, sentences)), dtype=torch.long)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = torch.tensor(sentence)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


class _Float64Torch:
    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def in_own_precision(model):
    """transformers' loops round logits to float32; within this context not those of a float64
    model.
    """
    exact = _Float64Torch() if model.dtype == torch.float64 else torch
    return mock.patch.object(transformers.generation.utils, "torch", exact)


def decode(model, sentences, **options):
    """[(tokens, score)] of one batch; with n-best, the rows of one sentence are neighbours."""
    with in_own_precision(model):
        out = model.generate(**pad(sentences), return_dict_in_generate=True, **options)
    rows = [generated_tokens(row) for row in out.sequences]
    if "sequences_scores" in out:
        return list(zip(rows, out.sequences_scores.tolist(), strict=True))
    return [  # greedy search has none of its own
        (row, rescored(model, sentence, without_padding(row), 0.6))
        for row, sentence in zip(rows, sentences, strict=True)
    ]


def without_padding(tokens):
    while tokens and tokens[-1] == 0:
        tokens = tokens[:-1]
    return tokens


def log_probs_of(model, sentence, tokens):
    """Log-probability of each token of an output under teacher forcing."""
    with torch.no_grad():
        logits = model(torch.tensor([sentence]), labels=torch.tensor([tokens])).logits[0]
    return torch.log_softmax(logits, -1)[range(len(tokens)), tokens]


def rescored(exact_model, sentence, tokens, alpha, offset=5):
    """GNMT score of one output under teacher forcing by a float64 model."""
    log_prob = log_probs_of(exact_model, sentence, tokens).sum().item()
    return gnmt_score(log_prob, len(tokens), alpha, offset)


def count_other_outputs(model, sentences, found, expected, alpha=None):
    """Sentences of which two searches found other tokens; raises where that is more than a
    near-tie.
    """
    exact_model = copy.deepcopy(model).double()
    num_other = 0
    alpha = model.generation_config.length_penalty if alpha is None else alpha
    for sentence, *outputs in zip(sentences, found, expected, strict=True):
        one, other = map(without_padding, outputs)
        if one == other:
            continue
        assert model.dtype != torch.float64, f"{sentence}: {one}, {other}"
        difference = rescored(exact_model, sentence, one, alpha) - rescored(
            exact_model, sentence, other, alpha
        )
        assert abs(difference) < NEAR_TIE, f"{sentence}: {one}, {other}"
        num_other += 1
    return num_other


def count_flips(model, batches, **options):
    """(sentences, flipped near-ties) of decoding in batches against one by one; raises on real
    differences.
    """
    num_sentences = num_flipped = 0
    for sentences in batches:
        together = [tokens for tokens, _ in decode(model, sentences, **options)]
        alone = [decode(model, [sentence], **options)[0][0] for sentence in sentences]
        num_sentences += len(sentences)
        num_flipped += count_other_outputs(
            model, sentences, together, alone, options.get("length_penalty")
        )
    return num_sentences, num_flipped
