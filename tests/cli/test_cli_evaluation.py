# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that use a model; bad input gives one clear line, exit code 2, and loses nothing."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_runs import refused
from huggingface_hub import ModelCard
from tiny import make_model

from vaswani_transformer import cli
from vaswani_transformer.cli import main
from vaswani_transformer.files import write_json, write_lines
from vaswani_transformer.hub.card import write_card
from vaswani_transformer.recipe import Recipe, get_recipe


def test_evaluate_takes_the_test_set_of_the_run(tmp_path):
    get_recipe("quickstart").save(tmp_path)
    args = cli.build_parser().parse_args(["evaluate", "--model", str(tmp_path)])
    corpus = cli.chosen_corpus(args)
    assert (corpus["dataset"], corpus["split"]) == ("builtin", "test")


def test_translate_reads_stdin_and_writes_stdout(model_folder, monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"A dog.\n\n \n")))
    assert main(["translate", "--model", str(model_folder), "--device", "cpu"]) == 0
    lines = capfdbinary.readouterr().out.split(b"\n")
    assert len(lines) == 4
    assert lines[1:] == [b"", b"", b""]


@pytest.mark.parametrize("command", ["evaluate", "translate"])
def test_incomplete_checkpoint_folder_is_refused_by_name(command, model_folder, corpus, capsys):
    (model_folder / "model.safetensors").unlink()
    data = {
        "evaluate": ["--source", "train.en", "--reference", "train.de"],
        "translate": ["--input", "train.en"],
    }
    error = refused(capsys, [command, "--model", str(model_folder), *data[command]])
    assert f"no file named model.safetensors found in directory {model_folder}" in error


def test_tokenizer_larger_than_the_vocabulary_is_refused(model_folder, corpus, capsys):
    assert (
        main(
            [
                "train-tokenizer",
                "train.en",
                "train.de",
                "--output-dir",
                "larger",
                "--vocab-size",
                "310",
            ]
        )
        == 0
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model_folder / name).write_bytes(Path("larger", name).read_bytes())
    error = refused(
        capsys,
        ["translate", "--model", str(model_folder), "--device", "cpu", "--input", "train.en"],
    )
    assert "at most the 300 entries of the model's vocabulary, got 310" in error


def test_learned_positions_exceeded_are_refused_and_the_old_output_stays(
    tmp_path, tiny_tokenizer, capsys
):
    make_model(position_encoding="learned", max_position_embeddings=8).save_pretrained(
        tmp_path / "model"
    )
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "in").write_text("A dog. " * 20 + "\n")
    (tmp_path / "out").write_text("old")
    files = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    error = refused(
        capsys,
        ["translate", "--model", str(tmp_path / "model"), "--device", "cpu", "--overwrite", *files],
    )
    assert "`max_position_embeddings` = 8" in error
    assert (tmp_path / "out").read_text() == "old"


def test_translate_refuses_a_missing_input(model_folder, capsys):
    assert "No such file or directory: 'missing.txt'" in refused(
        capsys, ["translate", "--model", str(model_folder), "--input", "missing.txt"]
    )


@pytest.mark.parametrize("model", ["/nonexistent", "runs/nonexistent", "nonexistent"])
def test_missing_model_without_a_test_set_is_refused_as_missing(model, corpus, capsys):
    Path("runs").mkdir()
    error = refused(capsys, ["evaluate", "--model", model])
    assert f"`--model` must be the folder of a trained model, got {model}" in error


@pytest.mark.parametrize(
    "data", [{"train_source": "train.en", "train_target": "train.de"}, {"dataset": "builtin"}]
)
def test_evaluate_refuses_a_split_that_the_recipe_does_not_know(data, model_folder, capsys):
    Recipe(source_language="en", target_language="de", **data).save(model_folder)
    error = refused(
        capsys, ["evaluate", "--model", str(model_folder), "--device", "cpu", "--split", "foo"]
    )
    assert "foo" in error
    assert "attribute" not in error


