# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Actions and direct dependencies have fixed versions, and the issue forms are valid."""

import re
import tomllib

import pytest
import yaml
from processes import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SHELL = [*WORKFLOWS, *(ROOT / "scripts").rglob("*.sh")]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def pinned(name):
    """The names that a file of constraints gives a version."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {
        line.split("==")[0].lower().replace("_", "-")
        for line in lines
        if re.fullmatch(r"[\w.-]+==[\w.]+", line)
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_leave_no_token_behind(path):
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert (
        used
        and [
            each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", each)
        ]
        == []
    )
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_what_is_installed_has_a_version(path):
    commands = re.findall(r"pip\"? install (.*)", path.read_text(encoding="utf-8"))
    assert [each for each in commands if "--constraint " not in each] == []


def test_constraints_name_every_direct_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = sum(project["optional-dependencies"].values(), project["dependencies"])
    names = {re.match(r"[\w-]+", each).group().lower().replace("_", "-") for each in requirements}
    assert names - {"vaswani-transformer"} - pinned("constraints.txt") == set()
    assert {"build", "twine", "hatchling"} <= pinned("constraints.txt")
    assert {"torch", "optimum-onnx", "onnxruntime", "transformers", "accelerate"} <= pinned(
        "scripts/export_onnx.constraints"
    )


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_are_whole(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert form.keys() <= {"blank_issues_enabled", "contact_links"}
        assert form["blank_issues_enabled"] is False
        return
    assert {"name", "description", "body"} <= form.keys()
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields) > 1
