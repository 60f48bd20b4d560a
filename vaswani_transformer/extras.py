# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Import errors that say which extra to install."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


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
