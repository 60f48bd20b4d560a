# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import math
import re

import pytest
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from vaswani_transformer.training.callbacks import LogLines


def test_each_entry_of_the_log_is_a_line_on_stderr(trained, dataset, capsys):
    options = {"eval_dataset": dataset.select(range(4)), "eval_strategy": "steps", "eval_steps": 3}
    trainer = trained(max_steps=6, logging_steps=2, generation_num_beams=1, **options)
    output, error = capsys.readouterr()
    lines = [line for line in error.splitlines() if re.match(r"\d of 6  ", line)]
    assert (len(lines), output) == (len(trainer.state.log_history), "")
    for line, entry in zip(lines, trainer.state.log_history, strict=True):
        shown = dict(part.split(" ", 1) for part in line.split("  ")[1:])
        assert line.startswith(f"{entry['step']} of 6  ")
        assert ("ETA" in shown) == ("loss" in entry)
        for name in ("loss", "nll", "perplexity", "learning_rate", "eval_loss", "eval_sacrebleu"):
            assert (name in shown) == (name in entry)
            assert float(shown.get(name, "0").replace(",", "")) == pytest.approx(entry.get(name, 0), rel=1e-3)
        if "loss" in entry:
            assert entry["perplexity"] == math.exp(entry["nll"])


def test_bars_and_reports_of_the_user_are_kept(make_trainer):
    class Mine(PrinterCallback):
        pass

    def kinds(**options):
        return [type(each) for each in make_trainer(**options).callback_handler.callbacks]

    assert ProgressCallback in kinds(disable_tqdm=False) and LogLines not in kinds(disable_tqdm=False)
    assert Mine in kinds(extra={"callbacks": [Mine()]})


def test_other_processes_say_nothing(trained, capsys):
    class Second(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            state.is_world_process_zero = False

    trained(max_steps=2, extra={"callbacks": [Second()]})
    assert capsys.readouterr().err == ""
