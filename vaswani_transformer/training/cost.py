# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The cost of a training run: real tokens and device seconds over all its resumes, and FLOPs both ways of Table 2."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any, cast

import torch
from transformers import Seq2SeqTrainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState
from transformers.utils import logging

from ..analysis.cost import TrainingCost
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..cpu_kernels_vaswani_transformer import linear
from ..loss_vaswani_transformer import IGNORE_INDEX
from ..version import code_version

logger = logging.get_logger(__name__)


class CostCallback(TrainerCallback, ExportableState):
    """Counts the real tokens and the seconds of a training, over all its resumes.

    Counts of micro-batches stay on the device until `settle`, which the trainer calls where it synchronises anyway.
    They are saved in `trainer_state.json`; a resumed training starts with them. Work that was lost after a checkpoint
    does not count. The clock runs from the first update to the last, with validations, saving and waiting for data,
    as the paper's does. Devices are accelerators, or processes on CPUs.

    Attributes:
        source_tokens: Real source tokens, with `</s>`, of all processes up to the last `settle`.
        target_tokens: Real target tokens, with `</s>`.
        seconds: Wall time of the earlier runs of this training.
        device_seconds: The same times the devices of each run.
        code_versions: The code of each run, in order and without repeats.
    """

    def __init__(self) -> None:
        self.source_tokens = self.target_tokens = 0
        self.seconds = self.device_seconds = 0.0
        self.code_versions: list[str] = []
        self._unsettled: torch.Tensor | None = None
        self._leg_start: float | None = None
        self._num_devices = 1
        self._lap_start = self._mark = 0.0
        self._lap_tokens = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts the clock, at the figures of the checkpoint that is resumed."""
        self.restore(state)
        self.code_versions = [*dict.fromkeys([*self.code_versions, code_version()])]
        saved_callbacks(state)[type(self).__name__] = self.state()  # Trainer saves only those it finds there
        self._unsettled = torch.zeros(2, dtype=torch.int64, device=args.device)
        self._num_devices = num_devices(args)
        self._leg_start = self._lap_start = self._mark = time.perf_counter()
        self._lap_tokens = self.source_tokens + self.target_tokens

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Notes when the update was done."""
        self._mark = time.perf_counter()

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Takes validation or checkpoint out of the time that `lap` divides by."""
        now = time.perf_counter()
        self._lap_start, self._mark = self._lap_start + now - self._mark, now

    on_save = on_evaluate

    def lap(self) -> float | None:
        """Tokens a second, both sides and all processes, since the last call; None where none was counted.

        Validations and checkpoints do not count. Call `settle` first.
        """
        now, num_tokens = time.perf_counter(), self.source_tokens + self.target_tokens
        counted, seconds = num_tokens - self._lap_tokens, now - self._lap_start
        self._lap_tokens, self._lap_start, self._mark = num_tokens, now, now
        return counted / seconds if counted else None

    def restore(self, state: TrainerState) -> None:
        """Takes the figures of a checkpoint's state, or none; Trainer restores callbacks only on request."""
        saved = saved_callbacks(state).get(type(self).__name__) if state.global_step > 0 else None
        if state.global_step > 0 and saved is None:
            logger.warning("The checkpoint holds no counts of tokens and seconds: the cost is that of what follows.")
        attributes = dict((saved or CostCallback().state())["attributes"])
        if state.global_step > 0 and not attributes.get("code_versions"):
            attributes["code_versions"] = ["unknown"]
        for name, value in attributes.items():
            setattr(self, name, value)
        self._leg_start = None

    def count(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Adds the tokens of a micro-batch without waiting for the device.

        Args:
            inputs: Batch of a collator; a row without a label to learn fills a process's batch and does not count.
        """
        if self._unsettled is None or "input_ids" not in inputs or "labels" not in inputs:
            return
        attended = inputs.get("attention_mask")
        attended = torch.ones_like(inputs["input_ids"]) if attended is None else attended
        learned = inputs["labels"].ne(IGNORE_INDEX)
        tokens = torch.stack([(attended.ne(0) & learned.any(dim=1, keepdim=True)).sum(), learned.sum()])
        self._unsettled += tokens.to(self._unsettled.device)

    def settle(self, accelerator: Any) -> None:
        """Adds what all processes counted since the last time; every process calls it."""
        if self._unsettled is not None:
            source, target = accelerator.reduce(self._unsettled, "sum").tolist()
            self.source_tokens, self.target_tokens = self.source_tokens + source, self.target_tokens + target
            self._unsettled.zero_()

    def stop(self) -> None:
        """Stops the clock."""
        figures = self.state()["attributes"]
        self.seconds, self.device_seconds = figures["seconds"], figures["device_seconds"]
        self._leg_start = None

    def state(self) -> dict[str, Any]:
        """Figures up to now, as Trainer saves callbacks."""
        elapsed = 0.0 if self._leg_start is None else time.perf_counter() - self._leg_start
        attributes = {
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "seconds": self.seconds + elapsed,
            "device_seconds": self.device_seconds + elapsed * self._num_devices,
            "code_versions": list(self.code_versions),
        }
        return {"args": {}, "attributes": attributes}

    def metrics(self) -> dict[str, float]:
        """Figures over all resumes under the names of `train_results.json`; empty where no token was counted."""
        figures = self.state()["attributes"]
        num_tokens = figures["source_tokens"] + figures["target_tokens"]
        if num_tokens == 0:
            return {}
        return {
            "train_source_tokens": figures["source_tokens"],
            "train_target_tokens": figures["target_tokens"],
            "train_runtime": figures["seconds"],
            "train_tokens_per_second": num_tokens / figures["seconds"],
            "train_device_seconds": figures["device_seconds"],
        }


def saved_callbacks(state: TrainerState) -> dict[str, Any]:
    """States of callbacks by class, as checkpoints hold them."""
    return cast("dict[str, Any]", state.stateful_callbacks)  # annotated as what its constructor takes


def measure_cost(trainer: Seq2SeqTrainer) -> dict[str, Any]:
    """Measures what a trainer's training cost, over all its resumes; every process calls it.

    Args:
        trainer: A trainer that has trained, or whose state was loaded.

    Returns:
        `train_source_tokens` and `train_target_tokens`, real ones with `</s>`; `train_runtime`, the whole wall time in
        seconds; `train_tokens_per_second`, both sides and all devices over that time; `train_device_seconds`;
        `train_num_devices` and `train_device` of the last run; `train_matrix_flops_per_second` of one device;
        `train_flops_paper`, the product of seconds and rate; `train_flops_counted`; `train_model_flops_utilization`,
        their ratio. Empty where no token was counted.

    Paper: Table 2.
    """
    counted = next(each for each in trainer.callback_handler.callbacks if isinstance(each, CostCallback))
    if not (counts := counted.metrics()):
        return {}
    figures = {**counts, "train_code": ", then ".join(counted.code_versions), **measure_devices(trainer)}
    model: Any = trainer.model
    cost = read_cost(model.config, trainer.state.global_step, figures)
    return figures | {
        "train_flops_paper": cost.flops_paper,
        "train_flops_counted": cost.flops_counted,
        "train_model_flops_utilization": cost.utilization,
    }


def measure_devices(trainer: Seq2SeqTrainer) -> dict[str, Any]:
    """Measures the devices that a trainer computes on, in well under a second; every process calls it.

    Returns:
        `train_num_devices`; `train_device`, its name and the precision; `train_matrix_flops_per_second`, the rate of
        one of them in it, a mean over processes.
    """
    args = trainer.args
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else torch.float32
    rate = torch.tensor(measure_matrix_rate(args.device, dtype), device=args.device)
    name = args.device.type.upper()
    if name == "CUDA":
        name = torch.cuda.get_device_name(args.device)
    elif name == "CPU":
        name = f"CPU with {torch.get_num_threads()} thread(s)"
    return {
        "train_num_devices": num_devices(args),
        "train_device": f"{name}, {str(dtype).removeprefix('torch.')}",
        "train_matrix_flops_per_second": trainer.accelerator.reduce(rate, "mean").item(),
    }


def measure_matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of a device in square matrix products (1,024 a side on a CPU, else 8,192), with the model's kernels.

    The median of up to 20 products within a quarter of a second, after one that warms up. The matrices hold normal
    numbers, since some devices multiply zeros faster.

    Paper: Table 2 multiplies by the sustained rate of one GPU.
    """
    side = 1024 if device.type == "cpu" else 8192
    generator = torch.Generator(device).manual_seed(0)  # leaves the state of the training's alone
    first, second = (torch.randn(side, side, device=device, generator=generator).to(dtype) for _ in range(2))
    seconds: list[float] = []
    while sum(seconds[1:]) < 0.25 and sum(seconds) < 1 and len(seconds) <= 20:
        start = time.perf_counter()
        linear(first, second)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        seconds.append(time.perf_counter() - start)
    return 2 * side**3 / statistics.median(seconds[1:] or seconds)


def read_cost(config: VaswaniTransformerConfig, num_steps: int, results: Mapping[str, Any]) -> TrainingCost:
    """The cost that `measure_cost` or `train_results.json` tell of a run of `num_steps` updates."""
    source_tokens, target_tokens = results["train_source_tokens"], results["train_target_tokens"]
    return TrainingCost(
        config=config,
        num_steps=num_steps,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        seconds=(source_tokens + target_tokens) / results["train_tokens_per_second"],
        device_seconds=results["train_device_seconds"],
        flops_per_second=results["train_matrix_flops_per_second"],
    )


def num_devices(args: TrainingArguments) -> int:
    """Devices that train together: accelerators, or processes on CPUs."""
    return int(args.world_size * max(args.n_gpu, 1))
