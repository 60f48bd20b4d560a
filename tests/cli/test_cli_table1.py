# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's Table 1, printed, measured and drawn."""

import sys

import pytest
from cli_runs import refused

from vaswani_transformer.analysis import layer_costs
from vaswani_transformer.analysis.complexity import Sizes, format_table_1
from vaswani_transformer.cli import main

SMALL = ["--d", "8", "--lengths", "8", "16", "--repeats", "1", "--device", "cpu"]


@pytest.fixture
def unmeasured(monkeypatch):
    """Fails a test in which anything is measured."""
    monkeypatch.setattr(layer_costs, "_measure_timings", lambda *_: pytest.fail("measured"))


def test_table1_prints_the_four_layer_types(capsys, unmeasured):
    assert main(["table1"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:5]
    assert [row.split("  ")[0] for row in rows] == [
        "self-attention",
        "recurrent",
        "convolutional",
        "self-attention, restricted",
    ]


def test_table1_prints_numbers_for_the_sizes_given(capsys):
    assert main(["table1", "--n", "70", "--d", "100", "--k", "5", "--r", "7"]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()[1:5]]
    assert [row[-5] for row in words if row[0] == "recurrent"] == [f"{70 * 100**2:,}"]
    assert [row[-1] for row in words] == ["1", "70", "3", "10"]


def test_table1_measures_on_request(capsys):
    assert main(["table1", "--measure", *SMALL]) == 0
    out = capsys.readouterr().out
    assert out.startswith("layer type") and "Time in milliseconds: forward, d = 8" in out and "Memory in MiB" in out


def test_table1_is_printed_before_anything_is_measured(capsys, monkeypatch):
    printed = []
    measure = layer_costs._measure_timings

    def look(*args):
        printed.append(capsys.readouterr().out)
        return measure(*args)

    monkeypatch.setattr(layer_costs, "_measure_timings", look)
    assert main(["table1", "--measure", *SMALL]) == 0
    assert printed[0] == format_table_1(Sizes(n=1024, d=8, k=3, r=64)) + "\n"
    assert capsys.readouterr().out.startswith("\nTime in milliseconds")


def test_table1_measures_and_draws_a_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra [viz]")
    assert main(["table1", "--output", str(tmp_path / "costs.svg"), "--backward", *SMALL]) == 0
    assert "forward and backward" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "costs.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--n", "--d", "--k", "--r"])
def test_table1_refuses_sizes_below_one(option, capsys):
    assert f"`{option}` must be a whole number from 1" in refused(capsys, ["table1", option, "0"])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--d", "500"], "--d"),
        (["--lengths", "64"], "--lengths"),
        (["--lengths", "64", "0"], "--lengths"),
        (["--lengths", "64", "1000000000"], "--lengths"),
        (["--repeats", "0"], "--repeats"),
        (["--batch-size", "0"], "--batch-size"),
        (["--device", "nonsense"], "--device"),
        (["--output", "costs.pdf"], "--output"),
        (["--output", "missing/costs.png"], "--output"),
    ],
    ids=" ".join,
)
def test_table1_refuses_before_it_measures(arguments, name, capsys, unmeasured):
    assert f"`{name}` must" in refused(capsys, ["table1", "--measure", *arguments])


@pytest.mark.parametrize("option", [["--lengths", "8", "16"], ["--repeats", "0"], ["--device", "cpu"], ["--backward"]])
def test_table1_refuses_options_of_measuring_without_it(option, capsys):
    assert f"`{option[0]}` must come with --measure" in refused(capsys, ["table1", *option])


def test_table1_names_the_extra_of_pictures_before_it_measures(tmp_path, monkeypatch, capsys, unmeasured):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    assert "vaswani-transformer[viz]" in refused(capsys, ["table1", "--output", str(tmp_path / "costs.png"), *SMALL])
