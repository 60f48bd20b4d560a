# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures importing the package beside transformers alone, and loading a base model beside its
MarianMTModel.

Every figure comes from a fresh process; the two sides take turns.

python scripts/benchmark_start_up.py --runs 7
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

Pair = tuple[list[float], list[float]]

_CLOCKS = ("wall", "cpu")
_IMPORTS = (
    "import vaswani_transformer",
    "from transformers import PreTrainedModel, GenerationMixin, AutoModelForSeq2SeqLM, "
    "AutoTokenizer, pipeline",
)
_TIMED = """
import time
before = time.perf_counter(), time.process_time()
{statement}
print(time.perf_counter() - before[0], time.process_time() - before[1])
"""
_LOADING = """
import vaswani_transformer
from transformers import AutoModelForSeq2SeqLM, MarianMTModel
"""
_SAVE = """
from transformers import MarianConfig, MarianMTModel
from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration
VaswaniTransformerForConditionalGeneration(VaswaniTransformerConfig()).save_pretrained({ours!r})
MarianMTModel(MarianConfig(
    vocab_size=37_000, decoder_vocab_size=37_000, pad_token_id=0, decoder_start_token_id=0,
    d_model=512, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=1024,
    encoder_attention_heads=8, decoder_attention_heads=8, encoder_layers=6, decoder_layers=6,
)).save_pretrained({theirs!r})
"""


def run(program: str) -> list[float]:
    """The numbers in the last line that a fresh process prints: wall and processor seconds."""
    command = [sys.executable, "-c", program]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout
    return [float(figure) for line in output.splitlines()[-1:] for figure in line.split()]


def measure(statements: tuple[str, str], num_runs: int, set_up: str = "") -> dict[str, Pair]:
    """Times our statement and that of transformers by each clock, in turn, after one turn that does
    not count.
    """
    programs = [set_up + _TIMED.format(statement=statement) for statement in statements]
    turns = [[run(program) for program in programs] for _ in range(num_runs + 1)][1:]
    return {
        clock: ([ours[index] for ours, _ in turns], [theirs[index] for _, theirs in turns])
        for index, clock in enumerate(_CLOCKS)
    }


def measure_import(num_runs: int) -> dict[str, Pair]:
    """Seconds of importing this package, and of importing what it is built on."""
    return measure(_IMPORTS, num_runs)


def measure_loading(num_runs: int) -> dict[str, Pair]:
    """Seconds of the first `from_pretrained` of a process: our base model, and MarianMTModel of the
    same size.
    """
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = str(Path(folder) / "ours"), str(Path(folder) / "theirs")
        run(_SAVE.format(ours=ours, theirs=theirs))
        loads = (
            f"AutoModelForSeq2SeqLM.from_pretrained({ours!r})",
            f"MarianMTModel.from_pretrained({theirs!r})",
        )
        return measure(loads, num_runs, _LOADING)


def report(title: str, figures: dict[str, Pair]) -> None:
    """Prints minimum and median of both sides, and the median of the ratios turn by turn."""
    for clock, (ours, theirs) in figures.items():
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        seconds = "   ".join(
            f"{min(side):6.3f} {statistics.median(side):6.3f}" for side in (ours, theirs)
        )
        print(f"{title:18}{clock:6}{seconds}   {ratio:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each side")
    num_runs = parser.parse_args().runs
    print(f"{'seconds':18}{'clock':6}{'ours: min, median':16}{'theirs: min, median':>19}   ratio")
    report("import", measure_import(num_runs))
    report("from_pretrained", measure_loading(num_runs))


if __name__ == "__main__":
    main()
