# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The message about a missing package installs its extra from where the package itself was
installed.
"""

import json
import shlex
from importlib import metadata

import pytest

from vaswani_transformer.extras import requiring


def command_for(record, monkeypatch):
    """The command of the message, if pip has left `record` as direct_url.json, None being no such
    file.
    """

    class Distribution:
        def read_text(self, name):
            return json.dumps(record) if name == "direct_url.json" and record else None

    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution())
    with pytest.raises(ImportError) as error, requiring("eval", "to score"):
        import no_such_package  # noqa: F401
    assert str(error.value).startswith(
        "`no_such_package` must be installed to score, got none. Run: "
    )
    return shlex.split(str(error.value).partition("Run: ")[2])


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (None, ["vaswani-transformer[eval]"]),
        (
            {"url": "file:///my%20code/it", "dir_info": {"editable": True}},
            ["-e", "/my code/it[eval]"],
        ),
        ({"url": "file:///code", "dir_info": {}}, ["vaswani-transformer[eval] @ file:///code"]),
        (
            {"url": "file:///x.whl", "archive_info": {}},
            ["vaswani-transformer[eval] @ file:///x.whl"],
        ),
        (
            {
                "url": "https://host/x.git",
                "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "1a2b"},
            },
            ["vaswani-transformer[eval] @ git+https://host/x.git@1a2b"],
        ),
    ],
    ids=["index", "editable", "folder", "wheel", "repository"],
)
def test_extra_is_installed_from_where_the_package_came_from(record, words, monkeypatch):
    assert command_for(record, monkeypatch) == ["pip", "install", *words]


def test_package_that_is_imported_without_being_installed_is_named(monkeypatch):
    def not_installed(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", not_installed)
    with (
        pytest.raises(ImportError, match=r"Run: pip install 'vaswani-transformer\[eval\]'$"),
        requiring("eval", ""),
    ):
        import no_such_package  # noqa: F401
