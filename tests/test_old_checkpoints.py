# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs that earlier versions wrote load, translate, score and resume for ever; see
tests/checkpoints/make.sh.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from processes import HUB_FILES
from transformers import AutoModelForSeq2SeqLM, pipeline

from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.inference.score import score_pairs
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.train import train

ARCHIVES = sorted((Path(__file__).parent / "checkpoints").glob("*.tar.xz"))

SAFE = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 brought it


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def old(request, tmp_path, monkeypatch):
    """A folder with train.en, train.de, scores.jsonl and the folder `run`, which is also the
    working folder.
    """
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, **SAFE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(name):
    return Path(name).read_text(encoding="utf-8").splitlines()


def test_there_is_an_archive():
    assert ARCHIVES


def test_old_model_translates_as_it_learned_to(old):
    translate = pipeline("translation", model="run")
    assert [found["translation_text"] for found in translate(lines("train.en"))] == lines(
        "train.de"
    )


def test_old_model_gives_the_scores_it_gave(old):
    model, tokenizer = load_for_inference("run", device="cpu")
    scores = list(score_pairs(model, tokenizer, lines("train.en"), lines("train.de")))
    expected = [json.loads(line) for line in lines("scores.jsonl")]
    assert [score.log_prob for score in scores] == pytest.approx(
        [line["log_prob"] for line in expected], abs=1e-4
    )
    assert [score.length for score in scores] == [line["length"] for line in expected]


def test_old_model_loads_without_a_warning(old, library_log):
    model, found = AutoModelForSeq2SeqLM.from_pretrained("run", output_loading_info=True)
    assert not any(found.values()) and not library_log.records
    assert (
        model.config.d_v != model.config.d_k
        and model.config.num_encoder_layers != model.config.num_decoder_layers
    )


def test_old_run_is_resumed_and_finished(old):
    """With other batches than 0.1.0's: what was logged before stays, and the loss is still a
    trained model's.
    """
    before, expected = (
        json.loads(Path(name).read_text(encoding="utf-8"))
        for name in ("run/trainer_state.json", "line_805.json")
    )
    recipe = dataclasses.replace(Recipe.load("run"), max_steps=805, logging_steps=5, save_steps=5)
    assert train(recipe, "run", resume=True, use_cpu=True)["train_steps"] == 805
    assert {path.name for path in Path("run").glob("*.py")} == {path.name for path in HUB_FILES}
    log = json.loads(Path("run/trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    before = [line for line in before["log_history"] if "train_loss" not in line]
    assert log[: len(before)] == before
    found = next(line for line in log if line["step"] == 805)
    assert found["learning_rate"] == pytest.approx(expected["learning_rate"], rel=1e-6)
    assert found["nll"] == pytest.approx(expected["nll"], abs=0.05)


def test_old_run_that_is_finished_counts_as_finished(old):
    results = json.loads(Path("run/train_results.json").read_text(encoding="utf-8"))
    shutil.rmtree("run/checkpoint-800")
    assert train(Recipe.load("run"), "run", resume=True, use_cpu=True) == results


PROGRAM = """
import json, sys
sys.modules["vaswani_transformer"] = None
from transformers import pipeline
translate = pipeline("translation", model="run", trust_remote_code=True)
print(json.dumps([found["translation_text"] for found in translate(json.load(sys.stdin))]))
"""


@pytest.mark.heavy
def test_old_code_of_the_folder_still_runs_without_the_package(old):
    environment = {**os.environ, "HF_MODULES_CACHE": str(old / "modules")}
    words = {"input": json.dumps(lines("train.en")), "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, **words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == lines("train.de")
