# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that use a model; bad input gives one clear line, exit code 2, and loses nothing."""

import json

import pytest
from cli_runs import refused
from huggingface_hub import ModelCard

from vaswani_transformer.cli import main
from vaswani_transformer.files import write_json, write_lines
from vaswani_transformer.hub.card import write_card
from vaswani_transformer.recipe import Recipe


def test_missing_model_without_a_test_set_is_refused_as_missing(capsys):
    error = refused(capsys, ["evaluate", "--model", "nonexistent"])
    assert "`--model` must be the folder of a trained model, got nonexistent" in error


@pytest.mark.parametrize(
    "data", [{"train_source": "train.en", "train_target": "train.de"}, {"dataset": "builtin"}]
)
def test_evaluate_refuses_a_split_that_the_recipe_does_not_know(data, model_folder, capsys):
    Recipe(source_language="en", target_language="de", **data).save(model_folder)
    command = f"evaluate --model {model_folder} --device cpu --split foo"
    error = refused(capsys, command.split())
    assert "foo" in error
    assert "attribute" not in error


DATA = ["--source", "train.en", "--reference", "train.de"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--source train.en", "must be given"),
        ("", "must be given"),
        ("--pairs pairs.csv --dataset builtin", "must be two text files"),
        (
            "--pairs pairs.csv --dataset-config xx",
            "`--dataset-config` must come with --dataset, got xx alone",
        ),
        ("--pairs pairs.csv --split xx", "`--split` must come with --dataset, got xx alone"),
    ],
)
def test_evaluate_refuses_what_does_not_go_together(
    arguments, message, model_folder, corpus, capsys
):
    assert message in refused(capsys, f"evaluate --model model {arguments}".split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("evaluate --reference train.de --translations .", "must be a file in a folder that"),
        ("evaluate --reference out.part --translations out", "must be a file of its own"),
        ("evaluate --reference train.de --translations train.de", "must be a new file"),
        ("score --target train.de --output train.de", "must be a new file"),
    ],
)
def test_an_output_is_refused_before_the_model_is_loaded(words, message, corpus, capsys):
    error = refused(capsys, f"{words} --source train.en --model nowhere".split())
    assert f"`{words.split()[-2]}` {message}" in error


def test_evaluate_writes_the_results_even_if_the_translations_cannot_be(
    model_folder, corpus, monkeypatch, capsys
):
    def write_or_fail(lines, path):
        if str(path) == "out":
            raise OSError("disk full")
        return write_lines(lines, path)

    monkeypatch.setattr("vaswani_transformer.inference.evaluate.write_lines", write_or_fail)
    command = "evaluate --model model --device cpu --translations out".split()
    error = refused(capsys, [*command, *DATA])
    assert error == "error: disk full"
    assert (model_folder / "test_results.json").is_file()


@pytest.fixture
def run_with_card(model_folder, corpus):
    """A run's folder with a card that tells no scores."""
    Recipe(train_source="train.en", train_target="train.de").save(model_folder)
    names = ("train_pairs", "train_steps", "num_parameters", "num_averaged_snapshots")
    results = {**dict.fromkeys(names, 1), "train_dropped_pairs": {}, "best_checkpoint": None}
    write_json(model_folder / "train_results.json", results)
    write_card(model_folder)
    return model_folder


EVALUATE = "evaluate --model model --split train --device cpu".split()


def test_evaluate_writes_its_scores_into_the_runs_card(run_with_card, capsys):
    assert main([*EVALUATE, "--tokenized"]) == 0
    assert capsys.readouterr().out.endswith("model card updated: model/README.md\n")
    (results,) = (
        json.loads(path.read_text(encoding="utf-8"))
        for path in run_with_card.glob("test_results*.json")
    )
    found = ModelCard.load(run_with_card / "README.md").data.eval_results
    assert [result.metric_value for result in found] == [
        results[f"test_{metric}"]
        for metric in ("sacrebleu", "chrf", "paper_bleu", "tokenized_bleu")
    ]


def test_another_name_keeps_the_results_of_another_search(run_with_card, corpus):
    command = ["evaluate", "--model", "model", *DATA, "--device", "cpu"]
    assert main([*command, "--num-beams", "2"]) == 0
    assert main([*command, "--num-beams", "1", "--name", "greedy search"]) == 0
    found = {}
    for path in run_with_card.glob("test_results*.json"):
        results = json.loads(path.read_text(encoding="utf-8"))
        found[path.name] = (results["test_data"], results["test_num_beams"])
    assert found == {
        "test_results.json": ("train.en, train.de", 2),
        "test_results_greedy-search.json": ("greedy search", 1),
    }


@pytest.mark.parametrize("case", ["card of other origin", "no run"])
def test_evaluate_leaves_the_card_alone(case, run_with_card, capsys):
    card = run_with_card / "README.md"
    if case == "card of other origin":
        card.write_text("# Mine\n", encoding="utf-8")
    else:
        (run_with_card / "train_results.json").unlink()
    before = card.read_text(encoding="utf-8")
    assert main(EVALUATE) == 0
    assert card.read_text(encoding="utf-8") == before
    assert "card" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", ["score --source train.en --target train.de", "translate --input train.en"]
)
def test_an_impossible_alpha_is_refused(command, model_folder, corpus, capsys):
    error = refused(capsys, f"{command} --model model --length-penalty=-11".split())
    assert "`--length-penalty` must be a finite number in [-10, 10], got -11.0" in error
