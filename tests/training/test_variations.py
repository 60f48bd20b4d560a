# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 trained: rows scaled to a recipe, their runs, and the table beside the paper's."""

import dataclasses
import json
import shutil

import pytest
from filelock import FileLock
from toy_language import make_pairs

from vaswani_transformer.analysis.table_3 import VARIATIONS
from vaswani_transformer.training import variations
from vaswani_transformer.training.recipes import Recipe, get_recipe
from vaswani_transformer.training.variations import (
    read_variations,
    scaled_variation,
    train_variations,
)

ROWS = {variation.name: variation for variation in VARIATIONS}
SIZES = ("num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")


# ---- scaling ----


@pytest.mark.parametrize("name", ROWS)
def test_row_scaled_to_the_papers_base_is_the_papers_row(name):
    scaled, paper = scaled_variation(ROWS[name], get_recipe("paper-base-en-de")), get_recipe(f"table3-{name}")
    assert scaled.model_config().to_dict() == paper.model_config().to_dict()
    assert (scaled.label_smoothing, scaled.max_steps) == (paper.label_smoothing, paper.max_steps)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("base", (3, 128, 512, 8, 16, 16, 0.1, 0.1, 2500)),
        ("A1", (3, 128, 512, 1, 128, 128, 0.1, 0.1, 2500)),
        ("A4", (3, 128, 512, 32, 4, 4, 0.1, 0.1, 2500)),
        ("B1", (3, 128, 512, 8, 4, 16, 0.1, 0.1, 2500)),
        ("C1", (1, 128, 512, 8, 16, 16, 0.1, 0.1, 2500)),
        ("C5", (3, 256, 512, 8, 32, 32, 0.1, 0.1, 2500)),
        ("C7", (3, 128, 1024, 8, 16, 16, 0.1, 0.1, 2500)),
        ("D2", (3, 128, 512, 8, 16, 16, 0.2, 0.1, 2500)),
        ("D3", (3, 128, 512, 8, 16, 16, 0.1, 0.0, 2500)),
        ("big", (3, 256, 1024, 16, 16, 16, 0.3, 0.1, 7500)),
    ],
)
def test_row_at_tiny_size_has_these_values(name, values):
    recipe = scaled_variation(ROWS[name], get_recipe("multi30k-table3"))
    config = recipe.model_config()
    assert config.num_encoder_layers == config.num_decoder_layers
    sizes = (config.num_encoder_layers, config.d_model, config.d_ff, config.num_heads, config.d_k, config.d_v)
    assert (*sizes, config.dropout, recipe.label_smoothing, recipe.max_steps) == values


def test_row_e_learns_its_positions():
    row = scaled_variation(ROWS["E"], get_recipe("multi30k-table3"))
    assert row.model_config().position_encoding == "learned"


def test_rates_scale_as_sizes_do():
    recipe = get_recipe("multi30k-table3", dropout=0.25, label_smoothing=0.05)
    found = [scaled_variation(ROWS[name], recipe) for name in ("C1", "D1", "D2", "D4")]
    rates = [(row.dropout, row.label_smoothing) for row in found]
    assert rates == [(0.25, 0.05), (0.0, 0.05), (0.5, 0.05), (0.25, 0.1)]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("D1", {"dropout": 0.0}, "`dropout` must be above 0 and below 1 for a row of Table 3 that has 0.0"),
        ("big", {"dropout": 0.4}, "`dropout` must be above 0 and below 0.333 for a row"),
        ("D4", {"label_smoothing": 0.0}, "`label_smoothing` must be above 0 and below 0.5 for a row"),
    ],
)
def test_row_that_would_be_as_base_or_without_signal_is_refused(name, values, message):
    with pytest.raises(ValueError, match=message):
        scaled_variation(ROWS[name], get_recipe("multi30k-table3", **values))


@pytest.mark.parametrize("name", ["quickstart", "multi30k-tiny", "tatoeba-small"])
def test_rows_are_of_the_last_update_whatever_the_recipe_keeps(name):
    row = scaled_variation(ROWS["A2"], get_recipe(name, load_best_model=True, early_stopping_patience=3))
    kept = (row.num_averaged_snapshots, row.load_best_model, row.early_stopping_patience)
    assert kept == (0, False, None)


