# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How fast a recipe trains on these devices: a few updates of its model, in its batches, on made-up pairs."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import datasets
import numpy as np
import pyarrow as pa
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SaveStrategy
from transformers.utils import logging

from ..analysis.cost import TrainingCost, format_hours
from ..analysis.text_table import wrap
from ..data import BATCHES_PER_POOL, clean_corpus
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..tokenization_vaswani_transformer import VaswaniTransformerTokenizer
from .cost import estimate_recipe_cost, measure_devices
from .loading import RunData, cleaning_rules
from .recipes import Recipe
from .run import build_trainer, training_arguments
from .trainer import VaswaniTransformerTrainer

if TYPE_CHECKING:
    from accelerate import Accelerator

    from .cost import CostCallback

logger = logging.get_logger(__name__)

NUM_WARM_UP_UPDATES = 3
_MEAN_TOKENS, _MAX_TOKENS = 27, 256
_SPREAD, _SIDES_SPREAD = 0.55, 0.18  # standard deviations of logarithms: of a length, of the sides' ratio
_MANY_DEVICES = 8  # the paper's
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class MeasuredSpeed:
    """What a few updates of a recipe took; the first ones, which warm up, are not in it.

    Args:
        num_updates: Updates that were timed.
        source_tokens: Their real source tokens, with `</s>`, over all devices.
        target_tokens: Their real target tokens, with `</s>`.
        seconds: Their wall time.
        padding_fraction: Share of padding in the recipe's micro-batches on these devices.
        num_devices: Devices that trained together.
        device: What they call themselves, and the precision.
        flops_per_second: Matrix rate of one of them.
    """

    num_updates: int
    source_tokens: int
    target_tokens: int
    seconds: float
    padding_fraction: float
    num_devices: int
    device: str
    flops_per_second: float

    @property
    def tokens_per_second(self) -> float:
        """Real source and target tokens a second, over all devices."""
        return (self.source_tokens + self.target_tokens) / self.seconds

    def cost(self, recipe: Recipe, times_devices: int = 1) -> TrainingCost:
        """What the whole recipe costs at this speed.

        Args:
            recipe: The recipe that was measured.
            times_devices: So many times the devices, so many times the speed: a perfect scaling that nobody measured.
        """
        return estimate_recipe_cost(
            recipe,
            tokens_per_second=self.tokens_per_second * times_devices,
            num_devices=self.num_devices * times_devices,
            flops_per_second=self.flops_per_second,
        )


def measure_speed(
    recipe: Recipe, *, num_updates: int = 10, bf16: bool = False, use_cpu: bool = False
) -> MeasuredSpeed:
    """Trains a recipe's model for a few updates and tells how many real tokens a second that is.

    Model, batches, optimiser and trainer are the recipe's, the pairs are `synthetic_pairs`. Only updates are timed, no
    preparing of data, no validations, no checkpoints. Nothing stays on disk. Under torchrun or `accelerate launch`
    every process calls this, and gets the same figures, over all of them.

    Args:
        recipe: What to measure; its data are not read.
        num_updates: Updates that are timed, after 3 that warm up.
        bf16: Compute in bfloat16.
        use_cpu: Ignore accelerators.

    Raises:
        ValueError: If `num_updates` is no whole number above 0, or the recipe's batches are too small for any pair.
        KeyboardInterrupt: At SIGINT or SIGTERM, at once.

    Example:
        >>> measure_speed(get_recipe("quickstart")).tokens_per_second
    """
    if type(num_updates) is not int or num_updates < 1:
        raise ValueError(f"`num_updates` must be a whole number of at least 1, got {num_updates!r}. Pass another.")
    pairs = synthetic_pairs(recipe)
    with tempfile.TemporaryDirectory(prefix="vaswani-transformer-speed-") as folder:
        trainer = _build_trainer(recipe, pairs, num_updates, folder, bf16=bf16, use_cpu=use_cpu)
        stopwatch = Stopwatch(trainer.cost, trainer.accelerator, NUM_WARM_UP_UPDATES)
        trainer.add_callback(stopwatch)
        logger.info(_describe_plan(recipe, trainer, num_updates))
        trainer.train()
        devices = measure_devices(trainer)
    seconds = trainer.accelerator.reduce(torch.tensor(stopwatch.seconds, device=trainer.args.device), "mean").item()
    source_tokens, target_tokens = stopwatch.tokens
    return MeasuredSpeed(
        num_updates=num_updates,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        seconds=seconds,
        padding_fraction=trainer.train_batches().padding_fraction,
        num_devices=devices["train_num_devices"],
        device=devices["train_device"],
        flops_per_second=devices["train_matrix_flops_per_second"],
    )


