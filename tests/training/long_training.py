# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model on sentences of random lengths and prints the resident memory, in MiB, over
the updates.
"""

import random
import resource
import sys
from pathlib import Path

import datasets
from tiny import make_model
from toy_language import build_trainer, make_tokenizer
from transformers import TrainerCallback


class Watch(TrainerCallback):
    """Prints the resident memory after every 10 updates."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % 10 == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            print(
                f"resident {state.global_step} {pages * resource.getpagesize() / 2**20}", flush=True
            )


def sentences(num_pairs, vocab_size):
    """Pairs of random token ids, 3 to 60 a side."""
    generator = random.Random(0)
    columns = {}
    for name in ("input_ids", "labels"):
        lengths = [generator.randint(2, 59) for _ in range(num_pairs)]
        columns[name] = [
            [generator.randrange(3, vocab_size) for _ in range(length)] + [2] for length in lengths
        ]
    return datasets.Dataset.from_dict(columns)


if __name__ == "__main__":
    tokenizer = make_tokenizer()
    build_trainer(
        tokenizer,
        sentences(4000, len(tokenizer)),
        sys.argv[1],
        wrap=lambda _: make_model(
            vocab_size=len(tokenizer), d_model=64, d_ff=256, num_decoder_layers=6, dropout=0.1
        ),
        max_steps=int(sys.argv[2]),
        warmup_steps=100,
        max_source_tokens_per_batch=500,
        max_target_tokens_per_batch=500,
        snapshot_steps=50,
        num_averaged_snapshots=3,
        save_strategy="steps",
        save_steps=100,
        save_total_limit=2,
        logging_steps=20,
        extra={"callbacks": [Watch()]},
    ).train()
