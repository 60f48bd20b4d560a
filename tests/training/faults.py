# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The real command `train` as a process that something happens to, and what a run leaves at its
end.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from cli_runs import train_arguments
from processes import ROOT, Fork

COMMAND = [sys.executable, "-m", "vaswani_transformer.cli"]
UPDATES = 60
SENTENCES = {
    "en": ["A dog runs in the park.", "Two women read a book.", "A dog reads.", "Two dogs run."],
    "de": [
        "Ein Hund rennt im Park.",
        "Zwei Frauen lesen ein Buch.",
        "Ein Hund liest.",
        "Zwei Hunde rennen.",
    ],
}
# 10 updates an epoch; the weights are 100 KB
RUN = {
    "validation_source": "valid.en",
    "validation_target": "valid.de",
    "d_model": "32",
    "d_ff": "64",
    "max_steps": str(UPDATES),
    "warmup_steps": "20",
    "snapshot_steps": "4",
    "num_averaged_snapshots": "3",
    "save_steps": "10",
    "save_total_limit": "2",
    "logging_steps": "4",
    "eval_steps": "20",
}
_OF_THE_LEG = (
    "train_code",
    "runtime",
    "per_second",
    "device_seconds",
    "flops_paper",
    "flops_utilization",
)


def write_corpus(folder):
    """Writes train.en, train.de, valid.en and valid.de into a folder."""
    for name, count in (("train", 60), ("valid", 2)):
        for language, sentences in SENTENCES.items():
            (folder / f"{name}.{language}").write_text(
                "\n".join(sentences * count) + "\n", encoding="utf-8"
            )


def train_command(output_dir="run", *flags, **changes):
    """The command that schedulers repeat until it is done."""
    return [
        *COMMAND,
        *train_arguments("--resume", *flags, output_dir=str(output_dir), **{**RUN, **changes}),
    ]


def start(command, folder, **changes):
    """A process in a session of its own, with its errors in `errors.txt` of its working folder.

    Args:
        command: Command line; one of `COMMAND` is forked.
        folder: Working folder, which holds the cache of `datasets`, too.
        **changes: Environment variables; with them the process is no fork.
    """
    if command[: len(COMMAND)] == COMMAND and not changes:
        return Fork(command[len(COMMAND) :], folder)
    paths = os.pathsep.join([str(ROOT), *sys.path])
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "HF_DATASETS_CACHE": str(folder / "cache")}
    with open(folder / "errors.txt", "w", encoding="utf-8") as errors:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **own, **changes},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )


def finish(process, folder, timeout=300):
    """Exit status and errors of a process that ends by itself, else it is killed and the test
    fails.
    """
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        pytest.fail(f"still running after {timeout} s: {read_errors(folder)[-2000:]}")
    return process.returncode, read_errors(folder)


def read_errors(folder):
    """What the newest process of a folder wrote to stderr."""
    path = folder / "errors.txt"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def run(command, folder, **changes):
    """Exit status and errors of a command."""
    return finish(start(command, folder, **changes), folder)


def wait_until(condition, process, timeout=120, pause=0.0):
    """Looks, as often as can be, until a condition holds or the process ends; whether it held."""
    deadline = time.monotonic() + timeout
    while process.poll() is None:
        if condition():
            return True
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail("what a process was watched for has not come")
        time.sleep(pause)
    return False


def without_times(figures):
    """Figures without those that depend on the clock or on which code resumed."""
    return {name: value for name, value in figures.items() if not name.endswith(_OF_THE_LEG)}


def log_of(folder):
    """The log that a run leaves, without times."""
    state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    return [without_times(line) for line in state["log_history"]]


def read_results(folder):
    """The results that a run leaves, without times."""
    return without_times(json.loads((folder / "train_results.json").read_text(encoding="utf-8")))


def outcome(output_dir):
    """What a finished run leaves, and what must be equal however often it was stopped."""
    names = (
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "recipe.json",
    )
    last = output_dir / f"checkpoint-{UPDATES}"
    files = [output_dir / name for name in names] + [
        last / "model.safetensors",
        last / "optimizer.pt",
    ]
    files += sorted(output_dir.glob("snapshots/*.safetensors"))[
        -int(RUN["num_averaged_snapshots"]) :
    ]
    left = {path.relative_to(output_dir).as_posix(): path.read_bytes() for path in files}
    has_card = "written by `vaswani-transformer train`" in (output_dir / "README.md").read_text(
        encoding="utf-8"
    )
    return {
        **left,
        "log": log_of(output_dir),
        "results": read_results(output_dir),
        "has a card": has_card,
    }


def check_same_end(output_dir, expected):
    """Fails with the names of what differs from an undisturbed run's end."""
    found = outcome(output_dir)
    differing = [
        name for name in expected.keys() | found.keys() if found.get(name) != expected.get(name)
    ]
    texts = {
        name: (expected.get(name), found.get(name))
        for name in differing
        if name in ("log", "results")
    }
    assert not differing, f"{sorted(differing)} differ: {texts}"
    assert not list(output_dir.rglob("*.part")) and not (output_dir / "_unfinished").exists()


def left_by(command, folder):
    """What a run that nothing happens to leaves in a folder, with its corpus."""
    write_corpus(folder)
    status, errors = run(command, folder)
    assert status == 0, errors[-3000:]
    return outcome(folder / "run")
