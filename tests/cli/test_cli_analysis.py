# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that print the paper's tables beside our figures."""

import pytest
from cli_runs import refused

from vaswani_transformer.cli import main


def test_table3_prints_every_row(capsys):
    assert main(["table3"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.split("\n\n")[0].splitlines()[2:]]
    names = "base A1 A2 A3 A4 B1 B2 C1 C2 C3 C4 C5 C6 C7 D1 D2 D3 D4 E big"
    assert rows == names.split()


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


def test_cost_refuses_an_unknown_recipe_and_prints_the_known(capsys):
    error = refused(capsys, ["cost", "--recipe", "table3-Z9", "--tokens-per-second", "1"])
    assert "table3-A1" in error and "paper-base-en-de" in error
