# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Interrupted translations of files: what stays, what goes on, and what is never mixed."""

import os
import sys
from types import SimpleNamespace

import pytest

from vaswani_transformer.files import write_lines
from vaswani_transformer.inference import translate
from vaswani_transformer.inference.translate import translate_file
from vaswani_transformer.pipeline_vaswani_transformer import TorchEngine

CHUNK = 3
# One sentence in each batch: the chunks are the calls 1 and 2, 3 to 5, 6 and 7, 8 and 9.
OPTIONS = {"max_new_tokens_over_source": 3, "max_tokens_per_batch": 1}
LINES = "A dog runs.\n\nTwo women read a book.\nTwo\nA dog.\nin\nPark\n \nwomen\nA dog runs in\na".split(  # noqa: E501
    "\n"
)
NUM_CALLS = 9


@pytest.fixture(autouse=True)
def small_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(translate, "SENTENCES_PER_CHUNK", CHUNK)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("\n".join(LINES), encoding="utf-8")


@pytest.fixture
def run(tiny_model, tiny_tokenizer):
    """Function that translates the file `in` into `out`."""

    def run(model=tiny_model, **options):
        return translate_file(model, tiny_tokenizer, "in", "out", **{**OPTIONS, **options})

    return run


@pytest.fixture
def interrupted(run, monkeypatch):
    """Function that runs until the model is called for the nth time."""

    def interrupt(call, error=KeyboardInterrupt, **options):
        calls, compute = [], TorchEngine.translate_batch

        def fail(*args):
            calls.append(args)
            if len(calls) == call:
                raise error
            return compute(*args)

        with monkeypatch.context() as patch:
            patch.setattr(TorchEngine, "translate_batch", fail)
            with pytest.raises(error) as raised:
                run(**options)
        return raised.value

    return interrupt


@pytest.fixture
def whole(run, tmp_path):
    """The bytes of a translation that nobody disturbed."""
    assert run() == len(LINES)
    content = (tmp_path / "out").read_bytes()
    (tmp_path / "out").unlink()
    return content


ALTERNATELY = [(call, {"num_best": 2} if call % 2 else {}) for call in range(1, NUM_CALLS + 1)]
OTHERWISE = [(call, {} if call % 2 else {"num_best": 2}) for call in range(1, NUM_CALLS + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "best"),
    [*ALTERNATELY, *(pytest.param(*each, marks=pytest.mark.heavy) for each in OTHERWISE)],
)
def test_interrupted_and_resumed_translation_equals_the_whole_one(
    call, best, run, interrupted, tmp_path
):
    run(**best)
    expected = (tmp_path / "out").read_bytes()
    (tmp_path / "out").write_text("old")
    interrupted(call, **best)
    assert (tmp_path / "out").read_text() == "old"
    if (tmp_path / "out.part").exists():
        assert expected.startswith((tmp_path / "out.part").read_bytes())
    assert run(**best, resume=(tmp_path / "out.part").exists()) == len(LINES)
    assert (tmp_path / "out").read_bytes() == expected
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_interrupted_translation_keeps_the_chunks_before_and_says_how_to_go_on(
    interrupted, whole, tmp_path
):
    error = interrupted(4, error=RuntimeError)
    assert (tmp_path / "out.part").read_bytes() == b"".join(whole.splitlines(keepends=True)[:CHUNK])
    assert error.__notes__ == [
        f"The translated lines are kept in {tmp_path / 'out.part'}. To continue, repeat the "
        "command with `resume`."
    ]


def test_translation_interrupted_before_its_first_line_leaves_nothing(interrupted, tmp_path):
    assert not hasattr(interrupted(2, error=RuntimeError), "__notes__")
    assert os.listdir(tmp_path) == ["in"]


def test_translation_that_is_refused_leaves_nothing(run, tmp_path):
    with pytest.raises(ValueError, match="`num_best`"):
        run(num_best=9)
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("lost", [0, 1, 40])
def test_part_that_ends_anywhere_is_gone_on_with(lost, run, interrupted, whole, tmp_path):
    """As a process leaves it that is killed while it writes."""
    interrupted(NUM_CALLS)
    (tmp_path / "out.part").write_bytes(whole[: max(len(whole) - lost, 0)])
    run(resume=True)
    assert (tmp_path / "out").read_bytes() == whole


def test_resumed_translation_keeps_whole_chunks_only_and_translates_the_rest(
    run, interrupted, whole, tmp_path
):
    interrupted(NUM_CALLS)
    (tmp_path / "out.part").write_bytes(b"kept\n" * 5 + b"torn")
    run(resume=True)
    assert (tmp_path / "out").read_bytes() == b"kept\n" * 3 + b"".join(
        whole.splitlines(keepends=True)[3:]
    )


def test_translation_replaces_an_older_part(run, interrupted, whole, tmp_path):
    interrupted(6)
    for resume in (False, True):  # after the first, there is no part to resume
        run(resume=resume)
        assert (tmp_path / "out").read_bytes() == whole
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_another_command_with_the_same_output_leaves_nothing_to_resume(interrupted, tmp_path):
    interrupted(6)
    assert (tmp_path / "out.part").exists()
    write_lines(["-1.5"], "out")
    assert not (tmp_path / "out.part").exists()


@pytest.mark.parametrize("changed", ["model", "input", "num_best", "tag", "document", "num_beams"])
def test_other_settings_are_not_resumed(changed, run, interrupted, tiny_model, tmp_path):
    interrupted(6)
    kept = (tmp_path / "out.part").read_bytes()
    options = {}
    if changed == "model":
        tiny_model.config.name_or_path = "other"
    elif changed == "input":
        (tmp_path / "in").write_text("A dog.\n", encoding="utf-8")
    else:
        options[changed] = "<bt>" if changed == "tag" else 1
    with pytest.raises(ValueError, match="`resume`"):
        run(resume=True, **options)
    assert (tmp_path / "out.part").read_bytes() == kept


def test_translation_of_stdin_leaves_no_part(
    tiny_model, tiny_tokenizer, interrupted, tmp_path, monkeypatch
):
    with (tmp_path / "in").open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        monkeypatch.setattr(tiny_model, "generate", lambda **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            translate_file(tiny_model, tiny_tokenizer, "-", "out")
    assert os.listdir(tmp_path) == ["in"]


def test_a_folder_that_cannot_be_written_is_named(tiny_model, tiny_tokenizer, tmp_path):
    (tmp_path / "in").write_text("A dog.\n", encoding="utf-8")
    (tmp_path / "out.part").mkdir()
    with pytest.raises(IsADirectoryError, match=r"out\.part"):
        translate_file(tiny_model, tiny_tokenizer, tmp_path / "in", tmp_path / "out", resume=True)
