# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`translate` as processes: killed and resumed, several at once, with pipes and disks that fail."""

import contextlib
import io
import json
import os
import signal
import sys
import time
from pathlib import Path

import processes
import pytest
from cli_runs import refused
from processes import Fork
from transformers.utils.logging import is_progress_bar_enabled

from vaswani_transformer.cli import main
from vaswani_transformer.inference import translate
from vaswani_transformer.inference.translate import join_processes

# The command with chunks of 20 sentences, as a script.
SMALL_CHUNKS = """import sys
from vaswani_transformer.cli import main
from vaswani_transformer.inference import translate

translate.SENTENCES_PER_CHUNK = 20
sys.exit(main())
"""


@pytest.fixture
def arguments(corpus, model_folder):
    """Of a translation of 200 lines, some blank, of many lengths."""
    sentence = "A dog runs in the park . Two women read a book .".split()
    lines = [" ".join(sentence[number % 7 : number % 12]) for number in range(200)]
    Path("in").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = f"--model {model_folder} --device cpu --input in --max-tokens-per-batch=100"
    return ["translate", *options.split()]


@pytest.fixture
def small_chunks(arguments, monkeypatch):
    """The command as a script with chunks of 20 sentences, and the bytes of a translation nobody
    disturbed.
    """
    Path("small_chunks.py").write_text(SMALL_CHUNKS)
    monkeypatch.setattr(translate, "SENTENCES_PER_CHUNK", 20)
    assert main([*arguments, "--output", "whole"]) == 0
    return ["small_chunks.py", *arguments], Path("whole").read_bytes()


def wait_for_part(process):
    """Returns when a translation has written something, or ended."""
    part = Path("out.part")
    while process.poll() is None and not (part.is_file() and part.stat().st_size):
        time.sleep(0.001)


def check_resumed(command, expected, num_processes=1):
    status, _, errors = processes.run(
        [*command, "--output", "out", "--resume"], Path.cwd(), num_processes
    )
    assert status == 0, errors
    assert Path("out").read_bytes() == expected
    assert not list(Path().glob("out.*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "says", "num_processes"),
    [
        (signal.SIGINT, 130, "interrupted\nThe translated lines are kept", 1),
        pytest.param(signal.SIGKILL, -9, "", 2, marks=pytest.mark.multi_process),
        pytest.param(signal.SIGTERM, -15, "", 1, marks=pytest.mark.heavy),
    ],
)
def test_translation_that_is_stopped_goes_on_as_if_it_had_not_been(
    small_chunks, number, code, says, num_processes
):
    command, expected = small_chunks
    process = Fork([*command, "--output", "out"], Path.cwd())
    wait_for_part(process)
    process.send_signal(number)
    assert process.wait(60) == code
    assert says in process.errors()
    assert "Traceback" not in process.errors()
    assert not Path("out").exists()
    assert 0 < Path("out.part").stat().st_size < len(expected)
    check_resumed(command, expected, num_processes)


@pytest.mark.slow
def test_reader_that_leaves_gets_its_line_and_the_rest_is_left_quietly(arguments):
    os.mkfifo("pipe")
    Path("-").touch()  # a file of this name does not stop the output to stdout
    # more than a pipe holds
    process = Fork([*arguments, "--n-best", "4"], Path.cwd(), stdout="pipe")
    with Path("pipe").open("rb") as pipe:
        assert json.loads(pipe.readline())["source"] == Path("in").read_text().splitlines()[0]
    assert (process.wait(60), process.errors()) == (141, "")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_command_shows_progress_bars_on_terminals_alone(arguments, is_terminal, monkeypatch):
    Path("in").write_text("A dog runs .\n", encoding="utf-8")
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stderr", stream)
    assert main([*arguments, "--num-beams", "1", "--output", "out"]) == 0
    assert ("Loading weights" in stream.getvalue()) == is_terminal
    assert is_progress_bar_enabled()


def test_full_stdout_is_named_in_one_line(arguments, monkeypatch, capsys):
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(arguments) == 2
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device\n"


@pytest.mark.slow
def test_a_line_of_stdin_that_is_no_text_is_named_behind_the_translations_before_it(small_chunks):
    command, expected = small_chunks
    lines = Path("in").read_bytes().splitlines(keepends=True)
    lines[49] = b"A \xff dog\n"
    Path("bad").write_bytes(b"".join(lines))
    process = Fork(
        [word for word in command if word not in ("--input", "in")], Path.cwd(), stdin="bad"
    )
    assert process.wait(60) == 2
    # two chunks of 20
    assert process.output.read_bytes() == b"".join(expected.splitlines(keepends=True)[:40])
    assert process.errors().startswith(
        "error: `stdin` must be UTF-8 text, got byte 0xff in line 50 "
    )
    assert process.errors().count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        "translate --input bad --output out",
        "score --source bad --target train.de --output out",
        "score --source train.en --target bad --output out",
        "evaluate --source train.en --reference bad --translations out",
        "evaluate --source bad --reference train.de --translations out",
    ],
)
def test_a_line_that_is_no_text_is_named_before_anything_is_written(
    command, model_folder, corpus, capsys
):
    lines = Path("train.de").read_bytes().splitlines(keepends=True)
    lines[20] = b"Ein \xe4 Hund\n"
    Path("bad").write_bytes(b"".join(lines))
    before = sorted(path.name for path in corpus.rglob("*"))
    assert "`bad` must be UTF-8 text, got byte 0xe4 in line 21 " in refused(
        capsys, f"{command} --model model".split()
    )
    assert sorted(path.name for path in corpus.rglob("*")) == before


