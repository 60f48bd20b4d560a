# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import io
import os
import sys
from types import SimpleNamespace

import pytest

from vaswani_transformer.evaluation.files import check_files, check_outputs, read_lines, translate_file, write_lines

SHORT = {"max_new_tokens_over_source": 3}


def test_read_lines_splits_at_line_feeds_only():
    text = "a\u2028b\x0bc\rd\n\ne\r\nlast"
    assert list(read_lines(io.BytesIO(text.encode()), "file")) == ["a\u2028b\x0bc\rd", "", "e", "last"]


def test_read_lines_drops_a_byte_order_mark_at_the_beginning_only():
    assert list(read_lines(io.BytesIO("\ufeffa\n\ufeffb\n".encode()), "file")) == ["a", "\ufeffb"]


def test_read_lines_names_file_line_and_offset_of_a_byte_that_is_not_utf8():
    lines = read_lines(io.BytesIO(b"good\n\nb\xe4d\n"), "some.txt")
    with pytest.raises(ValueError, match=r"`some.txt` must be UTF-8 text, got byte 0xe4 in line 3 \(byte offset 7"):
        list(lines)


def test_write_lines_replaces_line_feeds_inside_a_line(tmp_path):
    assert write_lines(["a\nb", "", "c"], tmp_path / "out") == 3
    assert (tmp_path / "out").read_bytes() == b"a b\n\nc\n"


def test_write_lines_leaves_the_old_file_when_it_fails(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")

    def lines():
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(lines(), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_write_lines_writes_into_a_device_instead_of_replacing_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_lines(["a"], tmp_path / "pipe")
    assert os.read(reader, 10) == b"a\n"
    os.close(reader)


def test_translate_file_writes_as_many_lines_as_it_reads(tiny_model, tiny_tokenizer, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes("A dog.\r\n\n \nA\u2028dog".encode())
    assert translate_file(tiny_model, tiny_tokenizer, source, target, **SHORT) == 4
    lines = target.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 5
    assert lines[1] == lines[2] == lines[4] == ""


def test_translate_file_reads_stdin_and_writes_stdout(tiny_model, tiny_tokenizer, tmp_path, monkeypatch):
    (tmp_path / "in").write_text("A dog.\nTwo\n")
    translate_file(tiny_model, tiny_tokenizer, tmp_path / "in", tmp_path / "out", **SHORT)
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"A dog.\nTwo\n")))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output))
    translate_file(tiny_model, tiny_tokenizer, **SHORT)
    assert output.getvalue() == (tmp_path / "out").read_bytes()


def test_check_files_counts_the_lines(tmp_path):
    (tmp_path / "in").write_text("a\nb")
    assert check_files(tmp_path / "in", tmp_path / "out") == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "must hold at least one line"), (b"\xff\n", "must be UTF-8 text")],
)
def test_check_files_refuses_an_input_without_text(tmp_path, content, message):
    (tmp_path / "in").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        check_files(tmp_path / "in", "-")


def test_check_files_refuses_a_missing_input(tmp_path):
    with pytest.raises(FileNotFoundError, match="`input` must be a file, got .*nowhere, which does not exist"):
        check_files(tmp_path / "nowhere", "-")


def test_check_files_refuses_an_output_in_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="`output` must be in a folder that exists"):
        check_files("-", tmp_path / "nowhere" / "out")


def test_check_files_refuses_the_input_as_output(tmp_path):
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(ValueError, match="`output` must be a file of its own, got .*link"):
        check_files(tmp_path / "in", tmp_path / "link")


def test_check_outputs_refuses_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="`results` must be in a folder that can be written to, got .*out"):
        check_outputs({"results": tmp_path / "out"})
