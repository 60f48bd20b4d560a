# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command demo: what it refuses, and that Ctrl-C ends it; tests/demo has the page."""

import re
import signal
import urllib.request

import pytest
from cli_runs import refused
from processes import Fork


@pytest.mark.slow
def test_demo_refuses_more_translations_than_beams(model_folder, free_port, capsys):
    pytest.importorskip("gradio")
    error = refused(capsys, ["demo", "--model", str(model_folder), "--n-best", "5", "--port", str(free_port)])
    assert "`--n-best` must be at least 1 and at most `num_beams`, which is 4, got 5" in error
    error = refused(capsys, ["demo", "--model", str(model_folder), "--host", "no such host", "--port", str(free_port)])
    assert "`--host` must be a name or an address of this machine, got no such host" in error


@pytest.mark.slow
def test_demo_prints_its_address_who_can_reach_it_and_ends_cleanly_on_interrupt(model_folder, free_port, tmp_path):
    pytest.importorskip("gradio")
    command = ["demo", "--model", str(model_folder), "--port", str(free_port), "--host", "0.0.0.0"]
    process = Fork(command, tmp_path)
    address = process.first_line()
    with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/") as response:
        assert response.status == 200
    process.send_signal(signal.SIGINT)
    assert (process.wait(60), "Traceback" in process.errors()) == (0, False)
    assert re.fullmatch(f"open http://(0.0.0.0|localhost):{free_port} in a browser; Ctrl-C ends it", address)
    assert "whoever can reach this machine can open the page" in process.output.read_text()
