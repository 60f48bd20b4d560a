# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model on sentences of random lengths and prints the resident memory, in MiB, over the updates."""

import random
import resource
import sys
from pathlib import Path

import datasets
import torch

sys.path.insert(0, str(Path(__file__).parent))

from transformers import TrainerCallback

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration
from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

VOCABULARY = 500


class Watch(TrainerCallback):
    """Prints the resident memory after every so many updates."""

    def __init__(self, updates):
        self.updates = updates

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.updates == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            print(f"resident {state.global_step} {pages * resource.getpagesize() / 2**20}", flush=True)


def sentences(num_pairs):
    """Pairs of random token ids, 3 to 60 a side."""
    generator = random.Random(0)
    sides = [
        [[generator.randrange(3, VOCABULARY) for _ in range(generator.randint(2, 59))] + [2] for _ in range(num_pairs)]
        for _ in range(2)
    ]
    return datasets.Dataset.from_dict({"input_ids": sides[0], "labels": sides[1]})


def main(output_dir, updates, d_model):
    torch.manual_seed(0)
    config = VaswaniTransformerConfig(
        vocab_size=VOCABULARY, d_model=d_model, d_ff=4 * d_model, num_heads=2, num_encoder_layers=2
    )
    arguments = VaswaniTransformerTrainingArguments(
        output_dir=output_dir,
        max_steps=updates,
        warmup_steps=100,
        max_source_tokens_per_batch=500,
        max_target_tokens_per_batch=500,
        snapshot_steps=50,
        num_averaged_snapshots=3,
        save_steps=100,
        save_total_limit=2,
        logging_steps=20,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = VaswaniTransformerTrainer(
        VaswaniTransformerForConditionalGeneration(config),
        arguments,
        data_collator=collate,
        train_dataset=sentences(4000),
        callbacks=[Watch(10)],
    )
    trainer.train()


def collate(pairs):
    """A padded batch."""
    batch = {}
    for name, padding in (("input_ids", 0), ("labels", -100)):
        rows = [torch.tensor(pair[name]) for pair in pairs]
        batch[name] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)
    return {**batch, "attention_mask": batch["input_ids"].ne(0).long()}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
