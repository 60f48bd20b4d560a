# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures training beside MarianMTModel of the same size under `Seq2SeqTrainer`.

Every figure comes from a fresh process that trains a few updates on synthetic pairs; the
contestants take turns, and ratios are medians over the rounds. `marian` gets our batches,
`marian-default` those of `Seq2SeqTrainer`: as many sentences of any length. All use Adam with one
fused kernel, dropout and label smoothing 0.1.

python scripts/benchmark_training.py --size base --rounds 5
python scripts/benchmark_training.py --size big --device cuda --bf16 --profile
python scripts/benchmark_training.py --size quickstart --tokens 700 --updates 50 --rounds 20
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CONTESTANTS = ("ours", "marian", "marian-default")
SIZES = {
    "quickstart": {
        "d_model": 128,
        "d_ff": 512,
        "num_heads": 4,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
    },
    "tiny": {
        "d_model": 128,
        "d_ff": 256,
        "num_heads": 4,
        "num_encoder_layers": 4,
        "num_decoder_layers": 4,
    },
    "base": {
        "d_model": 512,
        "d_ff": 2048,
        "num_heads": 8,
        "num_encoder_layers": 6,
        "num_decoder_layers": 6,
    },
    "big": {
        "d_model": 1024,
        "d_ff": 4096,
        "num_heads": 16,
        "num_encoder_layers": 6,
        "num_decoder_layers": 6,
    },
}
VOCABULARY = {"quickstart": 6000, "tiny": 10_000, "base": 37_000, "big": 37_000}
TOKENS = {"cpu": 4096, "cuda": 25_000}  # target tokens of an update; 25,000 as in the paper
UPDATES_BEFORE, NUM_BATCHES = 3, 60
SMOOTHING = DROPOUT = 0.1
# Kinds of a CPU's operators and of a GPU's kernels, by parts of their names in small letters; the
# first that fits.
_KINDS = {
    "compiled": ("triton_",),
    "attention": ("attention", "flash", "fmha", "sdpa"),
    "optimizer": ("adam",),
    "dropout": ("random", "bernoulli", "dropout", "distribution"),
    "LayerNorm": ("layer_norm", "layernorm", "gammabeta"),
    "embedding": ("embedding", "index"),
    "matrix products": ("mm", "linear", "matmul", "gemv", "nvjet", "cutlass", "splitk"),
    "elementwise and reduce": ("elementwise", "reduce", "softmax"),
    "copies": ("memcpy", "memset"),
}


@dataclass(frozen=True)
class Task:
    """Task of one process.

    Attributes:
        contestant: One of `CONTESTANTS`.
        size: One of `SIZES`.
        tokens: Real source and target tokens of an update, at most, each.
        updates: Updates that are timed.
        threads: Threads of torch on a CPU.
        profile: Whether to list where the time of one more update goes.
        before: Updates before those that are timed.
    """

    contestant: str
    size: str
    device: str
    tokens: int
    updates: int
    threads: int
    bf16: bool
    compile: bool
    profile: bool = False
    before: int = UPDATES_BEFORE


# ---- in the measuring process ----


@functools.cache
def synthetic_pairs(size: str, tokens: int):
    """Pairs for `NUM_BATCHES` updates: log-normal lengths around 27 tokens, the target's close to
    the source's.
    """
    import datasets
    import numpy as np

    rng = np.random.default_rng(0)
    num_pairs = NUM_BATCHES * tokens // 30
    sources = np.clip(np.rint(26 * np.exp(rng.normal(0, 0.5, num_pairs))), 4, 120).astype(int)
    targets = np.clip(
        np.rint(1.05 * sources * np.exp(rng.normal(0, 0.12, num_pairs))), 4, 120
    ).astype(int)

    def sentence(length: int) -> list[int]:  # word frequencies fall as in texts
        words = np.exp(rng.uniform(math.log(8), math.log(VOCABULARY[size] - 1), length)).astype(int)
        return [*words.tolist(), 2]

    columns = {
        "input_ids": [sentence(n) for n in sources],
        "labels": [sentence(n) for n in targets],
        "source_length": sources + 1,
        "target_length": targets + 1,
    }
    return datasets.Dataset.from_dict(columns)


