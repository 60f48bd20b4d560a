# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What `scripts/cluster` holds: configs that accelerate reads as meant, a Slurm script that starts
and requeues.
"""

import os
import re
import shlex
import signal
import subprocess
import time

import pytest
from accelerate.commands import launch
from processes import ROOT
from torch.distributed import run

from vaswani_transformer import cli

FOLDER = ROOT / "scripts" / "cluster"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
CONFIGS = sorted(path.name for path in FOLDER.glob("*.yaml"))
TRAIN = ["scripts/train.py", "--output-dir", "run"]


@pytest.fixture
def started(monkeypatch):
    """Function that gives torchrun's own view of a command, starting no process."""

    def start(words):
        configs = []
        monkeypatch.setattr(
            run, "run", lambda arguments: configs.append(run.config_from_args(arguments)[0])
        )
        monkeypatch.setattr("accelerate.utils.launch.is_port_in_use", lambda port: False)
        launch.launch_command(launch.launch_command_parser().parse_args(words))
        return configs[0]

    return start


# ---- the Slurm script ----


@pytest.fixture
def slurm(tmp_path):
    """Function that starts the script with `srun`, `scontrol` and `scancel` that record their
    arguments. `scancel` sends SIGUSR1 to `srun`, so that it is not confused with a `kill` of it.
    """

    def start(srun="exit 0", **environment):
        tools = {
            "srun": srun,
            "scontrol": '[ "$1" != show ] || printf "node-a\\nnode-b\\n"',
            "scancel": f'kill -USR1 "$(cat "{tmp_path}/srun.pid")"',
        }
        for name, does in tools.items():
            text = (
                f'#!/usr/bin/env bash\nprintf "%s\\n" "{name} $*" >> "{tmp_path}/calls"\n{does}\n'
            )
            (tmp_path / name).write_text(text, encoding="utf-8")
            (tmp_path / name).chmod(0o755)
        job = {
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "node-[a-b]",
            "SLURM_NNODES": "2",
            "SLURM_GPUS_ON_NODE": "8",
        }
        return subprocess.Popen(
            [
                "bash",
                str(FOLDER / "train.slurm"),
                "--recipe",
                "quickstart",
                "--output-dir",
                "my runs",
            ],
            env={**os.environ, **job, **environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            cwd=ROOT,
        )

    def calls():
        return (
            (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
            if (tmp_path / "calls").exists()
            else []
        )

    start.calls = calls
    return start


def test_slurm_script_starts_one_launcher_a_node_at_the_first_node(slurm, started):
    assert slurm().wait(30) == 0
    words = next(call for call in slurm.calls() if call.startswith("srun ")).split()
    config = started(words[words.index("launch") + 1 :])
    assert (config.max_nodes, config.nproc_per_node, config.max_restarts) == (2, 8, 3)
    assert (config.rdzv_backend, config.rdzv_endpoint) == ("c10d", "node-a:29500")
    assert words[words.index("scripts/train.py") + 1 :][:3] == [
        "--resume",
        "--recipe",
        "quickstart",
    ]


def test_slurm_script_stops_the_training_and_queues_again_at_the_time_limit(slurm):
    write = 'printf "%s\\n" {} >> "$(dirname "$0")/calls"'.format
    training = (
        'echo $$ > "$(dirname "$0")/srun.pid"\n'
        f"trap '{write('stopped')}; exit 130' USR1\n{write('ready')}\n"
        "while true; do sleep 0.05; done"
    )
    job = slurm(srun=training)
    deadline = time.monotonic() + 30
    while "ready" not in slurm.calls():
        assert time.monotonic() < deadline, slurm.calls()
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    job.wait(30)
    assert slurm.calls()[-3:] == ["scancel --signal=TERM 7.0", "stopped", "scontrol requeue 7"]


# ---- README ----


def commands():
    """The launch commands of the README, as lists of words."""
    lines = (
        "\n".join(re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL))
        .replace("\\\n", " ")
        .splitlines()
    )
    return [shlex.split(line, comments=True) for line in lines if "scripts/train.py" in line]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_training_command_of_the_readme_is_understood(words):
    cli.build_parser().parse_args(["train", *words[words.index("scripts/train.py") + 1 :]])


@pytest.mark.parametrize(
    "words",
    [words for words in commands() if words[0] != "sbatch" and "1-gpu" not in " ".join(words)],
    ids=" ".join,
)
def test_launch_command_of_the_readme_starts_what_it_says(words, started):
    launcher = [*words[: words.index("scripts/train.py")], *TRAIN]
    launcher = [str(ROOT / word) if word.endswith(".yaml") else word for word in launcher]
    if launcher[0] == "torchrun":
        config = run.config_from_args(run.parse_args(launcher[1:]))[0]
    else:
        config = started(launcher[2:])
    processes = 2 if "--use-cpu" in words else 8
    machines = 2 if "--nnodes" in words or "2x8" in " ".join(words) else 1
    assert (config.max_nodes, config.nproc_per_node) == (machines, processes)
    if machines > 1:
        assert (config.rdzv_backend, config.rdzv_endpoint, config.max_restarts) == (
            "c10d",
            "node-0:29500",
            3,
        )
