# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Errors with advice: which extra installs a missing package, and what replaces a removed name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def requiring(extra: str, purpose: str) -> Iterator[None]:
    """Name the extra to install if an import in the block does not find a package.

    Args:
        extra: Name of the extra that installs the package.
        purpose: End of the message's "must be installed ...", for example "to train".

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
    """Return a `__getattr__` for a module that refuses names which 0.3.0 has removed from the module.

    Args:
        module: `__name__` of the module.
        names: The removed names, separated by spaces.
        advice: Sentence that says what to do instead.
    """

    def fail(name: str) -> Any:
        if name in names.split():
            raise ImportError(f"`{name}` is gone since 0.3.0. {advice}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return fail
