# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command demo: what it refuses, and that Ctrl-C ends it; tests/demo has the page."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from cli_runs import interruptible, refused


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_demo_refuses_a_port_in_use_instead_of_taking_the_next(model_folder, capsys):
    pytest.importorskip("gradio")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = refused(capsys, ["demo", "--model", str(model_folder), "--port", str(port)])
    assert f"port in range: {port}-{port}" in error


def test_demo_refuses_more_translations_than_beams(model_folder, free_port, capsys):
    pytest.importorskip("gradio")
    error = refused(capsys, ["demo", "--model", str(model_folder), "--n-best", "5", "--port", str(free_port)])
    assert "`--n-best` must be at least 1 and at most `num_beams`, which is 4, got 5" in error


@pytest.mark.slow
def test_demo_prints_its_address_who_can_reach_it_and_ends_cleanly_on_interrupt(model_folder, free_port):
    pytest.importorskip("gradio")
    command = [sys.executable, "-m", "vaswani_transformer.cli", "demo", "--model", str(model_folder)]
    command += ["--port", str(free_port), "--host", "0.0.0.0"]
    with interruptible(command, stderr=subprocess.PIPE) as process:
        address = process.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/") as response:
            assert response.status == 200
        process.send_signal(signal.SIGINT)
        rest, error = process.stdout.read(), process.stderr.read()
        assert (process.wait(), "Traceback" in error) == (0, False)
    assert re.fullmatch(f"open http://(0.0.0.0|localhost):{free_port} in a browser; Ctrl-C ends it\n", address)
    assert "whoever can reach this machine can open the page" in rest
