# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How tables of commands become parsers."""

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


def first_given(args: argparse.Namespace, names: Iterable[str]) -> str | None:
    """The first of some options without defaults that the user has given; None if there is none."""
    return next((name for name in names if getattr(args, name, None) not in (None, False)), None)
