# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the engines runs and prints one line for each contestant."""

import benchmark_engines as benchmark
import pytest

pytest.importorskip("ctranslate2", reason="the extra export is not installed")


@pytest.mark.parametrize("more", ["", " --one-by-one --clock cpu"])
def test_the_benchmark_compares_torch_with_every_engine(
    save_model, tmp_path, texts, monkeypatch, capsys, more
):
    _, folder = save_model()
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8")
    monkeypatch.setattr(benchmark, "run", benchmark.measure)
    monkeypatch.setattr("torch.set_num_threads", lambda num_threads: None)
    words = f"benchmark_engines.py --model {folder} --source {tmp_path / 'texts'} --rounds 1{more}"
    monkeypatch.setattr("sys.argv", words.split())
    benchmark.main()
    torch, *others = capsys.readouterr().out.splitlines()[1:]
    assert torch.split()[-3:] == ["1.00", "[1.00..1.00]", "0"]
    assert [line[:18].strip() for line in others] == list(benchmark.CONTESTANTS)[1:]
    assert others[1].split()[-1] == "0"  # ctranslate2
