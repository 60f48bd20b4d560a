# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures `generate` beside that of MarianMTModel of the same size.

Every figure comes from a fresh process that translates once to warm up and once more against the
clock; the contestants take turns, and ratios are medians over the rounds. `ours-reference` is our
model under transformers' own loop. Unless a trained model is given, weights are random and both
systems make 30 tokens of every sentence, as its end is no word, or exactly the references.

    python scripts/benchmark_decoding.py --rounds 5
    python scripts/benchmark_decoding.py --workloads base-references \
        --source newstest2014.en --reference newstest2014.de
    python scripts/benchmark_decoding.py --workloads trained --model runs/multi30k --source test.en
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from benchmark_training import (
    SIZES,
    as_the_command,
    finish_weighing,
    marian_config,
    run_rounds,
    spread,
    start_weighing,
)

CONTESTANTS = ("ours", "ours-reference", "marian")
VOCABULARY = {"quickstart": 6000, "tiny": 10_000, "base": 32_000}
# NO_WORD is the end token, because a processor that forbids the end would slow Marian's search.
NUM_STEPS, NO_WORD = 30, 10**6
PAD, EOS = 0, 2


@dataclass(frozen=True)
class Workload:
    """Sentences that are translated.

    Attributes:
        size: One of `SIZES`; None: that of the trained model.
        num_beams: Width of the search.
        num_sentences: How many; 0: all of a file.
        batch_size: How many at once, longest first where there is more than one batch.
        source_tokens: Of every sentence; 0: log-normal lengths around 27, or those of a file.
    """

    size: str | None
    num_beams: int
    num_sentences: int
    batch_size: int
    source_tokens: int = 0


WORKLOADS = {
    "base-32": Workload("base", 4, 32, 32),
    "base-128": Workload("base", 4, 128, 128),
    "base-one-by-one": Workload("base", 4, 4, 1),
    "base-greedy-32": Workload("base", 1, 32, 32),
    "base-memory": Workload("base", 4, 128, 128, source_tokens=60),
    "tiny-32": Workload("tiny", 4, 32, 32),
    "quickstart-32": Workload("quickstart", 4, 320, 32),
    "tiny-one-by-one": Workload("tiny", 4, 8, 1),
    "base-references": Workload("base", 4, 256, 64),
    "trained": Workload(None, 4, 0, 64),
}
NEED_FILES = ("base-references", "trained")


@dataclass(frozen=True)
class Task:
    """Task of one process: a contestant, the name of a workload, and where its files are."""

    contestant: str
    workload: str
    threads: int
    source: str | None
    reference: str | None
    model: str | None


# ---- in the measuring process ----


def synthetic_sentences(workload: Workload) -> list[list[int]]:
    """Sentences of words whose frequencies fall as in texts."""
    draw = random.Random(1)

    def length() -> int:
        if workload.source_tokens:
            return workload.source_tokens - 1
        return min(120, max(4, round(26 * draw.lognormvariate(0, 0.5))))

    vocabulary = VOCABULARY[workload.size]
    return [
        [min(vocabulary - 1, int(8 * (vocabulary / 8) ** draw.random())) for _ in range(length())]
        + [EOS]
        for _ in range(workload.num_sentences)
    ]


def make_ours(task: Task, workload: Workload):
    """Our model, trained or with random weights."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    from vaswani_transformer import (
        VaswaniTransformerConfig,
        VaswaniTransformerForConditionalGeneration,
    )

    if task.model:
        return AutoModelForSeq2SeqLM.from_pretrained(task.model).eval()
    torch.manual_seed(0)
    config = VaswaniTransformerConfig(vocab_size=VOCABULARY[workload.size], **SIZES[workload.size])
    return VaswaniTransformerForConditionalGeneration(config).eval()


def make_marian(ours):
    """MarianMTModel with the weights, positions and epsilon of `ours`; its biases beyond those are
    zero.
    """
    import torch
    from transformers import MarianMTModel

    config = marian_config(ours.config)
    config.forced_eos_token_id = None  # the end is as free as ours
    marian = MarianMTModel(config).eval()
    weights = {
        name: torch.zeros_like(tensor) for name, tensor in marian.state_dict().items()
    } | ours.state_dict()
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_positions.weight"] = getattr(
            ours.model, stack
        ).embed_positions.table
    marian.load_state_dict(weights)
    for module in marian.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = ours.config.layer_norm_eps
    return marian


def forced(references: list[list[int]], num_beams: int):
    """Processor that leaves each sentence only its reference; a sentence's rows are neighbors."""
    import torch
    from transformers import LogitsProcessor, LogitsProcessorList

    longest = max(map(len, references))
    rows = torch.tensor(
        [row + [EOS] * (longest - len(row)) for row in references]
    ).repeat_interleave(num_beams, 0)

    class Forced(LogitsProcessor):
        def __call__(self, input_ids, scores):
            place = rows[:, input_ids.shape[1] - 1 :][:, :1]
            kept = scores.gather(1, place)
            return scores.fill_(-torch.inf).scatter_(1, place, kept)

    return LogitsProcessorList([Forced()])


