# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's recipes from the data set to the card, by the command line, in small."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
import torch
from hub_server import HubServer
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from small_wmt14 import EMPTY, NUM_PAIRS, NUM_TEST, TOO_LONG, write_small_wmt14
from tiny import SMALLEST
from toy_language import limits
from transformers import AutoModelForSeq2SeqLM

from vaswani_transformer.cli import main
from vaswani_transformer.data import load_corpus
from vaswani_transformer.recipe import RECIPES, Recipe, get_recipe

pytestmark = pytest.mark.slow

PUBLISHED = [name for name in RECIPES if name.startswith("paper-")]
SMALL = {"vocab_size": 600, **SMALLEST, **limits(2500)}
UPDATES = {
    "max_steps": 20,
    "warmup_steps": 4,
    "snapshot_steps": 2,
    "eval_steps": 10,
    "save_steps": 10,
    "logging_steps": 5,
}
FEW = {"max_steps": 2, "warmup_steps": 1, "snapshot_steps": 1}
DECODING = {
    "num_beams": 4,
    "length_penalty": 0.6,
    "length_penalty_offset": 5,
    "max_new_tokens_over_source": 50,
}


def train_command(recipe, folder, **changes):
    """Words of the command that trains a recipe on the CPU with some fields changed."""
    options = [
        word
        for name, value in changes.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return ["train", "--recipe", recipe, "--output-dir", str(folder), "--use-cpu", *options]


class Run:
    """What a run and its evaluation left."""

    def __init__(self, folder, requests=()):
        self.folder, self.recipe, self.requests = folder, Recipe.load(folder), requests
        self.results = self.read("train_results.json")
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder)

    def read(self, name):
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wmt14(tmp_path_factory):
    return write_small_wmt14(tmp_path_factory.mktemp("data") / "wmt14")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        yield


@pytest.fixture(scope="module")
def german(wmt14, tmp_path_factory):
    """The base recipe for English-German, trained for a few updates and evaluated: its data set
    comes from a Hub, in a process with the real client.
    """
    home = tmp_path_factory.mktemp("german")
    folder = home / "run"
    program = (
        "import gc, json, sys; gc.disable(); from vaswani_transformer.cli import main; "
        "sys.exit(max(map(main, json.load(sys.stdin))))"
    )
    commands = [
        train_command("paper-base-en-de", folder, **SMALL, **UPDATES),
        ["evaluate", "--model", str(folder), "--device", "cpu"],
    ]
    files = {
        str(path.relative_to(wmt14)): path.read_bytes()
        for path in wmt14.rglob("*")
        if path.is_file()
    }
    online = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0", "HF_HOME": str(home / "hf")}
    with HubServer() as hub:
        hub.add_repo("datasets/wmt/wmt14", files)
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(commands),
            env={**os.environ, **online, "HF_ENDPOINT": hub.url},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return Run(folder, hub.requests)


# ---- what the recipes ask for ----


@pytest.mark.parametrize("name", PUBLISHED)
def test_recipe_asks_the_library_for_wmt14_on_the_hub(name, monkeypatch):
    def record(*given, split, **options):
        asked.append((*given, split))
        row = {"en": "A dog.", "de": "Ein Hund.", "fr": "Un chien."}
        return datasets.Dataset.from_dict({"translation": [row]})

    asked, splits = [], ("train", "validation", "test")
    monkeypatch.setattr(datasets, "load_dataset", record)
    for split in splits:
        load_corpus(**get_recipe(name).data_arguments(split))
    assert asked == [
        ("wmt/wmt14", "fr-en" if name.endswith("fr") else "de-en", split) for split in splits
    ]


def test_dry_run_is_the_recipe_but_for_its_size(german):
    own = dataclasses.asdict(get_recipe("paper-base-en-de"))
    changed = {
        name for name, value in dataclasses.asdict(german.recipe).items() if value != own[name]
    }
    assert changed == {*SMALL, *UPDATES}


# ---- English-German: sections 5 and 6.1, whole ----


def test_every_pair_is_trained_on_but_the_empty_and_the_too_long(german):
    dropped = {
        reason: count for reason, count in german.results["train_dropped_pairs"].items() if count
    }
    assert dropped == {"empty_source": EMPTY, "source_too_long": TOO_LONG}
    assert german.results["train_pairs"] == NUM_PAIRS["de-en"] - EMPTY - TOO_LONG


def test_evaluation_reads_the_whole_test_split(german):
    assert german.read("test_results.json")["test_num_sentences"] == NUM_TEST


def test_training_and_average_beat_an_even_guess_at_the_validations_asked_for(german):
    log = german.read("trainer_state.json")["log_history"]
    assert [entry["step"] for entry in log if "eval_sacrebleu" in entry] == [10, 20]
    assert german.results["last_eval_nll"] < math.log(SMALL["vocab_size"])
    assert german.results["average_eval_nll"] < math.log(SMALL["vocab_size"])


def test_final_weights_are_the_mean_of_the_last_five_snapshots(german):
    last = [
        load_file(german.folder / "snapshots" / f"step-{step:08}.safetensors")
        for step in (12, 14, 16, 18, 20)
    ]
    final = load_file(german.folder / "model.safetensors")
    for name, tensor in final.items():
        torch.testing.assert_close(
            tensor, sum(weights[name].double() for weights in last).div(5).float()
        )
    assert german.results["num_averaged_snapshots"] == 5


def test_test_set_is_decoded_and_the_model_published_as_section_6_1(german):
    results, generation = german.read("test_results.json"), german.model.generation_config
    assert {field: results[f"test_{field}"] for field in DECODING} == DECODING
    assert {field: getattr(generation, field) for field in DECODING} == DECODING
    assert german.model.config.language_pair == ("en", "de")


def test_data_set_on_the_hub_is_trained_on_and_evaluated_by_its_name(german):
    assert german.recipe.dataset == "wmt/wmt14"
    test_set = {"dataset": "wmt/wmt14", "dataset_config": "de-en", "split": "test"}
    assert german.read("test_results.json")["test_corpus"] == test_set
    scores = ModelCard.load(german.folder / "README.md").data.eval_results
    found = {
        (result.dataset_type, result.dataset_config, result.dataset_split) for result in scores
    }
    assert found == {tuple(test_set.values())}


def test_files_of_the_other_configuration_stay_on_the_hub(german):
    files = [request for request in german.requests if request.endswith(".parquet")]
    assert {Path(file).parent.name for file in files} == {"de-en"}


# ---- English-French, from a folder ----


def test_big_recipe_reads_tokenises_and_trains_on_the_french_configuration(wmt14, tmp_path):
    assert (
        main(train_command("paper-big-en-fr", tmp_path / "run", dataset=wmt14, **SMALL, **FEW)) == 0
    )
    french = Run(tmp_path / "run")
    assert french.results["train_pairs"] == NUM_PAIRS["fr-en"] - EMPTY - TOO_LONG
    assert (french.results["train_steps"], french.results["num_averaged_snapshots"]) == (2, 2)
    assert french.model.config.language_pair == ("en", "fr")
