# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a toy model that may be killed at a given moment; under torchrun for two processes.

Where the newest whole checkpoint is, it goes on from there.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize

from vaswani_transformer.training import resuming
from vaswani_transformer.training.checkpoints import list_checkpoints


def kill_inside(name):
    """Makes the process die when a save calls one of its functions for the second time."""
    calls, owner = [], resuming if hasattr(resuming, name) else resuming.ResumableTrainer
    function = getattr(owner, name)

    def call(*args, **kwargs):
        calls.append(name)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    setattr(owner, name, call)


def main(output_dir, options):
    torch.set_num_threads(1)
    inside = options.pop("inside", None)
    if inside and os.environ.get("RANK", "0") == "0":
        kill_inside(inside)
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
    if trainer.is_world_process_zero():
        trainer.state.save_to_json(str(Path(output_dir) / "trainer_state.json"))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
