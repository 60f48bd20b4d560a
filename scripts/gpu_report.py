# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures this package on one GPU, the most important things first, and writes gpu_report.md and
gpu_report.json after every row.

If a row or section fails, its error is written there and the next one begins. Sections for which
the time did not suffice are listed. On a CPU the script runs at toy sizes, which show that it works
and nothing about speed. On the GPU, the results of a trained model are compared with those that a
CPU computed. Make both on any machine, and take the folder `small` along:

    vaswani-transformer train --recipe quickstart --minutes 1 --output-dir runs/small
    python scripts/gpu_report.py --prepare small --model runs/small

Then, on the GPU:

    python scripts/gpu_report.py --minutes 9 --output report --model small
    python scripts/gpu_report.py --only machine decoding cudnn

The package need not be installed. If the machine has no network and its transformers is older than
pyproject.toml allows, take wheels along. They are 15 MB for Python 3.12, for an image with torch
2.11, tokenizers, accelerate, pyarrow and pandas:

    pip download --no-deps --only-binary=:all: --python-version 3.12 \
        --platform manylinux_2_28_x86_64 -d wheels transformers datasets dill multiprocess xxhash
    pip install --no-index --no-deps --target site wheels/*.whl
    PYTHONPATH=site python scripts/gpu_report.py
"""

import argparse
import copy
import functools
import gc
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")

import torch  # noqa: E402

# which makes a plan of its own for each shape, for Marian, too
torch.backends.cuda.enable_cudnn_sdp(False)
IS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if IS_GPU else "cpu"
NAME = torch.cuda.get_device_name() if IS_GPU else f"CPU, {torch.get_num_threads()} thread(s)"
PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "datasets",
    "triton",
    "flash_attn",
    "ctranslate2",
)
# Dense products in bf16 (of V100 and T4 fp16) by the makers' data sheets, in TFLOP/s, by a part of
# the name.
DATA_SHEETS = {
    "H200": 989,
    "H100 80GB HBM3": 989,
    "H100 PCIe": 756,
    "A100": 312,
    "L40S": 362,
    "L40": 181,
    "L4": 121,
    "V100": 125,
    "T4": 65,
}
DATA_SHEET = next((rate for part, rate in DATA_SHEETS.items() if part in NAME), None)
PRECISIONS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
COMPARED = 64  # test sentences of correctness
DECODED_SIZE, DECODED, TURNS = ("base", (1, 32, 128, 512), 2) if IS_GPU else ("tiny", (1, 3), 1)
MANY_WORKERS = 4 if IS_GPU else 1
LONGEST_KERNELS = 12  # which a training section lists
# of the runs that resume compares
UPDATES, SAVE_STEPS, KILL_AT = (30, 10, 17) if IS_GPU else (5, 2, 3)
NO_GPU = "needs a GPU"


class TimeOverError(BaseException):
    """The time of the report is over, whatever a section is waiting for."""


# ---- sections: each yields rows, and its docstring defines the figures ----


def machine():
    """Versions, and rates of square products of random matrices by the model's linear layer, in
    TFLOP/s.
    """
    versions = {
        each: importlib.metadata.version(each)
        for each in PACKAGES
        if importlib.util.find_spec(each)
    }
    yield {"Python": platform.python_version(), "cuDNN": torch.backends.cudnn.version(), **versions}
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30 if IS_GPU else NO_GPU
    yield {
        "device": NAME,
        "GiB": memory,
        "CUDA": torch.version.cuda or NO_GPU,
        "cores": os.cpu_count(),
    }
    from vaswani_transformer.analysis.cost import measure_matrix_rate
    from vaswani_transformer.loss_vaswani_transformer import _find_kernel
    from vaswani_transformer.version import __version__

    def rate(precision):
        use_tf32(precision == "tf32")
        return {"TFLOP/s": measure_matrix_rate(torch.device(DEVICE), PRECISIONS[precision]) / 1e12}

    yield {"code": __version__, "data sheet, bf16": DATA_SHEET or "unknown"}
    has_kernel = _find_kernel(torch.device(DEVICE), torch.bfloat16) is not None
    yield {"kernel of the loss": "Triton" if has_kernel else "none: operators of PyTorch"}
    for precision in PRECISIONS if IS_GPU else ("fp32",):
        yield attempt({"products in": precision}, rate, precision)


def correctness(model_folder, is_flex=False):
    """The model of --model against what a CPU computed of it in fp32 when --prepare was given.

    Logits: largest difference, over real target tokens. Loss and gradients: relative differences of
    the smoothed loss, in autocast for bf16 and fp16, and of all gradients as one vector. Greedy and
    beam: share of test sentences whose translation, by weights in that precision, greedy and by
    beam 4, has the same tokens.
    """
    from transformers.utils import is_flash_attn_2_available
    from transformers.utils.import_utils import is_torch_flex_attn_available

    model, batch, expected = load_expected(model_folder)
    yield {
        "expected by": expected["code"],
        "torch": expected["torch"],
        "smoothed loss": expected["loss"],
    }
    kinds = ["sdpa", "eager"] + ["flash_attention_2"] * is_flash_attn_2_available()
    for kind in ["flex_attention"] * is_torch_flex_attn_available() if is_flex else kinds:
        for precision, dtype in PRECISIONS.items():
            if ("flash" in kind and dtype == torch.float32) or (
                not IS_GPU and precision not in ("fp32", "bf16")
            ):
                continue
            use_tf32(precision == "tf32")
            row = {"attention": kind, "precision": precision}
            row = attempt(row, compare_update, model, batch, expected, kind, precision)
            if "problem" not in row:
                row = attempt(row, compare_translations, model, batch, expected, dtype)
            yield row


def flex_attention(model_folder):
    """As correctness, with an attention that is compiled for each precision."""
    yield from correctness(model_folder, is_flex=True)


def synchronisations():
    """Counts how often the host waits for the GPU (torch.cuda.set_sync_debug_mode), and names the
    lines of code that wait most.

    Waits of an update: those of 16 updates minus those of 6, divided by 10; base in bf16 without
    logging. Waits of a decoding step: those of 40 tokens minus those of 20, divided by 20; 32
    sentences.
    """
    import benchmark_decoding
    import benchmark_training as benchmark

    def waits_of_update():
        task = benchmark.Task("ours", "base", DEVICE, 25_000, 16, 1, True, False)
        with tempfile.TemporaryDirectory() as folder:
            trainers = {
                steps: benchmark.make_trainer(task, folder, max_steps=steps) for steps in (6, 16)
            }
            return waits_of(lambda steps: trainers[steps].train(), 6, 16)

    def waits_of_step(num_beams):
        workload = benchmark_decoding.Workload("base", num_beams, 32, 32)
        translate = translator_of("ours", workload)
        sentences = benchmark_decoding.synthetic_sentences(workload)

        def decode(steps):
            options = {
                "num_beams": num_beams,
                "eos_token_id": benchmark_decoding.NO_WORD,
                "max_new_tokens": steps,
            }
            translate([(sentences, None)], options)

        decode(20)
        return waits_of(decode, 20, 40)

    yield attempt({"of": "an update"}, waits_of_update)
    for num_beams in (1, 4):
        yield attempt({"of": f"a decoding step, beam {num_beams}"}, waits_of_step, num_beams)


def training_base():
    """Updates of up to 25,000 real tokens a side, of made-up pairs; contestants take turns in this
    process.

    Target tokens/s: real ones over the wall time of 20 updates, after 5 (compiled: 20). Workers:
    processes that read ahead. % of peak: operations of all real tokens
    (`analysis.cost.training_flops`) over what square bf16 products reach then, or over the data
    sheet. MiB: most that the second update allocates beyond weights and Adam. GiB: most that an
    update allocates, and that torch reserves for it. Marian: MarianMTModel under Seq2SeqTrainer,
    with our batches. Then kernels (on a CPU: operators) of an update: all, by kind, the longest. %
    busy: time of all of them over the last ms an update with as many workers.
    """
    yield from measure_training("base", compared_workers=0)


def training_big():
    """As training-base."""
    yield from measure_training("big")


def training_compiled():
    """As training-base, with torch_compile=True."""
    yield from measure_training("base", is_compiled=True)


def decoding():
    """Beam 4, random weights, 30 tokens of every sentence, one batch; tokens/s: of the best
    hypotheses, by `generate`.

    After a first call the contestants take turns; bf16 on a GPU. Captured: whether our steps were
    replayed as a CUDA graph. CTranslate2, if installed: the same weights in fp16.
    """
    import benchmark_decoding as benchmark

    engines = {}

    def measure(name, workload, turn):
        if name not in engines:
            engines[name] = translator_of(name, workload)
        batches = [(benchmark.synthetic_sentences(workload), None)]
        options = {
            "num_beams": 4,
            "eos_token_id": benchmark.NO_WORD,
            "max_new_tokens": benchmark.NUM_STEPS,
        }
        if turn == 0:
            engines[name](batches, options)
        started = time.perf_counter()
        rate = engines[name](batches, options) / (time.perf_counter() - started)
        return {"tokens/s": rate, "captured": has_captured() if name == "ours" else ""}

    names = ["ours", "marian"]
    if IS_GPU and importlib.util.find_spec("ctranslate2"):
        names.append("ctranslate2")
    for count in DECODED:
        workload = benchmark.Workload(DECODED_SIZE, 4, count, count)
        empty_caches()
        for turn in range(TURNS):
            for name in names:
                yield attempt(
                    {"sentences": count, "by": name, "turn": turn}, measure, name, workload, turn
                )


def cudnn():
    """Seconds of one `generate`, 4 tokens of 32 sentences of a length that is new, with cuDNN's
    attention off and on.

    cuDNN makes a plan for each new shape. Our own `generate` should take as long either way. The
    first call also loads kernels.
    """
    import benchmark_decoding as benchmark

    def measure(name):
        translate = translator_of(name, benchmark.Workload(DECODED_SIZE, 4, 32, 32))
        seconds = {}
        for key, is_on, lengths in (
            ("first, s", False, [19]),
            ("off, s", False, [20, 21]),
            ("on, s", True, [30, 31]),
        ):
            torch.backends.cuda.enable_cudnn_sdp(is_on)
            started = time.perf_counter()
            for length in lengths:
                sentences = benchmark.synthetic_sentences(
                    benchmark.Workload(DECODED_SIZE, 4, 32, 32, length)
                )
                options = {"num_beams": 4, "eos_token_id": benchmark.NO_WORD, "max_new_tokens": 4}
                translate([(sentences, None)], options)
            seconds[key] = (time.perf_counter() - started) / len(lengths)
        return {**seconds, "on / off": seconds["on, s"] / seconds["off, s"]}

    for name in ("ours", "marian"):
        yield attempt({"by": name}, measure, name)
        torch.backends.cuda.enable_cudnn_sdp(False)


def resume():
    """Compares hashes of the final weights: of whole runs, of a run that was killed with SIGKILL
    and resumed, and of a run with NCCL.

    The second whole run shows what the device itself repeats.
    """
    torchrun = ("-m", "torch.distributed.run", "--nproc_per_node", "1")
    runs = [
        ("whole", "whole", 0, ()),
        ("killed", "killed", KILL_AT, ()),
        ("resumed", "killed", 0, ()),
    ]
    runs += [("whole again", "again", 0, ())] + [
        ("one process under torchrun", "nccl", 0, torchrun)
    ] * IS_GPU
    with tempfile.TemporaryDirectory() as folder:
        for run, place, kill_at, launcher in runs:
            yield attempt(
                {"run": run}, run_job, {"folder": f"{folder}/{place}", "kill_at": kill_at}, launcher
            )


_ORDER = (
    machine,
    correctness,
    synchronisations,
    training_base,
    decoding,
    cudnn,
    resume,
    training_big,
)
_ORDER += (training_compiled, flex_attention)
SECTIONS = {section.__name__.replace("_", "-"): section for section in _ORDER}
NEED_GPU = ("synchronisations", "training-big", "training-compiled", "flex-attention")
NEED_MODEL = ("correctness", "flex-attention")


# ---- parts of sections ----


def attempt(row, call, *arguments):
    """The row with what the call finds, or with its problem; the traceback goes to stderr."""
    try:
        return {**row, **call(*arguments)}
    except Exception as error:
        traceback.print_exc()
        return {**row, "problem": f"{type(error).__name__}: {str(error)[:300]}"}


def empty_caches():
    """Gives back the GPU's memory that nothing uses."""
    from vaswani_transformer import beam_search_vaswani_transformer as search

    vars(search._OF_THREAD).pop("captured", None)  # a graph keeps its memory
    gc.collect()
    if IS_GPU:
        torch.cuda.empty_cache()


def has_captured():
    """Whether our search has captured a step since `empty_caches`; it forgets its graphs where
    torch captures none.
    """
    from vaswani_transformer import beam_search_vaswani_transformer as search

    if not IS_GPU:
        return NO_GPU
    return "yes" if getattr(search._OF_THREAD, "captured", {}) else "no"


def prepare(folder, trained):
    """Copies a trained model, with test sentences and what this CPU computes of them."""
    from safetensors.torch import save_file

    from vaswani_transformer import data
    from vaswani_transformer.inference.loading import load_for_inference
    from vaswani_transformer.version import __version__

    model, tokenizer = load_for_inference(trained, device="cpu")
    model.eval()
    test = data.load_corpus(dataset="builtin", split="test").select(range(COMPARED))
    batch = data.TranslationCollator(tokenizer)(data.tokenize_corpus(test, tokenizer).to_list())
    logits, loss, gradients = outcome(model, batch, "fp32")
    expected = {
        "code": __version__,
        "torch": torch.__version__,
        "loss": loss.item(),
        **translate(model, batch),
    }
    model.save_pretrained(folder)
    save_file({**batch, "logits": logits, "gradients": gradients}, folder / "expected.safetensors")
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")


def load_expected(folder):
    """What `prepare` has written: the model, a batch, and what is expected."""
    from safetensors.torch import load_file

    from vaswani_transformer import VaswaniTransformerForConditionalGeneration

    model = VaswaniTransformerForConditionalGeneration.from_pretrained(folder).to(DEVICE).eval()
    tensors = load_file(folder / "expected.safetensors")
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    expected |= {name: tensors.pop(name) for name in ("logits", "gradients")}
    return model, tensors, expected


def use_tf32(is_on):
    """Makes products of fp32 matrices in TF32, or exactly; a CPU has one way.

    After `torch.backends.fp32_precision = "tf32"` torch.compile fails, as it asks for the precision
    in the older way.
    """
    if IS_GPU:
        torch.set_float32_matmul_precision("high" if is_on else "highest")


def outcome(model, batch, precision):
    """Logits of real target tokens, loss and all gradients as one vector, on the CPU in fp32."""
    dtype, device = PRECISIONS[precision], model.device.type
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    with torch.autocast(device, dtype, enabled=dtype != torch.float32):
        with torch.no_grad():
            logits = model(**batch, use_cache=False).logits[batch["labels"] != -100]
        loss = model(**batch, label_smoothing_factor=0.1, use_cache=False, return_logits=False).loss
    model.zero_grad()
    (loss * 2**10).backward()  # fp16 would lose small gradients; to the others it changes no digit
    grads = torch.cat([weight.grad.flatten() for weight in model.parameters()]) / 2**10
    return [each.detach().float().cpu() for each in (logits, loss, grads)]


def translate(model, batch):
    """Token ids without padding, by greedy and by beam search."""
    inputs = {name: batch[name].to(model.device) for name in ("input_ids", "attention_mask")}
    found = {
        name: model.generate(**inputs, num_beams=beams)
        for name, beams in (("greedy", 1), ("beam", 4))
    }
    return {
        name: [[token for token in row if token] for row in rows.tolist()]
        for name, rows in found.items()
    }


def compare_update(model, batch, expected, kind, precision):
    """Differences of one update's results from those expected."""
    model.set_attn_implementation(kind)
    logits, loss, gradients = outcome(model, batch, precision)
    difference = (gradients - expected["gradients"]).norm() / expected["gradients"].norm()
    return {
        "logits": (logits - expected["logits"]).abs().max().item(),
        "loss": loss.item() / expected["loss"] - 1,
        "gradients": difference.item(),
    }


def compare_translations(model, batch, expected, dtype):
    """Shares of the sentences that have the expected translation."""
    shares = {}
    for name, rows in translate(copy.deepcopy(model).to(dtype), batch).items():
        same = [row == expected_row for row, expected_row in zip(rows, expected[name], strict=True)]
        shares[name] = sum(same) / len(same)
    return shares


def waits_of(call, few, many):
    """Waits for the GPU of one step of `call`, of which `many` steps are compared with `few`."""
    counts = []
    for steps in (few, many):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                call(steps)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        found = [
            each for each in found if "called a synchronizing CUDA operation" in str(each.message)
        ]
        counts.append(
            Counter(f"{'/'.join(Path(each.filename).parts[-2:])}:{each.lineno}" for each in found)
        )
    more = counts[1] - counts[0]
    most = ", ".join(f"{place} x {count / (many - few):g}" for place, count in more.most_common(5))
    return {"synchronisations": more.total() / (many - few), "most of them": most}


def measure_training(size, is_compiled=False, compared_workers=None):
    """Rows of a training section; with `compared_workers` ours also runs with this number."""
    import benchmark_training as benchmark

    layout = (
        (size, DEVICE, 25_000, 20, os.cpu_count(), True)
        if IS_GPU
        else ("tiny", DEVICE, 256, 1, 1, False)
    )
    before = 20 if is_compiled else 5
    runs = [("ours", MANY_WORKERS), ("marian", MANY_WORKERS)]
    if compared_workers is not None:
        runs.append(("ours", compared_workers))

    def measure(name, num_workers):
        empty_caches()
        task = benchmark.Task(name, *layout, is_compiled, before=before)
        found = benchmark.measure(task, dataloader_num_workers=num_workers)
        if num_workers == MANY_WORKERS:  # as in the profile
            milliseconds[name] = found["milliseconds"]
        return {
            "target tokens/s": found["target_tokens_per_second"],
            "ms an update": found["milliseconds"],
            "% of peak": 100 * found["utilization"],
            "% of data sheet": found["flops_per_second"] / DATA_SHEET / 1e10
            if DATA_SHEET
            else "unknown",
            "MiB": found["activation_mib"],
            "GiB allocated": found.get("allocated_gib", NO_GPU),
            "GiB reserved": found.get("reserved_gib", NO_GPU),
            "loss": found["loss"],
        }

    def profile(name):
        empty_caches()
        task = benchmark.Task(name, *layout, is_compiled, profile=True, before=before)
        operations[name] = benchmark.measure(task, dataloader_num_workers=MANY_WORKERS)[
            "operations"
        ]
        total = sum(row["ms"] for row in operations[name])
        return {
            "kernels, ms": total,
            "% busy": 100 * total / milliseconds[name] if IS_GPU else NO_GPU,
        }

    milliseconds, operations = {}, {}
    for turn in range(TURNS):
        for name, num_workers in runs:
            yield attempt(
                {"by": name, "workers": num_workers, "turn": turn}, measure, name, num_workers
            )
    for name in ("ours", "marian"):  # at last, as a profiler may slow down what follows
        yield attempt({"by": name}, profile, name)
    for name, rows in operations.items():
        for kind, time_of_kind in benchmark.time_by_kind(rows).items():
            yield {"by": name, "kind": kind, "ms": time_of_kind}
    for name, rows in operations.items():
        for row in rows[:LONGEST_KERNELS]:
            yield {"by": name, **row, "name": row["name"][:120]}


def translator_of(name, workload):
    """`benchmark_decoding.translate` by a contestant of the workload's size, in bf16 on a GPU."""
    import benchmark_decoding as benchmark

    model = benchmark.make_ours(SimpleNamespace(model=None), workload)
    if name == "ctranslate2":
        return ctranslate2_of(model)
    if name == "marian":
        model = benchmark.make_marian(model)
    return functools.partial(
        benchmark.translate, model.to(DEVICE, PRECISIONS["bf16" if IS_GPU else "fp32"])
    )


def ctranslate2_of(model):
    """`benchmark_decoding.translate` by CTranslate2 with the weights of `model`."""
    import benchmark_training as benchmark
    import ctranslate2

    from vaswani_transformer.inference.ctranslate2 import VaswaniTransformerLoader

    loader, tokenizer = VaswaniTransformerLoader(), benchmark.make_tokenizer()
    spec, names = loader(model, tokenizer), loader.get_vocabulary(model, tokenizer)
    spec.validate()
    spec.optimize(quantization="float16")
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        engine = ctranslate2.Translator(folder, DEVICE)

    def translate(batches, options):
        texts = [[names[index] for index in each] for each in batches[0][0]]
        limits = {f"{each}_decoding_length": options["max_new_tokens"] for each in ("min", "max")}
        return sum(
            len(each.hypotheses[0]) for each in engine.translate_batch(texts, beam_size=4, **limits)
        )

    return translate


def run_job(job, launcher):
    """What `train_and_hash` finds; on a GPU in a process of its own."""
    if not IS_GPU:
        return train_and_hash(**job)
    command = [sys.executable, *launcher, __file__, "--job", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != (-signal.SIGKILL if job["kill_at"] else 0):
        raise RuntimeError(f"it ended with {done.returncode}: ...{done.stderr[-250:]}")
    return {"weights": "killed"} if job["kill_at"] else json.loads(done.stdout.splitlines()[-1])


def train_and_hash(folder, kill_at):
    """Trains from the newest checkpoint in the folder, if there is one; SHA-256 of the weights (its
    beginning).
    """
    import benchmark_training as benchmark
    from transformers import TrainerCallback

    class Kill(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == kill_at and "--job" in sys.argv:
                os.kill(os.getpid(), signal.SIGKILL)
            control.should_training_stop |= state.global_step == kill_at

    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    # with `warn_only` torch keeps the faster attention, which is not
    torch.use_deterministic_algorithms(IS_GPU)
    task = benchmark.Task(
        "ours", "tiny", DEVICE, 3000 if IS_GPU else 150, UPDATES, os.cpu_count(), False, False
    )
    saving = {"save_strategy": "steps", "save_steps": SAVE_STEPS}
    trainer = benchmark.make_trainer(
        task, folder, max_steps=UPDATES, dataloader_num_workers=0, **saving
    )
    trainer.add_callback(Kill())
    trainer.train(resume_from_checkpoint=any(Path(folder).glob("checkpoint-*")))
    weights = b"".join(each.detach().cpu().numpy().tobytes() for each in trainer.model.parameters())
    backend = torch.distributed.get_backend() if torch.distributed.is_initialized() else "none"
    return {"weights": hashlib.sha256(weights).hexdigest()[:16], "backend": backend}


# ---- the report ----


def write(folder, report):
    """Writes both files beside their places and renames them."""
    missed = ", ".join(report["not_reached"]) or "none"
    parts = [
        f"# GPU report\n\n{report['device']}, {report['seconds']:.0f} s. Not reached: {missed}."
    ]
    for name, section in report["sections"].items():
        parts.append(f"## {name}\n\n{section['definition']}\n\n{section['problem']}".rstrip())
        for index, row in enumerate(section["rows"]):
            if index == 0 or row.keys() != section["rows"][index - 1].keys():
                parts.append(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
            cells = (
                f"{each:,.4g}" if type(each) is float and each < 1000 else each
                for each in row.values()
            )
            cells = (f"{each:,.0f}" if type(each) is float else str(each) for each in cells)
            parts[-1] += (
                f"\n| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} "
                "|"
            )
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "gpu_report.json": json.dumps(report, indent=2),
        "gpu_report.md": "\n\n".join(parts) + "\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.new").write_text(text, encoding="utf-8")
        (folder / f"{name}.new").replace(folder / name)


def run_sections(names, folder, minutes, model_folder=None):
    """Runs sections until the time is over, and returns the report."""
    started, sections = time.monotonic(), {}
    report = {
        "device": NAME,
        "minutes": minutes,
        "seconds": 0.0,
        "not_reached": [*names],
        "sections": sections,
    }

    def end(number, frame):
        raise TimeOverError

    before = signal.signal(signal.SIGALRM, end)
    # Python ignores an error inside of `__del__`, so the alarm is repeated every 5 seconds.
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes, 5)
    try:
        for name in names:
            section, problem = SECTIONS[name], ""
            arguments = [model_folder] if name in NEED_MODEL else []
            if name in NEED_GPU and not IS_GPU:
                problem = f"{name} needs a GPU."
            elif arguments == [None]:
                problem = (
                    f"{name} was left out: it needs --model FOLDER, which --prepare FOLDER makes."
                )
            definition = " ".join(section.__doc__.split())
            sections[name] = {"definition": definition, "rows": [], "problem": problem}
            try:
                empty_caches()
                use_tf32(False)  # an earlier section may have switched it on
                for row in () if problem else section(*arguments):
                    sections[name]["rows"].append(row)
                    report["seconds"] = time.monotonic() - started
                    write(folder, report)
            except TimeOverError:
                sections[name]["problem"] = "Cut off: the time was over."
                break
            except Exception:
                sections[name]["problem"] = f"Failed.\n\n```\n{traceback.format_exc()[-3000:]}```"
            report["not_reached"].remove(name)
            write(folder, report)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        write(folder, report)
    return report


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--minutes", type=float, default=9, help="after which it stops (default: 9)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("gpu_report"), help="folder of the report"
    )
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, default=[*SECTIONS], help="sections, in this order"
    )
    parser.add_argument(
        "--model", type=Path, metavar="FOLDER", help="what --prepare has made, for correctness"
    )
    parser.add_argument(
        "--prepare",
        type=Path,
        metavar="FOLDER",
        help="copy the trained --model with what a CPU makes of it",
    )
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.job:
        print(json.dumps(train_and_hash(**args.job)))
        return
    if args.prepare:
        if args.model is None:
            parser.error("`--prepare` needs a trained model. Add --model FOLDER.")
        prepare(args.prepare, args.model)
        return
    if (args.output / "gpu_report.json").exists():
        parser.error("--output must be a folder without a report")
    report = run_sections(args.only, args.output, args.minutes, args.model)
    print(f"{args.output}/gpu_report.md; not reached: {', '.join(report['not_reached']) or 'none'}")


if __name__ == "__main__":
    main()
