# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`translate` as real processes: killed and resumed, or several at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_runs import refused

from vaswani_transformer.cli import main
from vaswani_transformer.evaluation import batches, translate
from vaswani_transformer.evaluation.files import check_files
from vaswani_transformer.evaluation.processes import ALONE, Processes, join_processes

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
COMMAND = ["-m", "vaswani_transformer.cli"]
# The same with chunks of 20 sentences, as a script.
SMALL_CHUNKS = """import sys
from vaswani_transformer.cli import main
from vaswani_transformer.evaluation import batches

batches.SENTENCES_PER_CHUNK = 20
sys.exit(main())
"""


def start(*arguments):
    """A Python process that gets on with the arguments."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    """What a process wrote to stderr; it must succeed."""
    errors = process.communicate(timeout=200)[1]
    assert process.returncode == 0, errors[-3000:]
    return errors


@pytest.fixture
def arguments(corpus, model_folder):
    """Of a translation of 400 lines, some blank, of many lengths."""
    sentence = "A dog runs in the park . Two women read a book .".split()
    lines = [" ".join(sentence[number % 7 : number % 12]) for number in range(400)]
    Path("in").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        "translate",
        "--model",
        str(model_folder),
        "--device",
        "cpu",
        "--input",
        "in",
        "--max-tokens-per-batch=100",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [[], pytest.param(TORCHRUN, marks=pytest.mark.multi_process)], ids=["1", "2"])
def test_translation_that_is_killed_goes_on_as_if_it_had_not_been(launcher, arguments):
    Path("small_chunks.py").write_text(SMALL_CHUNKS)
    command, part = ["small_chunks.py", *arguments], Path("out.part")
    finish(start(*command, "--output", "whole"))
    process = start(*command, "--output", "out")
    while process.poll() is None and not (part.is_file() and part.stat().st_size):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not Path("out").exists()
    assert 0 < part.stat().st_size < Path("whole").stat().st_size
    finish(start(*launcher, *command, "--output", "out", "--resume"))
    assert Path("out").read_bytes() == Path("whole").read_bytes()
    assert not list(Path().glob("out.*"))


@pytest.mark.slow
@pytest.mark.multi_process
def test_two_processes_write_what_one_writes_and_only_one_of_them_speaks(arguments):
    command = [*COMMAND, *arguments, "--n-best", "2", "--output"]
    finish(start(*command, "one"))
    Path("two.part").write_text("old\n")
    Path("two.part.json").write_text("{}")
    errors = finish(start(*TORCHRUN, *command, "two"))
    assert Path("two").read_bytes() == Path("one").read_bytes()
    assert errors.count("two.part is replaced") == 1
    assert not list(Path().glob("two.*"))


def test_interrupted_translation_says_how_to_go_on(arguments, monkeypatch, capsys):
    calls, generate = [], translate._generate

    def interrupt(*args):
        calls.append(args)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return generate(*args)

    monkeypatch.setattr(batches, "SENTENCES_PER_CHUNK", 20)
    monkeypatch.setattr(translate, "_generate", interrupt)
    assert main([*arguments, "--output", "out"]) == 130
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "interrupted",
        f"What is translated is kept in {Path('out.part').resolve()}: the same command with `--resume` goes on.",
    ]


def test_resume_names_the_options_that_differ(arguments, capsys):
    Path("out.part").write_text("Ein Hund.\n")
    Path("out.part.json").write_text('{"num_best": 3}')
    error = refused(capsys, [*arguments, "--output", "out", "--resume", "--n-best", "2"])
    assert error.startswith("error: `--resume` must go on as ")
    assert "`--n-best`" in error
    assert "`--input`" in error
    assert Path("out.part").read_text() == "Ein Hund.\n"


def test_resume_without_a_part_is_refused_before_the_model_is_loaded(corpus, capsys):
    command = ["translate", "--model", "nowhere", "--input", "train.en", "--output", "out", "--resume"]
    assert "error: `--resume` must find what an interrupted translation left" in refused(capsys, command)


def test_several_processes_refuse_stdin():
    with pytest.raises(ValueError, match="`input` must be a file for 2 processes, got stdin. Save it to a file first"):
        check_files("-", "-", num_processes=2)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_processes_share_batches_in_turn_and_get_all_results_in_order(rank, monkeypatch):
    numbers, mine = list(range(8)), []
    shares = [[number**2 for number in numbers[other::3]] for other in range(3)]

    def gather(found):
        mine.extend(found)
        return shares

    monkeypatch.setattr("accelerate.utils.gather_object", gather)
    assert Processes(rank, 3).map(lambda number: number**2, numbers) == [number**2 for number in numbers]
    assert mine == [shares[rank]]


def test_one_process_joins_no_others(monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    assert join_processes() is ALONE


def test_several_processes_without_accelerate_are_told_the_extra(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ImportError, match="`accelerate` must be installed .*vaswani-transformer\\[train\\]"):
        join_processes()
