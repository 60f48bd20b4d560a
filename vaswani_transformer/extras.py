# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Errors with advice: which extra installs a missing package, and what replaces a removed name."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


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
        command = _install_command(extra)
        raise ImportError(f"`{package}` must be installed {purpose}, got none. Run: {command}") from error


def _install_command(extra: str) -> str:
    """Return the command that installs an extra from where this package was installed.

    Installers leave the address in direct_url.json (PEP 610), except for packages from an index such as PyPI.
    """
    requirement = f"vaswani-transformer[{extra}]"
    try:
        record = metadata.distribution("vaswani-transformer").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # imported from a folder that is not installed
        record = None
    if record is None:
        return f"pip install {shlex.quote(requirement)}"
    source = json.loads(record)
    url = source["url"]
    if source.get("dir_info", {}).get("editable"):
        folder = url2pathname(urlsplit(url).path)
        return f"pip install -e {shlex.quote(f'{folder}[{extra}]')}"
    if "vcs_info" in source:
        url = f"{source['vcs_info']['vcs']}+{url}@{source['vcs_info']['commit_id']}"
    return f"pip install {shlex.quote(f'{requirement} @ {url}')}"


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
