# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Validation BLEU against minutes of processor time: ours, MarianMTModel under Seq2SeqTrainer, and
JoeyNMT.

All three train on the same text with the same vocabulary, sizes, rates and tokens of an update, one
after the other, each until it has used up its minutes; validations, greedy and scored by sacreBLEU,
count as time. What differs is what each toolkit brings: model code, initialization, batching
(JoeyNMT's tokens include padding), loss. `--joeynmt` is the Python of an environment with it.

python scripts/benchmark_quality.py --texts train.en train.de val.en val.de --minutes 120
--output-dir runs/quality
"""

import argparse
import dataclasses
import itertools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import sacrebleu
from benchmark_training import marian_config
from transformers import (
    DataCollatorForSeq2Seq,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from vaswani_transformer import VaswaniTransformerTokenizer
from vaswani_transformer.data import (
    TokenBatchSampler,
    load_corpus,
    read_lines,
    tokenize_corpus,
    train_tokenizer,
)
from vaswani_transformer.data.preparation import pair_lengths
from vaswani_transformer.evaluation.metrics import make_compute_metrics
from vaswani_transformer.training.recipes import get_recipe

MANY = 10**6  # updates
SHARED = (
    "learning_rate",
    "warmup_steps",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "label_smoothing_factor",
    "seed",
)


JOEYNMT = """
name: quality
model_dir: {folder}/joeynmt
use_cuda: False
random_seed: {recipe.seed}
data:
  dataset_type: plain
  train: {folder}/pieces/train
  dev: {folder}/pieces/val
  src: &side {{lang: src, level: word, voc_file: {folder}/pieces/vocab, max_length: 256}}
  trg: {{<<: *side, lang: trg}}
  special_symbols:
    {{unk_token: <unk>, pad_token: <pad>, bos_token: <s>, eos_token: </s>, unk_id: 0, pad_id: 1, bos_id: 2, eos_id: 3}}
model:
  initializer: xavier_uniform
  embed_initializer: xavier_uniform
  tied_embeddings: True
  tied_softmax: True
  encoder: &stack
    type: transformer
    num_layers: {sizes.num_encoder_layers}
    num_heads: {sizes.num_heads}
    hidden_size: {sizes.d_model}
    ff_size: {sizes.d_ff}
    dropout: {sizes.dropout}
    layer_norm: post
    embeddings: {{embedding_dim: {sizes.d_model}, scale: True, dropout: {sizes.dropout}}}
  decoder: {{<<: *stack, num_layers: {sizes.num_decoder_layers}}}
training:
  optimizer: adam
  adam_betas: [0.9, {recipe.adam_beta2}]
  scheduling: warmupinversesquareroot
  learning_rate: {recipe.learning_rate}
  learning_rate_warmup: {recipe.warmup_steps}
  learning_rate_min: 0.0
  clip_grad_norm: {clip}
  normalization: tokens
  loss: crossentropy
  label_smoothing: {recipe.label_smoothing_factor}
  batch_type: token
  batch_size: {recipe.max_target_tokens_per_batch}
  max_updates: 1000000
  epochs: 1000000
  validation_freq: {recipe.eval_steps}
  logging_freq: {recipe.eval_steps}
  early_stopping_metric: loss
  overwrite: True
  print_valid_sents: []
testing: {{beam_size: 1, eval_metrics: [bleu], batch_type: sentence, batch_size: 64, max_output_length: 128}}
"""  # noqa: E501


def chosen_recipe(args):
    tokens = {f"max_{side}_tokens_per_batch": args.tokens for side in ("source", "target")}
    names = ("train_source", "train_target", "validation_source", "validation_target")
    values = {
        "tokenizer": str(args.output_dir / "tokenizer"),
        "max_steps": MANY,
        "eval_steps": args.eval_steps,
    }
    values |= {
        "save_steps": args.eval_steps,
        "generation_num_beams": 1,
        "early_stopping_patience": None,
    }
    recipe = get_recipe(
        args.recipe, **values, **tokens, **dict(zip(names, args.texts, strict=True))
    )
    return dataclasses.replace(recipe, learning_rate=recipe.peak_learning_rate)


def ours(args, recipe):
    original = get_recipe(args.recipe)
    changed = {
        name: value for name, value in vars(recipe).items() if value != getattr(original, name)
    }
    words = [
        str(word)
        for name, value in changed.items()
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    folder = ["--output-dir", str(args.output_dir / "ours")]
    command = [
        sys.executable,
        "-m",
        "vaswani_transformer.cli",
        "train",
        "--use-cpu",
        "--recipe",
        args.recipe,
    ]
    return [*command, *folder, *words]


def marian(args, recipe):
    return [sys.executable, __file__, "--train-marian", *sys.argv[1:]]


def train_marian(args, recipe):
    """`Seq2SeqTrainer` as its users have it, with as many sentences a batch as ours on average."""
    tokenizer = VaswaniTransformerTokenizer.from_pretrained(recipe.tokenizer)
    corpora = (load_corpus(**recipe.data_arguments(split)) for split in ("train", "validation"))
    train, validation = (tokenize_corpus(corpus, tokenizer) for corpus in corpora)
    batches = TokenBatchSampler(
        *pair_lengths(train), max_source_tokens=args.tokens, max_target_tokens=args.tokens
    )
    model = MarianMTModel(marian_config(recipe.model_config(len(tokenizer))))
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(args.output_dir / "marian"),
        per_device_train_batch_size=round(len(train) / batches.num_effective_batches),
        per_device_eval_batch_size=64,
        train_sampling_strategy="group_by_length",
        length_column_name="target_length",
        lr_scheduler_type="inverse_sqrt",
        max_steps=MANY,
        eval_strategy="steps",
        eval_steps=args.eval_steps,
        save_strategy="no",
        logging_steps=args.eval_steps,
        predict_with_generate=True,
        generation_num_beams=1,
        generation_max_length=128,
        disable_tqdm=True,
        use_cpu=True,
        report_to=[],
        **{name: getattr(recipe, name) for name in SHARED},
    )
    Seq2SeqTrainer(
        model,
        arguments,
        DataCollatorForSeq2Seq(tokenizer, model),
        train,
        validation,
        processing_class=tokenizer,
        compute_metrics=make_compute_metrics(tokenizer, recipe.target_language),
    ).train()


def joeynmt(args, recipe):
    """Its command, on words that are our tokens, so that the vocabulary is the same."""
    folder, tokenizer = (
        args.output_dir / "pieces",
        VaswaniTransformerTokenizer.from_pretrained(recipe.tokenizer),
    )
    folder.mkdir(exist_ok=True)
    names = ("train.src", "train.trg", "val.src", "val.trg")
    for name, file in zip(names, args.texts, strict=True):
        lines = (" ".join(tokenizer.tokenize(line)) for line in read_lines(file))
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    vocabulary = ["<unk>", *tokenizer.convert_ids_to_tokens(range(len(tokenizer)))]
    (folder / "vocab").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    values = {
        "folder": args.output_dir.resolve(),
        "recipe": recipe,
        "sizes": recipe.model_config(len(tokenizer)),
    }
    values["clip"] = recipe.max_grad_norm or "null"
    (folder / "config.yaml").write_text(JOEYNMT.format(**values), encoding="utf-8")
    return [args.joeynmt, "-m", "joeynmt", "train", str(folder / "config.yaml"), "--skip-test"]


def bleu_of_pieces(file, args):
    """sacreBLEU of what JoeyNMT wrote, after its words are joined."""
    tokenizer = VaswaniTransformerTokenizer.from_pretrained(args.output_dir / "tokenizer")
    texts = [
        tokenizer.convert_tokens_to_string(line.split())
        for line in file.read_text(encoding="utf-8").split("\n")[:-1]
    ]
    return sacrebleu.corpus_bleu(texts, [list(read_lines(args.texts[3]))]).score


def validations(name, log, args):
    """(updates, BLEU) of the validations so far."""
    if name == "joeynmt":
        files = {int(file.stem): file for file in (args.output_dir / name).glob("*.hyps")}
        return [(updates, bleu_of_pieces(files[updates], args)) for updates in sorted(files)]
    found = re.findall(r"eval_sacrebleu'?:? '?([\d.]+)", log.read_text(encoding="utf-8"))
    return [(args.eval_steps * number, float(score)) for number, score in enumerate(found, start=1)]


def minutes_of(process):
    """Processor minutes of a process and all that it started."""
    total = 0.0
    for each in [process, *process.children(recursive=True)]:
        times = each.cpu_times()
        total += (
            times.user
            + times.system
            + (times.children_user + times.children_system if each is process else 0.0)
        )
    return total / 60


def watch(name, command, args):
    """Runs a contestant until its minutes are used up; returns its curve of (minutes, updates,
    BLEU).
    """
    log, curve = args.output_dir / f"{name}.log", []
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(args.threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    with log.open("w", encoding="utf-8") as file:
        process = psutil.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    while process.poll() is None:
        time.sleep(2)
        try:
            minutes = minutes_of(process)
        except psutil.NoSuchProcess:
            break
        for updates, score in validations(name, log, args)[len(curve) :]:
            curve.append((round(minutes, 2), updates, round(score, 2)))
            print(
                f"{name}: {updates:,} updates, {minutes:.1f} minutes, BLEU {score:.2f}", flush=True
            )
        if minutes > args.minutes:
            for each in [*process.children(recursive=True), process]:
                each.kill()
    if not curve:
        raise SystemExit(f"{name} ended without a validation: see {log}")
    return curve


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--texts", nargs=4, required=True, help="training source, target, validation source, target"
    )
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=120, help="processor minutes of each")
    parser.add_argument("--recipe", default="multi30k-tiny")
    parser.add_argument("--tokens", type=int, default=3400, help="tokens of each side in an update")
    parser.add_argument("--eval-steps", type=int, default=250)
    parser.add_argument("--vocab-size", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--joeynmt", default=sys.executable)
    parser.add_argument("--contestants", nargs="+", default=["ours", "marian", "joeynmt"])
    parser.add_argument("--train-marian", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.output_dir.mkdir(parents=True, exist_ok=True)
    if not (args.output_dir / "tokenizer").exists():
        train_tokenizer(args.texts[:2], vocab_size=args.vocab_size).save_pretrained(
            args.output_dir / "tokenizer"
        )
    recipe = chosen_recipe(args)
    if args.train_marian:
        train_marian(args, recipe)
        return
    results = args.output_dir / "quality.json"
    curves = json.loads(results.read_text()) if results.exists() else {}
    # those of an earlier call are done
    for name in itertools.filterfalse(curves.__contains__, args.contestants):
        curves[name] = watch(name, globals()[name](args, recipe), args)
        results.write_text(json.dumps(curves))
    print("\n| | minutes to 30 BLEU | best BLEU | at the end | updates |\n|---|---|---|---|---|")
    for name, curve in curves.items():
        reached = next((str(minutes) for minutes, _, score in curve if score >= 30), "not reached")
        print(
            f"| {name} | {reached} | {max(score for *_, score in curve)} | {curve[-1][2]} | "
            f"{curve[-1][1]:,} |"
        )


if __name__ == "__main__":
    main()
