# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The library's trackers, with a stand-in for the package that writes TensorBoard's files."""

import importlib.util
import json
import sys

import pytest

from vaswani_transformer.training.recipes import Recipe
from vaswani_transformer.training.run import training_arguments

WRITER = """
import json
from pathlib import Path


class SummaryWriter:
    def __init__(self, log_dir):
        Path(log_dir).mkdir(parents=True)
        self.path = Path(log_dir) / "scalars.jsonl"

    def add_scalar(self, name, value, step):
        with self.path.open("a") as stream:
            print(json.dumps([name, value, step]), file=stream)

    def add_text(self, *args):
        pass

    flush = close = lambda self: None
"""


@pytest.fixture
def writer(tmp_path, monkeypatch):
    """A package `tensorboardX` whose writer writes JSON lines."""
    if importlib.util.find_spec("tensorboard") or importlib.util.find_spec("tensorboardX"):
        pytest.skip("a real package would be used instead of the stand-in")
    folder = tmp_path / "site" / "tensorboardX"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(WRITER)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    sys.modules.pop("tensorboardX", None)


def test_tensorboard_receives_the_figures_of_the_log_under_their_names(writer, make_trainer, dataset, tmp_path):
    options = {"eval_dataset": dataset.select(range(4)), "eval_strategy": "steps", "eval_steps": 2}
    trainer = make_trainer(max_steps=2, report_to=["tensorboard"], generation_num_beams=1, **options)
    trainer.train()
    (path,) = (tmp_path / "run" / "runs").glob("*/scalars.jsonl")
    sent = {(name, step): value for name, value, step in map(json.loads, path.read_text().splitlines())}
    names = ("loss", "nll", "perplexity", "learning_rate", "grad_norm", "tokens_per_second")
    for entry in trainer.state.log_history:
        if "loss" in entry:
            assert [sent[f"train/{name}", entry["step"]] for name in names] == [entry[name] for name in names]
        if "eval_loss" in entry:
            for name in ("nll", "perplexity", "sacrebleu"):
                assert sent[f"eval/{name}", entry["step"]] == entry[f"eval_{name}"]


@pytest.mark.parametrize(
    ("report_to", "names"),
    [
        ("tensorboard", ["tensorboard"]),
        ("none", []),
        (["none"], []),
        ((), []),
        (["wandb", "mlflow"], ["wandb", "mlflow"]),
    ],
)
def test_report_to_takes_what_the_library_takes(report_to, names):
    assert training_arguments(Recipe(), "run", use_cpu=True, report_to=report_to).report_to == names