def read_ids(path: str, tokenizer, count: int) -> list[list[int]]:
    """Token ids of a file's first lines, of all where `count` is 0."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return tokenizer(lines[: count or None])["input_ids"]


def make_batches(
    task: Task, workload: Workload
) -> list[tuple[list[list[int]], list[list[int]] | None]]:
    """Batches of sources, with references where these are forced; longest first."""
    references = None
    if task.workload not in NEED_FILES:
        sources = synthetic_sentences(workload)
    elif workload.size is None:
        from transformers import AutoTokenizer

        sources = read_ids(
            task.source, AutoTokenizer.from_pretrained(task.model), workload.num_sentences
        )
    else:
        from vaswani_transformer.data import train_tokenizer

        tokenizer = train_tokenizer([task.source, task.reference], vocab_size=8000)
        sources, references = (
            read_ids(path, tokenizer, 256) for path in (task.source, task.reference)
        )
    order = range(len(sources))
    if len(sources) > workload.batch_size > 1:
        order = sorted(order, key=lambda index: -len(sources[index]))
    chunks = [
        order[start : start + workload.batch_size]
        for start in range(0, len(order), workload.batch_size)
    ]
    return [
        ([sources[i] for i in chunk], references and [references[i] for i in chunk])
        for chunk in chunks
    ]


def translate(model, batches, options: dict) -> int:
    """Translates all batches; returns the number of generated tokens, `</s>` included."""
    import torch

    count = 0
    for sources, references in batches:
        longest = max(map(len, sources))
        ids = torch.tensor(
            [row + [PAD] * (longest - len(row)) for row in sources], device=model.device
        )
        more = {}
        if references:
            more = {
                "logits_processor": forced(references, options["num_beams"]),
                "max_new_tokens": max(map(len, references)),
            }
        out = model.generate(
            input_ids=ids, attention_mask=(ids != PAD).long(), do_sample=False, **options, **more
        )
        ends = (is_end := out[:, 1:] == options.get("eos_token_id", EOS)).cumsum(dim=1)
        count += int(((ends == 0) | ((ends == 1) & is_end)).sum())
    return count


def measure(task: Task) -> dict:
    """Translates in this process, while its threads wait as the console command's."""
    with as_the_command(task.contestant):
        return time_translation(task)


def time_translation(task: Task) -> dict:
    """Translates to warm up, then against the clock."""
    import torch

    from vaswani_transformer import generation_vaswani_transformer as generation

    torch.set_num_threads(task.threads)
    workload = WORKLOADS[task.workload]
    model = make_ours(task, workload)
    if task.contestant == "marian":
        model = make_marian(model)
    if task.contestant == "ours-reference":
        generation.can_search = lambda *args: False
    options = {"num_beams": workload.num_beams}
    if workload.size is None:
        options |= {"early_stopping": "never", "length_penalty": 0.6, "max_new_tokens": 80}
    elif task.workload not in NEED_FILES:
        options |= {"eos_token_id": NO_WORD, "max_new_tokens": NUM_STEPS}
    batches = make_batches(task, workload)
    translate(
        model,
        [(sources[:1], references and references[:1]) for sources, references in batches[:1]],
        options,
    )
    resident = start_weighing("cpu")
    translate(model, batches, options)
    peak = finish_weighing("cpu") - resident
    started = time.perf_counter()
    num_tokens = translate(model, batches, options)
    return {"seconds": time.perf_counter() - started, "tokens": num_tokens, "peak_mib": peak}


# ---- in the process that compares ----


def report(workload: str, contestants: list[str], rounds: list[dict[str, dict]]) -> None:
    """Prints medians of every contestant, and of the ratios to the last one of each round."""
    reference = contestants[-1]
    for name in contestants:
        ratios = sorted(turn[reference]["seconds"] / turn[name]["seconds"] for turn in rounds)
        seconds, peak, tokens = (
            statistics.median(turn[name][key] for turn in rounds)
            for key in ("seconds", "peak_mib", "tokens")
        )
        print(
            f"{workload:18}{name:16}{seconds:9.3f} s{tokens:10,.0f}{spread(ratios):>22}"
            f"{peak:10,.0f} MiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("python scripts")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--workloads", nargs="+", choices=WORKLOADS, help="None: all that need no files"
    )
    parser.add_argument(
        "--contestants",
        nargs="+",
        choices=CONTESTANTS,
        default=["ours", "marian"],
        help="the last is the reference",
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of torch")
    parser.add_argument("--source", help="text file, one sentence a line")
    parser.add_argument("--reference", help="its translation")
    parser.add_argument("--model", help="folder of a trained model, for the workload `trained`")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(measure(Task(**json.loads(args.task)))))
        return
    workloads = args.workloads or [name for name in WORKLOADS if name not in NEED_FILES]
    if "trained" in workloads and not (args.model and args.source):
        parser.error("the workload `trained` needs --model and --source")
    if "base-references" in workloads and not (args.source and args.reference):
        parser.error("the workload `base-references` needs --source and --reference")
    print(
        f"{'workload':18}{'':16}{'time':>11}{'tokens':>10}"
        f"{'x ' + args.contestants[-1]:>22}{'peak':>14}"
    )
    for workload in workloads:
        model = args.model if workload == "trained" else None
        common = (workload, args.threads, args.source, args.reference, model)
        tasks = {name: Task(name, *common) for name in args.contestants}
        report(workload, args.contestants, run_rounds(tasks, args.rounds, __file__))


if __name__ == "__main__":
    main()
