# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a toy model, from the newest checkpoint if there is one; test_lost_processes.py kills its
data workers.
"""

import json
import sys
from pathlib import Path

import torch
from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize

from vaswani_transformer.training.checkpoints import list_checkpoints


def main(output_dir, options):
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    dataset = tokenize(tokenizer, make_pairs(60))
    fixed = {
        "dropout": 0.1,
        "logging_steps": 4,
        "predict_with_generate": False,
        "save_total_limit": 1,
    }
    fixed |= {"eval_strategy": "steps", "eval_steps": 6, "save_strategy": "steps", "save_steps": 3}
    trainer = build_trainer(
        tokenizer, dataset, output_dir, eval_dataset=dataset.select(range(6)), **fixed, **options
    )
    trainer.train(resume_from_checkpoint=bool(list_checkpoints(output_dir)))
    trainer.state.save_to_json(str(Path(output_dir) / "trainer_state.json"))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
