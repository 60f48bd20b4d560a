# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Decoding of one sentence from its definition, without caches, batches or any early stop."""

import torch


def log_probabilities(model, source, prefixes):
    """(rows, V) float64 log-probabilities of the token after each prefix, all of one length."""
    with torch.no_grad():
        logits = model(
            source.expand(len(prefixes), -1), decoder_input_ids=torch.tensor(prefixes)
        ).logits[:, -1]
    return torch.log_softmax(logits.double(), dim=-1)


def continuations(model, source, running):
    """Every way to add one token to running hypotheses [(log-probability, tokens)], in no order."""
    rows = log_probabilities(model, source, [tokens for _, tokens in running]).tolist()
    return [
        (log_prob + value, [*tokens, token])
        for (log_prob, tokens), row in zip(running, rows, strict=True)
        for token, value in enumerate(row)
    ]


def best(candidates, count):
    return sorted(candidates, key=lambda candidate: -candidate[0])[:count]


def gnmt_score(log_prob, length, alpha, offset=5):
    return log_prob / ((offset + length) / (offset + 1)) ** alpha


def exhaustive_search(model, source, alpha, limit):
    """Every output up to the limit as [(GNMT score, tokens after <s>)], best first."""
    finished = []
    running = [(0.0, [1])]
    for length in range(1, limit + 1):
        candidates, running = continuations(model, source, running), []
        for candidate in candidates:
            ends = candidate[1][-1] == 2 or length == limit
            (finished if ends else running).append(candidate)
    scored = [
        (gnmt_score(log_prob, len(tokens) - 1, alpha), tokens[1:]) for log_prob, tokens in finished
    ]
    return sorted(scored, key=lambda pair: -pair[0])


def beam_search(model, source, limit, *, num_beams=4, alpha=0.6, offset=5, prefix=(1,)):
    """Finished hypotheses as [(GNMT score, generated tokens)], best first; runs until nothing is
    left to extend.

    Among the best `2 * num_beams` continuations of a step, those that end count as finished if they
    are among the best `num_beams`, and the best `num_beams` of the others run on. At the limit
    everything ends.
    """
    running = [(0.0, list(prefix))]
    finished = []
    for length in range(1, limit + 1):
        candidates = best(continuations(model, source, running), 2 * num_beams)
        is_end = [tokens[-1] == 2 or length == limit for _, tokens in candidates]
        finished += [
            (gnmt_score(log_prob, length, alpha, offset), tokens[len(prefix) :])
            for (log_prob, tokens), ends in zip(
                candidates[:num_beams], is_end[:num_beams], strict=True
            )
            if ends
        ]
        running = [
            candidate for candidate, ends in zip(candidates, is_end, strict=True) if not ends
        ][:num_beams]
        if not running:
            break
    return sorted(finished, key=lambda pair: -pair[0])


def generated_tokens(row, prompt_length=1):
    """Tokens of one generated row behind its prompt, up to and with `</s>`, as a list."""
    tokens = row.tolist()[prompt_length:]
    return tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
