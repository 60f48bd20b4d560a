# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures how much time and memory each stage takes that prepares a large corpus, each in a fresh process.

The text is made of random words, as frequent as words of a language are, and as long in sentences. A folder that holds
stages of an earlier call goes on from their caches: delete it to measure the first start again.

python scripts/benchmark_large_data.py FOLDER --num-pairs 4500000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

PAIRS_PER_WRITE = 50_000
NUM_WORDS = 200_000
BUDGETS = {"max_source_tokens": 25_000, "max_target_tokens": 25_000}
MAX_TOKENS = 256
NUM_BATCHES = 100
TRAINING = (
    "--d-model 16 --d-ff 32 --num-heads 2 --num-encoder-layers 1 --num-decoder-layers 1 --max-steps 3 "
    "--num-averaged-snapshots 0 --logging-steps 1 --warmup-steps 10 --generation-num-beams 0"
).split()


# ---- the stages: what is timed stands after `start()` ----


def generate(folder: Path, start, num_pairs: int) -> dict:
    """Two text files of as many lines."""
    import numpy as np

    start()
    rng = np.random.default_rng(0)
    words = {side: _make_words(rng) for side in ("source", "target")}
    frequency = np.cumsum(1.0 / (np.arange(NUM_WORDS) + 2.7))
    with open(folder / "train.source", "w") as source, open(folder / "train.target", "w") as target:
        for done in range(0, num_pairs, PAIRS_PER_WRITE):
            lengths = np.clip(rng.lognormal(3.0, 0.6, min(PAIRS_PER_WRITE, num_pairs - done)), 1, 150).astype(int)
            ranks = np.searchsorted(frequency, rng.random(lengths.sum()) * frequency[-1])
            ends = np.cumsum(lengths)[:-1]
            for file, side in ((source, "source"), (target, "target")):
                sentences = np.split(words[side][ranks], ends)
                file.writelines(" ".join(sentence.tolist()) + ".\n" for sentence in sentences)
    return {"bytes": sum(file.stat().st_size for file in folder.glob("train.*"))}


def _make_words(rng):
    """Different words of 1 to 12 letters, the shorter the more frequent."""
    import numpy as np

    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    found: dict[str, None] = {}
    while len(found) < NUM_WORDS:
        length = min(12, 1 + int(np.log2(len(found) + 2) * rng.uniform(0.4, 0.8)))
        found["".join(letters[rng.integers(0, 26, length)])] = None
    return np.array(list(found), dtype=object)


def _load(folder: Path):
    from vaswani_transformer.data import load_corpus

    return load_corpus(source_file=folder / "train.source", target_file=folder / "train.target", cache_dir=folder)


def _tokenize(folder: Path):
    from transformers import AutoTokenizer

    from vaswani_transformer.data import tokenize_corpus

    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    return tokenize_corpus(_load(folder), tokenizer), tokenizer


def _clean(folder: Path):
    from vaswani_transformer.data import CleaningRules, clean_corpus

    tokenized, tokenizer = _tokenize(folder)
    rules = CleaningRules(max_source_tokens=MAX_TOKENS, max_target_tokens=MAX_TOKENS)
    return *clean_corpus(tokenized, rules), tokenizer


def _sampler(cleaned):
    from vaswani_transformer.data import TokenBatchSampler
    from vaswani_transformer.data.preparation import pair_lengths

    return TokenBatchSampler(*pair_lengths(cleaned), **BUDGETS)


def load(folder: Path, start) -> dict:
    """Text files to Arrow."""
    import vaswani_transformer.data  # noqa: F401

    start()
    return {"pairs": len(_load(folder))}


def vocabulary(folder: Path, start) -> dict:
    """Training of the joint vocabulary of 37,000 entries."""
    from vaswani_transformer.data import corpus_sentences, train_tokenizer

    corpus = _load(folder)
    start()
    tokenizer = train_tokenizer(sentences=corpus_sentences(corpus), vocab_size=37_000)
    tokenizer.save_pretrained(folder / "tokenizer")
    return {"entries": len(tokenizer)}


def tokenize(folder: Path, start) -> dict:
    """Text to token ids."""
    import vaswani_transformer.data  # noqa: F401

    start()
    tokenized, _ = _tokenize(folder)
    size = sum(Path(file["filename"]).stat().st_size for file in tokenized.cache_files)
    return {"pairs": len(tokenized), "bytes": size}