@pytest.mark.heavy
def test_full_disk_keeps_what_is_translated_and_goes_on_when_there_is_room(
    small_chunks, small_disk
):
    command, _ = small_chunks
    command = [*command, "--n-best", "2", "--output"]
    assert main([*command[1:], "whole.jsonl"]) == 0
    expected = Path("whole.jsonl").read_bytes()
    small_disk(len(expected) // 2048)
    process = Fork([*command, "disk/out"], Path.cwd())
    assert process.wait(100) == 2
    assert (
        "error: [Errno 28] No space left on device\nThe translated lines are kept in "
        in process.errors()
    )
    kept = Path("disk/out.part").read_bytes()
    assert len(kept) > 4096
    assert expected.startswith(kept)
    small_disk(1024, "-o", "remount")
    assert processes.run([*command, "disk/out", "--resume"], Path.cwd())[0] == 0
    assert Path("disk/out").read_bytes() == expected
    assert os.listdir("disk") == ["out"]


@pytest.mark.slow
@pytest.mark.multi_process
def test_two_processes_write_what_one_writes(arguments):
    command = [*arguments, "--n-best", "2", "--output"]
    assert main([*command, "one"]) == 0
    Path("two.part").write_text("old\n")
    status, _, errors = processes.run([*command, "two", "--overwrite"], Path.cwd(), 2)
    assert status == 0, errors
    assert Path("two").read_bytes() == Path("one").read_bytes()
    assert not list(Path().glob("two.*"))


def test_several_processes_without_accelerate_are_told_the_extra(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(
        ImportError, match=r"`accelerate` must be installed .*pip install .*\[train\]"
    ):
        join_processes()


# ---- sampling and tags ----


def sampled(arguments, output, *options):
    assert main([*arguments, "--output", output, "--sample", *options]) == 0
    return Path(output).read_bytes().decode().split("\n")[:-1]


def test_samples_are_drawn_by_the_seed_and_tagged(arguments):
    Path("in").write_text("A dog runs\n\nTwo women read\n" * 20, encoding="utf-8")
    first = sampled(arguments, "first")
    assert (
        sampled(arguments, "again", "--seed", "0")
        == first
        != sampled(arguments, "other", "--seed", "1")
    )
    assert len(set(first[::3])) > 10  # where a search gives the same for each
    tagged = sampled(arguments, "tagged", "--tag", "<bt>")
    assert tagged == [f"<bt> {line}" if line else "" for line in first]
    assert not any(tagged[1::3])


def test_one_likeliest_token_is_greedy_search(arguments):
    Path("in").write_text("A dog runs\n\nTwo women read\n", encoding="utf-8")
    assert main([*arguments, "--output", "greedy", "--num-beams", "1"]) == 0
    assert (
        sampled(arguments, "sampled", "--top-k", "1")
        == Path("greedy").read_bytes().decode().split("\n")[:-1]
    )
    cold = sampled(arguments, "cold", "--temperature", "0.0001")
    assert cold == Path("greedy").read_bytes().decode().split("\n")[:-1]


def test_several_samples_are_json_lines_with_their_probabilities(arguments):
    Path("in").write_text("A dog runs\n", encoding="utf-8")
    (line,) = sampled(arguments, "out", "--n-best", "6")
    samples = json.loads(line)["translations"]
    assert len(samples) == 6 and len({each["text"] for each in samples}) > 1
    assert all(each["log_prob"] < 0 for each in samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--top-k 5", "`--top-k` must come with --sample"),
        ("--sample --num-beams 4", "`--num-beams` must be left out with --sample, got 4"),
        ("--sample --n-best 0", "`--n-best` must be at least 1"),
        ("--sample --temperature 0", "temperature"),
        (
            "--tag <bt> --n-best 2",
            "`--tag` must be one line that is not blank, without `--n-best`",
        ),
        ("--tag=\u00a0", "`--tag` must be one line that is not blank"),
        ("--num-beams 0", "`--num-beams` must be at least 1 (greedy search), got 0."),
        ("--max-tokens-per-batch 0", "`--max-tokens-per-batch` must be at least 1, got 0."),
        ("--max-tokens-per-batch=-5", "`--max-tokens-per-batch` must be at least 1, got -5."),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, options, message, capsys):
    assert main([*arguments, "--output", "out", *options.split(" ")]) == 2
    assert message in capsys.readouterr().err
    assert not list(Path().glob("out*"))


def test_an_output_is_replaced_only_when_that_is_said_and_its_folder_is_made(arguments, capsys):
    Path("in").write_text("A dog\n", encoding="utf-8")
    command = [*arguments, "--output", "new/folder/out"]
    assert main(command) == 0
    first = Path("new/folder/out").read_bytes()
    Path("new/folder/out").write_bytes(b"mine\n")
    assert (
        "`--output` must be a new file, got new/folder/out. Pass another, or --overwrite."
        in refused(capsys, command)
    )
    assert main([*command, "--resume"]) == 0
    assert "out is complete already; --overwrite translates it again." in capsys.readouterr().err
    assert Path("new/folder/out").read_bytes() == b"mine\n"
    assert main([*command, "--overwrite"]) == 0
    assert Path("new/folder/out").read_bytes() == first


def test_pipe_that_breaks_inside_is_no_reader_that_is_gone(arguments, monkeypatch, capsys):
    def break_a_pipe(*_, **__):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(translate, "translate_file", break_a_pipe)
    with open("told", "wb") as stdout:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stdout))
        assert main([*arguments, "--output", "out"]) == 2
    assert "error: [Errno 32] Broken pipe" in capsys.readouterr().err