def our_trainer(task: Task, data, tokenizer, options: dict):
    """`VaswaniTransformerTrainer` with our model."""
    from vaswani_transformer import (
        VaswaniTransformerConfig,
        VaswaniTransformerForConditionalGeneration,
        VaswaniTransformerTrainer,
        VaswaniTransformerTrainingArguments,
    )

    config = VaswaniTransformerConfig(
        vocab_size=VOCABULARY[task.size], dropout=DROPOUT, **SIZES[task.size]
    )
    limits = {
        "max_source_tokens_per_batch": task.tokens,
        "max_target_tokens_per_batch": task.tokens,
    }
    # an update is one micro-batch, as the other contestants'
    limits["max_padded_tokens_per_device"] = 2**31
    return VaswaniTransformerTrainer(
        model=VaswaniTransformerForConditionalGeneration(config),
        args=VaswaniTransformerTrainingArguments(**options, **limits, num_averaged_snapshots=0),
        train_dataset=data,
        processing_class=tokenizer,
    )


def marian_config(sizes):
    """The configuration of a Marian of the sizes of one of our models."""
    from transformers import MarianConfig

    stacks = {
        f"{side}_layers": getattr(sizes, f"num_{side}_layers") for side in ("encoder", "decoder")
    }
    stacks |= {f"{side}_attention_heads": sizes.num_heads for side in ("encoder", "decoder")}
    stacks |= {f"{side}_ffn_dim": sizes.d_ff for side in ("encoder", "decoder")}
    return MarianConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.d_model,
        dropout=sizes.dropout,
        attention_dropout=sizes.attention_dropout,
        activation_dropout=sizes.activation_dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=sizes.max_position_embeddings,
        pad_token_id=sizes.pad_token_id,
        bos_token_id=sizes.bos_token_id,
        eos_token_id=sizes.eos_token_id,
        forced_eos_token_id=sizes.eos_token_id,
        decoder_start_token_id=sizes.decoder_start_token_id,
        **stacks,
    )


def marian_trainer(task: Task, data, tokenizer, options: dict):
    """`Seq2SeqTrainer` with MarianMTModel, on our batches or on its own."""
    from torch.utils.data import DataLoader
    from transformers import (
        DataCollatorForSeq2Seq,
        MarianMTModel,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
    )

    from vaswani_transformer import VaswaniTransformerConfig
    from vaswani_transformer.data import TokenBatchSampler

    limits = {"max_source_tokens": task.tokens, "max_target_tokens": task.tokens}
    sampler = TokenBatchSampler(
        data["source_length"], data["target_length"], **limits, seed=options["seed"]
    )

    class OurBatches(Seq2SeqTrainer):
        def get_train_dataloader(self):
            rows = self._remove_unused_columns(self.train_dataset)
            workers = {"num_workers": options.get("dataloader_num_workers", 0), "pin_memory": True}
            loader = DataLoader(
                rows, batch_sampler=sampler, collate_fn=self.data_collator, **workers
            )
            return self.accelerator.prepare(loader)

    sizes = VaswaniTransformerConfig(
        vocab_size=VOCABULARY[task.size], dropout=DROPOUT, **SIZES[task.size]
    )
    model = MarianMTModel(marian_config(sizes))
    rows_per_batch = round(len(data) / sampler.num_effective_batches)
    theirs = {
        "label_smoothing_factor": SMOOTHING,
        "adam_beta2": 0.98,
        "adam_epsilon": 1e-9,
        "max_grad_norm": 0.0,
    }
    args = Seq2SeqTrainingArguments(**options, **theirs, per_device_train_batch_size=rows_per_batch)
    kind = OurBatches if task.contestant == "marian" else Seq2SeqTrainer
    collator = DataCollatorForSeq2Seq(tokenizer, model=model)
    return kind(
        model=model,
        args=args,
        train_dataset=data,
        data_collator=collator,
        processing_class=tokenizer,
    )


def make_tokenizer():
    """Any tokenizer with our special tokens; collators ask it to pad."""
    from vaswani_transformer.data import train_tokenizer

    return train_tokenizer(sentences=["a b"], vocab_size=300)


