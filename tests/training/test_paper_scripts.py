# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Figures of the scripts that reproduce the paper's tables; test_readme.py runs their commands."""

import dataclasses
import itertools
import json
import math
import runpy
import sys

import measure_layers
import numpy as np
import processes
import pytest
import torch
from maps import attention_maps
from measure_speed import describe_speed, measure_speed, synthetic_pairs
from safetensors.torch import save_file
from sweep import sweep
from tiny import SMALLEST, make_model, write_sentences
from toy_language import limits, make_pairs, tiny_recipe
from train_table3 import BASE, ROWS, base_recipe, format_rows, scaled_recipe, train_rows

from vaswani_transformer.data import TokenBatchSampler
from vaswani_transformer.inference.evaluate import evaluate_model, load_evaluation_set
from vaswani_transformer.inference.translate import translate
from vaswani_transformer.recipe import Recipe, get_recipe

pytest.importorskip("matplotlib", reason="needs the extra [viz]")

from draw_attention import draw_attention
from figures import draw_positions

SCRIPTS = processes.ROOT / "scripts" / "paper"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs a script with words of a command line in an empty folder, and returns what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(script, *words):
        monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
        runpy.run_path(str(SCRIPTS / script), run_name="__main__")
        return capsys.readouterr().out

    return run


# ---- layers ----


def test_eager_attention_alone_holds_scores_and_weights_of_all_heads():
    memory = measure_layers.measure_layers([128, 256, 512], d=8, repeats=1)[1]
    for n, count in memory.pop("attention, eager").items():
        assert 2 * 4 * 8 * n**2 <= count <= 2.3 * 4 * 8 * n**2
    assert all(measure_layers.fit_exponent(sizes) <= 1.05 for sizes in memory.values())


# ---- figures ----


def test_positions_hold_the_formula():
    table, products = draw_positions(64, 30).axes[:2]
    expected = [
        sum(math.cos(k / 10_000 ** (2 * i / 64)) for i in range(32)) for k in range(-15, 15)
    ]
    np.testing.assert_allclose(
        products.get_lines()[0].get_ydata(), expected, rtol=0, atol=64 * 2e-7
    )
    assert table.images[0].get_array()[1, 0] == pytest.approx(math.sin(1))


def test_attention_is_drawn_with_its_weights_and_tokens(tiny_tokenizer):
    source, model = "A dog runs.", make_model(scale=2.5)
    (target,) = translate(model, tiny_tokenizer, [source])
    maps = attention_maps(model, tiny_tokenizer, source, target)
    for kind, (weights, rows, columns) in maps.items():
        panels = [axes for axes in draw_attention(maps, [kind], heads=[1]).axes if axes.images]
        for layer, axes in zip(range(2), panels, strict=True):
            assert axes.get_title() == f"layer {layer}, head 1"
            np.testing.assert_array_equal(axes.images[0].get_array(), weights[layer, 1])
        assert [label.get_text() for label in axes.get_yticklabels()] == rows
        assert [label.get_text() for label in axes.get_xticklabels()] == columns


# ---- speed ----

TINY = Recipe(
    vocab_size=300,
    **SMALLEST,
    max_source_tokens_per_batch=300,
    max_target_tokens_per_batch=250,
)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 300], ids=["whole", "accumulated"])
def test_counted_tokens_are_those_of_the_batches_after_the_warm_up(budget):
    recipe = dataclasses.replace(TINY, max_padded_tokens_per_device=budget)
    lengths = [
        np.array(synthetic_pairs(recipe)[f"{side}_length"][:]) for side in ("source", "target")
    ]
    bounds = {
        "max_source_tokens": 300,
        "max_target_tokens": 250,
        "max_padded_tokens": budget or 4096,
    }
    sampler = TokenBatchSampler(*lengths, **bounds)
    steps = sampler.accumulation_steps
    rows = list(itertools.chain(*list(sampler)[3 * steps : (3 + 4) * steps]))
    speed = measure_speed(recipe, num_updates=4, use_cpu=True)
    assert (speed["source_tokens"], speed["target_tokens"]) == tuple(
        sum(side[row] for row in rows) for side in lengths
    )
    assert "4 update(s) after 3 that warmed up" in describe_speed(speed).replace("\n", " ")


@pytest.mark.slow
@pytest.mark.multi_process
def test_two_processes_are_measured_together_and_one_speaks(tmp_path):
    words = [SCRIPTS / "measure_speed.py", "--recipe", "quickstart", "--updates", "1", "--use-cpu"]
    status, printed, errors = processes.run(words, tmp_path, 2)
    assert status == 0, errors
    assert printed.replace("\n", " ").count("Measured on 2 x CPU") == 1
    assert {path.suffix for path in tmp_path.iterdir()} == {".txt"}  # what was printed


# ---- sweep ----

LIMIT = {"max_new_tokens_over_source": 3}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_tokenizer):
    """Folder of a model with three snapshots of other weights, and the files of a test set."""
    folder = tmp_path_factory.mktemp("run")
    make_model(scale=2.5).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    (folder / "snapshots").mkdir()
    for step in (2, 4, 10):
        # a tied tensor once, as in a snapshot
        weights = dict(make_model(seed=step, scale=2.5).named_parameters())
        save_file(weights, folder / "snapshots" / f"step-{step:08d}.safetensors")
    write_sentences(folder, "test", copies=1)
    return folder


@pytest.fixture
def corpus(trained):
    return {"source_file": str(trained / "test.en"), "target_file": str(trained / "test.de")}


