# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`scripts/gpu_report.py` at toy sizes on a CPU; what needs a GPU is replaced by a stand-in or says so by name."""

import json
import sys
import time
import warnings

import pytest
import torch


@pytest.fixture(scope="module")
def gpu_report():
    before = [*sys.path]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", "")  # which the script sets
        import benchmark_training
        import gpu_report as module

        patch.setitem(
            benchmark_training.SIZES, "tiny", {**benchmark_training.SIZES["tiny"], "d_model": 16, "d_ff": 32}
        )
        patch.setattr(benchmark_training, "UPDATES_BEFORE", 1)
        yield module
    sys.path[:] = before


def read(folder):
    return json.loads((folder / "gpu_report.json").read_text(encoding="utf-8"))


@pytest.mark.heavy
@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU it takes minutes: run the script")
def test_report_has_every_section_on_a_cpu(gpu_report, tmp_path, capsys):
    gpu_report.main(["--output", str(tmp_path), "--minutes", "5"])
    report = read(tmp_path)
    sections = report["sections"]
    assert [*sections] == [*gpu_report.SECTIONS] and report["not_reached"] == []
    problems = {name: section["problem"] for name, section in sections.items() if section["problem"]}
    assert problems == {name: f"{name} needs a GPU." for name in gpu_report.NEED_GPU}
    assert all(section["rows"] for name, section in sections.items() if name not in gpu_report.NEED_GPU)

    (trained, exact, *others) = sections["correctness"]["rows"]
    assert trained["trained"].endswith("updates")
    assert [exact[name] for name in ("precision", "logits", "loss", "gradients", "beam")] == ["fp32", 0, 0, 0, 1]
    assert all(0 < row["logits"] < 0.2 and row["gradients"] < 0.2 for row in others)
    weights = {row["run"]: row["weights"] for row in sections["resume"]["rows"]}
    assert weights["whole"] == weights["resumed"] == weights["whole again"] != weights["killed"]
    assert sections["training-base"]["rows"][0]["target tokens/s"] > 0
    assert {row["by"] for row in sections["decoding"]["rows"]} == {"ours", "marian"}

    text = (tmp_path / "gpu_report.md").read_text(encoding="utf-8")
    assert "| sentences | by | turn | tokens/s |" in text and "synchronisations needs a GPU." in text
    assert {path.name for path in tmp_path.iterdir()} == {"gpu_report.json", "gpu_report.md"}


def test_failing_section_keeps_its_rows_and_leaves_the_others(gpu_report, tmp_path, monkeypatch):
    def fails():
        """Defined."""
        yield {"first": 1.5}
        raise RuntimeError("no such kernel")

    def works():
        """Defined, too."""
        yield {"figure": 1234567.0}

    monkeypatch.setattr(gpu_report, "SECTIONS", {"fails": fails, "works": works})
    gpu_report.run_sections(["fails", "works"], tmp_path, 1)
    report = read(tmp_path)
    assert report["sections"]["fails"]["rows"] == [{"first": 1.5}] and report["not_reached"] == []
    assert "RuntimeError: no such kernel" in report["sections"]["fails"]["problem"]
    assert "| 1,234,567 |" in (tmp_path / "gpu_report.md").read_text(encoding="utf-8")


def test_what_the_time_does_not_reach_is_listed(gpu_report, tmp_path, monkeypatch):
    def waits():
        """Defined."""
        yield {"row": 1}
        try:
            time.sleep(30)
        except Exception:  # a section that catches everything
            yield {"row": 2}

    monkeypatch.setattr(gpu_report, "SECTIONS", {"waits": waits, "later": waits})
    started = time.monotonic()
    gpu_report.run_sections(["waits", "later"], tmp_path, 0.01)
    report = read(tmp_path)
    assert time.monotonic() - started < 10 and report["not_reached"] == ["waits", "later"]
    assert report["sections"] == {
        "waits": {"definition": "Defined.", "rows": [{"row": 1}], "problem": "Cut off: the time was over."}
    }


def test_waits_are_those_of_the_further_steps(gpu_report, monkeypatch):
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def call(steps):
        for _ in range(3 + 2 * steps):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)

    found = gpu_report.waits_of(call, 5, 15)
    assert found["synchronisations"] == 2 and found["most of them"].startswith("tests/test_gpu_report.py:")
    assert modes == ["warn", "default"] * 2