def make_meter(task: Task):
    """Callback that times updates and weighs the second."""
    import torch
    from transformers import TrainerCallback

    class Meter(TrainerCallback):
        def __init__(self):
            self.tokens = [0, 0]  # real ones of the timed updates, source and target
            self.seconds = self.cpu_seconds = self.peak_mib = math.nan
            self.profiler = None

        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 1:
                self._resident = start_weighing(task.device)
            if state.global_step == task.before:
                self._clock = self._now()

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 2:
                self.peak_mib = finish_weighing(task.device) - self._resident
            if state.global_step == task.before + task.updates:
                self.seconds, self.cpu_seconds = (
                    end - start for start, end in zip(self._clock, self._now(), strict=True)
                )
                if task.profile:
                    self.profiler = torch.profiler.profile(record_shapes=False)
                    self.profiler.start()
            if state.global_step == task.before + task.updates + 1:
                self._now()
                self.profiler.stop()

        def count(self, step, batches):
            if task.before <= step < task.before + task.updates:
                for batch in batches:
                    # read later: int() would wait
                    self.tokens[0] = self.tokens[0] + batch["attention_mask"].sum()
                    self.tokens[1] = self.tokens[1] + (batch["labels"] != -100).sum()

        @staticmethod
        def _now():
            if task.device != "cpu":
                torch.accelerator.synchronize()
            return time.perf_counter(), time.process_time()

    return Meter()


def resident_mib(name: str) -> float:
    """A figure of /proc/self/status:

    VmRSS, resident now, or VmHWM, at most since the last reset.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def start_weighing(device: str) -> float:
    """MiB held now; what was freed is given back first, and the peak starts anew."""
    if device == "cpu":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return resident_mib("VmRSS")
    import torch

    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated() / 2**20


def finish_weighing(device: str) -> float:
    """MiB held at most since `start_weighing`."""
    import torch

    return resident_mib("VmHWM") if device == "cpu" else torch.cuda.max_memory_allocated() / 2**20


def make_trainer(task: Task, folder: str, **options):
    """Trainer of the task's contestant on made-up pairs; the options are training arguments."""
    from transformers import set_seed

    from vaswani_transformer.training.data import default_workers

    set_seed(0)
    defaults = {
        "output_dir": folder,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": task.device == "cpu",
        "bf16": task.bf16,
        "torch_compile": task.compile,
        "learning_rate": 1e-4,
        "optim": "adamw_torch_fused",
        "dataloader_num_workers": default_workers(task.device == "cpu"),
        "seed": 0,
    }
    make = our_trainer if task.contestant == "ours" else marian_trainer
    return make(
        task, synthetic_pairs(task.size, task.tokens), make_tokenizer(), {**defaults, **options}
    )


def as_the_command(contestant: str):
    """Lets our threads wait as those of the console command do."""
    from vaswani_transformer.cores import share_cores

    return share_cores() if contestant == "ours" else contextlib.nullcontext()


def measure(task: Task, **options) -> dict:
    """Trains a few updates in this process; the options are training arguments."""
    import torch

    torch.set_num_threads(task.threads)
    with tempfile.TemporaryDirectory() as folder, as_the_command(task.contestant):
        num_updates = task.before + task.updates + task.profile
        trainer = make_trainer(task, folder, max_steps=num_updates, **options)
        meter, get_batches = make_meter(task), trainer.get_batch_samples

        def counting(*args, **kwargs):
            batches, num_items = get_batches(*args, **kwargs)
            meter.count(trainer.state.global_step, batches)
            return batches, num_items

        trainer.get_batch_samples = counting
        trainer.add_callback(meter)
        loss = trainer.train().training_loss
    return {**figures(task, meter), "loss": loss}


def figures(task: Task, meter) -> dict:
    """Report of a process."""
    import torch

    from vaswani_transformer import VaswaniTransformerConfig
    from vaswani_transformer.analysis.cost import measure_matrix_rate, training_flops

    config = VaswaniTransformerConfig(vocab_size=VOCABULARY[task.size], **SIZES[task.size])
    meter.tokens = [int(each) for each in meter.tokens]
    memory = {}
    if task.device != "cpu":  # before the matrices below
        memory["allocated_gib"] = torch.cuda.max_memory_allocated() / 2**30
        memory["reserved_gib"] = torch.cuda.max_memory_reserved() / 2**30
    flops = training_flops(config, *meter.tokens)
    rate = measure_matrix_rate(
        torch.device(task.device), torch.bfloat16 if task.bf16 else torch.float32
    )
    return {
        "tokens_per_second": sum(meter.tokens) / meter.seconds,
        "target_tokens_per_second": meter.tokens[1] / meter.seconds,
        "tokens_per_cpu_second": sum(meter.tokens) / meter.cpu_seconds,
        "milliseconds": 1000 * meter.seconds / task.updates,
        "activation_mib": meter.peak_mib,
        **memory,
        "utilization": flops / meter.seconds / rate,
        "flops_per_second": flops / meter.seconds,
        "operations": operations_of(meter.profiler, task.device) if task.profile else [],
    }


