# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's own common test suites on our classes."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import transformers

ROOT = Path(__file__).resolve().parents[1]
HARNESS = ROOT.parent / "shared" / "conformance" / "run_conformance.py"

# What passes from the source distribution alone, and with its generation tests, which it leaves
# out: a folder holding tests/generation and tests/exporters of a transformers 5 checkout, named by
# CONFORMANCE_EXTRA_TESTS.
NUM_PASSED = 182 if os.environ.get("CONFORMANCE_EXTRA_TESTS") else 160


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory):
    """The unpacked source distribution of the installed transformers, which holds their tests."""
    folder = tmp_path_factory.mktemp("sdist")
    wanted = f"transformers=={transformers.__version__}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        wanted,
    ]
    done = subprocess.run(
        [*command, "--dest", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(
            f"the source distribution of {wanted} cannot be downloaded: "
            f"{done.stderr.strip()[-200:]}"
        )
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.mark.heavy
def test_hugging_faces_common_tests_pass(source_distribution, tmp_path):
    if not HARNESS.is_file():
        pytest.skip(
            f"the conformance harness is not part of the project and not found at {HARNESS}"
        )
    results = tmp_path / "results.json"
    options = [
        "--path",
        str(ROOT),
        "--sdist",
        str(source_distribution),
        "-n",
        "2",
        "--json",
        str(results),
    ]
    subprocess.run(
        [sys.executable, str(HARNESS), *options],
        cwd=tmp_path,
        check=False,
    )
    tests = json.loads(results.read_text())["tests"]
    assert [name for name, test in tests.items() if test["outcome"] == "failed"] == []
    assert sum(test["outcome"] == "passed" for test in tests.values()) >= NUM_PASSED