def test_row_is_tested_on_the_validation_set():
    recipe = get_recipe("multi30k-table3", validation_source="v.en", validation_target="v.de", test_source="t.en")
    row = scaled_variation(ROWS["A2"], recipe)
    assert row.data_arguments("test") == row.data_arguments("validation")


def test_size_that_does_not_scale_is_refused():
    with pytest.raises(ValueError, match=r"`num_encoder_layers` must be a multiple of 3 for a row .* got 4\."):
        scaled_variation(ROWS["C1"], get_recipe("multi30k-table3", num_encoder_layers=4))


# ---- runs ----


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Base row of a tiny model on two text files a split."""
    folder = tmp_path_factory.mktemp("text")
    files = {}
    for split, seed, size in (("train", 0, 80), ("validation", 1, 6)):
        for side, sentences in zip(("source", "target"), zip(*make_pairs(size, seed), strict=True), strict=True):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
            files[f"{split}_{side}"] = str(path)
    return Recipe(
        name="tiny",
        target_language="de",
        vocab_size=290,
        d_model=16,
        d_ff=32,
        num_heads=8,
        num_encoder_layers=3,
        num_decoder_layers=3,
        max_source_tokens_per_batch=200,
        max_target_tokens_per_batch=200,
        max_steps=4,
        warmup_steps=2,
        num_averaged_snapshots=0,
        eval_num_beams=0,
        save_steps=2,
        max_new_tokens_over_source=2,
        **files,
    )


@pytest.fixture(scope="module")
def trained(recipe, tmp_path_factory):
    """Folder and rows of a finished call: base with two seeds, C1 with one."""
    folder = tmp_path_factory.mktemp("runs") / "table3"
    train_variations(recipe, folder, rows=["base"], seeds=[0, 1], use_cpu=True)
    return folder, train_variations(recipe, folder, rows=["C1"], use_cpu=True)


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_rows_come_in_the_papers_order(trained):
    assert [row.name for row in trained[1]] == ["base", "C1"]


def test_figures_are_those_of_the_runs_for_each_seed(trained):
    folder, (base, _) = trained
    runs = [folder / "base-seed0", folder / "base-seed1"]
    assert base.perplexities == tuple(read_json(run / "train_results.json")["last_eval_perplexity"] for run in runs)
    assert base.bleus == tuple(read_json(run / "test_results.json")["test_paper_bleu"] for run in runs)
    assert base.perplexities[0] != base.perplexities[1]


def test_perplexity_is_of_the_weights_after_the_last_update(trained):
    assert read_json(trained[0] / "C1-seed0" / "train_results.json")["last_eval_loss"] > 0
    state = read_json(trained[0] / "C1-seed0" / "trainer_state.json")
    assert [entry["step"] for entry in state["log_history"] if "eval_loss" in entry] == [4]


def test_rows_share_a_vocabulary(trained):
    folder = trained[0]
    vocabularies = {path.read_bytes() for path in folder.glob("*/tokenizer.json")}
    assert len(vocabularies) == 1
    assert len(list(folder.glob("*/tokenizer.json"))) == 4


def test_finished_rows_are_not_trained_again(recipe, trained, monkeypatch):
    monkeypatch.setattr(variations, "train", lambda *args, **options: pytest.fail("trained again"))
    assert train_variations(recipe, trained[0], rows=["C1"], use_cpu=True) == trained[1]


def test_row_without_scores_is_measured_alone(recipe, trained, tmp_path, monkeypatch):
    shutil.copytree(trained[0], tmp_path / "copy")
    (tmp_path / "copy" / "C1-seed0" / "test_results.json").unlink()
    assert [row.name for row in read_variations(tmp_path / "copy", recipe)] == ["base"]
    monkeypatch.setattr(variations, "train", lambda *args, **options: pytest.fail("trained again"))
    rows = train_variations(recipe, tmp_path / "copy", rows=["C1"], use_cpu=True)
    assert [row.bleus for row in rows] == [row.bleus for row in trained[1]]


@pytest.mark.slow
def test_longer_schedule_goes_on_from_the_shorter_one(recipe, trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "copy")
    longer = dataclasses.replace(recipe, max_steps=6)
    rows = train_variations(longer, tmp_path / "copy", rows=["C1"], use_cpu=True)
    assert [row.name for row in rows] == ["C1"]  # base has the shorter schedule: left out
    train_variations(longer, tmp_path / "new", rows=["C1"], use_cpu=True)
    weights = [tmp_path / name / "C1-seed0" / "model.safetensors" for name in ("copy", "new")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_another_search_is_measured_without_training(recipe, trained, tmp_path, monkeypatch):
    shutil.copytree(trained[0], tmp_path / "copy")
    monkeypatch.setattr(variations, "train", lambda *args, **options: pytest.fail("trained again"))
    greedy = dataclasses.replace(recipe, num_beams=1)
    rows = train_variations(greedy, tmp_path / "copy", rows=["C1"], use_cpu=True)
    assert [(row.name, row.search.split(",")[0]) for row in rows] == [("C1", "1 beam")]


@pytest.mark.parametrize("values", [{"learning_rate": 0.5}, {"vocab_size": 280}, {"validation_source": "other.en"}])
def test_folder_of_another_recipe_is_refused(recipe, trained, values):
    with pytest.raises(ValueError, match=f"the run has {next(iter(values))} "):
        train_variations(dataclasses.replace(recipe, **values), trained[0], rows=["A2"], use_cpu=True)
    assert not (trained[0] / "A2-seed0").exists()


def test_run_that_differs_from_its_row_is_refused_by_name(recipe, trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "copy")
    own = tmp_path / "copy" / "C1-seed0"
    dataclasses.replace(Recipe.load(own), dropout=0.4).save(own)
    with pytest.raises(ValueError, match=r"the run has dropout 0\.4 instead of 0\.1"):
        read_variations(tmp_path / "copy", recipe)


def test_row_that_another_process_trains_is_left_to_it(recipe, trained, tmp_path, monkeypatch):
    shutil.copytree(trained[0], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "C1-seed0")
    monkeypatch.setattr(variations, "train", lambda *args, **options: pytest.fail("trained, too"))
    with FileLock(tmp_path / "copy" / "C1-seed0.lock"):
        rows = train_variations(recipe, tmp_path / "copy", rows=["base", "C1"], use_cpu=True)
    assert [row.name for row in rows] == ["base"]


def test_processes_of_a_launcher_are_refused(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="`rows` must be trained by processes of their own, got 2 of one launcher"):
        train_variations(recipe, tmp_path / "new")


def test_wrong_seed_is_refused_before_anything_is_written(recipe, tmp_path):
    with pytest.raises(ValueError, match="`seed`"):
        train_variations(recipe, tmp_path / "new", rows=["base"], seeds=[0, -1])
    assert not (tmp_path / "new").exists()


def test_interruption_says_how_to_go_on(recipe, tmp_path, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(variations, "train", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        train_variations(recipe, tmp_path / "new", rows=["base"], use_cpu=True)
    assert caught.value.__notes__ == ["Here the same command again goes on with it."]


def test_unknown_row_is_refused_before_anything_is_written(recipe, tmp_path):
    with pytest.raises(ValueError, match=r"`rows` must be of base, A1, .*, got Z9\."):
        train_variations(recipe, tmp_path / "new", rows=["A1", "Z9"])
    assert not (tmp_path / "new").exists()


def test_row_that_does_not_scale_is_refused_before_anything_is_trained(recipe, tmp_path):
    odd = dataclasses.replace(recipe, num_encoder_layers=4)
    with pytest.raises(ValueError, match="num_encoder_layers"):
        train_variations(odd, tmp_path / "new", rows=["base", "C1"])
    assert not (tmp_path / "new").exists()


def test_recipe_without_validation_data_is_refused(recipe, tmp_path):
    without = dataclasses.replace(recipe, validation_source=None, validation_target=None)
    with pytest.raises(ValueError, match="`validation_source`"):
        train_variations(without, tmp_path / "new")
