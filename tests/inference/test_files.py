# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import io
import json
import os
import sys
from types import SimpleNamespace

import pytest

from vaswani_transformer.files import check_outputs, write_lines
from vaswani_transformer.inference.score import score_files, score_pairs
from vaswani_transformer.inference.translate import translate, translate_file, translate_n_best

SHORT = {"max_new_tokens_over_source": 3}


def test_write_lines_replaces_line_feeds_inside_a_line(tmp_path):
    assert write_lines(["a\nb", "", "c"], tmp_path / "out") == 3
    assert (tmp_path / "out").read_bytes() == b"a b\n\nc\n"


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
    assert lines[1:3] == ["", " "] and lines[4] == ""


def test_translate_file_reads_stdin_and_writes_stdout(
    tiny_model, tiny_tokenizer, tmp_path, monkeypatch
):
    (tmp_path / "in").write_text("A dog.\nTwo\n")
    translate_file(tiny_model, tiny_tokenizer, tmp_path / "in", tmp_path / "out", **SHORT)
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"A dog.\nTwo\n")))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output))
    translate_file(tiny_model, tiny_tokenizer, **SHORT)
    assert output.getvalue() == (tmp_path / "out").read_bytes()


def test_translate_file_refuses_several_processes_with_a_stream(tiny_model, tiny_tokenizer):
    with pytest.raises(
        ValueError, match="`input` must be a file for several processes, got the stream -"
    ):
        translate_file(tiny_model, tiny_tokenizer, processes=SimpleNamespace(is_main_process=True))


def test_translate_file_refuses_the_input_as_output(tiny_model, tiny_tokenizer, tmp_path):
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(ValueError, match="`output` must be a file of its own, got .*link"):
        translate_file(tiny_model, tiny_tokenizer, tmp_path / "in", tmp_path / "link")


def test_check_outputs_refuses_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="`results`"):
        check_outputs({"results": tmp_path / "out"})


def test_input_with_the_name_of_an_unfinished_output_is_refused_and_kept(
    tmp_path, tiny_model, tiny_tokenizer
):
    (tmp_path / "out.part").write_text("A dog.")
    with pytest.raises(ValueError, match="`output` must be a file of its own, got .*out: .*part"):
        translate_file(tiny_model, tiny_tokenizer, tmp_path / "out.part", tmp_path / "out")
    assert (tmp_path / "out.part").read_text() == "A dog."


@pytest.fixture
def pair_files(tmp_path):
    """Three pairs, one with an empty source."""
    (tmp_path / "source").write_text("A dog.\n\nTwo women read.\n")
    (tmp_path / "target").write_text("Ein Hund.\nPark\nZwei Frauen läsen.\n")
    return tmp_path / "source", tmp_path / "target"


def sides(pair_files):
    return [path.read_text().split("\n")[:-1] for path in pair_files]


def test_translate_file_writes_a_json_object_for_each_line(tiny_model, tiny_tokenizer, tmp_path):
    sentences = ["Ä dog.", "", 'Two "women"']
    (tmp_path / "in").write_text("\n".join(sentences), encoding="utf-8")
    assert (
        translate_file(
            tiny_model, tiny_tokenizer, tmp_path / "in", tmp_path / "out", num_best=2, **SHORT
        )
        == 3
    )
    found = translate_n_best(tiny_model, tiny_tokenizer, sentences, 2, **SHORT)
    lines = (tmp_path / "out").read_text(encoding="utf-8").split("\n")
    for source, hypotheses, line in zip(sentences, found, lines, strict=False):
        translations = [dataclasses.asdict(hypothesis) for hypothesis in hypotheses]
        assert json.loads(line) == {"source": source, "translations": translations}
    assert lines[0].startswith('{"source": "Ä dog."')
    assert lines[3] == ""


def test_score_files_writes_a_json_object_for_each_line(
    tiny_model, tiny_tokenizer, pair_files, tmp_path
):
    assert (
        score_files(tiny_model, tiny_tokenizer, *pair_files, tmp_path / "out", length_penalty=0.2)
        == 3
    )
    expected = score_pairs(tiny_model, tiny_tokenizer, *sides(pair_files), length_penalty=0.2)
    lines = (tmp_path / "out").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [dataclasses.asdict(score) for score in expected]
    assert list(json.loads(lines[0])) == ["log_prob", "length", "score", "words"]
    assert "läsen." in lines[2]


def test_files_of_different_length_are_refused(tiny_model, tiny_tokenizer, pair_files, tmp_path):
    pair_files[1].write_text("Ein Hund.\nPark\n")
    with pytest.raises(
        ValueError,
        match="as many lines as `source`, got 3 lines in .*source and 2 lines in .*target",
    ):
        score_files(tiny_model, tiny_tokenizer, *pair_files, tmp_path / "out")


@pytest.mark.parametrize("stdin", ["A dog.\n\n", "A dog.\n\nTwo women read.\nA\n"])
def test_a_stream_of_different_length_leaves_no_output_file(
    tiny_model, tiny_tokenizer, pair_files, tmp_path, monkeypatch, stdin
):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin.encode())))
    with pytest.raises(ValueError, match="Each source must have one target"):
        score_files(tiny_model, tiny_tokenizer, "-", pair_files[1], tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def test_score_files_refuses_an_input_as_output_and_one_stream_as_both_inputs(
    tiny_model, tiny_tokenizer, pair_files
):
    with pytest.raises(ValueError, match="`output`"):
        score_files(tiny_model, tiny_tokenizer, *pair_files, pair_files[1])
    with pytest.raises(ValueError, match="must not both be stdin"):
        score_files(tiny_model, tiny_tokenizer, "-", "-")


def test_a_line_beyond_64_kib_is_refused_by_its_number(tiny_model, tiny_tokenizer, tmp_path):
    (tmp_path / "in").write_bytes(b"a\n" + b"a" * (2**16 + 1))
    with pytest.raises(
        ValueError, match="in` must have at most 65536 bytes in a line, got more in line 2 at byte"
    ):
        translate_file(tiny_model, tiny_tokenizer, tmp_path / "in", tmp_path / "out")


def test_a_sentence_beyond_64_kib_is_refused_by_every_function(tiny_model, tiny_tokenizer):
    texts = ["a", "", "\u00e4" * (2**15 + 1), "a"]
    for results in (
        translate(tiny_model, tiny_tokenizer, texts, **SHORT),
        translate_n_best(tiny_model, tiny_tokenizer, texts, 1, **SHORT),
        score_pairs(tiny_model, tiny_tokenizer, ["a"] * 4, texts),
    ):
        with pytest.raises(ValueError, match="at most 65536 bytes, got 65538 in "):
            list(results)
