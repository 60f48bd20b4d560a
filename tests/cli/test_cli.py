# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The console command as a whole: help, errors, and the way from data to translations."""

import re
import sys

import pytest
from cli_runs import refused

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


def test_unknown_option_is_refused_with_the_nearest_one(capsys):
    with pytest.raises(SystemExit):
        main("train --output-dir run --label-smoothing 0.3".split())
    message = "arguments: --label-smoothing 0.3 (did you mean --label-smoothing-factor?)"
    assert message in capsys.readouterr().err


def test_an_error_of_several_lines_is_shown_in_one(capsys, monkeypatch):
    def fail(args):
        raise ValueError("first line\n    second line")

    monkeypatch.setattr(cli, "_recipes", fail)
    assert refused(capsys, ["recipes"]) == "error: first line second line"
