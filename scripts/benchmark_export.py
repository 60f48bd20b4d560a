# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures exports of a trained model beside the model: size, start-up and speed of translating the same sentences.

Every figure comes from a fresh process with the same number of threads, which imports, loads, translates one sentence
(the start-up), translates all once to warm up and once more against the clock. The contestants take turns; ratios to
the model in PyTorch are medians over the rounds. A contestant whose engine is missing is left out.

python scripts/benchmark_export.py --model runs/multi30k --source test.en --rounds 5
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

Translate = Callable[[list[str]], list[str]]

PYTORCH = "pytorch"
QUANTIZATIONS = ("float32", "int8")

# ---- in the measuring process ----


def load_pytorch(folder: str, threads: int, num_beams: int) -> Translate:
    import torch

    from vaswani_transformer.evaluation.loading import load_for_inference
    from vaswani_transformer.evaluation.translate import translate

    torch.set_num_threads(threads)
    model, tokenizer = load_for_inference(folder, device="cpu")
    return lambda texts: list(translate(model, tokenizer, texts, num_beams=num_beams))


def load_ctranslate2(folder: str, threads: int, num_beams: int) -> Translate:
    from vaswani_transformer.export import Translator

    translator = Translator(folder, num_threads=threads)
    return lambda texts: [found["translation_text"] for found in translator(texts, num_beams=num_beams)]


LOADERS = {PYTORCH: load_pytorch, "ctranslate2": load_ctranslate2}


def measure(engine: str, folder: str, source: str, threads: int, num_beams: int, num_sentences: int) -> dict:
    """Start-up in seconds and sentences a second of this process."""
    texts = [text for text in Path(source).read_text(encoding="utf-8").splitlines() if text.strip()]
    texts = texts[: num_sentences or None]
    started = time.perf_counter()
    translate = LOADERS[engine](folder, threads, num_beams)
    translate(texts[:1])
    start_up = time.perf_counter() - started
    translate(texts)
    started = time.perf_counter()
    translations = translate(texts)
    seconds = time.perf_counter() - started
    return {"start_up": start_up, "speed": len(texts) / seconds, "translations": translations}


# ---- in the process that compares ----


def make_contestants(model: str, folder: Path) -> dict[str, tuple[str, str]]:
    """Engine and folder of each contestant; the exports are made here."""
    contestants = {PYTORCH: (PYTORCH, model)}
    if importlib.util.find_spec("ctranslate2"):
        from vaswani_transformer.export import export_ctranslate2

        for quantization in QUANTIZATIONS:
            name = f"ctranslate2 {quantization}"
            made = export_ctranslate2(model, folder / name.replace(" ", "-"), quantization=quantization)
            contestants[name] = "ctranslate2", str(made)
    return contestants


def weights_size(folder: str) -> float:
    """MB of the files of weights in a folder."""
    endings = (".safetensors", ".bin")
    return sum(path.stat().st_size for path in Path(folder).iterdir() if path.name.endswith(endings)) / 1e6


def run(engine: str, folder: str, args: argparse.Namespace) -> dict:
    """Figures of one fresh process."""
    task = [engine, folder, args.source, args.threads, args.num_beams, args.num_sentences]
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{engine} failed:\n{finished.stderr[-3000:]}")
    return json.loads(finished.stdout.splitlines()[-1])


def report(contestants: dict[str, tuple[str, str]], rounds: list[dict[str, dict]]) -> None:
    """Prints medians of every contestant, ratios of each round to PyTorch, and how many translations are others."""
    print(f"{'':22}{'weights':>10}{'start-up':>10}{'sentences/s':>13}{'x PyTorch':>22}{'others':>8}")
    for name, (_, folder) in contestants.items():
        ratios = sorted(turn[name]["speed"] / turn[PYTORCH]["speed"] for turn in rounds)
        start_up, speed = (statistics.median(turn[name][key] for turn in rounds) for key in ("start_up", "speed"))
        spread = f"{statistics.median(ratios):.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"
        pairs = zip(rounds[0][name]["translations"], rounds[0][PYTORCH]["translations"], strict=True)
        others = sum(found != expected for found, expected in pairs)
        print(
            f"{name:22}{weights_size(folder):7.1f} MB{start_up:8.2f} s{speed:13.1f}{spread:>22}{others:8}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("python scripts")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", help="folder of a trained model")
    parser.add_argument("--source", help="text file, one sentence a line")
    parser.add_argument("--num-sentences", type=int, default=0, help="of the file; 0: all")
    parser.add_argument("--num-beams", type=int, default=4, help="width of the search")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every engine")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(measure(*json.loads(args.task))))
        return
    if not (args.model and args.source):
        parser.error("--model and --source are needed")
    with tempfile.TemporaryDirectory() as folder:
        contestants = make_contestants(args.model, Path(folder))
        turns = [
            {name: run(engine, made, args) for name, (engine, made) in contestants.items()} for _ in range(args.rounds)
        ]
        report(contestants, turns)


if __name__ == "__main__":
    main()
