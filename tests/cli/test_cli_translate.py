# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`translate` as real processes: killed and resumed, several at once, with pipes and disks that fail."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_runs import refused

from vaswani_transformer.cli import main
from vaswani_transformer.evaluation import translate
from vaswani_transformer.evaluation.translate import check_files, join_processes

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
COMMAND = ["-m", "vaswani_transformer.cli"]
# The same with chunks of 20 sentences, as a script.
SMALL_CHUNKS = """import sys
from vaswani_transformer.cli import main
from vaswani_transformer.evaluation import translate

translate.SENTENCES_PER_CHUNK = 20
sys.exit(main())
"""


def start(*arguments):
    """A Python process that gets on with the arguments."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, *arguments]
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in what a script starts with &
    )


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


@pytest.fixture
def small_chunks(arguments, monkeypatch):
    """The command as a script with chunks of 20 sentences, and the bytes of a translation nobody disturbed."""
    Path("small_chunks.py").write_text(SMALL_CHUNKS)
    monkeypatch.setattr(translate, "SENTENCES_PER_CHUNK", 20)
    assert main([*arguments, "--output", "whole"]) == 0
    return ["small_chunks.py", *arguments], Path("whole").read_bytes()


def wait_for_part(process, size=0):
    """Returns when a translation has written more than this, or ended."""
    part = Path("out.part")
    while process.poll() is None and not (part.is_file() and part.stat().st_size > size):
        time.sleep(0.001)


def check_resumed(command, expected, *launcher):
    finish(start(*launcher, *command, "--output", "out", "--resume"))
    assert Path("out").read_bytes() == expected
    assert not list(Path().glob("out.*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "says", "launcher"),
    [
        (signal.SIGINT, 130, "interrupted\nWhat is translated is kept", []),
        pytest.param(signal.SIGKILL, -9, "", TORCHRUN, marks=pytest.mark.multi_process),
        pytest.param(signal.SIGTERM, -15, "", [], marks=pytest.mark.heavy),
    ],
)
def test_translation_that_is_stopped_goes_on_as_if_it_had_not_been(small_chunks, number, code, says, launcher):
    command, expected = small_chunks
    process = start(*command, "--output", "out")
    wait_for_part(process)
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert says in errors
    assert "Traceback" not in errors
    assert not Path("out").exists()
    assert 0 < Path("out.part").stat().st_size < len(expected)
    check_resumed(command, expected, *launcher)


@pytest.mark.heavy
def test_translation_killed_at_twenty_moments_has_every_line_once_and_in_order(small_chunks):
    command, expected = small_chunks
    part, generator, num_kills = Path("out.part"), random.Random(0), 0
    while num_kills < 20:
        resume = ["--resume"] if part.exists() else []
        process = start(*command, "--output", "out", *resume)
        if generator.random() < 0.8:
            wait_for_part(process, part.stat().st_size if resume else 0)
            time.sleep(generator.uniform(0, 0.01))
        else:
            time.sleep(generator.uniform(0, 5))  # while it starts
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        num_kills += process.returncode == -signal.SIGKILL
        if Path("out").exists():  # it was faster
            assert Path("out").read_bytes() == expected
            Path("out").unlink()
        elif part.exists():
            assert expected.startswith(part.read_bytes())
    check_resumed(command, expected)


@pytest.mark.heavy
@pytest.mark.multi_process
def test_two_processes_of_which_one_is_killed_end_and_go_on(small_chunks):
    command, expected = small_chunks
    process = start(*TORCHRUN, *command, "--output", "out")
    wait_for_part(process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    process.communicate(timeout=100)
    assert process.returncode != 0
    assert not Path("out").exists()
    check_resumed(command, expected, *TORCHRUN)


def in_shell(command, **options):
    """Exit codes of a pipeline of the shell, its output and errors."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    script = f'{command}\necho "codes: ${{PIPESTATUS[*]}}" >&2'
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, timeout=200, **options)
    errors, _, codes = done.stderr.decode().rpartition("codes: ")
    return [int(code) for code in codes.split()], done.stdout, errors


@pytest.mark.slow
def test_head_gets_its_line_and_the_rest_is_left_quietly(small_chunks):
    command, expected = small_chunks
    codes, output, errors = in_shell(f"{sys.executable} {' '.join(command)} | head -1")
    assert codes == [141, 0]
    assert output == expected.splitlines(keepends=True)[0]
    assert errors == ""


