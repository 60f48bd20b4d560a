# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The speed of a recipe, measured on made-up pairs."""

import dataclasses
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vaswani_transformer.analysis.cost import training_flops
from vaswani_transformer.data import TokenBatchSampler
from vaswani_transformer.training import cost as cost_module
from vaswani_transformer.training import speed as speed_module
from vaswani_transformer.training.recipes import Recipe, get_recipe
from vaswani_transformer.training.speed import MeasuredSpeed, Stopwatch, describe_speed, measure_speed, synthetic_pairs

TINY = Recipe(
    vocab_size=300,
    d_model=16,
    d_ff=32,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    max_source_tokens_per_batch=300,
    max_target_tokens_per_batch=250,
)
SPEED = MeasuredSpeed(
    num_updates=10,
    source_tokens=2000,
    target_tokens=3000,
    seconds=2.5,
    padding_fraction=0.125,
    num_devices=1,
    device="Abacus, float32",
    flops_per_second=4e9,
)


@pytest.fixture(autouse=True)
def fixed_rate(monkeypatch):
    """Devices that multiply 2 GFLOP/s."""
    monkeypatch.setattr(cost_module, "measure_matrix_rate", lambda device, dtype: 2e9)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The working folder and that of temporary files, both empty."""
    for name in ("working", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "working")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def measure(recipe=TINY, num_updates=2, **options):
    return measure_speed(recipe, num_updates=num_updates, use_cpu=True, **options)


# ---- what is counted and timed ----


@pytest.mark.parametrize("budget", [None, 300], ids=["whole", "accumulated"])
def test_counted_tokens_are_those_of_the_batches_after_the_warm_up(budget):
    recipe = dataclasses.replace(TINY, max_padded_tokens_per_device=budget)
    lengths = [np.array(synthetic_pairs(recipe)[f"{side}_length"][:]) for side in ("source", "target")]
    limits = {"max_source_tokens": 300, "max_target_tokens": 250, "max_padded_tokens": budget or 4096}
    sampler = TokenBatchSampler(*lengths, **limits)
    steps = sampler.accumulation_steps
    assert steps == 1 if budget is None else steps > 1
    rows = list(itertools.chain(*list(sampler)[3 * steps : (3 + 4) * steps]))
    speed = measure(recipe, num_updates=4)
    assert (speed.source_tokens, speed.target_tokens) == tuple(sum(side[row] for row in rows) for side in lengths)


def test_clock_is_read_after_the_warm_up_and_after_the_last_update(monkeypatch):
    clock = iter([100.0, 103.5])
    monkeypatch.setattr(speed_module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    speed = measure()
    assert speed.seconds == 3.5
    assert speed.tokens_per_second == pytest.approx((speed.source_tokens + speed.target_tokens) / 3.5)


def test_stopwatch_times_what_follows_the_warm_up(monkeypatch):
    cost = SimpleNamespace(source_tokens=0, target_tokens=0, settle=lambda accelerator: None)
    state, args = SimpleNamespace(global_step=0, max_steps=5), SimpleNamespace(device=torch.device("cpu"))
    monkeypatch.setattr(
        speed_module, "time", SimpleNamespace(perf_counter=lambda: {1: 60.0, 2: 70.0, 5: 76.0}[state.global_step])
    )
    stopwatch = Stopwatch(cost, None, num_warm_up_updates=2)
    for source, target in ((1000, 2000), (100, 200), (30, 40), (5, 6), (7, 8)):
        state.global_step += 1
        cost.source_tokens, cost.target_tokens = cost.source_tokens + source, cost.target_tokens + target
        stopwatch.on_step_end(args, state, None)
    assert (stopwatch.seconds, stopwatch.tokens) == (6.0, (42, 54))


def test_stopwatch_waits_for_the_device_before_it_reads_the_clock(monkeypatch):
    done = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: done.append("waited"))
    monkeypatch.setattr(
        speed_module, "time", SimpleNamespace(perf_counter=lambda: done.append("read the clock") or 0.0)
    )
    cost = SimpleNamespace(source_tokens=1, target_tokens=1, settle=lambda accelerator: done.append("counted"))
    args, state = SimpleNamespace(device=torch.device("cuda")), SimpleNamespace(global_step=1, max_steps=9)
    Stopwatch(cost, None, num_warm_up_updates=1).on_step_end(args, state, None)
    assert done == ["counted", "waited", "read the clock"]


@pytest.mark.parametrize(("bf16", "dtype"), [(False, "float32"), (True, "bfloat16")])
def test_device_is_told_with_its_precision_and_matrix_rate(bf16, dtype):
    speed = measure(num_updates=1, bf16=bf16)
    assert (speed.num_devices, speed.flops_per_second) == (1, 2e9)
    assert re.fullmatch(rf"CPU with \d+ thread\(s\), {dtype}", speed.device)


def test_recipe_that_chooses_the_best_checkpoint_is_measured_without_metrics(monkeypatch):
    monkeypatch.setitem(sys.modules, "vaswani_transformer.evaluation.metrics", None)
    choosing = {"load_best_model": True, "early_stopping_patience": 1, "dataset": "wmt/wmt14"}
    assert measure(dataclasses.replace(TINY, **choosing)).tokens_per_second > 0


def test_more_updates_than_an_epoch_has_are_measured(monkeypatch):
    monkeypatch.setattr(speed_module, "BATCHES_PER_POOL", 3)
    assert measure(num_updates=7).num_updates == 7


# ---- what is left behind ----


def test_nothing_is_left_on_disk(folders):
    measure()
    assert files(folders) == ["temporary", "working"]


def test_nothing_is_left_on_disk_after_an_error(folders, monkeypatch):
    monkeypatch.setattr(Stopwatch, "on_step_end", lambda *args, **kwargs: [][0])
    with pytest.raises(IndexError):
        measure()
    assert files(folders) == ["temporary", "working"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_at_once_without_a_checkpoint(number, folders, monkeypatch, caplog):
    monkeypatch.setattr(Stopwatch, "on_step_end", lambda *args, **kwargs: os.kill(os.getpid(), number))
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        measure()
    assert "checkpoint" not in caplog.text
    assert files(folders) == ["temporary", "working"]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_training_that_is_no_training_warns_of_no_danger(caplog):
    measure(get_recipe("paper-base-en-de", **{name: getattr(TINY, name) for name in CHANGED}))
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


CHANGED = [field.name for field in dataclasses.fields(Recipe) if getattr(TINY, field.name) != field.default]


# ---- errors ----


@pytest.mark.parametrize("num_updates", [0, -1, 1.5, True])
def test_impossible_number_of_updates_is_refused(num_updates):
    with pytest.raises(ValueError, match=f"`num_updates` must be a whole number of at least 1, got {num_updates}"):
        measure(num_updates=num_updates)


def test_batches_too_small_for_any_pair_are_refused():
    with pytest.raises(ValueError, match="must keep at least one pair under .*max_source_tokens_per_batch=2,"):
        measure(dataclasses.replace(TINY, max_source_tokens_per_batch=2))


# ---- the pairs ----


@pytest.fixture(scope="module")
def base_pairs():
    return synthetic_pairs(get_recipe("paper-base-en-de"))


@pytest.mark.parametrize("side", ["source", "target"])
def test_lengths_are_log_normal_around_27_tokens(base_pairs, side):
    lengths = np.array(base_pairs[f"{side}_length"][:])
    deviation = {"source": 0.55, "target": (0.55**2 + 0.18**2) ** 0.5}[side]
    assert np.mean(lengths) == pytest.approx(27, rel=0.01)
    assert np.std(np.log(lengths)) == pytest.approx(deviation, rel=0.02)
    assert np.exp(np.median(np.log(lengths))) == pytest.approx(27 * np.exp(-(deviation**2) / 2), rel=0.03)
    assert lengths.min() >= 2 and lengths.max() <= 256


def test_lengths_of_both_sides_go_together(base_pairs):
    source, target = (np.log(base_pairs[f"{side}_length"][:]) for side in ("source", "target"))
    assert np.corrcoef(source, target)[0, 1] == pytest.approx(0.95, abs=0.01)


def test_pairs_fill_a_hundred_updates(base_pairs):
    lengths = base_pairs["source_length"][:], base_pairs["target_length"][:]
    sampler = TokenBatchSampler(*lengths, max_source_tokens=25_000, max_target_tokens=25_000)
    assert 95 <= sampler.num_effective_batches <= 108


@pytest.mark.parametrize(("ids", "length"), [("input_ids", "source_length"), ("labels", "target_length")])
def test_sentences_have_their_lengths_and_end_in_eos_alone(ids, length):
    for row in synthetic_pairs(TINY):
        assert len(row[ids]) == row[length]
        assert row[ids][-1] == 2
        assert all(3 <= token < TINY.vocab_size for token in row[ids][:-1])


def test_pairs_are_the_same_every_time():
    assert synthetic_pairs(TINY)[:] == synthetic_pairs(TINY)[:]


def test_pairs_too_long_for_the_recipe_are_left_out():
    lengths = synthetic_pairs(dataclasses.replace(TINY, max_tokens_per_sentence=20))["source_length"][:]
    assert max(lengths) == 20


# ---- cost ----


def test_cost_is_that_of_the_whole_recipe_at_this_speed():
    cost = SPEED.cost(TINY)
    seconds = 100_000 * (300 + 250) / (5000 / 2.5)
    assert (cost.seconds, cost.device_seconds, cost.flops_paper) == pytest.approx((seconds, seconds, seconds * 4e9))
    assert cost.flops_counted == training_flops(TINY.model_config(), 30_000_000, 25_000_000)


def test_perfect_scaling_takes_the_same_device_seconds():
    cost, scaled = SPEED.cost(TINY), SPEED.cost(TINY, times_devices=8)
    assert (scaled.num_devices, scaled.seconds) == pytest.approx((8, cost.seconds / 8))
    assert scaled.device_seconds == pytest.approx(cost.device_seconds)


def test_description_tells_what_was_measured():
    text = describe_speed(TINY, SPEED).replace("\n", " ")
    assert "Measured on 1 x Abacus, float32: 10 updates after 3 that warmed up, 2,000 source and 3,000 target" in text
    assert "tokens in 2.5 s, 0.25 s an update; 12.5% of padding" in text


def test_description_says_that_perfect_scaling_was_not_measured():
    *_, text = describe_speed(TINY, SPEED).split("\n8 such devices")
    assert "if they scaled perfectly, which was not measured: 16,000 tokens a second, 0.955 hours" in text


def test_several_devices_are_not_scaled():
    assert "such devices" not in describe_speed(TINY, dataclasses.replace(SPEED, num_devices=2))


@pytest.mark.slow
@pytest.mark.multi_process
def test_two_processes_are_measured_together_and_one_speaks(tmp_path):
    command = ["cost", "--recipe", "quickstart", "--measure", "--updates", "2", "--use-cpu"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "vaswani_transformer.cli", *command],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    alone = measure(get_recipe("quickstart"))
    tokens = f"{alone.source_tokens:,} source and {alone.target_tokens:,} target tokens"
    assert done.stdout.replace("\n", " ").count(f"2 updates after 3 that warmed up, {tokens}") == 1
    assert re.search(r"^devices +2 +8", done.stdout, flags=re.MULTILINE)
    assert files(tmp_path) == []