def test_averages_are_of_the_newest_snapshots(trained, corpus, tiny_tokenizer):
    test_set = load_evaluation_set(**corpus)
    found = list(sweep("num_averaged_snapshots", trained, corpus, values=[3, 1], **LIMIT))
    for point, seeds in zip(found, [(10,), (2, 4, 10)], strict=True):
        states = [make_model(seed=seed, scale=2.5).state_dict() for seed in seeds]
        model = make_model()
        with torch.no_grad():
            model.load_state_dict(
                {name: sum(state[name] for state in states) / len(states) for name in states[0]}
            )
        expected, _ = evaluate_model(model, tiny_tokenizer, test_set, **LIMIT)
        assert point["test_chrf"] == expected["test_chrf"]


# ---- Table 3, trained ----


@pytest.mark.parametrize("name", ROWS)
def test_row_scaled_to_the_papers_base_is_the_papers_row(name):
    scaled, paper = (
        scaled_recipe(name, get_recipe("paper-base-en-de")),
        get_recipe(f"table3-{name}"),
    )
    assert scaled.model_config().to_dict() == paper.model_config().to_dict()
    assert (scaled.label_smoothing_factor, scaled.max_steps) == (
        paper.label_smoothing_factor,
        paper.max_steps,
    )


def test_row_at_tiny_size_has_these_values():
    recipe = scaled_recipe("big", base_recipe(BASE, max_steps=1000))
    config = recipe.model_config()
    assert (config.d_model, config.d_ff, config.num_heads, config.d_v) == (256, 1024, 16, 16)
    assert (recipe.label_smoothing_factor, recipe.max_steps) == (0.1, 3000)
    assert recipe.peak_learning_rate == pytest.approx((256 * 500) ** -0.5)


@pytest.mark.parametrize(
    ("name", "change"), [("C1", {"num_encoder_layers": 4}), ("D1", {"dropout": 0.0})]
)
def test_row_that_does_not_scale_is_refused(name, change):
    with pytest.raises(ValueError, match=f"`{next(iter(change))}` must scale"):
        scaled_recipe(name, get_recipe(BASE, **change))


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Base row of a tiny model on two text files a split."""
    splits = {"train": make_pairs(80), "validation": make_pairs(6, seed=1)}
    sizes = {"num_heads": 8, "num_encoder_layers": 3, "num_decoder_layers": 3}
    options = {"max_steps": 2, "warmup_steps": 2, "save_steps": 2, "generation_num_beams": 0}
    options |= {"target_language": "de", "max_new_tokens_over_source": 2, **limits(200)}
    return tiny_recipe(tmp_path_factory.mktemp("text"), splits, **sizes, **options)


@pytest.mark.slow
def test_rows_are_trained_once_and_stand_beside_the_papers(recipe, tmp_path):
    train_rows(recipe, tmp_path, rows=["base"], seeds=[0, 1], use_cpu=True)
    train_rows(recipe, tmp_path, rows=["C1"], use_cpu=True)
    assert len({path.read_bytes() for path in tmp_path.glob("*/tokenizer.json")}) == 1
    lines = format_rows(recipe, tmp_path).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["base", "C1"]
    runs = [
        json.loads((tmp_path / f"base-seed{seed}" / "train_results.json").read_text())
        for seed in (0, 1)
    ]
    mean = sum(run["last_eval_perplexity"] for run in runs) / 2
    assert f" {mean:.2f} ± " in lines[1] and f"{100 * (6.11 / 4.92 - 1):+.1f} %" in lines[2]
    (tmp_path / "base-seed1.log").touch()  # neither is a run
    (tmp_path / "C1-seed0-old").mkdir()
    weights = tmp_path / "C1-seed0" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    train_rows(recipe, tmp_path, rows=["C1"], use_cpu=True)
    assert weights.stat().st_mtime_ns == written
    for change in ({"dropout": 0.3}, {"vocab_size": 310}):
        other = dataclasses.replace(recipe, **change)
        with pytest.raises(ValueError, match=f"must be the one of the run.*{next(iter(change))}"):
            train_rows(other, tmp_path, rows=["C2"], use_cpu=True)
    assert not (tmp_path / "C2-seed0").exists()
    for change in ({"num_beams": 1}, {"max_steps": 4}):  # their figures are not those of the rows
        lines = format_rows(dataclasses.replace(recipe, **change), tmp_path).splitlines()
        assert lines[1] == ""
    less_memory = dataclasses.replace(recipe, max_padded_tokens_per_device=150, num_beams=1)
    train_rows(less_memory, tmp_path, rows=["C1"], use_cpu=True)
    assert [line.split()[0] for line in format_rows(less_memory, tmp_path).splitlines()[1:2]] == [
        "C1"
    ]


def test_rows_without_a_validation_set_are_refused_before_training(recipe, tmp_path):
    alone = dataclasses.replace(recipe, validation_source=None, validation_target=None)
    with pytest.raises(ValueError, match="`validation_source` and `validation_target` must be"):
        train_rows(alone, tmp_path / "rows", rows=["base"], use_cpu=True)
    assert not (tmp_path / "rows").exists()


def test_a_row_that_is_refused_leaves_nothing_behind(recipe, tmp_path):
    with pytest.raises(ValueError, match="must scale"):
        train_rows(dataclasses.replace(recipe, dropout=0.9), tmp_path, rows=["D2"], use_cpu=True)
    mistyped = dataclasses.replace(recipe, train_source="nowhere.en")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        train_rows(mistyped, tmp_path, rows=["base"], use_cpu=True)
    assert not list(tmp_path.iterdir())
