# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast a recipe trains on these devices, and prints what it costs beside Table 2.

A few updates of its model, in its batches, on made-up pairs with the lengths of WMT14; under
torchrun on all devices. No data are read and no file is left.
"""

import argparse
import dataclasses
import os
import tempfile
import time

import datasets
import numpy as np
import pyarrow as pa
import torch
from tables import estimate_cost, format_cost, wrap
from transformers import TrainerCallback

from vaswani_transformer import (
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerTokenizer,
)
from vaswani_transformer.analysis.cost import measure_devices
from vaswani_transformer.data import BATCHES_PER_POOL, clean_corpus
from vaswani_transformer.recipe import get_recipe
from vaswani_transformer.training.data import RunData, cleaning_rules
from vaswani_transformer.training.train import build_trainer, training_arguments

NUM_WARM_UP_UPDATES = 3
MEAN_TOKENS, MAX_TOKENS = 27, 256
# standard deviations of logarithms: of a length, of the sides' ratio
SPREAD, SIDES_SPREAD = 0.55, 0.18


def synthetic_pairs(recipe):
    """Tokenized pairs for 100 updates of a recipe, of lengths and word frequencies as in WMT14's
    text.

    A source has exp(N) tokens with `</s>`, where N is normal with standard deviation 0.55, 27 on
    average; a target is exp(M) times as long, M normal with standard deviation 0.18, 1 on average.
    Both have 2 to 256 tokens. The spreads are those of newstest2013 and newstest2014, and make the
    sides' logarithms correlate by 0.95. Ids are drawn with frequencies that fall as 1 / id. Pairs
    that the recipe would not train on are left out.
    """
    rng = np.random.default_rng(0)
    tokens_per_update = max(recipe.max_source_tokens_per_batch, recipe.max_target_tokens_per_batch)
    num_pairs = -(-BATCHES_PER_POOL * tokens_per_update // MEAN_TOKENS)
    source = MEAN_TOKENS * _log_normal(rng, SPREAD, num_pairs)
    target = source * _log_normal(rng, SIDES_SPREAD, num_pairs)
    lengths = [np.clip(np.rint(side), 2, MAX_TOKENS).astype(np.int32) for side in (source, target)]
    columns = {
        "input_ids": _sentences(rng, lengths[0], recipe.vocab_size),
        "labels": _sentences(rng, lengths[1], recipe.vocab_size),
        "source_length": pa.array(lengths[0]),
        "target_length": pa.array(lengths[1]),
    }
    pairs = datasets.Dataset(
        datasets.table.InMemoryTable.from_pydict(columns), fingerprint="synthetic"
    )
    return clean_corpus(pairs, cleaning_rules(recipe))[0]


def _log_normal(rng, deviation, number):
    """Factors with mean 1."""
    return np.exp(rng.normal(-(deviation**2) / 2, deviation, number))


def _sentences(rng, lengths, vocab_size):
    """Random ids, each sentence ending in `</s>`, without other special tokens."""
    ids = np.exp(rng.uniform(np.log(3), np.log(max(vocab_size, 4)), int(lengths.sum()))).astype(
        np.int32
    )
    ends = np.cumsum(lengths, dtype=np.int32)
    ids[ends - 1] = 2
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], ends]), pa.int32()), pa.array(ids)
    )


class Stopwatch(TrainerCallback):
    """Times the updates of a training after the warm-up, and counts their real tokens over all
    processes.
    """

    def __init__(self, trainer):
        self.trainer, self.readings = trainer, []

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in (NUM_WARM_UP_UPDATES, state.max_steps):
            cost = self.trainer.cost
            cost.settle(self.trainer.accelerator)
            if args.device.type != "cpu":
                torch.accelerator.synchronize(args.device)
            self.readings.append((time.perf_counter(), cost.source_tokens, cost.target_tokens))

    @property
    def measured(self):
        """Seconds, source tokens and target tokens of the timed updates."""
        first, last = self.readings
        return [end - start for start, end in zip(first, last, strict=True)]


def measure_speed(recipe, *, num_updates=10, bf16=False, use_cpu=False):
    """Figures of a few updates of a recipe, the same in every process: tokens, seconds, padding,
    devices.
    """
    measured = dataclasses.replace(
        recipe,
        max_steps=NUM_WARM_UP_UPDATES + num_updates,
        warmup_steps=1,
        learning_rate=1e-4,  # keeps any model from diverging
        num_averaged_snapshots=0,
        load_best_model_at_end=False,
        early_stopping_patience=None,
        generation_num_beams=0,
    )
    with tempfile.TemporaryDirectory(prefix="vaswani-transformer-speed-") as folder:
        arguments = training_arguments(measured, folder, bf16=bf16, use_cpu=use_cpu)
        arguments.eval_strategy = arguments.logging_strategy = arguments.save_strategy = "no"
        data = RunData(VaswaniTransformerTokenizer(), synthetic_pairs(recipe), None)
        trainer = build_trainer(measured, arguments, data, _make_model)
        stopwatch = Stopwatch(trainer)
        trainer.add_callback(stopwatch)
        trainer.train()
        devices = measure_devices(trainer)
    seconds, source_tokens, target_tokens = stopwatch.measured
    seconds = trainer.accelerator.reduce(
        torch.tensor(seconds, device=trainer.args.device), "mean"
    ).item()
    return {
        "num_updates": num_updates,
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
        "seconds": seconds,
        "tokens_per_second": (source_tokens + target_tokens) / seconds,
        "padding_fraction": trainer.train_batches.padding_fraction,
        **devices,
    }


def _make_model(recipe, data):
    """Model with the recipe's vocabulary, which the tokenizer of made-up pairs does not have."""
    return VaswaniTransformerForConditionalGeneration(recipe.model_config())


def describe_speed(speed):
    """Describes what was measured and what was not."""
    return wrap(
        f"Measured on {speed['train_num_devices']} x {speed['train_device']}: "
        f"{speed['num_updates']} update(s) after {NUM_WARM_UP_UPDATES} that warmed up, "
        f"{speed['source_tokens']:,} source and {speed['target_tokens']:,} target tokens in "
        f"{speed['seconds']:,.3g} s; {speed['padding_fraction']:.1%} of padding. The pairs were "
        "made up, with WMT14's lengths; validations, checkpoints and preparing the data come on "
        "top."
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--updates", type=int, default=10, help="updates that are timed")
    parser.add_argument(
        "--max-padded-tokens-per-device", type=int, help="to fit a device's memory, as for train"
    )
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--use-cpu", action="store_true")
    args = parser.parse_args()
    memory = {"max_padded_tokens_per_device": args.max_padded_tokens_per_device}
    recipe = get_recipe(args.recipe, **(memory if args.max_padded_tokens_per_device else {}))
    speed = measure_speed(recipe, num_updates=args.updates, bf16=args.bf16, use_cpu=args.use_cpu)
    if int(os.environ.get("RANK", "0")) == 0:
        rates = {
            "num_devices": speed["train_num_devices"],
            "flops_per_second": speed["train_matrix_flops_per_second"],
        }
        print(
            format_cost(
                estimate_cost(recipe, tokens_per_second=speed["tokens_per_second"], **rates)
            )
        )
        print(describe_speed(speed))


if __name__ == "__main__":
    main()
