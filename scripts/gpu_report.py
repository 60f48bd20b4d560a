# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures this package on one GPU, in order of worth, and writes gpu_report.md and gpu_report.json after every row.

A section that fails leaves its traceback there and the next one begins; what the time did not reach is listed. On a
CPU it runs at toy sizes, which show that it works and nothing about speed.

python scripts/gpu_report.py --minutes 9 --output report
python scripts/gpu_report.py --only correctness decoding

The package need not be installed. Where transformers is older than pyproject.toml allows and there is no network,
carry wheels: 15 MB for Python 3.12, beside an image with torch 2.11, tokenizers, accelerate, pyarrow and pandas.

pip download --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 -d wheels \
    transformers datasets dill multiprocess xxhash
pip install --no-index --no-deps --target site wheels/*.whl && PYTHONPATH=site python scripts/gpu_report.py
"""

import argparse
import copy
import functools
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

torch.backends.cuda.enable_cudnn_sdp(False)  # which makes a plan of its own for each shape, for Marian, too
IS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if IS_GPU else "cpu"
NAME = torch.cuda.get_device_name() if IS_GPU else f"CPU, {torch.get_num_threads()} thread(s)"
PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "datasets", "triton", "flash_attn", "ctranslate2")
# Dense products in bf16 (of V100 and T4 fp16) by the makers' data sheets, in TFLOP/s, by a part of the name.
DATA_SHEETS = {"H200": 989, "H100 80GB HBM3": 989, "H100 PCIe": 756, "A100": 312, "L4": 121, "V100": 125, "T4": 65}
DATA_SHEET = next((rate for part, rate in DATA_SHEETS.items() if part in NAME), None)
PRECISIONS = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# The small model that correctness trains: pairs, seconds, real tokens a side of an update, compared sentences.
PAIRS, SECONDS, TOKENS, COMPARED = (60_000, 45, 4000, 64) if IS_GPU else (300, 1, 300, 4)
DECODED, TURNS = ((1, 32, 128, 512), 2) if IS_GPU else ((1, 3), 1)
UPDATES, SAVE_STEPS, KILL_AT = (30, 10, 17) if IS_GPU else (5, 2, 3)  # of the runs that resume compares


class TimeOverError(BaseException):
    """The time of the report is over, whatever a section is waiting for."""


# ---- sections: each yields rows, and its docstring defines the figures ----


def machine():
    """Versions, and rates of square products of random matrices by the model's linear layer, in TFLOP/s."""
    versions = {each: importlib.metadata.version(each) for each in PACKAGES if importlib.util.find_spec(each)}
    yield {"Python": platform.python_version(), "cuDNN": torch.backends.cudnn.version(), **versions}
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30 if IS_GPU else None
    yield {"device": NAME, "GiB": memory, "CUDA": torch.version.cuda, "cores": os.cpu_count()}
    from vaswani_transformer.analysis.cost import measure_matrix_rate
    from vaswani_transformer.version import code_version

    row = {"code": code_version(), "data sheet, bf16": DATA_SHEET}
    for name, dtype in PRECISIONS.items() if IS_GPU else [("fp32", torch.float32)]:
        use_tf32(name == "tf32")
        row[name] = measure_matrix_rate(torch.device(DEVICE), dtype) / 1e12
    use_tf32(False)
    yield row


def correctness(is_flex=False):
    """A small model, trained here in fp32 on the built-in corpus, against itself on the CPU in fp32.

    Logits: largest difference, over real target tokens. Loss and gradients: relative differences of the smoothed loss,
    in autocast for bf16 and fp16, and of all gradients as one vector. Greedy and beam: share of test sentences whose
    translation, by weights in that precision, greedy and by beam 4, has the same tokens.
    """
    from transformers.utils import is_flash_attn_2_available
    from transformers.utils.import_utils import is_torch_flex_attn_available

    model, batch, num_updates = train_small_model()
    reference = copy.deepcopy(model).cpu()
    expected, translations = outcome(reference, batch, "fp32"), translate(reference, batch)
    yield {"trained": f"{num_updates} updates", "smoothed loss of test pairs": expected[1].item()}
    kinds = ["sdpa", "eager"] + ["flash_attention_2"] * is_flash_attn_2_available()
    for kind in ["flex_attention"] * is_torch_flex_attn_available() if is_flex else kinds:
        for precision, dtype in PRECISIONS.items():
            if ("flash" in kind and dtype == torch.float32) or (not IS_GPU and precision not in ("fp32", "bf16")):
                continue
            row = {"attention": kind, "precision": precision}
            try:
                model.set_attn_implementation(kind)
                use_tf32(precision == "tf32")
                logits, loss, grads = zip(outcome(model, batch, precision), expected, strict=True)
                row["logits"] = (logits[0] - logits[1]).abs().max().item()
                row["loss"] = (loss[0] / loss[1] - 1).item()
                row["gradients"] = ((grads[0] - grads[1]).norm() / grads[1].norm()).item()
                for name, rows in translate(copy.deepcopy(model).to(dtype), batch).items():
                    same = [first == second for first, second in zip(rows, translations[name], strict=True)]
                    row[name] = sum(same) / len(same)
            except Exception as error:
                row["problem"] = f"{type(error).__name__}: {str(error)[:200]}"
            yield row


def flex_attention():
    """As correctness, with an attention that is compiled for each precision."""
    yield from correctness(is_flex=True)


def synchronisations():
    """Counts the waits of the host for the GPU, by torch.cuda.set_sync_debug_mode, and the lines of most of them.

    Of an update: 16 less 6, of base in bf16 without logging. Of a decoding step: 40 tokens less 20, of 32 sentences.
    """
    import benchmark_decoding
    import benchmark_training as benchmark

    task = benchmark.Task("ours", "base", DEVICE, 25_000, 16, 1, True, False)
    with tempfile.TemporaryDirectory() as folder:
        trainers = {steps: benchmark.make_trainer(task, folder, max_steps=steps) for steps in (6, 16)}
        yield {"of": "an update", **waits_of(lambda steps: trainers[steps].train(), 6, 16)}
    model = trainers[16].model.bfloat16().eval()
    vars(model).pop("forward", None)  # in autocast, which our search leaves to transformers'
    sentences = benchmark_decoding.synthetic_sentences(benchmark_decoding.Workload("base", 4, 32, 32))
    for num_beams in (1, 4):

        def decode(steps, num_beams=num_beams):
            no_word = benchmark_decoding.NO_WORD
            options = {"num_beams": num_beams, "eos_token_id": no_word, "max_new_tokens": steps}
            benchmark_decoding.translate(model, [(sentences, None)], options)

        decode(20)
        yield {"of": f"a decoding step, beam {num_beams}", **waits_of(decode, 20, 40)}


def training_base():
    """Updates of up to 25,000 real tokens a side, of made-up pairs; contestants take turns, each in a fresh process.

    Target tokens/s: real ones over the wall time of 20 updates, after 5 (compiled: 20). % of peak: operations of all
    real tokens (`analysis.cost.training_flops`) over what square bf16 products reach in that process, or over the data
    sheet. MiB: most that the second update allocates beyond weights and Adam. Marian: MarianMTModel under
    Seq2SeqTrainer, with our batches.
    """
    yield from measure_training("base")


def training_big():
    """As training-base."""
    yield from measure_training("big")


def training_compiled():
    """As training-base, with torch_compile=True."""
    yield from measure_training("base", is_compiled=True)


def decoding():
    """Beam 4, random weights, 30 tokens of every sentence, one batch; tokens/s: of the best hypotheses, by `generate`.

    After a first call the contestants take turns; bf16 on a GPU. CTranslate2, if installed: the same weights in fp16.
    """
    import benchmark_decoding as benchmark

    size = "base" if IS_GPU else "tiny"
    ours = benchmark.make_ours(SimpleNamespace(model=None), benchmark.Workload(size, 4, 1, 1))
    models = {"ours": copy.deepcopy(ours), "marian": benchmark.make_marian(ours)}
    models = {name: model.to(DEVICE, PRECISIONS["bf16" if IS_GPU else "fp32"]) for name, model in models.items()}
    options = {"num_beams": 4, "eos_token_id": benchmark.NO_WORD, "max_new_tokens": benchmark.NUM_STEPS}
    calls = {name: functools.partial(benchmark.translate, model) for name, model in models.items()}
    if IS_GPU and importlib.util.find_spec("ctranslate2"):
        calls["ctranslate2"] = ctranslate2_of(ours)
    for count in DECODED:
        sentences = benchmark.synthetic_sentences(benchmark.Workload(size, 4, count, count))
        for turn in range(-1, TURNS):
            for name, call in calls.items():
                started = time.perf_counter()
                rate = call([(sentences, None)], options) / (time.perf_counter() - started)
                if turn >= 0:
                    yield {"sentences": count, "by": name, "turn": turn, "tokens/s": rate}


def resume():
    """A run that kills itself with SIGKILL behind its checkpoint and is resumed, whole ones, and one with NCCL.

    The hash is that of all weights after the last update; two whole runs show what the device itself repeats.
    """
    torchrun = ("-m", "torch.distributed.run", "--nproc_per_node", "1")
    runs = [("whole", "whole", 0, ()), ("killed", "killed", KILL_AT, ()), ("resumed", "killed", 0, ())]
    runs += [("whole again", "again", 0, ())] + [("one process under torchrun", "nccl", 0, torchrun)] * IS_GPU
    with tempfile.TemporaryDirectory() as folder:
        for run, place, kill_at, launcher in runs:
            job = {"folder": f"{folder}/{place}", "kill_at": kill_at}
            found = {"weights": "killed"} if kill_at and IS_GPU else None if IS_GPU else train_and_hash(**job)
            if IS_GPU:
                command = [sys.executable, *launcher, __file__, "--job", json.dumps(job)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != (-signal.SIGKILL if kill_at else 0):
                    raise RuntimeError(f"{run}: {done.returncode}\n{done.stderr[-2500:]}")
            yield {"run": run, **(found or json.loads(done.stdout.splitlines()[-1]))}


_ORDER = (machine, correctness, synchronisations, training_base, decoding, resume, training_big)
_ORDER += (training_compiled, flex_attention)
SECTIONS = {section.__name__.replace("_", "-"): section for section in _ORDER}
NEED_GPU = ("synchronisations", "training-big", "training-compiled", "flex-attention")


# ---- parts of sections ----


def train_small_model():
    """A model that is trained for some seconds on the built-in corpus, a batch of test pairs, and the updates."""
    import benchmark_training as benchmark
    from transformers import TrainerCallback

    from vaswani_transformer import data

    train, test = (data.load_corpus(dataset="builtin", split=split) for split in ("train", "test"))
    train, test, times = train.select(range(PAIRS)), test.select(range(COMPARED)), []
    tokenizer = data.train_tokenizer(sentences=data.corpus_sentences(train), vocab_size=6000 if IS_GPU else 400)
    train, test = (data.tokenize_corpus(each, tokenizer) for each in (train, test))

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            times.append(time.monotonic())
            control.should_training_stop = times[-1] - times[0] > SECONDS

    task = benchmark.Task("ours", "tiny", DEVICE, TOKENS, 0, 1, False, False)
    schedule = {"max_steps": 100_000, "warmup_steps": 400, "learning_rate": None}
    with tempfile.TemporaryDirectory() as folder:
        trainer = benchmark.make_trainer(task, folder, train, tokenizer, **schedule)
        trainer.add_callback(Stop())
        trainer.train()
    return trainer.model.eval(), data.TranslationCollator(tokenizer)(test.to_list()), len(times)


def use_tf32(is_on):
    """Makes products of fp32 matrices in TF32, or exactly; a CPU has one way."""
    if IS_GPU:
        torch.backends.fp32_precision = "tf32" if is_on else "ieee"


def outcome(model, batch, precision):
    """Logits of real target tokens, loss and all gradients as one vector, on the CPU in fp32."""
    dtype, device = PRECISIONS[precision], model.device.type
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    with torch.autocast(device, dtype, enabled=dtype != torch.float32):
        with torch.no_grad():
            logits = model(**batch, use_cache=False).logits[batch["labels"] != -100]
        loss = model(**batch, smoothing=0.1, use_cache=False, return_logits=False).loss
    model.zero_grad()
    (loss * 2**10).backward()  # fp16 would lose small gradients; to the others it changes no digit
    grads = torch.cat([weight.grad.flatten() for weight in model.parameters()]) / 2**10
    return [each.detach().float().cpu() for each in (logits, loss, grads)]


def translate(model, batch):
    """Token ids without padding, by greedy and by beam search."""
    inputs = {name: batch[name].to(model.device) for name in ("input_ids", "attention_mask")}
    found = {name: model.generate(**inputs, num_beams=beams) for name, beams in (("greedy", 1), ("beam", 4))}
    return {name: [[token for token in row if token] for row in rows.tolist()] for name, rows in found.items()}


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
        found = [each for each in found if "synchroniz" in str(each.message)]
        counts.append(Counter(f"{'/'.join(Path(each.filename).parts[-2:])}:{each.lineno}" for each in found))
    more = counts[1] - counts[0]
    most = ", ".join(f"{place} x {count / (many - few):g}" for place, count in more.most_common(5))
    return {"synchronisations": more.total() / (many - few), "most of them": most}


def measure_training(size, is_compiled=False):
    """Rows of a training section."""
    import benchmark_training as benchmark

    layout = (size, DEVICE, 25_000, 20, os.cpu_count(), True) if IS_GPU else ("tiny", DEVICE, 256, 1, 1, False)
    for turn in range(TURNS):
        for name in ("ours", "marian") if IS_GPU else ("ours",):
            task = benchmark.Task(name, *layout, is_compiled, before=20 if is_compiled else 5)
            found = benchmark.run(task) if IS_GPU else benchmark.measure(task)
            row = {"by": name, "turn": turn, "target tokens/s": found["target_tokens_per_second"]}
            row |= {"% of peak": 100 * found["utilization"], "MiB": found["activation_mib"], "loss": found["loss"]}
            yield {**row, "% of data sheet": DATA_SHEET and found["flops_per_second"] / DATA_SHEET / 1e10}


def ctranslate2_of(model):
    """`benchmark_decoding.translate` by CTranslate2 with the weights of `model`."""
    import benchmark_training as benchmark
    import ctranslate2

    from vaswani_transformer.export.ctranslate2 import VaswaniTransformerLoader

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
        return sum(len(each.hypotheses[0]) for each in engine.translate_batch(texts, beam_size=4, **limits))

    return translate


def train_and_hash(folder, kill_at):
    """Trains from the newest checkpoint in the folder, if there is one; SHA-256 of the weights (its beginning)."""
    import benchmark_training as benchmark
    from transformers import TrainerCallback

    class Kill(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == kill_at and "--job" in sys.argv:
                os.kill(os.getpid(), signal.SIGKILL)
            control.should_training_stop |= state.global_step == kill_at

    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(IS_GPU, warn_only=True)
    task = benchmark.Task("ours", "tiny", DEVICE, 3000 if IS_GPU else 150, UPDATES, os.cpu_count(), False, False)
    saving = {"save_strategy": "steps", "save_steps": SAVE_STEPS}
    trainer = benchmark.make_trainer(task, folder, max_steps=UPDATES, dataloader_num_workers=0, **saving)
    trainer.add_callback(Kill())
    trainer.train(resume_from_checkpoint=any(Path(folder).glob("checkpoint-*")))
    weights = b"".join(each.detach().cpu().numpy().tobytes() for each in trainer.model.parameters())
    backend = torch.distributed.get_backend() if torch.distributed.is_initialized() else "none"
    return {"weights": hashlib.sha256(weights).hexdigest()[:16], "backend": backend}


# ---- the report ----


def write(folder, report):
    """Writes both files beside their places and renames them."""
    missed = ", ".join(report["not_reached"]) or "none"
    parts = [f"# GPU report\n\n{report['device']}, {report['seconds']:.0f} s. Not reached: {missed}."]
    for name, section in report["sections"].items():
        parts.append(f"## {name}\n\n{section['definition']}\n\n{section['problem']}".rstrip())
        for index, row in enumerate(section["rows"]):
            if index == 0 or row.keys() != section["rows"][index - 1].keys():
                parts.append(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
            cells = (f"{each:,.4g}" if type(each) is float and each < 1000 else each for each in row.values())
            cells = (f"{each:,.0f}" if type(each) is float else str(each) for each in cells)
            parts[-1] += f"\n| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"gpu_report.json": json.dumps(report, indent=2), "gpu_report.md": "\n\n".join(parts) + "\n"}
    for name, text in texts.items():
        (folder / f"{name}.new").write_text(text, encoding="utf-8")
        (folder / f"{name}.new").replace(folder / name)


def run_sections(names, folder, minutes):
    """Runs sections until the time is over, and returns the report."""
    started, sections = time.monotonic(), {}
    report = {"device": NAME, "minutes": minutes, "seconds": 0.0, "not_reached": [*names], "sections": sections}

    def end(number, frame):
        raise TimeOverError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    try:
        for name in names:
            definition, can_run = " ".join(SECTIONS[name].__doc__.split()), IS_GPU or name not in NEED_GPU
            sections[name] = {"definition": definition, "rows": []}
            sections[name]["problem"] = "" if can_run else f"{name} needs a GPU."
            try:
                for row in SECTIONS[name]() if can_run else ():
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
    parser.add_argument("--minutes", type=float, default=9, help="after which it stops (default: 9)")
    parser.add_argument("--output", type=Path, default=Path("gpu_report"), help="folder of the report")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=[*SECTIONS], help="sections, in this order")
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.job:
        print(json.dumps(train_and_hash(**args.job)))
        return
    report = run_sections(args.only, args.output, args.minutes)
    print(f"{args.output}/gpu_report.md; not reached: {', '.join(report['not_reached']) or 'none'}")


if __name__ == "__main__":
    main()