def clean(folder: Path, start) -> dict:
    """Drops pairs by their lengths."""
    _tokenize(folder)
    start()
    return {"report": str(_clean(folder)[1])}


def plan(folder: Path, start) -> dict:
    """Plans the batches and draws the rows of one epoch."""
    cleaned, _, _ = _clean(folder)
    start()
    sampler = _sampler(cleaned)
    planned = time.perf_counter()
    next(iter(sampler))
    drawn = time.perf_counter()
    return {
        "effective_batches": sampler.num_effective_batches,
        "seconds_of_draw": round(drawn - planned, 2),
        "padding": round(sampler.padding_fraction, 4),
    }


def batches(folder: Path, start) -> dict:
    """Fetches and collates batches of 25,000 tokens a side, as the trainer does."""
    from itertools import islice

    from torch.utils.data import DataLoader

    from vaswani_transformer.data import TranslationCollator

    cleaned, _, tokenizer = _clean(folder)
    loader = DataLoader(cleaned, batch_sampler=_sampler(cleaned), collate_fn=TranslationCollator(tokenizer))
    iterator = iter(loader)
    next(iterator)
    start()
    begin = time.perf_counter()
    num_tokens = sum(int(batch["attention_mask"].sum()) for batch in islice(iterator, NUM_BATCHES))
    elapsed = time.perf_counter() - begin
    return {"source_tokens": num_tokens, "milliseconds_a_batch": round(1000 * elapsed / NUM_BATCHES, 1)}


def train(folder: Path, start) -> dict:
    """The command `train` with everything cached, from its start to the end of the first update of a tiny model."""
    os.environ["HF_DATASETS_CACHE"] = str(folder.resolve())
    start()
    from transformers import TrainerCallback

    from vaswani_transformer.cli import main as command
    from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

    class Clock(TrainerCallback):
        times: list[float] = []

        def on_step_end(self, args, state, control, **kwargs):
            self.times.append(time.perf_counter())

    begin, make = time.perf_counter(), VaswaniTransformerTrainer.__init__

    def make_and_watch(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self.add_callback(Clock())

    VaswaniTransformerTrainer.__init__ = make_and_watch
    files = ["--train-source", str(folder / "train.source"), "--train-target", str(folder / "train.target")]
    run = ["--output-dir", str(folder / "run"), "--overwrite", "--tokenizer", str(folder / "tokenizer"), "--use-cpu"]
    command(["train", *run, *files, *TRAINING])
    return {"seconds_to_first_update": round(Clock.times[0] - begin, 1)}


STAGES = {stage.__name__: stage for stage in (generate, load, vocabulary, tokenize, clean, plan, batches, train)}


# ---- running them ----


def memory() -> dict[str, float]:
    """MiB of this process: peak resident, and what is resident now of its own and of mapped files."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    names = {"peak": "VmHWM", "own": "RssAnon", "mapped": "RssFile"}
    return {f"{name}_mib": round(int(lines[key].split()[0]) / 1024) for name, key in names.items()}


def processor_seconds() -> float:
    """Seconds that this process and its finished children computed."""
    return sum(os.times()[:4])


def run_stage(name: str, folder: Path, num_pairs: int) -> dict:
    """Runs one stage in this process; its time begins when the stage says so."""
    clocks, before = [], {}

    def start() -> None:
        clocks[:] = time.perf_counter(), processor_seconds()
        before.update(memory())

    figures = STAGES[name](folder, start, num_pairs) if name == "generate" else STAGES[name](folder, start)
    wall, processor = time.perf_counter() - clocks[0], processor_seconds() - clocks[1]
    times = {"seconds": round(wall, 1), "processor_seconds": round(processor, 1)}
    return {"stage": name, **times, "mib_at_start": before["peak_mib"], **memory(), **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where text, caches and figures go; several GB")
    parser.add_argument("--num-pairs", type=int, default=4_500_000)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        figures = run_stage(args.stages[0], args.folder, args.num_pairs)
        with open(args.folder / "figures.jsonl", "a", encoding="utf-8") as file:
            print(json.dumps({"num_pairs": args.num_pairs, **figures}), file=file)
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    for stage in args.stages:
        command = [sys.executable, __file__, str(args.folder), "--num-pairs", str(args.num_pairs), "--here"]
        subprocess.run([*command, "--stages", stage], check=True)
        print((args.folder / "figures.jsonl").read_text(encoding="utf-8").splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
