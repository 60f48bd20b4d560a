# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402
"""Tiny models, a tiny tokenizer and the way to the real corpora, shared by all tests."""

import gc
import logging
import os
import shutil
import subprocess
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Processes that tests start import this checkout, whatever is installed.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
# which torch reads once, for deterministic algorithms
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
gc.disable()  # a quarter of the time of the imports

import torch
from accelerator import accel  # noqa: F401  (a fixture)
from hypothesis import settings
from processes import ROOT, find_port
from tiny import SENTENCES, make_model
from transformers import pipeline

from vaswani_transformer import (
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerTokenizer,
)

# Without a sandbox, which containers lack, and without requests of the browser's own.
_BROWSER_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
)
_BROWSER_FLAGS += "--disable-component-update --disable-sync"

# Hypothesis draws the same cases in every run, but new ones under the profile of tests/fuzz.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items):
    """Put slow tests first, so that at the end no process waits for another one's long file."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish():
    """Leaves what is imported out of the garbage collections that every training ends with, of half
    a second each.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _forget_warnings_of_other_tests():
    """What is logged once per process is logged once per test."""
    logging.Logger.warning_once.cache_clear()


@pytest.fixture
def library_log(caplog, monkeypatch):
    """`caplog` that hears transformers, too: its logger propagates only where CI is set."""
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    return caplog


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real corpora, beside the checkout; not part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real corpora are not part of the project and not found in {folder}")
    return folder


@pytest.fixture(scope="session")
def tiny_tokenizer() -> VaswaniTransformerTokenizer:
    """300 entries trained on four sentences."""
    return VaswaniTransformerTokenizer().train_new_from_iterator(
        SENTENCES * 5, vocab_size=300, show_progress=False
    )


@pytest.fixture
def tiny_model() -> VaswaniTransformerForConditionalGeneration:
    """A new seeded tiny model in eval mode."""
    return make_model()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, tiny_tokenizer) -> Path:
    """Folder of a saved English-German model, for tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("checkpoint")
    make_model(scale=2.5, source_language="en", target_language="de").save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(checkpoint, tmp_path):
    """A copy of it, which a test may change."""
    return shutil.copytree(checkpoint, tmp_path / "model")


@pytest.fixture(scope="module")
def translate(checkpoint):
    """The pipeline over it."""
    return pipeline("translation", model=str(checkpoint))


@pytest.fixture
def tiny_batch(tiny_tokenizer):
    """Two sentence pairs of different lengths, padded; labels hold -100."""
    batch = tiny_tokenizer(
        [SENTENCES[0], "A dog."],
        text_target=[SENTENCES[1], "Ein Hund liest."],
        padding=True,
        return_tensors="pt",
    )
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == 0, -100)
    return batch


@pytest.fixture
def inputs():
    """Three padded sources and as many beginnings of targets, as arguments of forward."""
    torch.manual_seed(1)
    source, mask = torch.randint(3, 300, (3, 7)), torch.ones(3, 7, dtype=torch.long)
    mask[1, 5:] = mask[2, 3:] = 0
    target = torch.cat([torch.ones(3, 1, dtype=torch.long), torch.randint(3, 300, (3, 5))], dim=1)
    return {"input_ids": source * mask, "attention_mask": mask, "decoder_input_ids": target}


@pytest.fixture
def batch(inputs):
    """The same sources with labels instead, some of which do not count."""
    labels = torch.randint(3, 300, (3, 6))
    labels[0, 4:] = -100
    return {
        "input_ids": inputs["input_ids"],
        "attention_mask": inputs["attention_mask"],
        "labels": labels,
    }


@pytest.fixture
def small_disk(tmp_path):
    """Function that mounts, or mounts again, a file system of some KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(kib, *options):
        command = ["mount", *options, "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("no small file system can be mounted here, which takes root")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.fixture
def free_port() -> int:
    return find_port()


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, as playwright drives it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        pytest.skip("no chromium found on this machine")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=chromium, args=_BROWSER_FLAGS.split(), timeout=60_000
        )
        yield browser
        browser.close()
