# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How tables of commands become parsers, and what several commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

# What adds a command's options, what runs it (nothing runs one that has commands of its own), and what it does.
Command: TypeAlias = tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], None] | None, str]


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, except where the default is nothing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False) else super()._get_help_string(action)


def add_commands(parser: argparse.ArgumentParser, metavar: str, commands: Mapping[str, Command]) -> None:
    """Adds sub-commands; the chosen one sets `run`, and `options` with what the user types for each argument.

    Args:
        parser: Of the program, or of a command that has commands of its own.
        metavar: What help and errors call them.
        commands: By their names.
    """
    parsers = parser.add_subparsers(dest=metavar.lower(), required=True, metavar=metavar, help="one of those below")
    for name, (describe, run, text) in commands.items():
        command = parsers.add_parser(
            name, help=text, description=f"{text}.", formatter_class=HelpFormatter, allow_abbrev=False
        )
        describe(command)
        options = {action.dest: (*action.option_strings, action.metavar)[0] for action in command._actions}
        command.set_defaults(run=run, options=options)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the option that names a trained model."""
    parser.add_argument("--model", required=True, metavar="DIR", help="folder of a model, or its id on the Hub")


def add_device(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Adds the option for where a model runs."""
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")


def first_given(args: argparse.Namespace, names: Iterable[str]) -> str | None:
    """The first of some options without defaults that the user has given; None if there is none."""
    given = (name for name in names if (value := getattr(args, name)) is not None and value is not False)
    return next(given, None)
