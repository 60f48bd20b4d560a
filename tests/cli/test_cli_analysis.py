# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that print the paper's tables beside our figures."""

import re

import pytest
from cli_runs import refused

from vaswani_transformer.cli import main
from vaswani_transformer.training.recipes import RECIPES, Recipe


def test_table3_prints_every_row(capsys):
    assert main(["table3"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.split("\n\n")[0].splitlines()[2:]]
    names = "base A1 A2 A3 A4 B1 B2 C1 C2 C3 C4 C5 C6 C7 D1 D2 D3 D4 E big"
    assert rows == names.split()


@pytest.mark.parametrize(
    "options", [["--rows", "A1"], ["--recipe", "quickstart"], ["--max-steps", "4"], ["--bf16"]], ids=" ".join
)
def test_table3_refuses_options_of_training_without_a_folder(options, capsys):
    assert f"`{options[0]}` must come with --output-dir" in refused(capsys, ["table3", *options])


def test_table3_takes_another_vocabulary_without_training(capsys):
    assert main(["table3", "--vocab-size", "32000"]) == 0
    assert "with 32,000 shared" in capsys.readouterr().out


def test_table3_shows_the_defaults_of_its_recipe(capsys):
    with pytest.raises(SystemExit):
        main(["table3", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "updates of the whole training (default: 2500)" in text


def test_cost_prints_steps_tokens_hours_and_flops_beside_the_papers(capsys):
    command = ["cost", "--recipe", "paper-base-en-de", "--tokens-per-second", "125000"]
    assert main([*command, "--num-devices", "8", "--matrix-tflops", "9.5"]) == 0
    table = {line[:35].strip(): line[35:].split() for line in capsys.readouterr().out.splitlines()}
    assert table["updates"] == ["100,000", "100,000"]
    assert table["tokens, both sides"][0] == "5,000,000,000"
    assert table["hours"] == [f"{5e9 / 125000 / 3600:.1f}", "12"]
    assert table["FLOPs, device seconds x matrix rate"] == [f"{40000 * 8 * 9.5e12:.2e}".replace("e+", "e"), "3.28e18"]


def test_cost_leaves_out_what_the_unknown_matrix_rate_would_tell(capsys):
    assert main(["cost", "--recipe", "paper-big-en-fr", "--tokens-per-second", "200000"]) == 0
    assert "FLOPs, counted" in capsys.readouterr().out


@pytest.mark.parametrize("speed", ["0", "-5", "nan"])
def test_cost_refuses_an_impossible_speed(speed, capsys):
    error = refused(capsys, ["cost", "--recipe", "quickstart", f"--tokens-per-second={speed}"])
    assert "`--tokens-per-second` must be" in error


@pytest.mark.parametrize(("rate", "got"), [("nan", "nan"), ("-5", "-5.0"), ("0", "0.0"), ("1e300", "inf")])
def test_cost_refuses_an_impossible_matrix_rate_by_its_option(rate, got, capsys):
    known = ["--recipe", "quickstart", "--tokens-per-second", "1000"]
    error = refused(capsys, ["cost", *known, f"--matrix-tflops={rate}"])
    assert f"`--matrix-tflops` must be a finite number above 0, got {got}." in error


def test_cost_refuses_an_unknown_recipe_and_prints_the_known(capsys):
    error = refused(capsys, ["cost", "--recipe", "table3-Z9", "--tokens-per-second", "1"])
    assert "table3-A1" in error and "paper-base-en-de" in error


@pytest.fixture
def tiny_recipe(monkeypatch):
    """Name of a recipe that trains an update in no time."""
    sizes = {"vocab_size": 300, "d_model": 16, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}
    batches = {"max_source_tokens_per_batch": 300, "max_target_tokens_per_batch": 300}
    monkeypatch.setitem(RECIPES, "tiny", Recipe(name="tiny", **sizes, **batches))
    return "tiny"


def test_cost_measures_the_speed_and_prints_the_same_table(tiny_recipe, capsys):
    assert main(["cost", "--recipe", tiny_recipe, "--tokens-per-second", "1000", "--matrix-tflops", "1"]) == 0
    known = [line[:35].strip() for line in capsys.readouterr().out.split("\n\n")[0].splitlines()]
    assert main(["cost", "--recipe", tiny_recipe, "--measure", "--updates", "1", "--use-cpu"]) == 0
    output, error = capsys.readouterr()
    assert [line[:35].strip() for line in output.split("\n\n")[0].splitlines()] == known
    assert "1 update after 3 that warmed up" in output and "which was not measured" in output
    assert "Measuring tiny: 1 update(s) after 3" in error


def test_cost_measures_within_the_memory_given(tiny_recipe, capsys):
    budget = ["--max-padded-tokens-per-device", "200"]
    assert main(["cost", "--recipe", tiny_recipe, "--measure", "--updates", "1", "--use-cpu", *budget]) == 0
    (steps,) = re.findall(r"x (\d+) accumulation step", capsys.readouterr().err)
    assert int(steps) >= 300 // 200


@pytest.mark.parametrize("value", ["0", "3"])
@pytest.mark.parametrize("option", ["--tokens-per-second", "--num-devices", "--matrix-tflops"])
def test_cost_refuses_to_measure_what_is_given(option, value, capsys):
    error = refused(capsys, ["cost", "--recipe", "quickstart", "--measure", option, value])
    assert f"`{option}` must be left out with --measure, which finds it out, got {value}" in error


OF_A_MEASUREMENT = [["--updates", "0"], ["--max-padded-tokens-per-device", "9"], ["--bf16"], ["--use-cpu"]]


@pytest.mark.parametrize("option", OF_A_MEASUREMENT, ids=lambda words: words[0])
def test_cost_refuses_options_of_a_measurement_without_one(option, capsys):
    error = refused(capsys, ["cost", "--recipe", "quickstart", "--tokens-per-second", "5", *option])
    assert f"`{option[0]}` must be left out without --measure" in error


def test_cost_refuses_to_know_no_speed(capsys):
    assert "`--tokens-per-second` must be given, got none" in refused(capsys, ["cost", "--recipe", "quickstart"])


def test_cost_refuses_an_impossible_number_of_updates(capsys):
    error = refused(capsys, ["cost", "--recipe", "quickstart", "--measure", "--updates", "0"])
    assert "`--updates` must be a whole number of at least 1, got 0" in error