@pytest.mark.slow
def test_full_stdout_is_named_in_one_line(small_chunks):
    codes, _, errors = in_shell(f"{sys.executable} {' '.join(small_chunks[0])} > /dev/full")
    assert codes == [2]
    assert errors == "error: [Errno 28] No space left on device\n"


@pytest.mark.slow
def test_a_line_of_stdin_that_is_no_text_is_named_behind_the_translations_before_it(small_chunks):
    command, expected = small_chunks
    lines = Path("in").read_bytes().splitlines(keepends=True)
    lines[49] = b"A \xff dog\n"
    Path("bad").write_bytes(b"".join(lines))
    bad = [word for word in command if word not in ("--input", "in")]
    codes, output, errors = in_shell(f"{sys.executable} {' '.join(bad)} < bad")
    assert codes == [2]
    assert output == b"".join(expected.splitlines(keepends=True)[:40])  # two chunks of 20
    assert errors.startswith("error: `stdin` must be UTF-8 text, got byte 0xff in line 50 ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["translate", "--input", "bad", "--output", "out"],
        ["score", "--source", "bad", "--target", "train.de", "--output", "out"],
        ["score", "--source", "train.en", "--target", "bad", "--output", "out"],
        ["align", "--source", "train.en", "--target", "bad", "--output", "out"],
        ["evaluate", "--source", "train.en", "--reference", "bad", "--translations", "out"],
        ["evaluate", "--source", "bad", "--reference", "train.de", "--translations", "out"],
    ],
)
def test_a_line_that_is_no_text_is_named_before_anything_is_written(command, model_folder, corpus, capsys):
    lines = Path("train.de").read_bytes().splitlines(keepends=True)
    lines[20] = b"Ein \xe4 Hund\n"
    Path("bad").write_bytes(b"".join(lines))
    before = sorted(path.name for path in corpus.rglob("*"))
    assert "`bad` must be UTF-8 text, got byte 0xe4 in line 21 " in refused(capsys, [*command, "--model", "model"])
    assert sorted(path.name for path in corpus.rglob("*")) == before


@pytest.fixture
def disk(corpus):
    """Function that mounts, or mounts again, a file system of some KiB."""
    folder = corpus / "disk"
    folder.mkdir()

    def mount(*options):
        command = ["mount", *options[:-1], "-t", "tmpfs", "-o", options[-1], "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("no small file system can be mounted here, which takes root")

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.mark.heavy
def test_full_disk_keeps_what_is_translated_and_goes_on_when_there_is_room(small_chunks, disk):
    command, _ = small_chunks
    command = [*command, "--n-best", "2", "--output"]
    assert main([*command[1:], "whole"]) == 0
    expected = Path("whole").read_bytes()
    disk(f"size={len(expected) // 2048}k")
    process = start(*command, "disk/out")
    errors = process.communicate(timeout=100)[1]
    assert process.returncode == 2
    assert "\nerror: [Errno 28] No space left on device\nWhat is translated is kept in " in errors
    kept = Path("disk/out.part").read_bytes()
    assert len(kept) > 4096
    assert expected.startswith(kept)
    disk("-o", "remount", "size=1M")
    finish(start(*command, "disk/out", "--resume"))
    assert Path("disk/out").read_bytes() == expected
    assert os.listdir("disk") == ["out"]


def test_read_only_folder_is_refused_before_the_model_is_loaded(corpus, disk, capsys):
    disk("ro")
    error = refused(capsys, ["translate", "--model", "nowhere", "--input", "train.en", "--output", "disk/out"])
    assert "`--output` must be in a folder that can be written to, got disk/out" in error


@pytest.mark.slow
@pytest.mark.multi_process
def test_two_processes_write_what_one_writes_and_only_one_of_them_speaks(arguments):
    command = [*COMMAND, *arguments, "--n-best", "2", "--output"]
    finish(start(*command, "one"))
    Path("two.part").write_text("old\n")
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

    monkeypatch.setattr(translate, "SENTENCES_PER_CHUNK", 20)
    monkeypatch.setattr(translate, "_generate", interrupt)
    assert main([*arguments, "--output", "out"]) == 130
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "interrupted",
        f"What is translated is kept in {Path('out.part').resolve()}: the same command with `--resume` goes on.",
    ]


def test_several_processes_refuse_stdin():
    with pytest.raises(ValueError, match="`input` must be a file for 2 processes, got -, a stream. Save it to a file"):
        check_files("-", "-", num_processes=2)


def test_several_processes_without_accelerate_are_told_the_extra(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ImportError, match="`accelerate` must be installed .*vaswani-transformer\\[train\\]"):
        join_processes()
