# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The console command `vaswani-transformer`: one thin sub-command for each library function.

Results go to stdout, warnings and progress to stderr. Exit codes: 0 done, 2 wrong input (one line on stderr, and how
to go on where that can be), 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence

from transformers.utils.logging import get_verbosity

from . import analysis, demo, evaluation, export, hub, plot, training
from .parsing import HelpFormatter, add_commands

_EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError)
_EXIT_WRONG_INPUT, _EXIT_INTERRUPTED, _EXIT_BROKEN_PIPE = 2, 130, 141

_COMMANDS = {
    **training.COMMANDS,
    **evaluation.COMMANDS,
    **hub.COMMANDS,
    **export.COMMANDS,
    **demo.COMMANDS,
    **analysis.COMMANDS,
    **plot.COMMANDS,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code.

    Args:
        argv: Arguments without the program's name; None takes those of the process.
    """
    args = _build_parser().parse_args(argv)
    try:
        with _messages_on_stderr():
            args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output is gone (`... | head`); leave without Python's message at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_BROKEN_PIPE
    except _EXPECTED_ERRORS as error:
        print("error:", *(line.strip() for line in _with_options(str(error), args).splitlines()), file=sys.stderr)
        _print_notes(error, args)
        return _EXIT_WRONG_INPUT
    except KeyboardInterrupt as interrupt:
        print("interrupted", file=sys.stderr)
        _print_notes(interrupt, args)
        return _EXIT_INTERRUPTED
    return 0


@contextlib.contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Shows the package's log on stderr, from one process of many; TRANSFORMERS_VERBOSITY=debug adds tracebacks."""
    package = logging.getLogger("vaswani_transformer")
    level, handler = package.level, logging.StreamHandler()
    package.addHandler(handler)
    package.setLevel(min(logging.INFO, get_verbosity()) if training.is_main_process() else logging.ERROR)
    try:
        yield
    except _EXPECTED_ERRORS:
        package.debug("the error below came from here:", exc_info=True)
        raise
    finally:
        package.removeHandler(handler)
        package.setLevel(level)


# What a library function calls an argument that has another name on the command line.
_OTHER_NAMES = {
    "flops_per_second": ["matrix_tflops"],
    "folder": ["output_dir"],
    "kinds": ["kind"],
    "num_best": ["n_best"],
    "num_updates": ["updates"],
    "pairs_file": ["pairs"],
    "resume_from_checkpoint": ["resume"],
    "sentences": ["files"],
    "source_file": ["source"],
    "target_file": ["target", "reference"],
}


def _print_notes(error: BaseException, args: argparse.Namespace) -> None:
    """Shows what was added to an error on its way, such as how to go on."""
    for note in getattr(error, "__notes__", []):
        print(_with_options(note, args), file=sys.stderr)


def _with_options(message: str, args: argparse.Namespace) -> str:
    """An error's text with the names of arguments as the user types them: `num_beams` becomes `--num-beams`."""

    def option(match: re.Match[str]) -> str:
        names = [match[1], *_OTHER_NAMES.get(match[1], [])]
        return f"`{next((args.options[name] for name in names if name in args.options), match[1])}`"

    return re.sub(r"`(\w+)`", option, message)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vaswani-transformer",
        description="Train, evaluate and use the Transformer of 'Attention Is All You Need' (2017).",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    add_commands(parser, "COMMAND", _COMMANDS)
    return parser
