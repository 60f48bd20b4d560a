# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Two torchrun launchers that find each other by rendezvous, as on two machines, and lose processes on the way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from cli_runs import train_arguments
from processes import find_port
from safetensors.torch import load_file
from toy_language import make_pairs

ROOT = Path(__file__).resolve().parents[2]
FINAL = ("model.safetensors", "checkpoint-40/model.safetensors", "snapshots/step-00000040.safetensors")
# Without it torch 2.13 gives restarted processes the store of those before, with their addresses.
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

pytestmark = [pytest.mark.multi_process, pytest.mark.heavy]


class Launcher:
    """One of two torchrun launchers with one process each."""

    def __init__(self, folder, port):
        options = {"save_steps": "10", "snapshot_steps": "10", "max_steps": "40", "dropout": "0.1"}
        words = ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=1", "--rdzv-id=toy", "--rdzv-backend=c10d"]
        words += [f"--rdzv-endpoint=localhost:{port}", str(ROOT / "scripts" / "train.py")]
        words += train_arguments("--resume", output_dir="run", **options)[1:]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words],
            env={**os.environ, **NEW_STORE, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            cwd=folder,
        )

    def worker(self):
        """Id of its training process."""
        children = ["pgrep", "-P", str(self.process.pid)]
        return int(subprocess.run(children, capture_output=True, text=True, check=True).stdout)

    def kill(self):
        """SIGKILL to the launcher, then to its orphan: both go with a lost machine."""
        worker = self.worker()
        self.process.kill()
        os.kill(worker, signal.SIGKILL)
        self.process.wait()


def wait_for(path, launchers):
    """Waits until a file is there, while both launchers run."""
    deadline = time.monotonic() + 300
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        assert all(launcher.process.poll() is None for launcher in launchers), f"ended before {path}"
        time.sleep(0.02)


def launch(folder):
    port = find_port()
    return [Launcher(folder, port), Launcher(folder, port)]


@pytest.fixture
def corpus(tmp_path):
    """Function that makes a folder with two aligned text files."""

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        for language, lines in zip(("en", "de"), zip(*make_pairs(80), strict=True), strict=True):
            (folder / f"train.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return folder

    return make


def test_run_that_loses_a_process_and_a_machine_ends_as_one_that_does_not(corpus):
    whole, broken = corpus("whole"), corpus("broken")
    for launcher in launch(whole):
        assert launcher.process.wait(600) == 0

    launchers = launch(broken)
    wait_for(broken / "run" / "recipe.json", launchers)
    assert not (broken / "run" / "checkpoint-10").exists()
    os.kill(launchers[1].worker(), signal.SIGKILL)  # before the first checkpoint: both start anew by themselves
    for name in ("trainer_state.json", "rng_state_0.pth", "rng_state_1.pth"):
        wait_for(broken / "run" / "checkpoint-10" / name, launchers)
    launchers[1].kill()
    launchers[0].process.terminate()  # as a scheduler does with the other machines of a job
    assert launchers[0].process.wait(120) != 0
    assert not (broken / "run" / "checkpoint-40").exists()

    for launcher in launch(broken):
        assert launcher.process.wait(600) == 0
    for file in FINAL:
        expected, got = load_file(whole / "run" / file), load_file(broken / "run" / file)
        assert [name for name in expected if not torch.equal(expected[name], got[name])] == []
