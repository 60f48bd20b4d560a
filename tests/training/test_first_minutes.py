# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a run with data of one's own tells at its start, and what it works out by itself."""

import re
import shutil
from pathlib import Path

import pytest
from cli_runs import refused, train_arguments
from toy_language import make_pairs
from transformers import TrainerControl, TrainerState, TrainingArguments

from vaswani_transformer.cli import main
from vaswani_transformer.recipe import RECIPES, Recipe, fit_schedule, get_recipe
from vaswani_transformer.training.callbacks import LogLines, PaceCallback
from vaswani_transformer.training.train import fit_to_minutes, training_arguments


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Texts of the toy language under names of English and French."""
    monkeypatch.chdir(tmp_path)
    for number, language in enumerate(("en", "fr")):
        Path(f"train.{language}").write_text(
            "".join(f"{pair[number]}\n" for pair in make_pairs(80))
        )
    return {"train_source": "train.en", "train_target": "train.fr"}


def tiny(*flags, **changes):
    """A run without languages."""
    unknown = dict.fromkeys(("source_language", "target_language"))
    return train_arguments(*flags, **{"train_target": "train.fr", **unknown, **changes})


# ---- languages ----


@pytest.mark.parametrize("name", ["tatoeba-small", "quickstart", "paper-base-en-de"])
def test_a_recipes_languages_name_and_description_are_not_those_of_other_data(name):
    recipe = get_recipe(name, train_source="a/train.en", train_target="train.fr")
    assert (recipe.source_language, recipe.target_language) == ("en", "fr")
    assert (recipe.name, recipe.description, recipe.d_model) == (
        "custom",
        "",
        RECIPES[name].d_model,
    )
    with pytest.raises(ValueError, match="must be given with data of your own.* en and de"):
        get_recipe(name, train_pairs="train.jsonl")
    given = get_recipe(
        name, train_pairs="train.jsonl", source_language="se", target_language="zh-TW"
    )
    assert (given.source_language, given.target_language) == ("se", "zh-TW")


def test_a_recipe_for_given_files_keeps_its_name_with_its_languages():
    recipe = get_recipe("multi30k-tiny", train_source=["train.lc.en"], train_target=["train.lc.de"])
    assert (recipe.name, recipe.train_source) == ("multi30k-tiny", "train.lc.en")
    assert recipe.description == RECIPES["multi30k-tiny"].description
    assert get_recipe("small", train_source="a.en", train_target="a.fr").name == "small"


@pytest.mark.parametrize("code", ["jp", "German", "d"])
def test_a_code_of_no_language_is_refused(code):
    with pytest.raises(ValueError, match=f"`target_language` must be .* got {code}. .* Czech cs"):
        get_recipe("small", target_language=code)


def test_names_without_a_language_say_nothing():
    recipe = get_recipe(None, train_source="train.src", train_target="train.txt")
    assert (recipe.source_language, recipe.target_language) == (None, None)
    asked = get_recipe(
        None,
        train_source="a.en",
        train_target="a.fr",
        source_language="en",
        target_language="deu_Latn",
    )
    assert asked.target_language == "deu_Latn"


@pytest.mark.parametrize("exchanged", ["train", "validation"])
def test_files_of_the_other_sides_language_are_refused(files, capsys, exchanged):
    names = {
        f"{split}_{side}": f"train.{end}"
        for split in ("train", "validation")
        for side, end in zip(
            ("source", "target"), ("en", "fr")[:: -1 if split == exchanged else 1], strict=True
        )
    }
    error = refused(capsys, train_arguments(**names, source_language="en", target_language="fr"))
    assert "train.fr must be text in en, got the suffix of fr. Exchange the two files" in error
    assert not Path("run").exists()


def test_exchanged_files_are_not_evaluated(files, capsys, tmp_path):
    assert main(tiny()) == 0
    command = "evaluate --model run --source train.fr --reference train.en"
    error = refused(capsys, command.split())
    assert "train.fr must be text in en, got the suffix of fr." in error
    assert not Path("run/test_results.json").exists()


def test_languages_that_nobody_told_are_missed(files, capsys):
    for end, side in (("en", "source"), ("fr", "target")):
        Path(f"train.{end}").rename(f"{side}.txt")
    assert main(tiny(train_source="source.txt", train_target="target.txt")) == 0
    assert "(no --source-language or no --target-language)" in capsys.readouterr().err


# ---- cadences and minutes ----


def test_fewer_updates_have_four_validations_and_snapshots_at_the_same_parts_of_the_training():
    recipe = get_recipe("tatoeba-small", max_steps=1200, logging_steps=7)
    assert (recipe.eval_steps, recipe.save_steps, recipe.snapshot_steps, recipe.logging_steps) == (
        300,
        300,
        10,
        7,
    )
    assert get_recipe("tatoeba-small", max_steps=6000).eval_steps == 500
    more = get_recipe("tatoeba-small", max_steps=24_000)
    assert (more.eval_steps, more.snapshot_steps, more.warmup_steps, more.learning_rate) == (
        500,
        100,
        2000,
        None,
    )
    assert get_recipe(None, max_steps=10).snapshot_steps == 1
    assert get_recipe(None, max_steps=20_000).eval_steps == 5000


def test_fewer_updates_have_a_shorter_warm_up_to_the_same_peak_unless_one_is_given():
    short = get_recipe("tatoeba-small", max_steps=1000)
    assert (short.warmup_steps, short.learning_rate) == (200, pytest.approx((256 * 2000) ** -0.5))
    assert get_recipe(None, max_steps=20_000).warmup_steps == 4000
    assert get_recipe(None, max_steps=4).warmup_steps == 1
    given = get_recipe("tatoeba-small", max_steps=1000, warmup_steps=500)
    assert (given.warmup_steps, given.learning_rate) == (500, None)
    assert get_recipe("tatoeba-small", max_steps=1000, learning_rate=0.001).warmup_steps == 2000
    wider = get_recipe("tatoeba-small", max_steps=1000, d_model=512)
    assert wider.learning_rate == pytest.approx((512 * 2000) ** -0.5)
    assert get_recipe("small", max_steps=500, d_model=150, num_heads=5).d_model == 150


@pytest.mark.parametrize(
    "given", [{}, {"eval_steps": 7}, {"save_steps": 9}, {"eval_steps": 7, "save_steps": 9}]
)
def test_every_validation_has_a_checkpoint_where_the_best_one_is_loaded(given):
    recipe = get_recipe(
        "multi30k-tiny",
        load_best_model_at_end=True,
        validation_source="a.en",
        validation_target="a.de",
        **given,
    )
    arguments = training_arguments(recipe, "run", use_cpu=True)
    assert arguments.save_steps == arguments.eval_steps == given.get("eval_steps", 65)


def test_a_training_that_is_laid_out_keeps_its_peak_rate():
    recipe = Recipe(
        d_model=128, warmup_steps=1000, max_steps=10_000, eval_steps=1000, snapshot_steps=100
    )
    short = fit_schedule(recipe, 1000)
    assert (short.max_steps, short.warmup_steps, short.eval_steps, short.snapshot_steps) == (
        1000,
        200,
        250,
        10,
    )
    assert short.learning_rate == pytest.approx((128 * 1000) ** -0.5)
    long = fit_schedule(recipe, 40_000)
    assert (long.warmup_steps, long.learning_rate, long.snapshot_steps) == (1000, None, 400)


@pytest.mark.slow
def test_minutes_become_updates_that_a_resume_keeps(files, capsys):
    options = "--minutes 0.02 --early-stopping-patience 99 --load-best-model-at-end true"
    options += " --generation-num-beams 0 --metric-for-best-model nll"
    options += " --validation-source train.en --validation-target train.fr"
    command = tiny(
        *options.split(), max_steps=None, snapshot_steps=None, save_steps=None, logging_steps=None
    )
    assert main([*command, "--resume"]) == 0
    recipe = Recipe.load("run")
    said = capsys.readouterr()
    assert "run holds no run to resume" in said.err and "keeps its" not in said.err
    assert f"{recipe.max_steps:,} updates in about 0.02 minutes." in said.err
    assert re.findall(r"(?m)^update 1 of ([\d,]+) ", said.err) == [f"{recipe.max_steps:,}"]
    assert 1 < recipe.max_steps < 1000
    assert main([*command, "--resume"]) == 0 and Recipe.load("run") == recipe
    kept = f"The resumed run keeps its {recipe.max_steps:,} updates: --minutes has no effect."
    assert kept in capsys.readouterr().err
    shutil.rmtree("run/checkpoint-" + str(recipe.max_steps))
    for name in ("model.safetensors", "train_results.json"):
        (Path("run") / name).unlink()
    assert main([*command, "--resume"]) == 0 and Recipe.load("run") == recipe


@pytest.mark.slow
def test_minutes_leave_the_values_that_were_given(files, capsys):
    options = "--minutes 0.01 --save-steps 7 --logging-steps 5 --warmup-steps 400"
    assert (
        main(
            tiny(
                *options.split(),
                max_steps=None,
                save_steps=None,
                logging_steps=None,
                warmup_steps=None,
            )
        )
        == 0
    )
    recipe = Recipe.load("run")
    assert (recipe.save_steps, recipe.logging_steps, recipe.warmup_steps, recipe.learning_rate) == (
        7,
        5,
        400,
        None,
    )


@pytest.mark.slow
def test_a_card_tells_from_which_update_on_there_was_bpe_dropout(files):
    assert main(tiny(max_steps="2")) == 0
    for max_steps in ("3", "4"):
        assert main(tiny("--resume", "--bpe-dropout", "0.1", max_steps=max_steps)) == 0
        card = Path("run/README.md").read_text(encoding="utf-8")
        assert re.findall("BPE-dropout after update (.*) \\|", card) == ["2 | 0.1"]


def test_a_vocabulary_size_beside_a_tokenizer_is_said_to_have_no_effect(files, capsys):
    assert main(tiny("--tokenizer", "missing")) == 2
    error = capsys.readouterr().err
    assert "--vocab-size has no effect: the tokenizer has its own." in error
    assert "`--tokenizer` must be the folder of a trained tokenizer, got missing" in error


def test_minutes_that_cannot_be_are_refused(files, capsys, monkeypatch):
    assert "`--minutes` must be a finite number above 0" in refused(
        capsys, tiny("--minutes", "0", max_steps=None)
    )
    assert "`--max-steps` must be left out with --minutes" in refused(
        capsys, tiny("--minutes", "1")
    )
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="for one process"):
        fit_to_minutes(Recipe(), 1.0)
    assert not Path("run").exists()


def test_pace_is_the_mean_from_the_third_update_on_until_the_limit(tmp_path, monkeypatch):
    times = [0.0, 100.0, 103.0, 105.0, 109.0]  # seconds at the ends of the updates
    monkeypatch.setattr("time.perf_counter", iter(times).__next__)
    pace = PaceCallback(limit=107.0)
    control = TrainerControl()
    stopped = []
    for _ in times:
        pace.on_step_end(TrainingArguments(str(tmp_path), use_cpu=True), TrainerState(), control)
        stopped.append(control.should_training_stop)
    assert stopped == [time - times[0] > 107 for time in times]
    assert pace.seconds == pytest.approx((times[-1] - times[1]) / 3)


def test_a_warm_up_beyond_the_last_update_is_told_with_values_that_fit(files, capsys):
    assert main(tiny(warmup_steps="100", d_model="16", snapshot_steps="4")) == 0
    said = capsys.readouterr().err
    assert "Pass --warmup-steps 1 --learning-rate 0.025, which is the same peak." in said
    assert (
        main(tiny("--overwrite", warmup_steps="1", learning_rate="0.025", snapshot_steps="4")) == 0
    )
    assert "warm-up" not in capsys.readouterr().err


# ---- figures ----


def test_metrics_that_are_no_numbers_are_printed_as_they_are(tmp_path, capsys):
    state = TrainerState(max_steps=10, global_step=1, is_world_process_zero=True)
    figures = {
        "eval_precisions": [0.5, 0.25],
        "eval_perplexity": None,
        "eval_note": "none",
        "eval_chrf": 12.345678,
    }
    LogLines().on_log(TrainingArguments(str(tmp_path), use_cpu=True), state, None, logs=figures)
    assert (
        "precisions [0.5, 0.25]  perplexity None  note none  chrf 12.35" in capsys.readouterr().err
    )
