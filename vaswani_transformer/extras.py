# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Errors that name the extra which brings a missing package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


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
