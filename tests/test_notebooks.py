# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The notebooks have the cells of their pages in docs, and run from the first cell to the last."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import HubServer
from readme import ROOT, blocks, text_of

FOLDER = ROOT / "docs" / "notebooks"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
each_notebook = pytest.mark.parametrize("name", ["tour", "your-own-corpus"])


def cells(name, kind, folder=FOLDER):
    notebook = json.loads((folder / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def sources(*place):
    return ["".join(cell["source"]) for cell in cells(*place)]


def words(text):
    """Text without white space and without the targets of links, which differ between folders."""
    return re.sub(r"\]\(\S*?\)|\s", "", text)


@each_notebook
def test_notebook_has_the_code_and_the_text_of_its_page(name):
    page = text_of(f"docs/{name}.md")
    magic = {"python": "", "bash": "%%bash\n"}
    code = [magic[language] + code for language, code in BLOCK.findall(page) if language in magic]
    assert sources(name, "code") == code
    assert words("".join(sources(name, "markdown"))) == words(BLOCK.sub("", page))


def test_tour_notebook_prints_what_the_page_shows_and_has_its_pictures():
    outputs = [cell["outputs"] for cell in cells("tour", "code")]
    printed = [
        "".join("".join(part["text"]) for part in cell if part.get("name") == "stdout")
        for cell in outputs
    ]
    assert printed == blocks("text", "docs/tour.md")
    assert sum("image/png" in part.get("data", ()) for cell in outputs for part in cell) == 3


@pytest.mark.heavy
def test_notebooks_run_and_have_the_committed_cells(tmp_path):
    for package in ("jupytext", "nbclient", "ipykernel"):
        pytest.importorskip(package, reason="the notebooks are made with the extra dev")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with HubServer() as hub:
        online = {"PATH": path, "HF_ENDPOINT": hub.url, "HF_TOKEN": "me", "HF_HUB_OFFLINE": "0"}
        command = ["bash", ROOT / "scripts" / "make_notebooks.sh", tmp_path]
        subprocess.run(command, env={**os.environ, **online}, check=True, timeout=1200)
        assert "model.safetensors" in hub.repos["me/my-model"].files()
    for name in ("tour", "your-own-corpus"):
        for kind in ("code", "markdown"):
            assert sources(name, kind, tmp_path) == sources(name, kind)
