# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The console command as a whole: help, errors, and the way from data to translations."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import refused, train_arguments

from vaswani_transformer import cli
from vaswani_transformer.cli import main, training

COMMANDS = [
    "train-tokenizer",
    "train",
    "average",
    "recipes",
    "evaluate",
    "translate",
    "push",
    "score",
    "align",
    "table3",
    "cost",
    "plot",
]
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_describes_every_option(command, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])
    assert exit_info.value.code == 0
    parser = cli._build_parser()._subparsers._group_actions[0].choices[command]
    assert all(action.help for action in parser._actions)
    assert "usage: vaswani-transformer" in capsys.readouterr().out


def test_help_shows_units_and_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["translate", "--help"])
    assert "padded tokens computed at once; more is faster and takes more memory (default: 4096)" in (
        capsys.readouterr().out
    )
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "updates of the linear warm-up (default: 4000)" in capsys.readouterr().out


def test_building_the_parser_needs_no_extra():
    blocked = ["datasets", "accelerate", "evaluate", "sacrebleu", "sacremoses"]
    program = (
        f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"
        "from vaswani_transformer.cli import main\nsys.exit(main(['recipes']))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, cwd=REPOSITORY)


def test_missing_extra_is_named_with_the_command_that_installs_it(model_folder, corpus):
    program = (
        "import sys\nsys.modules['sacrebleu'] = None\nfrom vaswani_transformer.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["evaluate", "--model", str(model_folder), "--source", "train.en", "--reference", "train.de"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 2
    assert "error: `sacrebleu`" in done.stderr
    assert "pip install 'vaswani-transformer[eval]'" in done.stderr


@pytest.mark.slow
def test_train_evaluate_translate_and_average_work_one_after_the_other(corpus, capsys):
    arguments = train_arguments(test_source="train.en", test_target="train.de", max_new_tokens_over_source="2")
    assert main(arguments) == 0
    assert json.loads(Path("run/train_results.json").read_text())["train_steps"] == 4

    assert main(["evaluate", "--model", "run", "--device", "cpu", "--translations", "out.de"]) == 0
    assert "tok:13a" in capsys.readouterr().out
    results = json.loads(Path("run/test_results.json").read_text())
    assert results["test_num_sentences"] == len(Path("out.de").read_text().splitlines()) == 40
    assert {"test_sacrebleu", "test_sacrebleu_signature", "test_chrf", "test_chrf_signature"} <= set(results)

    assert main(["translate", "--model", "run", "--device", "cpu", "--input", "train.en", "--output", "again.de"]) == 0
    assert Path("again.de").read_bytes() == Path("out.de").read_bytes()

    assert main(["average", "run", "--output-dir", "averaged", "--last", "2"]) == 0
    assert main(["evaluate", "--model", "averaged", "--source", "train.en", "--reference", "train.de"]) == 0


def test_an_error_of_several_lines_is_shown_in_one(capsys, monkeypatch):
    def fail(args):
        raise ValueError("first line\n    second line")

    monkeypatch.setitem(cli._COMMANDS, "recipes", (training._describe_recipes, fail, "Fail"))
    assert refused(capsys, ["recipes"]) == "error: first line second line"


def test_tracebacks_are_shown_when_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(cli, "get_verbosity", lambda: 10)
    assert main(["recipes", "nonsense"]) == 2
    assert "Traceback" in capsys.readouterr().err
