# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The command that draws what a model attends to."""

from pathlib import Path

import pytest
from cli_runs import refused

from vaswani_transformer.cli import main
from vaswani_transformer.evaluation.translate import translate

pytest.importorskip("matplotlib", reason="needs the extra [viz]")


def attention(folder, *options, source="A dog runs.", output="att.png"):
    return ["plot", "attention", "--model", str(folder), "--source", source, "--output", output, *options]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def is_picture(file):
    content = Path(file).read_bytes()
    if file.lower().endswith(".png"):
        return content.startswith(b"\x89PNG")
    return b"<svg" in content and content.endswith(b"</svg>\n")


@pytest.mark.parametrize("output", ["att.png", "att.svg"])
def test_attention_of_a_given_pair_is_drawn(model_folder, output, capsys):
    command = attention(model_folder, "--target", "Ein Hund rennt.", "--kind", "cross", "encoder", output=output)
    assert main([*command, "--layers", "1", "--heads", "0"]) == 0
    assert is_picture(output)
    assert capsys.readouterr().out == f"written to {output}\n"


def test_attention_prints_the_models_own_translation(model_folder, tiny_model, tiny_tokenizer, capsys):
    assert main(attention(model_folder)) == 0
    (expected,) = translate(tiny_model, tiny_tokenizer, ["A dog runs."])
    assert capsys.readouterr().out == f"{expected}\nwritten to att.png\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layers", "0", "2"], "`--layers` must lie in [0, 2), the layers of the model's encoder, got 2"),
        (["--heads", "-1"], "`--heads` must lie in [0, 2), the heads of the model's encoder, got -1"),
        (["--target", " "], "`--target` must be a sentence, got ' '"),
        (["--source", ""], "`--source` must be a sentence, got ''"),
        (["--source", " "], "`--source` must be a sentence, got ' '"),
        (["--device", "nonsense"], "`--device` must be a device of this machine"),
        (["--output", "att.xyz"], "Format 'xyz' is not supported"),
        (["--output", "nowhere/att.png"], "`--output` must be a file in a folder that can be written to"),
    ],
)
def test_attention_names_options_as_they_are_typed(model_folder, options, message, capsys):
    assert message in refused(capsys, attention(model_folder, *options))
    assert not Path("att.png").exists()


def test_attention_names_the_options_that_make_a_picture_smaller(model_folder, capsys, monkeypatch):
    monkeypatch.setattr("vaswani_transformer.analysis.attention.MAX_INCHES", 3)
    error = refused(capsys, attention(model_folder, "--target", "Ein Hund."))
    assert "`--kind`, `--layers` and `--heads` must choose what fits into a picture of 3 x 3 inches" in error


def test_attention_prints_no_translation_that_it_cannot_draw(model_folder, capsys, monkeypatch):
    monkeypatch.setattr("vaswani_transformer.evaluation.translate.translate", lambda *_: iter(["x" * 500]))
    assert main(attention(model_folder)) == 2
    assert capsys.readouterr().out == ""


def test_unknown_kind_is_refused_with_the_known(model_folder, capsys):
    with pytest.raises(SystemExit):
        main(attention(model_folder, "--kind", "self"))
    assert "choose from encoder, decoder, cross" in capsys.readouterr().err.replace("'", "")


def test_output_is_checked_before_the_model_is_loaded(capsys):
    assert "`--output` must be a file" in refused(capsys, attention("no/such/model", output="nowhere/att.png"))


def test_model_that_does_not_exist_is_refused(capsys):
    assert "`--model` must be the folder of a trained model" in refused(capsys, attention("no/such/model"))


def test_older_picture_is_kept_when_drawing_fails(model_folder, capsys):
    Path("att.png").write_text("old")
    refused(capsys, attention(model_folder, "--layers", "9"))
    assert Path("att.png").read_text() == "old"


def test_plot_without_a_figure_shows_the_figures(capsys):
    with pytest.raises(SystemExit):
        main(["plot"])
    assert "FIGURE" in capsys.readouterr().err
