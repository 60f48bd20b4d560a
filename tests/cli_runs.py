# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How tests of the console command run it."""

from pathlib import Path

from vaswani_transformer.cli import main
from vaswani_transformer.inference import translate

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


def check_resumed(command, engine, monkeypatch):
    """A command that is interrupted in the third batch of `engine`, a class, and resumed writes the
    bytes of the uninterrupted one.
    """
    monkeypatch.setattr(translate, "SENTENCES_PER_CHUNK", 2)
    assert main(command) == 0
    expected = Path("out").read_bytes()
    calls, compute = [], engine.translate_batch

    def interrupt(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return compute(*args)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "translate_batch", interrupt)
        assert main([*command, "--overwrite"]) == 130
    assert Path("out.part").stat().st_size > 0
    assert main([*command, "--resume"]) == 0
    assert Path("out").read_bytes() == expected