DATA = ["--source", "train.en", "--reference", "train.de"]
ONE_SET = "must be exactly one of `--source` with `--reference`, `--pairs` or `--dataset`"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (DATA[:2], "must be given"),
        ([], "must be given"),
        ([*DATA, "--dataset", "builtin"], ONE_SET),
        (["--pairs", "pairs.csv", "--dataset", "builtin"], ONE_SET),
        ([*DATA, "--pairs", "pairs.csv"], ONE_SET),
        (
            [*DATA, "--dataset-config", "xx"],
            "`--dataset-config` must come with --dataset, got xx alone",
        ),
        ([*DATA, "--split", "xx"], "`--split` must come with --dataset, got xx alone"),
    ],
)
def test_evaluate_refuses_what_does_not_go_together(
    arguments, message, model_folder, corpus, capsys
):
    assert message in refused(capsys, ["evaluate", "--model", "model", *arguments])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere/out", "must be a file in a folder that can be written to, got nowhere/out"),
        (".", "must be a file in a folder that can be written to, got ."),
        ("train.de", "must be a file of its own, got train.de"),
    ],
)
def test_evaluate_refuses_an_output_before_it_loads_the_model(path, message, corpus, capsys):
    error = refused(capsys, ["evaluate", "--model", "nowhere", *DATA, "--translations", path])
    assert f"`--translations` {message}" in error


def test_option_that_is_gone_says_where_the_scores_are(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--model", "model", "--results", "out"])
    assert (
        "--results was removed in 0.3.0. The scores are in the model's folder"
        in capsys.readouterr().err
    )


def test_evaluate_writes_the_results_even_if_the_translations_cannot_be(
    model_folder, corpus, monkeypatch, capsys
):
    def write_or_fail(lines, path):
        if str(path) == "out":
            raise OSError("disk full")
        return write_lines(lines, path)

    monkeypatch.setattr("vaswani_transformer.inference.evaluate.write_lines", write_or_fail)
    arguments = [
        "evaluate",
        "--model",
        str(model_folder),
        *DATA,
        "--device",
        "cpu",
        "--translations",
        "out",
    ]
    error = refused(capsys, arguments)
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


def test_evaluate_writes_its_scores_into_the_runs_card(run_with_card, capsys):
    assert (
        main(["evaluate", "--model", "model", "--split", "train", "--tokenized", "--device", "cpu"])
        == 0
    )
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
    assert main(["evaluate", "--model", "model", "--split", "train", "--device", "cpu"]) == 0
    assert card.read_text(encoding="utf-8") == before
    assert "card" not in capsys.readouterr().out


def test_translate_n_best_writes_json_lines(model_folder, corpus):
    command = [
        "translate",
        "--model",
        str(model_folder),
        "--input",
        "train.en",
        "--output",
        "best.jsonl",
    ]
    assert main([*command, "--n-best", "2"]) == 0
    rows = [
        json.loads(line) for line in Path("best.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [row["source"] for row in rows] == Path("train.en").read_text(
        encoding="utf-8"
    ).splitlines()
    for row in rows:
        scores = [translation["score"] for translation in row["translations"]]
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)


def test_translate_refuses_more_translations_than_beams(model_folder, corpus, capsys):
    command = ["translate", "--model", str(model_folder), "--input", "train.en", "--n-best", "5"]
    assert "`--num-beams`, which is 4, got 5" in refused(capsys, command)


PAIRS = ["--source", "train.en", "--target", "train.de"]


def test_score_writes_a_json_line_for_each_pair(model_folder, corpus, capsys):
    assert main(["score", "--model", str(model_folder), *PAIRS, "--length-penalty", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 40
    for row in rows:
        assert row["score"] == pytest.approx(row["log_prob"] / ((5 + row["length"]) / 6))


def test_files_of_different_length_are_refused(model_folder, corpus, capsys):
    Path("short.de").write_text("Ein Hund.\n", encoding="utf-8")
    arguments = [
        "score",
        "--model",
        str(model_folder),
        *"--source train.en --target short.de --output out".split(),
    ]
    assert "40 lines in train.en and 1 lines in short.de" in refused(capsys, arguments)
    assert not Path("out").exists()


@pytest.mark.parametrize("alpha", ["-11", "nan", "inf"])
@pytest.mark.parametrize("command", [["score", *PAIRS], ["translate", "--input", "train.en"]])
def test_an_impossible_alpha_is_refused(command, alpha, model_folder, corpus, capsys):
    error = refused(capsys, [*command, "--model", str(model_folder), f"--length-penalty={alpha}"])
    assert f"`--length-penalty` must be a finite number in [-10, 10], got {float(alpha)}" in error
