# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that make models; bad input gives one clear line, exit code 2, and loses nothing."""

import dataclasses
import json
from pathlib import Path

import datasets  # noqa: F401  (its log handler keeps the stderr of its first import, which must not be a test's)
import pytest
from cli_runs import refused, train_arguments
from transformers import AutoTokenizer

from vaswani_transformer import cli
from vaswani_transformer.cli import main
from vaswani_transformer.recipe import RECIPES, Recipe, get_recipe


def test_train_has_an_option_for_every_field_of_a_recipe():
    options = (
        cli.build_parser()._subparsers._group_actions[0].choices["train"]._option_string_actions
    )
    assert {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Recipe)} <= set(
        options
    )


def parsed(*arguments):
    return cli.chosen_recipe(
        cli.build_parser().parse_args(["train", "--output-dir", "run", *arguments])
    )


def test_given_values_replace_those_of_the_recipe():
    words = "--recipe quickstart --max-steps 7 --dropout 0.25 --attention-bias true"
    recipe = parsed(*words.split())
    assert (recipe.max_steps, recipe.dropout, recipe.attention_bias) == (7, 0.25, True)
    assert recipe.num_heads == RECIPES["quickstart"].num_heads


def test_none_unsets_an_optional_value():
    assert parsed("--recipe", "multi30k-tiny", "--learning-rate", "none").learning_rate is None


@pytest.mark.parametrize(
    "arguments", [("--max-steps", "none"), ("--d-model", "1.5"), ("--attention-bias", "maybe")]
)
def test_values_of_another_type_are_refused(arguments, capsys):
    error = refused(capsys, ["train", "--output-dir", "run", *arguments])
    assert f"`{arguments[0]}` must be" in error and f"got '{arguments[1]}'" in error


def test_short_help_names_the_way_to_all_fields_of_a_recipe(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    text = capsys.readouterr().out
    assert "--help-all" in text and "--adam-beta2" not in text
    assert len(text.splitlines()) < 50  # two screens


def test_recipes_lists_all_and_prints_the_file_of_one(capsys):
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in RECIPES if not name.startswith("table3-"))
    assert "table3-base, -A1 ... -E, -big" in listed
    assert main(["recipes", "quickstart"]) == 0
    assert f"\nvocab_size: {RECIPES['quickstart'].vocab_size}\n" in capsys.readouterr().out
    assert "Pass quickstart" in refused(capsys, ["recipes", "quickstat"])


@pytest.mark.slow
def test_run_by_a_file_of_ones_own_is_repeated_by_its_recipe(corpus, capsys):
    Path("mine.yaml").write_text(
        "extends: quickstart\ntrain_source: train.en\ntrain_target: train.de\nmax_steps: "
        "4\nwarmup_steps: 2\nd_model: 16\nd_ff: 16\nvocab_size: 270\nsave_steps: "
        "4\nsnapshot_steps: 2\n"
    )
    assert (
        main(["train", "--recipe", "mine.yaml", "--output-dir", "run", "--use-cpu", "--seed", "3"])
        == 0
    )
    assert main(["train", "--recipe", "run/recipe.json", "--output-dir", "again", "--use-cpu"]) == 0
    assert Recipe.load("again") == Recipe.load("run") == get_recipe("mine.yaml", seed=3)
    assert (
        Path("again/model.safetensors").read_bytes() == Path("run/model.safetensors").read_bytes()
    )
    Path("mine.yaml").write_text("extends: quickstart\ndrop_out: 0.1\n")
    error = refused(capsys, ["train", "--recipe", "mine.yaml", "--output-dir", "other"])
    assert (
        error == "error: mine.yaml, line 2: A recipe has no field drop_out. Did you mean dropout?"
    )
    assert not Path("other").exists()


def test_train_tokenizer_saves_what_autotokenizer_loads(corpus, capsys):
    command = "train-tokenizer train.en train.de --output-dir tokenizer --vocab-size 280"
    assert main(command.split()) == 0
    tokenizer = AutoTokenizer.from_pretrained("tokenizer")
    assert len(tokenizer) == 280
    assert (
        tokenizer.decode(tokenizer("Ein Hund")["input_ids"], skip_special_tokens=True) == "Ein Hund"
    )


