# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains with plain gradient descent on one layout and leaves gradients, weights, logs and counts
of pairs.

Started by test_layouts.py, under torchrun for several processes.
"""

import sys
from pathlib import Path

import torch
from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize
from transformers import TrainerCallback

STEPS = {"float32": 3, "float64": 20}


class Recorder(TrainerCallback):
    """Keeps the gradients just before the optimiser takes them, for the first three updates."""

    def __init__(self):
        self.gradients = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        if state.global_step < 3:
            weights = getattr(model, "module", model).named_parameters()
            self.gradients.append({name: weight.grad.clone() for name, weight in weights})


def main(output_dir, dtype, accumulation_steps):
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    dataset = tokenize(tokenizer, make_pairs(60))
    dataset = dataset.add_column("pair", list(range(60)))
    seen = {"pairs": [], "tokens": []}
    trainer = build_trainer(
        tokenizer,
        dataset,
        output_dir,
        eval_dataset=dataset.select(range(13)).remove_columns("pair"),
        dtype=dtype,
        gradient_accumulation_steps=accumulation_steps,
        max_steps=STEPS[dtype],
        data_seed=1,  # whose first updates give the processes unequal numbers of tokens
        optim="sgd",
        learning_rate=0.5,
        lr_scheduler_type="constant",
        logging_steps=3,
        predict_with_generate=False,
        per_device_eval_batch_size=4,
        remove_unused_columns=False,
        extra={"callbacks": [recorder := Recorder()]},
    )
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    collate = trainer.data_collator

    def note(rows):
        """Notes which pairs and how many target tokens are in a batch."""
        seen["pairs"].append([row.pop("pair") for row in rows])
        seen["tokens"].append(sum(len(row["labels"]) for row in rows))
        return collate(rows)

    trainer.data_collator = note
    trainer.train()
    trainer.data_collator = collate
    metrics = trainer.evaluate()
    rank = trainer.args.process_index
    output_dir.mkdir(parents=True, exist_ok=True)
    torch.save(seen, output_dir / f"seen_{rank}.pt")
    if rank == 0:
        names = ("loss", "nll", "train_loss")
        logs = [
            {name: line[name] for name in names if name in line}
            for line in trainer.state.log_history
        ]
        results = {
            "gradients": recorder.gradients,
            "before": before,
            "weights": trainer.model.state_dict(),
            "logs": logs,
            "metrics": metrics,
            "updates_per_epoch": trainer.train_batches.num_effective_batches,
            "world_size": trainer.args.world_size,
        }
        torch.save(results, output_dir / "results.pt")
    trainer.accelerator.wait_for_everyone()


if __name__ == "__main__":
    for dtype in STEPS:
        main(Path(sys.argv[1]) / dtype, dtype, int(sys.argv[2]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
