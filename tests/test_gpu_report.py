# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`scripts/gpu_report.py` at toy sizes on a CPU; what needs a GPU is replaced by a stand-in or says
so by name.
"""

import json
import sys
import time
import warnings
import weakref

import pytest
import torch

from vaswani_transformer import beam_search_vaswani_transformer as search


@pytest.fixture(scope="module")
def gpu_report():
    before = [*sys.path]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", "")  # which the script sets
        import benchmark_training
        import gpu_report as module

        patch.setitem(
            benchmark_training.SIZES,
            "tiny",
            {**benchmark_training.SIZES["tiny"], "d_model": 16, "d_ff": 32},
        )
        patch.setattr(benchmark_training, "UPDATES_BEFORE", 1)
        yield module
    sys.path[:] = before


def read(folder):
    return json.loads((folder / "gpu_report.json").read_text(encoding="utf-8"))


@pytest.fixture
def small(gpu_report, checkpoint, tmp_path, monkeypatch):
    """What --prepare makes of a model."""
    monkeypatch.setattr(gpu_report, "COMPARED", 4)
    gpu_report.main(["--prepare", str(tmp_path / "small"), "--model", str(checkpoint)])
    return tmp_path / "small"


@pytest.mark.heavy
@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU it takes minutes: run the script")
def test_report_has_every_section_on_a_cpu(gpu_report, small, tmp_path):
    output = tmp_path / "report"
    gpu_report.main(["--output", str(output), "--minutes", "5", "--model", str(small)])
    report = read(output)
    sections = report["sections"]
    assert [*sections] == [*gpu_report.SECTIONS] and report["not_reached"] == []
    problems = {
        name: section["problem"] for name, section in sections.items() if section["problem"]
    }
    assert problems == {name: f"{name} needs a GPU." for name in gpu_report.NEED_GPU}
    rows = {name: section["rows"] for name, section in sections.items()}
    assert all(rows[name] for name in rows if name not in gpu_report.NEED_GPU)
    assert not [row for section in rows.values() for row in section if "problem" in row]

    weights = {row["run"]: row["weights"] for row in rows["resume"]}
    assert weights["whole"] == weights["resumed"] == weights["whole again"] != weights["killed"]
    trained = [row for row in rows["training-base"] if "target tokens/s" in row]
    assert [(row["by"], row["workers"]) for row in trained] == [
        ("ours", 1),
        ("marian", 1),
        ("ours", 0),
    ]
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_correctness_compares_with_the_numbers_that_were_carried(gpu_report, small, monkeypatch):
    outcome = gpu_report.outcome

    def changed(*arguments):
        """An outcome of another device: logits higher by 1/4, the loss by a half, gradients three
        times as large.
        """
        logits, loss, gradients = outcome(*arguments)
        return logits + 0.25, loss * 1.5, gradients * 3

    monkeypatch.setattr(gpu_report, "outcome", changed)
    expected, *rows = gpu_report.correctness(small)
    assert expected["torch"] == torch.__version__ and expected["smoothed loss"] > 0
    assert [(row["attention"], row["precision"]) for row in rows] == [
        *(("sdpa", "fp32"), ("sdpa", "bf16")),
        *(("eager", "fp32"), ("eager", "bf16")),
    ]
    exact = rows[0]
    assert (exact["greedy"], exact["beam"]) == (1, 1)
    assert exact["logits"] == pytest.approx(0.25, abs=1e-4)
    assert exact["loss"] == pytest.approx(0.5, abs=1e-5) and exact["gradients"] == pytest.approx(
        2, abs=1e-5
    )


def test_correctness_is_left_out_without_a_model(gpu_report, tmp_path):
    gpu_report.main(["--output", str(tmp_path), "--only", "correctness"])
    section = read(tmp_path)["sections"]["correctness"]
    assert section["rows"] == [] and "--model FOLDER" in section["problem"]


def fails(*args, **kwargs):
    raise RuntimeError("libcublas.so.12 not found")


PROBLEM = "RuntimeError: libcublas.so.12 not found"


def test_contestant_that_fails_leaves_the_other_ones_rows_of_decoding(gpu_report, monkeypatch):
    contestants = {"ours": gpu_report.translator_of, "marian": fails}
    monkeypatch.setattr(
        gpu_report, "translator_of", lambda name, workload: contestants[name](name, workload)
    )
    rows = [*gpu_report.decoding()]
    assert [row["sentences"] for row in rows] == [1, 1, 3, 3]
    for row in rows:
        assert row.get("problem") == (PROBLEM if row["by"] == "marian" else None)
        assert ("tokens/s" in row) == (row["by"] == "ours")


def test_caches_are_empty_when_a_section_begins(gpu_report, tmp_path, monkeypatch):
    events = []

    def section():
        """Defined."""
        events.append("section")
        yield {"figure": 1}

    monkeypatch.setattr(gpu_report, "IS_GPU", True)
    monkeypatch.setattr(gpu_report, "SECTIONS", {"first": section, "second": section})
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: events.append("emptied"))
    search._OF_THREAD.captured = {"cuda:0": "a graph"}
    gpu_report.run_sections(["first", "second"], tmp_path, 1)
    assert events == ["emptied", "section"] * 2
    assert not hasattr(search._OF_THREAD, "captured")


@pytest.mark.parametrize("name", ["ours", "marian"])
def test_nothing_of_a_contestant_stays_behind(gpu_report, name, monkeypatch):
    import benchmark_training

    models, make_trainer = [], benchmark_training.make_trainer

    def watched(*args, **kwargs):
        trainer = make_trainer(*args, **kwargs)
        models.append(weakref.ref(trainer.model))
        return trainer

    monkeypatch.setattr(benchmark_training, "make_trainer", watched)
    task = benchmark_training.Task(name, "tiny", "cpu", 256, 1, 1, False, False, before=2)
    benchmark_training.measure(task, dataloader_num_workers=0)
    gpu_report.empty_caches()
    assert len(models) == 1 and models[0]() is None


@pytest.mark.parametrize("is_on", [True, False])
def test_precision_of_products_can_be_read_as_torch_compile_reads_it(
    gpu_report, is_on, monkeypatch
):
    monkeypatch.setattr(gpu_report, "IS_GPU", True)
    try:
        gpu_report.use_tf32(True)
        gpu_report.use_tf32(is_on)
        assert torch.get_float32_matmul_precision() == ("high" if is_on else "highest")
        assert torch.backends.cuda.matmul.fp32_precision == ("tf32" if is_on else "ieee")
    finally:
        torch.set_float32_matmul_precision("highest")


def test_failing_section_keeps_its_rows_and_leaves_the_others(gpu_report, tmp_path, monkeypatch):
    def broken():
        """Defined."""
        yield {"first": 1.0}
        fails()

    monkeypatch.setattr(gpu_report, "SECTIONS", {"broken": broken, "broken again": broken})
    gpu_report.run_sections(["broken", "broken again"], tmp_path, 1)
    report = read(tmp_path)
    assert [*report["sections"]] == ["broken", "broken again"] and report["not_reached"] == []
    for section in report["sections"].values():
        assert section["rows"] == [{"first": 1.0}] and PROBLEM in section["problem"]


def test_what_the_time_does_not_reach_is_listed(gpu_report, tmp_path, monkeypatch):
    def waits():
        """Defined."""
        yield {"row": 1}
        try:
            time.sleep(600)
        except Exception:  # a section that catches everything
            yield {"row": 2}

    monkeypatch.setattr(gpu_report, "SECTIONS", {"waits": waits, "later": waits})
    started = time.monotonic()
    gpu_report.run_sections(["waits", "later"], tmp_path, 0.01)
    report = read(tmp_path)
    assert time.monotonic() - started < 300 and report["not_reached"] == ["waits", "later"]
    assert report["sections"] == {
        "waits": {
            "definition": "Defined.",
            "rows": [{"row": 1}],
            "problem": "Cut off: the time was over.",
        }
    }


def test_waits_are_those_of_the_further_steps(gpu_report, monkeypatch):
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def call(steps):
        for _ in range(3 + 2 * steps):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)

    found = gpu_report.waits_of(call, 5, 15)
    assert found["synchronisations"] == 2 and found["most of them"].startswith(
        "tests/test_gpu_report.py:"
    )
    assert modes == ["warn", "default"] * 2