def synthetic_pairs(recipe: Recipe) -> datasets.Dataset:
    """Tokenised pairs for 100 updates of a recipe, held in memory, of lengths and word frequencies as in WMT14's text.

    A source has exp(N) tokens with `</s>`, where N is normal with standard deviation 0.55, 27 on average; a target is
    exp(M) times as long, M normal with standard deviation 0.18, 1 on average. Both have 2 to 256 tokens. The spreads
    are those of newstest2013 and newstest2014, and make the sides' logarithms correlate by 0.95. Ids are drawn with
    frequencies that fall as 1 / id. Pairs that the recipe would not train on are left out.

    Args:
        recipe: Decides the number of pairs, the vocabulary and what is too long.

    Raises:
        ValueError: If the recipe's batches are too small for any pair.
    """
    rng = np.random.default_rng(0)
    tokens_per_update = max(recipe.max_source_tokens_per_batch, recipe.max_target_tokens_per_batch)
    num_pairs = -(-BATCHES_PER_POOL * tokens_per_update // _MEAN_TOKENS)
    source = _MEAN_TOKENS * _spread(rng, _SPREAD, num_pairs)
    target = source * _spread(rng, _SIDES_SPREAD, num_pairs)
    lengths = [np.clip(np.rint(side), 2, _MAX_TOKENS).astype(np.int32) for side in (source, target)]
    columns = {
        "input_ids": _sentences(rng, lengths[0], recipe.vocab_size),
        "labels": _sentences(rng, lengths[1], recipe.vocab_size),
        "source_length": pa.array(lengths[0]),
        "target_length": pa.array(lengths[1]),
    }
    pairs = datasets.Dataset(datasets.table.InMemoryTable.from_pydict(columns), fingerprint="synthetic")
    return clean_corpus(pairs, cleaning_rules(recipe))[0]


def _spread(rng: np.random.Generator, deviation: float, number: int) -> np.ndarray:
    """Log-normal factors with mean 1."""
    return np.exp(rng.normal(-(deviation**2) / 2, deviation, number))


def _sentences(rng: np.random.Generator, lengths: np.ndarray, vocab_size: int) -> pa.ListArray:
    """Random ids, each sentence ending in `</s>`, without other special tokens."""
    tokenizer = VaswaniTransformerTokenizer()
    first = len(tokenizer)  # behind the special tokens
    ids = np.exp(rng.uniform(np.log(first), np.log(max(vocab_size, first + 1)), int(lengths.sum()))).astype(np.int32)
    ends = np.cumsum(lengths, dtype=np.int32)
    ids[ends - 1] = tokenizer.eos_token_id
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), pa.array(ids))


