# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a toy model that may be killed at a given moment; started by test_kills.py, under torchrun for two processes.

Where the newest whole checkpoint is, it goes on from there.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize

from vaswani_transformer.training import resuming
from vaswani_transformer.training.checkpoints import list_checkpoints


def kill_inside(name):
    """Makes the process die when a save calls one of its functions for the second time."""
    calls = []

    def die(function):
        def call(*args, **kwargs):
            calls.append(name)
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    owner = {"publish_checkpoint": resuming, "rotate_checkpoints": resuming}
    owner = owner.get(name, resuming.ResumableTrainer)
    setattr(owner, name, die(getattr(owner, name)))


def main(output_dir, options):
    torch.set_num_threads(1)
    inside = options.pop("inside", None)
    if inside and os.environ.get("RANK", "0") == "0":
        kill_inside(inside)
    tokenizer = make_tokenizer()
    dataset = tokenize(tokenizer, make_pairs(60))
    trainer = build_trainer(
        tokenizer,
        dataset,
        output_dir,
        eval_dataset=dataset.select(range(6)),
        dropout=0.1,
        logging_steps=4,
        eval_strategy="steps",
        eval_steps=6,
        save_strategy="steps",
        save_steps=3,
        predict_with_generate=False,
        **{"save_total_limit": 1, **options},
    )
    trainer.train(resume_from_checkpoint=bool(list_checkpoints(output_dir)))
    if trainer.is_world_process_zero():
        torch.save(trainer.model.state_dict(), Path(output_dir) / "weights.pt")
        timed = ("runtime", "per_second", "device_seconds")
        log = [{name: line[name] for name in line if not name.endswith(timed)} for line in trainer.state.log_history]
        (Path(output_dir) / "log.json").write_text(json.dumps(log), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
