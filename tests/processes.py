# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Processes that start in a moment: forked from a server that has imported the package, one or
several as of torchrun.

For tests of signals, pipes and several processes. Imports and the environment that libraries read
when they are imported need a new interpreter instead.
"""

import contextlib
import gc
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HUB_FILES = sorted((ROOT / "vaswani_transformer").glob("*_vaswani_transformer.py"))

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "vaswani_transformer.cli",
        "vaswani_transformer.training.train",
        "vaswani_transformer.inference.metrics",
    ]
)


class Fork(_FORKS.Process):
    """A process in a session of its own, with what of `subprocess.Popen` is used here.

    Args:
        words: A script with its arguments; those of the console command when the first is none.
        folder: Working folder; the output goes into its files `output.txt` and `errors.txt`, after
            `prefix`.
        environment: Variables that are added.
        stdin, stdout: Files or pipes by name instead of nothing and `output.txt`.
    """

    def __init__(
        self, words, folder, environment=None, *, prefix="", stdin=os.devnull, stdout=None
    ):
        self.words = [str(word) for word in words]
        self.output, self.error_file = (
            Path(folder, f"{prefix}output.txt"),
            Path(folder, f"{prefix}errors.txt"),
        )
        place = (
            Path(folder),
            environment or {},
            stdin,
            stdout or str(self.output),
            str(self.error_file),
        )
        super().__init__(target=_run, args=(self.words, *place), daemon=False)
        self.start()

    returncode = property(lambda self: self.exitcode)

    def poll(self):
        return self.exitcode

    def wait(self, timeout=None):
        """Exit status; a process that takes longer is killed."""
        self.join(timeout)
        if self.exitcode is None:
            self.send_signal(signal.SIGKILL)
            self.join()
            raise subprocess.TimeoutExpired(self.words, timeout)
        return self.exitcode

    def send_signal(self, number):
        with contextlib.suppress(ProcessLookupError):  # it has ended just now
            os.kill(self.pid, number)

    def first_line(self, timeout=120):
        """What it prints first, as soon as it does."""
        deadline = time.monotonic() + timeout
        while not (
            line := self.output.read_text(encoding="utf-8") if self.output.exists() else ""
        ).endswith("\n"):
            assert self.exitcode is None and time.monotonic() < deadline, self.errors()
            time.sleep(0.05)
        return line.splitlines()[0]

    def errors(self):
        return (
            self.error_file.read_text(encoding="utf-8", errors="replace")
            if self.error_file.exists()
            else ""
        )


def _run(words, folder, environment, *streams):
    """Runs a script or the console command in this process, which was forked for it."""
    import datasets

    from vaswani_transformer.cli import main

    gc.freeze()  # what was imported is left out of the garbage collections of each training
    os.setsid()
    # ignored in what a script starts with &
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, (name, mode) in enumerate(
        zip(streams, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)
    ):
        os.dup2(os.open(name, mode | (os.O_CREAT | os.O_TRUNC if mode else 0)), descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, "w" if number else "r", closefd=False) for number in range(3)
    )
    datasets.config.HF_DATASETS_CACHE = folder / "cache"
    if not words[0].endswith(".py"):
        sys.exit(main(words))
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent))
    try:
        runpy.run_path(words[0], run_name="__main__")
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def script_environment(*folders):
    """Variables for the project's scripts, with folders in front of PATH."""
    path = map(str, [*folders, Path(sys.executable).parent, os.environ["PATH"]])
    return {**os.environ, "VIRTUAL_ENV": sys.prefix, "PATH": os.pathsep.join(path)}


def find_port():
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_several(words, folder, num_processes, **environment):
    """The processes that torchrun would start on one machine."""
    number = str(num_processes)
    together = {
        "WORLD_SIZE": number,
        "LOCAL_WORLD_SIZE": number,
        "MASTER_ADDR": "127.0.0.1",
        **environment,
    }
    together["MASTER_PORT"] = str(find_port())
    return [
        Fork(words, folder, {**together, "RANK": rank, "LOCAL_RANK": rank}, prefix=f"{rank}-")
        for rank in map(str, range(num_processes))
    ]


def run(words, folder, num_processes=1, timeout=300, **environment):
    """Exit status, output and errors of a script or command; several processes end when one of them
    fails.
    """
    if num_processes == 1:
        forks = [Fork(words, folder, environment)]
    else:
        forks = start_several(words, folder, num_processes, **environment)
    deadline = time.monotonic() + timeout
    while any(fork.exitcode is None for fork in forks):
        if any(fork.exitcode for fork in forks) or time.monotonic() > deadline:
            time.sleep(1)  # the others say why they fail, too
            for fork in forks:
                fork.send_signal(signal.SIGKILL) if fork.exitcode is None else None
        multiprocessing.connection.wait(
            [fork.sentinel for fork in forks if fork.exitcode is None], timeout=1
        )
    status = next((fork.exitcode for fork in forks if fork.exitcode), 0)
    return (
        status,
        "".join(fork.output.read_text() for fork in forks),
        "".join(fork.errors() for fork in forks),
    )
