# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Aligns the words of given translations by a model's attention (section 3.2.3), in Pharaoh's
format: 0-0 2-1.

Each target word is aligned to the source word that the decoder attends to most while it predicts
the target word:
weights are averaged over heads and summed over the tokens of both words. A word is what stands
between white space, counted from 0. A pair with an empty side has no alignment.

Shapes: B batch, H heads, S source length, T target length.
"""

import argparse
import itertools
import re

import numpy as np
import torch

from vaswani_transformer.evaluation.loading import load_for_inference
from vaswani_transformer.evaluation.translate import SENTENCES_PER_CHUNK, open_lines, paired
from vaswani_transformer.files import check_outputs, write_lines
from vaswani_transformer.pipeline_vaswani_transformer import (
    Batching,
    compute_in_order,
    padded,
    tokenize,
)


def align_pairs(
    model, tokenizer, sources, targets, layer=-1, heads=None, max_tokens_per_batch=4096
):
    """Yield the aligned words of each pair of sentences: (source word, target word), in the order
    of target words.

    Args:
        model: In eval mode.
        tokenizer: Saved with the model.
        sources: Source sentences.
        targets: Their translations.
        layer: Decoder layer whose attention is read, from 0; -1 is the last one.
        heads: Heads to average, from 0; None takes all.
        max_tokens_per_batch: Padded tokens of one batch.
    """
    heads = list(range(model.config.num_heads)) if heads is None else heads

    def compute(batches):
        for rows in batches:
            weights = cross_attention(model, rows, tokenizer.pad_token_id, layer)[:, heads].mean(
                axis=1
            )
            yield [
                align_words(
                    matrix[: len(target_words), : len(source_words)], source_words, target_words
                )
                for matrix, (_, source_words, _, target_words) in zip(weights, rows, strict=True)
            ]

    pairs = paired(sources, targets)
    while chunk := list(itertools.islice(pairs, SENTENCES_PER_CHUNK)):
        columns = []
        for texts in map(list, zip(*chunk, strict=True)):
            encoded = tokenize(tokenizer, texts, return_offsets_mapping=True)
            columns += [encoded["input_ids"], map(token_words, texts, encoded["offset_mapping"])]
        rows = list(zip(*columns, strict=True))
        lengths = [max(len(row[0]), len(row[2])) for row in rows]
        found = compute_in_order(rows, lengths, compute, Batching(max_tokens_per_batch))
        yield from found


def align_words(weights, source_words, target_words):
    """Return pairs of source word and target word; of equal weights the first source word wins.

    Args:
        weights: (T, S) attention of each target token to each source token.
        source_words: (S, source words), from `token_words`.
        target_words: (T, target words), from `token_words`.
    """
    if not source_words.any() or not target_words.any():
        return []
    sums = target_words.T @ weights @ source_words  # (target words, source words)
    return [(source, target) for target, source in enumerate(sums.argmax(axis=1).tolist())]


def token_words(text, offsets):
    """Return a table (tokens, words): True where a token covers a character of a word.

    Args:
        text: Words between white space.
        offsets: Start and end of each token in the text; bytes of one character have the same,
            `</s>` covers nothing.
    """
    words = np.array([word.span() for word in re.finditer(r"\S+", text)]).reshape(-1, 2)
    starts, ends = np.array(offsets).T[..., None]
    return np.maximum(starts, words[:, 0]) < np.minimum(ends, words[:, 1])


@torch.inference_mode()
def cross_attention(model, rows, pad_token_id, layer):
    """Return weights (B, H, T, S); row t belongs to the step that predicts target token t."""
    input_ids, attention_mask = padded([row[0] for row in rows], pad_token_id, model.device)
    labels, _ = padded([row[2] for row in rows], pad_token_id, model.device)
    outputs = model.model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels),
        use_cache=False,
        output_attentions=True,
    )
    return outputs.cross_attentions[layer].cpu().double().numpy()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="folder of a model, or its id on the Hub")
    parser.add_argument("--source", required=True, help="source sentences, one a line; - is stdin")
    parser.add_argument(
        "--target", required=True, help="translations, line by line as in --source; - is stdin"
    )
    parser.add_argument(
        "--output", default="-", help="file for the alignments (default: -, stdout)"
    )
    parser.add_argument(
        "--layer", type=int, default=-1, help="decoder layer to read, from 0 (default: the last)"
    )
    parser.add_argument(
        "--heads", type=int, nargs="+", help="heads to average, from 0 (default: all)"
    )
    parser.add_argument(
        "--max-tokens-per-batch",
        type=int,
        default=4096,
        help="padded tokens at once (default: 4096)",
    )
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16, on a GPU")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    args = parser.parse_args()
    check_outputs({"output": args.output}, [args.source, args.target])
    model, tokenizer = load_for_inference(args.model, device=args.device, bf16=args.bf16)
    with open_lines(args.source) as sources, open_lines(args.target) as targets:
        aligned = align_pairs(
            model, tokenizer, sources, targets, args.layer, args.heads, args.max_tokens_per_batch
        )
        lines = (" ".join(f"{source}-{target}" for source, target in words) for words in aligned)
        write_lines(lines, args.output)


if __name__ == "__main__":
    main()
