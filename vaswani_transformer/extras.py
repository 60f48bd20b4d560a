# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Errors that say how to go on: which extra brings a missing package, and what replaces a name that is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def requiring(extra: str, purpose: str) -> Iterator[None]:
    """Says how to install a package that an import in the block does not find.

    Args:
        extra: Name of the extra that brings it.
        purpose: What it is needed for, as the message says it.

    Raises:
        ImportError: The package is missing.

    Example:
        >>> with requiring("train", "to train"):
        ...     import accelerate
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        raise ImportError(
            f"`{package}` must be installed {purpose}, got none. Run: pip install 'vaswani-transformer[{extra}]'"
        ) from error


def gone(module: str, names: str, advice: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module for names of 0.2.0 that it has no more.

    Args:
        module: `__name__` of the module.
        names: The names, separated by spaces.
        advice: A sentence that says what to do instead.
    """

    def fail(name: str) -> Any:
        if name in names.split():
            raise ImportError(f"`{name}` is gone since 0.3.0. {advice}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return fail