def test_train_ends_with_a_summary_on_stdout_and_reports_progress_on_stderr(corpus, capsys):
    validation = {"validation_source": "train.en", "validation_target": "train.de"}
    assert main(train_arguments(**validation, eval_steps="2")) == 0
    output, error = capsys.readouterr()
    results = json.loads(Path("run/train_results.json").read_text())
    assert output.splitlines()[0] == "Trained custom: 4 updates on 40 pairs."
    for which in ("last", "average"):
        perplexity = results[f"{which}_eval_perplexity"]
        assert f"  {which} validation: perplexity {perplexity:,.3f}" in output
    assert output.splitlines()[-1].endswith(
        "vaswani-transformer translate --model run --input FILE"
    )
    assert "validation after 2 updates" in error


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"validation_target": "train.de"},
            "train.de must be given with the other side's file, got none",
        ),
        (
            {"train_pairs": "train.jsonl"},
            "or a dataset, got train.en and train.jsonl",
        ),
        ({"train_target": "nothing.de"}, "nothing.de must be an existing file."),
        ({"d_model": "15", "d_k": "4", "d_v": "4"}, "`--d-model` must be even"),
        ({"num_heads": "3"}, "`--d-model` must be divisible by `--num-heads`"),
        ({"preset": "huge"}, "`--preset` must be one of base, big"),
        ({"vocab_size": "258"}, "`--vocab-size` must be at least 259"),
    ],
)
def test_train_names_the_option_or_the_file_that_is_wrong(corpus, capsys, changes, message):
    assert message in refused(capsys, train_arguments(**changes))
    assert not Path("run").exists()


def test_train_refuses_an_unknown_recipe_and_says_where_the_known_are(capsys):
    error = refused(capsys, ["train", "--output-dir", "run", "--recipe", "nonsense"])
    assert "got 'nonsense'. Pass a name" in error and "only `--recipe` takes a file." in error


def test_resume_alone_starts_nothing_in_a_mistyped_folder(corpus, capsys):
    assert main(["train", "--output-dir", "my-modle", "--resume"]) == 2
    error = capsys.readouterr().err
    assert "my-modle holds no run to resume" in error
    assert "`--train-source` and `--train-target` must be given" in error
    assert not Path("my-modle").exists()


def test_train_refuses_an_unknown_tracker_before_anything_is_read(corpus, capsys):
    error = refused(capsys, train_arguments("--report-to", "tensorbord", "wandb"))
    assert "tensorbord is not supported" in error and "tensorboard" in error
    assert not Path("run").exists()


def test_resume_starts_a_run_then_continues_it(corpus, capsys):
    steps = []
    for max_steps in ("2", "4"):
        assert main(train_arguments("--resume", max_steps=max_steps)) == 0
        told = capsys.readouterr().err
        assert told.count("run holds no run to resume") == (max_steps == "2")
        steps.append(json.loads(Path("run/train_results.json").read_text())["train_steps"])
    assert steps == [2, 4]


def test_train_tokenizer_never_overwrites_without_being_told(corpus, capsys):
    command = "train-tokenizer train.en --output-dir tokenizer --vocab-size 270"
    arguments = command.split()
    Path("tokenizer").mkdir()
    Path("tokenizer/tokenizer.json").write_text("precious")
    assert "`--output-dir` must be new or empty" in refused(capsys, arguments)
    assert Path("tokenizer/tokenizer.json").read_text() == "precious"
    assert main([*arguments, "--overwrite"]) == 0


def test_train_tokenizer_refuses_a_file_as_its_folder(corpus, capsys):
    command = "train-tokenizer train.en --output-dir train.de --vocab-size 270"
    assert "Not a directory: 'train.de'" in refused(capsys, command.split())
    assert Path("train.de").is_file()
