# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import re
import sys
from types import SimpleNamespace

import benchmark_training as benchmark
import pytest


def turn(**speeds):
    common = {"activation_mib": 1.0, "utilization": 0.5, "loss": 1.0, "kinds": {}}
    return {name: {"tokens_per_second": speed, **common} for name, speed in speeds.items()}


def test_ratios_are_medians_over_rounds_of_the_same_rounds_speeds(capsys):
    rounds = [turn(ours=200, marian=100), turn(ours=30, marian=10), turn(ours=400, marian=100)]
    benchmark.report(["ours", "marian"], rounds, "wall")
    ours = capsys.readouterr().out.splitlines()[1]
    assert re.split(r"\s{2,}", ours)[1:3] == ["200", "3.00 [2.00..4.00]"]


def test_time_is_shared_out_by_kind_of_operation():
    times = {"aten::mm": 5, "aten::addmm": 1, "aten::exp_": 1, "_scaled_dot_product_flash_attention": 2, "aten::lt": 1}
    events = [SimpleNamespace(key=name, self_cpu_time_total=time) for name, time in times.items()]
    profiler = SimpleNamespace(key_averages=lambda: events)
    assert benchmark.time_by_kind(profiler, "cpu") == {
        "matrix products": 0.6,
        "attention": 0.2,
        "everything else": 0.2,
    }


@pytest.mark.slow
@pytest.mark.parametrize("contestant", benchmark.CONTESTANTS)
def test_each_contestant_trains_and_is_measured(contestant, monkeypatch):
    monkeypatch.setitem(benchmark.SIZES, "tiny", {**benchmark.SIZES["tiny"], "d_model": 16, "d_ff": 32})
    task = benchmark.Task(contestant, "tiny", "cpu", 512, 1, 1, False, False, True)
    figures = benchmark.measure(task)
    assert figures["tokens_per_second"] > 0 and figures["activation_mib"] > 0
    assert sum(figures["kinds"].values()) == pytest.approx(1)


@pytest.mark.slow
def test_contestants_get_the_same_batches(tmp_path):
    task = benchmark.Task("ours", "tiny", "cpu", 512, 1, 1, False, False, False)
    data, tokenizer = benchmark.synthetic_pairs(task), benchmark.make_tokenizer()
    options = {"output_dir": str(tmp_path), "seed": 0, "use_cpu": True, "report_to": "none", "max_steps": 1}
    ours = benchmark.our_trainer(task, data, tokenizer, dict(options)).get_train_dataloader()
    theirs = benchmark.marian_trainer(
        dataclasses.replace(task, contestant="marian"), data, tokenizer, dict(options)
    ).get_train_dataloader()
    for first, second in zip(ours, theirs, strict=True):
        assert first["labels"].tolist() == second["labels"].tolist()


def test_command_line_is_explained(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark_training.py", "--help"])
    with pytest.raises(SystemExit):
        benchmark.main()
    assert "--size" in capsys.readouterr().out