class Stopwatch(TrainerCallback):
    """Times the updates of a training after the first ones, and counts their real tokens over all processes.

    From the beginning of the training stop signals raise KeyboardInterrupt at once, until somebody sets them back.

    Args:
        cost: The trainer's counts.
        accelerator: The trainer's, which sums them over processes.
        num_warm_up_updates: Updates that do not count, at least 1.

    Attributes:
        seconds: From the end of the warm-up to that of the last update; 0 before.
        tokens: Source and target tokens of these updates.
    """

    def __init__(self, cost: CostCallback, accelerator: Accelerator, num_warm_up_updates: int) -> None:
        self._cost, self._accelerator, self._num_warm_up_updates = cost, accelerator, num_warm_up_updates
        self._start: tuple[float, int, int] = 0.0, 0, 0
        self.seconds, self.tokens = 0.0, (0, 0)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Lets signals stop at once: the trainer would save a checkpoint first, and tell how to go on from it."""
        if threading.current_thread() is threading.main_thread():
            for number in _STOP_SIGNALS:
                signal.signal(number, signal.default_int_handler)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts after the warm-up and stops after the last update, when every device has done its work."""
        if state.global_step not in (self._num_warm_up_updates, state.max_steps):
            return
        self._cost.settle(self._accelerator)
        if args.device.type != "cpu":
            torch.accelerator.synchronize(args.device)
        now, source_tokens, target_tokens = time.perf_counter(), self._cost.source_tokens, self._cost.target_tokens
        if state.global_step == self._num_warm_up_updates:
            self._start = now, source_tokens, target_tokens
        start, source_before, target_before = self._start
        self.seconds, self.tokens = now - start, (source_tokens - source_before, target_tokens - target_before)


def _build_trainer(
    recipe: Recipe, pairs: datasets.Dataset, num_updates: int, folder: str, *, bf16: bool, use_cpu: bool
) -> VaswaniTransformerTrainer:
    """Trainer of the recipe's model that does nothing but updates, at a rate that keeps any model from diverging."""
    measured = dataclasses.replace(
        recipe,
        max_steps=NUM_WARM_UP_UPDATES + num_updates,
        warmup_steps=1,
        learning_rate=1e-4,
        num_averaged_snapshots=0,
        load_best_model=False,
        early_stopping_patience=None,
        eval_num_beams=0,
    )
    arguments = training_arguments(measured, folder, bf16=bf16, use_cpu=use_cpu)
    arguments.eval_strategy = arguments.logging_strategy = IntervalStrategy.NO
    arguments.save_strategy = SaveStrategy.NO
    data = RunData(VaswaniTransformerTokenizer(), pairs, None, None)
    return build_trainer(measured, arguments, data, _make_model)


def _make_model(recipe: Recipe, data: RunData) -> VaswaniTransformerForConditionalGeneration:
    """Model with the recipe's vocabulary, which the tokenizer of made-up pairs does not have."""
    return VaswaniTransformerForConditionalGeneration(recipe.model_config())


def _describe_plan(recipe: Recipe, trainer: VaswaniTransformerTrainer, num_updates: int) -> str:
    """One line for the log on what is about to be measured."""
    source, target = trainer.train_batches().tokens_per_batch
    return (
        f"Measuring {recipe.name}: {num_updates:,} update(s) after {NUM_WARM_UP_UPDATES} that warm up, of "
        f"{source:,.0f} source and {target:,.0f} target tokens on average, split over {trainer.args.world_size} "
        f"process(es) x {trainer.args.gradient_accumulation_steps} accumulation step(s)."
    )


def describe_speed(recipe: Recipe, speed: MeasuredSpeed) -> str:
    """What was measured and what was not, as text below the table of `analysis.cost.format_cost`.

    Args:
        recipe: The recipe that was measured.
        speed: What `measure_speed` returned.
    """
    updates = f"{speed.num_updates} update{'s' if speed.num_updates > 1 else ''}"
    notes = [
        f"Measured on {speed.num_devices} x {speed.device}: {updates} after {NUM_WARM_UP_UPDATES} that warmed up, "
        f"{speed.source_tokens:,} source and {speed.target_tokens:,} target tokens in {speed.seconds:,.3g} s, "
        f"{speed.seconds / speed.num_updates:,.3g} s an update; {speed.padding_fraction:.1%} of padding. The pairs "
        "were made up, with WMT14's lengths; validations, checkpoints and preparing the data come on top."
    ]
    if speed.num_devices == 1:
        scaled = speed.cost(recipe, times_devices=_MANY_DEVICES)
        notes.append(
            f"{_MANY_DEVICES} such devices, if they scaled perfectly, which was not measured: "
            f"{scaled.tokens_per_second:,.0f} tokens a second, {format_hours(scaled.seconds)} hours, "
            f"{format_hours(scaled.device_seconds)} device hours."
        )
    return "\n".join(wrap(note) for note in notes)
