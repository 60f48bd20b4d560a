# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The paper's recipes from the data set to the card, by the command line, at a thousandth of their
size.
"""

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
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_transformer.cli import main
from vaswani_transformer.data import load_corpus
from vaswani_transformer.recipe import RECIPES, Recipe, get_recipe

pytestmark = pytest.mark.slow

PUBLISHED = [name for name in RECIPES if name.startswith("paper-")]
MODEL = {
    "d_model": 16,
    "d_ff": 32,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}
BATCH = {"max_source_tokens_per_batch": 2500, "max_target_tokens_per_batch": 2500}
SMALL = {"vocab_size": 600, **MODEL, **BATCH}
UPDATES = {
    "max_steps": 100,
    "warmup_steps": 4,
    "snapshot_steps": 2,
    "eval_steps": 50,
    "save_steps": 50,
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


def evaluate_command(folder):
    return [
        "evaluate",
        "--model",
        str(folder),
        "--device",
        "cpu",
        "--translations",
        str(folder / "translations.txt"),
    ]


class Run:
    """What a run and its evaluation left, and what they asked for."""

    def __init__(self, folder, asked):
        self.folder, self.asked, self.recipe = folder, asked, Recipe.load(folder)
        self.results = self.read("train_results.json")
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder)

    def read(self, name):
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wmt14(tmp_path_factory):
    return write_small_wmt14(tmp_path_factory.mktemp("data") / "wmt14")


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """List of every (name, configuration, split) that the library is asked for; its cache lies in a
    new folder.
    """
    asked, load = [], datasets.load_dataset

    def record(name, config=None, *, split, **options):
        asked.append((Path(name).name, config, split))
        return load(name, config, split=split, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        patch.setattr(datasets, "load_dataset", record)
        yield asked


@pytest.fixture(scope="module")
def german(wmt14, asked, tmp_path_factory):
    """The base recipe for English-German, trained for 1/1000 of its updates, and evaluated."""
    asked.clear()
    folder = tmp_path_factory.mktemp("german") / "run"
    command = train_command(
        "paper-base-en-de", folder, dataset=wmt14, **SMALL, **UPDATES, logging_steps=10
    )
    assert main(command) == main(evaluate_command(folder)) == 0
    return Run(folder, [*asked])


@pytest.fixture(scope="module")
def by_name(wmt14, tmp_path_factory):
    """The base recipe without `--dataset`: its data set comes from a Hub, in a process with the
    real client.
    """
    home = tmp_path_factory.mktemp("by_name")
    folder = home / "run"
    program = (
        "import json, sys; from vaswani_transformer.cli import main; sys.exit(max(map(main, "
        "json.load(sys.stdin))))"
    )
    commands = [train_command("paper-base-en-de", folder, **SMALL, **FEW), evaluate_command(folder)]
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
            env={
                **os.environ,
                **online,
                "HF_ENDPOINT": hub.url,
                "PYTHONPATH": str(Path(__file__).parents[2]),
            },
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
    assert changed == {"dataset", *SMALL, *UPDATES, "logging_steps"}


# ---- English-German: sections 5 and 6.1, whole ----


def test_every_pair_is_trained_on_but_the_empty_and_the_too_long(german):
    dropped = {
        reason: count for reason, count in german.results["train_dropped_pairs"].items() if count
    }
    assert dropped == {"empty_source": EMPTY, "source_too_long": TOO_LONG}
    assert german.results["train_pairs"] == NUM_PAIRS["de-en"] - EMPTY - TOO_LONG


def test_training_reads_the_train_and_validation_splits_and_evaluation_the_whole_test_split(german):
    # the check of the training text asks for both held-out splits, the evaluation for the last one
    splits = ("validation", "train", "validation", "test", "test")
    assert german.asked == [("wmt14", "de-en", split) for split in splits]
    assert (
        len((german.folder / "translations.txt").read_text(encoding="utf-8").splitlines())
        == NUM_TEST
    )


def test_source_is_english_though_the_configuration_names_german_first(german, wmt14):
    rows = datasets.Dataset.from_parquet(
        str(next(wmt14.glob("de-en/test-*"))), cache_dir=str(german.folder / "cache")
    )
    corpus = load_corpus(**german.recipe.data_arguments("test"))
    assert corpus["source"][:] == [row["en"] for row in rows["translation"]]
    assert german.model.config.language_pair == ("en", "de")


def test_vocabulary_and_updates_are_as_large_as_asked_for(german):
    """The fuller side comes close to it; the last batch of each epoch is smaller."""
    tokenizer = AutoTokenizer.from_pretrained(german.folder)
    assert len(tokenizer) == german.model.config.vocab_size == SMALL["vocab_size"]
    fullest = max(german.results["train_source_tokens"], german.results["train_target_tokens"])
    assert 0.9 * 2500 * 100 < fullest <= 2500 * 100


def test_log_has_the_learning_rates_of_equation_3_and_the_validations_asked_for(german):
    log = german.read("trainer_state.json")["log_history"]
    logged = {entry["step"]: entry["learning_rate"] for entry in log if "loss" in entry}
    expected = {
        step: 16**-0.5 * min(step**-0.5, step * 4**-1.5) for step in (1, *range(10, 101, 10))
    }
    assert logged == pytest.approx(expected)
    assert [entry["step"] for entry in log if "eval_sacrebleu" in entry] == [50, 100]


def test_training_and_average_beat_an_even_guess(german):
    assert german.results["last_eval_nll"] < math.log(SMALL["vocab_size"])
    assert german.results["average_eval_nll"] < math.log(SMALL["vocab_size"])


def test_final_weights_are_the_mean_of_the_last_five_snapshots(german):
    last = [
        load_file(german.folder / "snapshots" / f"step-{step:08}.safetensors")
        for step in (92, 94, 96, 98, 100)
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


def test_card_names_data_scores_and_cost(german):
    card = (german.folder / "README.md").read_text(encoding="utf-8")
    score = f"{german.read('test_results.json')['test_sacrebleu']:.2f}"
    told = ("wmt14", "de-en", "split test", score, "4,495", "FLOPs")
    assert [part for part in told if part not in card] == []


# ---- the same from the Hub, and English-French ----


def test_data_set_on_the_hub_is_trained_on_and_evaluated_by_its_name(by_name):
    assert (by_name.recipe.dataset, by_name.results["train_pairs"]) == ("wmt/wmt14", 4495)
    test_set = {"dataset": "wmt/wmt14", "dataset_config": "de-en", "split": "test"}
    assert by_name.read("test_results.json")["test_corpus"] == test_set
    scores = ModelCard.load(by_name.folder / "README.md").data.eval_results
    found = {
        (result.dataset_type, result.dataset_config, result.dataset_split) for result in scores
    }
    assert found == {tuple(test_set.values())}


def test_files_of_the_other_configuration_stay_on_the_hub(by_name):
    files = [request for request in by_name.asked if request.endswith(".parquet")]
    assert {Path(file).parent.name for file in files} == {"de-en"}


def test_big_recipe_reads_tokenises_and_trains_on_the_french_configuration(wmt14, asked, tmp_path):
    asked.clear()
    assert (
        main(train_command("paper-big-en-fr", tmp_path / "run", dataset=wmt14, **SMALL, **FEW)) == 0
    )
    french = Run(tmp_path / "run", [*asked])
    assert french.results["train_pairs"] == NUM_PAIRS["fr-en"] - EMPTY - TOO_LONG
    assert (french.results["train_steps"], french.results["num_averaged_snapshots"]) == (2, 2)
    splits = ("validation", "train", "validation", "test")
    assert french.asked == [("wmt14", "fr-en", split) for split in splits]
    assert french.model.config.language_pair == ("en", "fr")
