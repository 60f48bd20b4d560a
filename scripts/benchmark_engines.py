# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares the speed of the engines that translate with a trained model, on the same sentences.

Every figure comes from a fresh process with the same number of threads. The process loads the model
and translates one sentence; the wall time of both is the start-up. It then translates all sentences
once to warm up, and once more to measure the time. Each translation may end where the model ends
it. The contestants take turns. `x torch` is the speed relative to torch, the first contestant: the
median over the rounds, with the lowest and the highest. `others` counts the translations that
differ from those of the first contestant. `own search` is CTranslate2's search with its own score
and stopping rule, as a reference; its translations differ.

python scripts/benchmark_engines.py --model runs/quickstart --source test.en --rounds 10 --clock cpu
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmark_training import spread

Translate = Callable[[list[str]], list[str]]

CONTESTANTS = {
    "torch": {},
    "torch int8": {"int8": True},
    "ctranslate2": {"engine": "ctranslate2"},
    "ctranslate2 int8": {"engine": "ctranslate2", "int8": True},
    "own search": None,
}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

# ---- in the measuring process ----


def load_engine(folder: str, num_beams: int, options: dict) -> Translate:
    """Return the translation function of one of our two engines."""
    from vaswani_transformer.inference.translate import translate
    from vaswani_transformer.inference.translator import load_engine

    model, tokenizer = load_engine(folder, device="cpu", **options)
    return lambda texts: list(translate(model, tokenizer, texts, num_beams=num_beams))


def load_own_search(folder: str, num_beams: int) -> Translate:
    """Return the translation function of CTranslate2's own search, called as its users call it."""
    import ctranslate2
    import torch
    from transformers import AutoTokenizer

    from vaswani_transformer.export import export_ctranslate2

    tokenizer = AutoTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as temporary:
        exported = str(export_ctranslate2(folder, Path(temporary) / "export"))
        engine = ctranslate2.Translator(
            exported, inter_threads=torch.get_num_threads(), intra_threads=1
        )

    def translate(texts: list[str]) -> list[str]:
        tokens = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(texts)["input_ids"]]
        sizes = {"max_batch_size": 1024, "batch_type": "tokens", "max_input_length": 0}
        results = engine.translate_batch(tokens, beam_size=num_beams, length_penalty=0.6, **sizes)
        ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return translate


def measure(contestant: str, args: argparse.Namespace) -> dict:
    """Measure the start-up and the translation of all sentences in this process, in seconds."""
    import torch

    from vaswani_transformer.cores import share_cores

    torch.set_num_threads(args.threads)
    texts = [
        text for text in Path(args.source).read_text(encoding="utf-8").splitlines() if text.strip()
    ]
    texts = texts[: args.num_sentences or None]
    options, clock = CONTESTANTS[contestant], CLOCKS[args.clock]
    with share_cores():
        started = time.perf_counter()
        if options is None:
            translate = load_own_search(args.model, args.num_beams)
        else:
            translate = load_engine(args.model, args.num_beams, options)
        translate(texts[:1])
        start_up = time.perf_counter() - started
        calls = [[text] for text in texts] if args.one_by_one else [texts]
        for _ in range(2):
            started = clock()
            translations = [translation for call in calls for translation in translate(call)]
            seconds = clock() - started
    return {"start_up": start_up, "seconds": seconds, "translations": translations}


# ---- in the process that compares ----


def run(contestant: str, args: argparse.Namespace) -> dict:
    """Run `measure` in a fresh process and return its figures."""
    command = [sys.executable, __file__, *sys.argv[1:], "--task", contestant]
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{contestant} failed:\n{finished.stderr[-3000:]}")
    return json.loads(finished.stdout.splitlines()[-1])


def report(contestants: list[str], rounds: list[dict[str, dict]]) -> None:
    """Print a line per contestant: median times, speed relative to the first, and number of other
    translations.
    """
    first = contestants[0]
    print(f"{'':18}{'start-up':>10}{'seconds':>10}{'x ' + first:>22}{'others':>8}")
    for name in contestants:
        ratios = sorted(turn[first]["seconds"] / turn[name]["seconds"] for turn in rounds)
        start_up, seconds = (
            statistics.median(turn[name][key] for turn in rounds) for key in ("start_up", "seconds")
        )
        pairs = zip(rounds[0][name]["translations"], rounds[0][first]["translations"], strict=True)
        others = sum(found != expected for found, expected in pairs)
        print(
            f"{name:18}{start_up:8.2f} s{seconds:8.2f} s{spread(ratios):>22}{others:8}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("python scripts")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--model", required=True, help="folder of a trained model")
    parser.add_argument("--source", required=True, help="text file with one sentence per line")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument(
        "--num-sentences", type=int, default=0, help="first sentences to translate; 0 for all"
    )
    parser.add_argument(
        "--one-by-one", action="store_true", help="translate each sentence in a call of its own"
    )
    parser.add_argument("--num-beams", type=int, default=4, help="number of beams")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), help="threads of each engine"
    )
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="wall time or processor time"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of processes per contestant")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(measure(args.task, args)))
        return
    rounds = [{name: run(name, args) for name in args.contestants} for _ in range(args.rounds)]
    report(args.contestants, rounds)


if __name__ == "__main__":
    main()