def kind_of(name: str) -> str:
    """Kind of an operator or kernel."""
    for kind, parts in _KINDS.items():
        if any(part in name.lower() for part in parts):
            return kind
    return "everything else"


def operations_of(profiler, device: str) -> list[dict]:
    """Operators of the profiled update on a CPU, or kernels on a GPU, longest first.

    The profiler adds a kernel's time to its operator and to the user's annotation around it, which
    are left out here.
    """
    from torch.autograd import DeviceType

    rows = []
    for event in profiler.key_averages():
        if device == "cpu":
            microseconds = event.self_cpu_time_total
        elif event.device_type == DeviceType.CUDA and not event.is_user_annotation:
            microseconds = event.self_device_time_total
        else:
            continue
        rows.append(
            {
                "kind": kind_of(event.key),
                "name": event.key,
                "calls": event.count,
                "ms": microseconds / 1000,
            }
        )
    return sorted(rows, key=lambda row: -row["ms"])


def time_by_kind(operations: list[dict]) -> dict[str, float]:
    """Milliseconds of each kind, longest first."""
    times: dict[str, float] = {}
    for row in operations:
        times[row["kind"]] = times.get(row["kind"], 0.0) + row["ms"]
    return dict(sorted(times.items(), key=lambda item: -item[1]))


# ---- in the process that compares ----


def run(task, script: str = __file__) -> dict:
    """Figures of one fresh process."""
    command = [sys.executable, script, "--task", json.dumps(vars(task))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(task.threads)}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{task} failed:\n{finished.stderr[-3000:]}")
    return json.loads(finished.stdout.splitlines()[-1])


def run_rounds(tasks: dict, num_rounds: int, script: str = __file__) -> list[dict[str, dict]]:
    """Figures of each contestant in each round."""
    return [{name: run(task, script) for name, task in tasks.items()} for _ in range(num_rounds)]


def spread(ratios: list[float]) -> str:
    """Median and range of sorted ratios."""
    return f"{statistics.median(ratios):.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"


def report(contestants: list[str], rounds: list[dict[str, dict]], clock: str) -> None:
    """Prints medians of every contestant, and of its ratios in each round to Marian, or else to the
    last contestant.
    """
    reference = "marian" if "marian" in contestants else contestants[-1]
    speed = "tokens_per_second" if clock == "wall" else "tokens_per_cpu_second"
    print(
        f"{'':16}{'tokens/s':>10}  "
        f"{'x ' + reference:>20}{'activations MiB':>18}{'of peak FLOP/s':>16}{'loss':>8}"
    )
    for name in contestants:
        own = [turn[name] for turn in rounds]
        ratios = sorted(turn[name][speed] / turn[reference][speed] for turn in rounds)
        middle = {
            key: statistics.median(one[key] for one in own)
            for key in (speed, "activation_mib", "utilization")
        }
        print(
            f"{name:16}{middle[speed]:10,.0f}  {spread(ratios):>20}"
            f"{middle['activation_mib']:18,.0f}"
            f"{middle['utilization']:16.1%}{own[0]['loss']:8.3f}"
        )
    for name in contestants:
        times = time_by_kind(rounds[-1][name]["operations"])
        if times:
            total = sum(times.values())
            print(
                f"{name}'s time: "
                + ", ".join(f"{kind} {time / total:.1%}" for kind, time in times.items())
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("python scripts")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), help="who runs"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--updates", type=int, default=5, help="updates timed in each turn")
    parser.add_argument(
        "--tokens",
        type=int,
        help="source and target tokens of an update, each; None: 4,096 on CPUs",
    )
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), help="threads of torch on a CPU"
    )
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor seconds"
    )
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--compile", action="store_true", help="compile the models")
    parser.add_argument("--profile", action="store_true", help="list where the time goes")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(measure(Task(**json.loads(args.task)))))
        return
    tokens = args.tokens or TOKENS[args.device]
    common = (
        args.size,
        args.device,
        tokens,
        args.updates,
        args.threads,
        args.bf16,
        args.compile,
        args.profile,
    )
    tasks = {name: Task(name, *common) for name in args.contestants}
    report(args.contestants, run_rounds(tasks, args.rounds), args.clock)


if __name__ == "__main__":
    main()