def test_sentences_of_a_line_are_translated_alone_and_their_white_space_stays(arguments):
    sentences = ["A dog runs.", "Two women read.", "A bird sings?"]
    Path("in").write_text("".join(f"{sentence}\n" for sentence in sentences))
    assert main([*arguments, "--output", "alone"]) == 0
    one, two, three = Path("alone").read_bytes().decode().split("\n")[:-1]
    Path("in").write_text(
        f"- {sentences[0]}  {sentences[1]}\n\n  \n1) {sentences[2]} \n{sentences[0]}\n"
    )
    assert main([*arguments, "--output", "out", "--document"]) == 0
    assert Path("out").read_bytes().decode() == f"- {one}  {two}\n\n  \n1) {three} \n{one}\n"
    assert main([*arguments, "--output", "best", "--document", "--n-best", "2"]) == 2


def test_output_that_was_begun_is_kept_until_it_can_be_resumed(arguments, capsys):
    Path("out.part").write_text("Ein Hund.\n")
    command = [*arguments, "--output", "out"]
    advice = "out.part. Pass another, or --resume to finish it, or --overwrite."
    assert advice in refused(capsys, command)
    command.append("--resume")
    command[command.index("--input") + 1] = "-"
    assert "`--resume` must come with files as `--input` and `--output`" in refused(capsys, command)
    assert Path("out.part").read_text() == "Ein Hund.\n"


def test_bfloat16_needs_a_gpu(arguments, capsys):
    error = refused(capsys, [*arguments, "--output", "out", "--device", "cpu", "--bf16"])
    assert "`--device` must be a GPU for `--bf16`, got cpu" in error
    assert not list(Path().glob("out*"))
