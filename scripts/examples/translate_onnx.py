# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translates lines of stdin to stdout with an exported model, without torch: numpy, tokenizers and onnxruntime.

python scripts/examples/translate_onnx.py runs/my-model-onnx < sentences.en > sentences.de

Greedy search, at most 50 tokens longer than the source. Beam search is VaswaniTransformerOnnxModel's, which needs
torch and transformers.
"""

import argparse
import json
import sys
from itertools import islice
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer


def greedy_search(encoder, decoder, config, input_ids, attention_mask):
    """(B, T) tokens for (B, S) source tokens; padding follows the end."""
    num_rows, limits = len(input_ids), attention_mask.sum(axis=1) + 50
    encoded = encoder.run(None, {"input_ids": input_ids, "attention_mask": attention_mask})
    names = [output.name.replace("present", "past_key_values") for output in encoder.get_outputs()]
    source = dict(zip(names[1:], encoded[1:], strict=True))
    past = {
        each.name: np.zeros((num_rows, each.shape[1], 0, each.shape[3]), np.float32)
        for each in decoder.get_inputs()
        if ".decoder." in each.name
    }
    tokens = np.full((num_rows, 1), config["decoder_start_token_id"])
    found, is_done = [], np.zeros(num_rows, dtype=bool)
    while not is_done.all():
        step = {"input_ids": tokens, "encoder_attention_mask": attention_mask, **past, **source}
        logits, *present = decoder.run(None, step)
        past = dict(zip(past, present, strict=True))
        tokens = np.where(is_done, config["pad_token_id"], logits[:, -1].argmax(axis=-1))[:, None]
        found.append(tokens)
        is_done |= np.isin(tokens[:, 0], config["eos_token_id"]) | (len(found) >= limits)
    return np.concatenate(found, axis=1)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of an exported model")
    folder = parser.parse_args(arguments).folder

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True  # "</s>" in a text is text
    tokenizer.enable_padding(pad_id=config["pad_token_id"])
    encoder, decoder = (InferenceSession(folder / f"{name}_model.onnx") for name in ("encoder", "decoder"))
    while lines := [line.rstrip("\r\n") for line in islice(sys.stdin, 32)]:
        encodings = tokenizer.encode_batch(lines)
        ids, mask = np.array([each.ids for each in encodings]), np.array([each.attention_mask for each in encodings])
        translations = tokenizer.decode_batch(greedy_search(encoder, decoder, config, ids, mask))
        print(
            "\n".join(text if line.strip() else "" for line, text in zip(lines, translations, strict=True)), flush=True
        )


if __name__ == "__main__":
    main()
