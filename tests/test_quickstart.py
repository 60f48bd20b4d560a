# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The README's first command, once with a tiny model, once unchanged."""

import json
import subprocess
import sys

import pytest
import torch
from processes import ROOT, script_environment
from readme import commands_with_outputs, first_line
from search_checks import MAX_FLIPPED, count_flips
from tiny import write_sentences
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_transformer.cli import main
from vaswani_transformer.data import load_corpus


def run_quickstart(output_dir, *options, environment):
    """Runs the script with these environment variables, and returns what it printed."""
    script = str(ROOT / "scripts" / "quickstart.sh")
    done = subprocess.run(
        ["bash", script, "--output-dir", str(output_dir), *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Stands in for `python` and `vaswani-transformer`. Writes the words of its n-th call, from 0, into
# the folder n, and its standard input if the first word is `-`. Calls with `-c`, which check
# versions and modules, do not count.
RECORDER = """#!/bin/sh
[ "$1" != -c ] || exit 0
number=$(($(ls "{steps}" | wc -l)))
mkdir "{steps}/$number"
for word; do printf '%s\\n' "$word"; done > "{steps}/$number/words"
[ "$1" != - ] || cat > "{steps}/$number/program"
"""
SMALLER = {
    "train": "--train-source {0}/text.en --train-target {0}/text.de --vocab-size 300 --d-model 16 "
    "--d-ff 16 --num-decoder-layers 1",
    "evaluate": "--dataset builtin --num-beams 1 --max-new-tokens-over-source 0",
}


@pytest.mark.slow
def test_quickstart_trains_scores_and_translates(tmp_path, capsys, monkeypatch):
    """The commands of the script are recorded, made smaller, and run in this process."""
    steps = tmp_path / "steps"
    steps.mkdir()
    for name in ("python", "vaswani-transformer"):
        command = tmp_path / name
        command.write_text(RECORDER.format(steps=steps))
        command.chmod(0o755)
    write_sentences(tmp_path, "text", copies=1)
    run = tmp_path / "run"
    printed = run_quickstart(run, "--steps", "5", environment=script_environment(tmp_path))
    assert str(run) in printed.splitlines()[-1]
    train, evaluate, translate = (
        (folder / "words").read_text().splitlines() for folder in sorted(steps.iterdir())
    )
    for words in (train, evaluate):
        assert main(words + SMALLER[words[0]].format(tmp_path).split()) == 0
    monkeypatch.setattr(sys, "argv", translate)
    exec((steps / "2" / "program").read_text(), {})
    printed_here = capsys.readouterr().out
    assert "nrefs:var" in printed_here
    assert printed_here.count("  -> ") == 3
    assert "test_sacrebleu" in json.loads((run / "test_results.json").read_text())
    assert json.loads((run / "train_results.json").read_text())["train_steps"] == 5


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Folder of a quickstart in full, on two threads."""
    folder = tmp_path_factory.mktemp("quickstart") / "run"
    environment = {**script_environment(), "OMP_NUM_THREADS": "2"}
    run_quickstart(folder, environment=environment)
    return folder


@pytest.mark.heavy
def test_quickstart_reaches_39_sacrebleu_with_all_references_within_ten_million_tokens(whole_run):
    scores, training = (
        json.loads((whole_run / f"{name}_results.json").read_text()) for name in ("test", "train")
    )
    assert scores["test_sacrebleu"] >= 39
    assert scores["test_sacrebleu_signature"].startswith("nrefs:var|case:mixed|eff:no|tok:13a|")
    assert training["train_source_tokens"] + training["train_target_tokens"] <= 10_000_000


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_translations_of_the_trained_model_do_not_depend_on_their_batch(whole_run, dtype):
    model = AutoModelForSeq2SeqLM.from_pretrained(whole_run, dtype=dtype).eval()
    sources = load_corpus(
        dataset="builtin", split="test", source_language="en", target_language="de"
    )["source"]
    sentences = AutoTokenizer.from_pretrained(whole_run)(list(sources))["input_ids"]
    num_sentences, num_flipped = count_flips(
        model, [sentences[start : start + 32] for start in range(0, 1000, 32)]
    )
    assert num_sentences == 1000
    assert num_flipped <= MAX_FLIPPED * num_sentences


@pytest.mark.heavy
def test_docs_show_what_the_model_prints(whole_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "my-model").symlink_to(whole_run)
    for command, shown in commands_with_outputs():
        assert first_line(command, tmp_path, capsys) == shown, command


def test_quickstart_refuses_an_unknown_argument():
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "quickstart.sh"), "--stpes", "5"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error: unknown argument --stpes" in done.stderr
