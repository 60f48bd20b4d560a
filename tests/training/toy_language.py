# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A toy language pair, its tokenizer, trainers over it and their losses computed another way."""

import random
import signal

import datasets
import torch
from tiny import SMALLEST, make_config
from transformers import MarianConfig, MarianMTModel, TrainerCallback

from vaswani_transformer import (
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerTokenizer,
)
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

WORDS = {
    "one": "eins",
    "two": "zwei",
    "red": "rot",
    "dog": "Hund",
    "cat": "Katze",
    "sees": "sieht",
    "and": "und",
}


def make_pairs(num_pairs, seed=0):
    """Random word sequences of 1 to 9 words with their word-for-word translations."""
    generator = random.Random(seed)
    sentences = [
        generator.choices(sorted(WORDS), k=generator.randint(1, 9)) for _ in range(num_pairs)
    ]
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in sentences]


def make_tokenizer():
    """Tokenizer of the toy pair, the same in every process."""
    lines = [sentence for pair in make_pairs(50) for sentence in pair]
    return VaswaniTransformerTokenizer().train_new_from_iterator(
        lines, vocab_size=290, show_progress=False
    )


def tokenize(tokenizer, pairs):
    """Tokenised data set with the columns the trainer reads."""
    sources, targets = zip(*pairs, strict=True)
    columns = tokenizer(list(sources), text_target=list(targets))
    ids = {name: columns[name] for name in ("input_ids", "labels")}
    ids["source_length"] = [*map(len, ids["input_ids"])]
    ids["target_length"] = [*map(len, ids["labels"])]
    return datasets.Dataset.from_dict(ids)


TINY = {"vocab_size": 290, **SMALLEST}


def limits(num_tokens):
    """Bounds of the tokens of a batch, the same on both sides."""
    return dict.fromkeys(("max_source_tokens_per_batch", "max_target_tokens_per_batch"), num_tokens)


def tiny_recipe(folder, splits, **fields):
    """Recipe of a tiny model on texts that it writes into a folder; `splits` holds the pairs of
    each.
    """
    files = {}
    for split, pairs in splits.items():
        for number, (side, language) in enumerate((("source", "en"), ("target", "de"))):
            path = folder / f"{split}.{language}"
            path.write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
            files[f"{split}_{side}"] = str(path)
    return Recipe(**{"name": "tiny", **TINY, **files, **fields})


def build_trainer(
    tokenizer,
    train_dataset,
    output_dir,
    *,
    dropout=0.0,
    dtype="float32",
    eval_dataset=None,
    wrap=None,
    extra=None,
    **options,
):
    """Trainer of a new seeded model that `wrap` may replace.

    `extra` goes to the trainer, other keywords are training arguments. Trainings that round
    differently, such as those of two layouts, are compared in float64: in float32 a ReLU near zero
    turns 1e-7 into 1e-3 within a few updates.
    """
    torch.manual_seed(0)
    config = make_config(vocab_size=len(tokenizer), dropout=dropout)
    options = {
        **limits(120),
        "warmup_steps": 10,
        "max_steps": 4,
        "num_averaged_snapshots": 0,
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
        **options,
    }
    model = VaswaniTransformerForConditionalGeneration(config).to(getattr(torch, dtype))
    return VaswaniTransformerTrainer(
        model=model if wrap is None else wrap(model),
        args=VaswaniTransformerTrainingArguments(str(output_dir), **options),
        train_dataset=train_dataset,
        eval_dataset=eval_dataset,
        processing_class=tokenizer,
        **(extra or {}),
    )


def logged(trainer, name):
    """Values of a figure in the log."""
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def check_same_weights(first, second, atol=0):
    """Fails unless two trainers have the same weights, bit for bit unless `atol` is given."""
    torch.testing.assert_close(
        first.model.state_dict(), second.model.state_dict(), rtol=0, atol=atol
    )


def make_marian(_=None):
    """A seeded tiny model of another architecture, also for `wrap`."""
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=300,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).eval()


def naive_sums(model, dataset, smoothing):
    """Sums of smoothed and unsmoothed losses and number of tokens, one sentence at a time, from
    log-probabilities.
    """
    loss, nll, tokens = 0.0, 0.0, 0
    model.eval()
    for row in dataset:
        labels = torch.tensor(row["labels"])
        inputs = torch.cat([torch.tensor([1]), labels[:-1]])
        with torch.no_grad():
            logits = model(torch.tensor([row["input_ids"]]), decoder_input_ids=inputs[None]).logits[
                0
            ]
        log_probs = torch.log_softmax(logits.double(), dim=-1)
        right = -log_probs[torch.arange(len(labels)), labels]
        nll += right.sum().item()
        loss += ((1 - smoothing) * right - smoothing * log_probs.mean(dim=-1)).sum().item()
        tokens += len(labels)
    return loss, nll, tokens


class SignalIn(TrainerCallback):
    """Sends the process a signal during an update."""

    def __init__(self, step, number=signal.SIGINT):
        self.step, self.number = step, number

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step - 1:
            signal.raise_signal(self.number)
