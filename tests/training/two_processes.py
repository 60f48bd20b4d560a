# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a toy model and leaves weights, log, cost and translations; started by test_distributed.py
under torchrun.
"""

import json
import sys
from pathlib import Path

import datasets
import torch
from toy_language import build_trainer, logged, make_pairs, make_tokenizer, tokenize

from vaswani_transformer.analysis.cost import measure_cost


def main(output_dir, options):
    torch.set_num_threads(1)
    resume = options.pop("resume", None)
    tokenizer = make_tokenizer()
    dataset = tokenize(tokenizer, make_pairs(60))
    if "wrong_row" in options:
        rows = dataset.to_list()
        rows[options.pop("wrong_row")]["labels"][0] = 5000
        dataset = datasets.Dataset.from_list(rows)
    train = dataset.to_iterable_dataset(num_shards=4) if options.pop("stream", False) else dataset
    trainer = build_trainer(tokenizer, train, output_dir, per_device_eval_batch_size=5, **options)
    # a process that fails at once would end before the other has connected
    trainer.accelerator.wait_for_everyone()
    trainer.train(resume_from_checkpoint=resume)
    cost = measure_cost(trainer)
    predictions = trainer.predict(dataset.select(range(13)), num_beams=1).predictions
    if trainer.is_world_process_zero():
        torch.save(trainer.model.state_dict(), Path(output_dir) / "weights.pt")
        texts = tokenizer.batch_decode(predictions.clip(min=0), skip_special_tokens=True)
        results = {
            "texts": texts,
            "nll": logged(trainer, "nll"),
            "cost": cost,
            "total_flos": trainer.state.total_flos,
        }
        (Path(output_dir) / "results.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
