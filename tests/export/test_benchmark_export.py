# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the exports runs and prints one line for each contestant."""

import benchmark_export as benchmark
import pytest

pytest.importorskip("ctranslate2", reason="the extra export is not installed")


def test_the_benchmark_compares_pytorch_with_every_export(save_model, tmp_path, texts, monkeypatch, capsys):
    _, folder = save_model()
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8")
    monkeypatch.setattr(benchmark, "run", lambda *task: benchmark.measure(*task[:2], task[2].source, 1, 4, 0))
    monkeypatch.setattr("torch.set_num_threads", lambda num_threads: None)
    words = ["--model", str(folder), "--source", str(tmp_path / "texts"), "--rounds", "1"]
    monkeypatch.setattr("sys.argv", ["benchmark_export.py", *words])
    benchmark.main()
    pytorch, *exports = capsys.readouterr().out.splitlines()[1:]
    assert pytorch.split()[-3:] == ["1.00", "[1.00..1.00]", "0"]
    names = [line.split(" MB")[0].rpartition(" ")[0].strip() for line in exports]
    assert names == ["ctranslate2 float32", "ctranslate2 int8"]
