# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention weights of every head of every layer in one pair of sentences."""

import torch


def attention_maps(model, tokenizer, source, target):
    """Return (weights, row tokens, column tokens) for each kind of attention.

    Weights are an array (layers, heads, rows, columns), and each row sums to 1. The kinds are
    "encoder" (source tokens to source tokens), "decoder" (target tokens fed to those before them)
    and "cross" (target tokens predicted to source tokens).

    Args:
        model: In eval mode.
        tokenizer: Saved with the model.
        source: Source sentence.
        target: Its translation, the model's or another.
    """
    encoded = tokenizer(source, text_target=target, return_tensors="pt").to(model.device)
    with torch.no_grad():
        outputs = model(**encoded, output_attentions=True)
    encoder, decoder, cross = (
        torch.cat(weights).cpu().double().numpy()
        for weights in (
            outputs.encoder_attentions,
            outputs.decoder_attentions,
            outputs.cross_attentions,
        )
    )
    read = shown_tokens(tokenizer, source)
    predicted = shown_tokens(tokenizer, target)
    fed = [tokenizer.bos_token, *predicted[:-1]]
    return {
        "encoder": (encoder, read, read),
        "decoder": (decoder, fed, fed),
        "cross": (cross, predicted, read),
    }


def shown_tokens(tokenizer, text):
    """Return the part of a text that each token stands for; white space of its own is "␣"."""
    spans = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    tokens = [text[start:end].strip() or "␣" for start, end in spans]
    return [*tokens[:-1], tokenizer.eos_token]
