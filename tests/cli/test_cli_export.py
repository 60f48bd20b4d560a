# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The command `export`."""

import pytest
from cli_runs import refused

from vaswani_transformer.cli import main

pytest.importorskip("ctranslate2", reason="the extra export is not installed")

from vaswani_transformer.export import Translator


def arguments(model_folder, output_dir, *more, to="ctranslate2"):
    return [*f"export --model {model_folder} --to {to} --output-dir {output_dir}".split(), *more]


def test_export_prints_what_it_wrote_and_how_to_use_it(model_folder, tmp_path, capsys):
    assert main(arguments(model_folder, tmp_path / "out", "--quantization", "int8_float32")) == 0
    written, use = capsys.readouterr().out.splitlines()
    assert written == f"written: {tmp_path / 'out'}"
    assert (
        use == "in Python: from vaswani_transformer.export import Translator; "
        f"translate = Translator('{tmp_path}/out')"
    )
    names = {}
    exec(use.removeprefix("in Python: "), names)
    assert isinstance(names["translate"]("A dog."), list)


def test_export_stores_float32_by_default(model_folder, tmp_path):
    assert main(arguments(model_folder, tmp_path / "out")) == 0
    assert Translator(tmp_path / "out").compute_type == "float32"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (
            "--quantization int4",
            "error: int4 is not a valid quantization type. Accepted types are: int8",
        ),
        ("--model nowhere", "error: `--model` must be the folder of a trained model"),
        (
            "--to marian --quantization int8",
            "error: `--quantization` must be left out with --to marian",
        ),
    ],
)
def test_export_refuses_wrong_options_by_the_names_that_were_typed(
    model_folder, tmp_path, capsys, more, error
):
    command = [*arguments(model_folder, tmp_path / "out"), *more.split()]
    assert refused(capsys, command).startswith(error)
    assert not (tmp_path / "out").exists()
