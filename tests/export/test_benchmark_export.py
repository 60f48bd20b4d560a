# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the exports runs and prints one line for each contestant."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ctranslate2", reason="the extra export is not installed")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_benchmark_compares_pytorch_with_every_export(save_model, tmp_path, texts):
    _, folder = save_model()
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "benchmark_export.py"), "--model", str(folder)]
    options = ["--source", str(tmp_path / "texts"), "--rounds", "1", "--threads", "1"]
    lines = subprocess.run(
        [*command, *options], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.splitlines()
    pytorch, *exports = lines[1:]
    assert pytorch.split()[-3:] == ["1.00", "[1.00..1.00]", "0"]
    names = [line.split(" MB")[0].rpartition(" ")[0].strip() for line in exports]
    assert names[:2] == ["ctranslate2 float32", "ctranslate2 int8"]
