# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Import errors with advice: the extra that installs a missing package, or the replacement of a
removed name.
"""

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
        command = _install_command(extra)
        raise ImportError(
            f"`{package}` must be installed {purpose}, got none. Run: {command}"
        ) from error


def _install_command(extra: str) -> str:
    """Return the command that installs an extra from the source of this package: an index, a folder
    or a URL.

    Installers write the folder or URL to direct_url.json (PEP 610). An index such as PyPI leaves no
    such file.
    """
    requirement = f"vaswani-transformer[{extra}]"
    try:
        record = metadata.distribution("vaswani-transformer").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # imported from a clone without an installation
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
    """Return a module's `__getattr__` that raises ImportError, with advice, for names that 0.3.0
    removed.

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
