# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Any command line: done, or one line that says why not, and nothing left behind."""

import argparse
import io
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st
from nasty import fuzz, texts

from vaswani_transformer.cli import build_parser, main

pytestmark = pytest.mark.slow

WORDS = """\
- -- . .. / /dev/null /dev/full /dev/zero nowhere nowhere/in in de model model/config.json binary
blank one 0 1 2 -1 nan inf -inf 1e9 99999999999999999999 0.6 true none cpu cuda:7 onnx int8
quickstart base builtin pairs.csv pairs.jsonl out out.png out.svg new num-beams A1
"""
VALUES = st.one_of(
    st.sampled_from(["", "\udc80", *WORDS.split()]),
    st.integers(-5, 20).map(str),
    texts.map(lambda text: text.replace("\0", "")[:40]),
)
# What would train, serve, upload or measure if all its values happened to be right.
LONG = {"train": "--output-dir=in", "push": "--repo-id=a b", "export": "--quantization=nothing"}


def leaves(parser, path=()):
    """Each command, by the words that choose it."""
    subparsers = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    if not subparsers:
        return {path: parser}
    return {
        words: leaf
        for name, child in subparsers[0].choices.items()
        for words, leaf in leaves(child, (*path, name)).items()
    }


COMMANDS = leaves(build_parser())


@st.composite
def command_lines(draw, words):
    """A command with the options it must have and some that it may have, most values in a form it
    might take.
    """
    argv = list(words)
    for action in COMMANDS[words]._actions:
        if isinstance(action, argparse._HelpAction) or not (
            action.required or draw(st.integers(0, 9)) == 0
        ):
            continue
        values = (
            VALUES
            if action.choices is None
            else st.one_of(st.sampled_from(sorted(action.choices)), VALUES)
        )
        if action.dest == "model":
            values = st.one_of(st.just("model"), st.just("model"), VALUES)
        given = (
            []
            if action.nargs == 0
            else draw(st.lists(values, min_size=1, max_size=1 if action.nargs is None else 2))
        )
        argv += ([action.option_strings[0]] if action.option_strings else []) + given
    if words[0] in LONG:
        argv.append(LONG[words[0]])
    return argv


@pytest.fixture(scope="module")
def place(folder, tmp_path_factory):
    """A folder of files to name."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(folder, place / "model")
    for name, content in {
        "in": b"A dog runs.\n\nTwo.\n",
        "de": b"Ein Hund.\n\nZwei.\n",
        "one": b"A dog.",
        "blank": b"\n \n",
        "binary": b"a\n\xff\x00\n",
        "pairs.csv": b"source,target\na,b\n",
        "pairs.jsonl": b'{"en": "a", "de": "b"}\n',
    }.items():
        (place / name).write_bytes(content)
    return place


def snapshot(place):
    return {str(path.relative_to(place)): path.stat().st_mtime_ns for path in place.rglob("*")}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@fuzz(200, short=6, data=st.data())
def test_any_command_line_is_done_or_refused_in_one_line(place, capfd, monkeypatch, words, data):
    argv = data.draw(command_lines(words))
    monkeypatch.chdir(place)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    before = snapshot(place)
    capfd.readouterr()
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code
    errors = capfd.readouterr().err
    assert "Traceback" not in errors
    if code == 2:
        assert len([line for line in errors.splitlines() if "error: " in line]) == 1, errors
        assert snapshot(place) == before
    else:
        assert code == 0, errors
        for path in sorted(set(map(Path, snapshot(place))) - set(map(Path, before)), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
