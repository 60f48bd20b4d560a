# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The console command as a whole: help, errors, and the way from data to translations."""

import re
import sys

import pytest
from cli_runs import refused
from processes import ROOT

from vaswani_transformer import cli
from vaswani_transformer.cli import main


def test_help_of_every_command_describes_every_option(capsys):
    commands = cli.build_parser()._subparsers._group_actions[0].choices
    for name, parser in commands.items():
        with pytest.raises(SystemExit) as exit_info:
            main([name, "--help"])
        assert exit_info.value.code == 0
        assert all(action.help for action in parser._actions)
        assert f"usage: vaswani-transformer {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("demo", "scripts/space/app.py"),
        ("plot attention", "scripts/paper/draw_attention.py"),
    ],
)
def test_command_that_left_says_what_to_do(words, script, capsys):
    with pytest.raises(SystemExit):
        main([*words.split(), "--model", "model"])
    command = words.split()[0]
    assert f"{command} was removed in 0.3.0. Run `python {script}`" in capsys.readouterr().err
    assert (ROOT / script).is_file()


def test_missing_package_is_named_with_the_command_that_installs_its_extra(
    model_folder, corpus, monkeypatch, capsys
):
    """Modules that another test has imported are imported anew here, and are back in their places
    afterwards.
    """
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    for name in [name for name in sys.modules if name.startswith("sacrebleu.")]:
        monkeypatch.delitem(sys.modules, name)
    for module in ("inference.evaluate", "inference.metrics"):
        monkeypatch.delitem(sys.modules, f"vaswani_transformer.{module}", raising=False)
        monkeypatch.delattr(f"vaswani_transformer.{module}", raising=False)
    command = "evaluate --model model --source train.en --reference train.de"
    error = refused(capsys, command.split())
    assert re.search(r"`sacrebleu`.* run `pip install .*\[eval\]", error)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("translate --model model --stream x", "TextStreamer"),
        ("translate --model model --target-prefixes x", "`target_prefix`"),
        ("evaluate --model model --results out", "The scores are in the model's folder"),
        ("average run --output-dir averaged --last 2", "Name the files"),
        ("push --model run --repo-id me/model --stock me/marian", "`hf upload"),
        ("push --model run --repo-id me/model --stock-repo-id me/marian", "`hf upload"),
        ("train --output-dir run --label-smoothing 0.3", "did you mean --label-smoothing-factor?"),
    ],
)
def test_option_that_left_says_what_to_do(words, advice, capsys):
    with pytest.raises(SystemExit):
        main(words.split())
    error = capsys.readouterr().err
    assert advice in error
    assert words.split()[-2] in error


def test_an_error_of_several_lines_is_shown_in_one(capsys, monkeypatch):
    def fail(args):
        raise ValueError("first line\n    second line")

    monkeypatch.setattr(cli, "_recipes", fail)
    assert refused(capsys, ["recipes"]) == "error: first line second line"
