# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Whether translations depend on the other sentences of their batch, counted by the rule that tests hold them to.

In float64 nothing may differ. In fp32 matrix products of different row counts differ in the last bits, so a near-tie
may flip: a difference counts as one only if both outputs' float64 scores are within 1e-4, and for at most 0.2 % of
the sentences.
"""

import copy
import os

import pytest
import torch
from naive_search import generated_tokens, gnmt_score

NEAR_TIE = 1e-4
MAX_FLIPPED = 0.002
needs_trained_model = pytest.mark.skipif(
    not {"TRAINED_MODEL", "TRAINED_SOURCE"} <= set(os.environ),
    reason="TRAINED_MODEL (folder of a trained model) and TRAINED_SOURCE (text, one sentence a line) are not set",
)


def pad(sentences):
    """Lists of token ids as (B, S) ids and mask."""
    ids = torch.zeros(len(sentences), max(map(len, sentences)), dtype=torch.long)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = torch.tensor(sentence)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def decode(model, sentences, **options):
    """[(tokens, sequences_score)] of one batch; with n-best, the rows of one sentence are neighbours."""
    out = model.generate(**pad(sentences), return_dict_in_generate=True, **options)
    return [
        (generated_tokens(row), score) for row, score in zip(out.sequences, out.sequences_scores.tolist(), strict=True)
    ]


def without_padding(tokens):
    while tokens and tokens[-1] == 0:
        tokens = tokens[:-1]
    return tokens


def rescored(exact_model, sentence, tokens, alpha):
    """GNMT score of one output under teacher forcing by a float64 model."""
    with torch.no_grad():
        logits = exact_model(torch.tensor([sentence]), labels=torch.tensor([tokens])).logits[0]
    log_prob = torch.log_softmax(logits, -1).gather(1, torch.tensor(tokens).unsqueeze(1)).sum().item()
    return gnmt_score(log_prob, len(tokens), alpha)


def count_flips(model, batches, **options):
    """(sentences, flipped near-ties) of decoding in batches against one by one; raises on real differences."""
    exact_model = copy.deepcopy(model).double()
    alpha = options.get("length_penalty", model.generation_config.length_penalty)
    num_sentences = num_flipped = 0
    for sentences in batches:
        together = decode(model, sentences, **options)
        for sentence, (tokens, _) in zip(sentences, together, strict=True):
            alone = without_padding(decode(model, [sentence], **options)[0][0])
            num_sentences += 1
            if (tokens := without_padding(tokens)) == alone:
                continue
            assert model.dtype != torch.float64, f"{sentence}: {tokens} in a batch, {alone} alone"
            difference = rescored(exact_model, sentence, tokens, alpha) - rescored(exact_model, sentence, alone, alpha)
            assert abs(difference) < NEAR_TIE, f"{sentence}: {tokens} in a batch, {alone} alone"
            num_flipped += 1
    print(f"{num_sentences} sentences in {model.dtype}, {num_flipped} near-ties decided otherwise in a batch")
    return num_sentences, num_flipped
