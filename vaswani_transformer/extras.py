# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Import errors with advice: which extra to install, or what replaces a removed name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def requiring(extra: str, purpose: str) -> Iterator[None]:
    """Turn a failed import in the block into an ImportError that says which extra to install.

    Args:
        extra: Name of the extra that installs the package.
        purpose: Words that follow "must be installed" in the message, for example "to train".

    Raises:
        ImportError: A package that the block imports is missing.

    Example:
        >>> with requiring("train", "to train"):
        ...     import accelerate
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        raise ImportError(
            f"`{package}` must be installed {purpose}, got none. Install this package with the "
            f"extra `{extra}`: in a clone, run `pip install -e '.[{extra}]'`."
        ) from error


def gone(module: str, names: str, advice: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module that raises ImportError for names removed in 0.3.0.

    Args:
        module: `__name__` of the module.
        names: The removed names, separated by spaces.
        advice: Sentence at the end of the message that says what to do instead.
    """

    def fail(name: str) -> Any:
        if name in names.split():
            raise ImportError(f"`{name}` is gone since 0.3.0. {advice}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return fail
