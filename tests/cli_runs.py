# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How tests of the console command run it."""

from vaswani_transformer.cli import main

TINY = {
    "--train-source": "train.en",
    "--train-target": "train.de",
    "--source-language": "en",
    "--target-language": "de",
    "--vocab-size": "270",
    "--d-model": "16",
    "--d-ff": "32",
    "--num-heads": "2",
    "--num-encoder-layers": "1",
    "--num-decoder-layers": "1",
    "--max-source-tokens-per-batch": "300",
    "--max-target-tokens-per-batch": "300",
    "--max-steps": "4",
    "--warmup-steps": "2",
    "--snapshot-steps": "2",
    "--save-steps": "2",
    "--logging-steps": "2",
    "--num-averaged-snapshots": "2",
}


def train_arguments(*flags, output_dir="run", **changes):
    """Arguments of a run of 4 updates; a change of value None drops the option."""
    options = {**TINY, **{f"--{name.replace('_', '-')}": value for name, value in changes.items()}}
    pairs = [part for name, value in options.items() if value is not None for part in (name, value)]
    return ["train", "--output-dir", output_dir, "--use-cpu", *pairs, *flags]


def refused(capsys, arguments):
    """Text of the one error line of a command that must fail with exit code 2."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return next(line for line in error.splitlines() if line.startswith("error: "))
