# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Logs of made-up runs."""

import json
import math


def make_log(steps, scale=1.0):
    """A log with a training entry every update and a validation every ten."""
    log = []
    for step in range(1, steps + 1):
        log.append({"step": step, "loss": 9.0, "nll": scale / step, "learning_rate": step * 1e-4})
        if step % 10 == 0:
            log.append({"step": step, "eval_loss": 9.0, "eval_perplexity": math.exp(scale * 20 / step)})
    return [*log, {"step": steps, "train_runtime": 1.0}]


def write_state(folder, log):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 30, "log_history": log}), encoding="utf-8")
