# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The end of a training run: the final model with its validations, the results and the card, written as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import TrainingArguments
from transformers.trainer_utils import TrainOutput
from transformers.utils import logging

from ..files import STAGING_FOLDER, STATE_FILE, WEIGHTS_FILE, writing_beside
from .averaging import missing_snapshots, write_average
from .card import refresh_card
from .checkpoints import clear_staging
from .cost import measure_cost
from .curves import draw_run
from .folder import set_aside_scores, write_train_results
from .loading import RunData
from .recipes import Recipe
from .trainer import VaswaniTransformerTrainer

logger = logging.get_logger(__name__)


def finish_run(
    recipe: Recipe, trainer: VaswaniTransformerTrainer, output: TrainOutput, data: RunData
) -> dict[str, Any]:
    """Writes the final model, the results and the card into the run's folder; every process calls it.

    Args:
        recipe: Recipe of the run.
        trainer: The trainer after the last update.
        output: What its training returned.
        data: What it was trained on.

    Returns:
        The results, as `train` does.
    """
    output_dir = Path(trainer.args.output_dir)
    num_averaged = _write_model(recipe, trainer, output.global_step)
    num_averaged = trainer.accelerator.reduce(torch.tensor(num_averaged, device=trainer.args.device), "sum").item()
    figures: dict[str, Any] = {name: value for name, value in output.metrics.items() if name.startswith("train_")}
    if "train_flops_paper" not in figures:  # else they are those of an earlier process that made the last update
        figures |= measure_cost(trainer)
    if (report := data.report or trainer.stream_report()) is not None:
        figures |= {"train_pairs": report.num_kept, "train_dropped_pairs": report.dropped}
    results = {
        "recipe": recipe.name,
        **trainer.layout(),
        **figures,
        **_validation_figures(trainer),
        **(_evaluate_average(trainer) if num_averaged else {}),
        "train_steps": output.global_step,
        "num_parameters": trainer.model.num_parameters(),
        "num_averaged_snapshots": num_averaged,
        "best_checkpoint": trainer.state.best_model_checkpoint if recipe.load_best_model else None,
    }
    if trainer.is_world_process_zero():
        for path in set_aside_scores(output_dir, output.global_step):
            logger.warning(f"Scores of the model before these updates are now in {path}.")
        with writing_beside(output_dir / STATE_FILE) as beside:
            trainer.state.save_to_json(str(beside))
        write_train_results(output_dir, results)
        draw_run(output_dir)
        refresh_card(output_dir)
    trainer.accelerator.wait_for_everyone()
    return results


def _write_model(recipe: Recipe, trainer: VaswaniTransformerTrainer, num_steps: int) -> int:
    """Writes the final model beside its place and moves its files there; returns the number of averaged snapshots.

    Every process calls it. A file that is cut short in its place would keep the run from going on.
    """
    output_dir, num_averaged = Path(trainer.args.output_dir), 0
    staged = output_dir / STAGING_FOLDER / "model"
    try:
        trainer.save_model(str(staged))
        if trainer.is_world_process_zero():
            (staged / "training_args.bin").unlink(missing_ok=True)
            if not recipe.load_best_model and recipe.num_averaged_snapshots > 0:
                num_averaged = _write_average(recipe, output_dir, staged, num_steps)
            for path in staged.iterdir():
                path.replace(output_dir / path.name)
    finally:
        if trainer.is_world_process_zero():
            clear_staging(output_dir)
    return num_averaged


def _write_average(recipe: Recipe, output_dir: Path, model_dir: Path, num_steps: int) -> int:
    """Writes the average of a finished run's newest snapshots, and warns of those that somebody has taken away."""
    num_averaged = write_average(output_dir, recipe.num_averaged_snapshots, model_dir)
    steps = range(recipe.snapshot_steps, num_steps + 1, recipe.snapshot_steps)[-recipe.num_averaged_snapshots :]
    if missing := missing_snapshots(output_dir, steps):
        logger.warning(
            f"`snapshots` must hold the last {len(steps)} of the run, got none of {', '.join(missing)}: the model is "
            f"the average of {num_averaged} others. Train again for the whole average."
        )
    return num_averaged


def _validation_figures(trainer: VaswaniTransformerTrainer) -> dict[str, float]:
    """Figures of the last validation during training as `last_eval_*` and of the best as `best_eval_*`, or none."""
    validations = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    if not validations:
        return {}
    best = best_validation(validations, trainer.args)
    return {
        **_named("last", validations[-1]),
        "best_eval_step": best["step"],
        **{name: value for name, value in _named("best", best).items() if not name.endswith(("_time", "_second"))},
    }


def best_validation(validations: Sequence[Mapping[str, Any]], args: TrainingArguments) -> Mapping[str, Any]:
    """The best by `metric_for_best_model`, else by BLEU, else by nll; the earliest of equals, the last of none."""
    chosen = args.metric_for_best_model
    for metric in (chosen, "sacrebleu", "nll"):
        key = f"eval_{(metric or '').removeprefix('eval_')}"
        if entries := [entry for entry in validations if key in entry]:
            is_greater_better = args.greater_is_better if metric == chosen else metric == "sacrebleu"
            return (max if is_greater_better else min)(entries, key=lambda entry: entry[key])
    return validations[-1]


def _named(which: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{which}_{name}": value for name, value in entry.items() if name.startswith("eval_")}


def _evaluate_average(trainer: VaswaniTransformerTrainer) -> dict[str, float]:
    """Loads a run's averaged weights and measures them on the validation set; every process calls it.

    Args:
        trainer: A trainer that is done, with `model.safetensors` in its output folder.

    Returns:
        `average_eval_*` without times, translations scored where the run's validations are. Empty without validation
        set.
    """
    if trainer.eval_dataset is None:
        return {}
    if trainer.is_world_process_zero():
        weights = load_file(Path(trainer.args.output_dir) / WEIGHTS_FILE)
        trainer.model.load_state_dict(weights, strict=False)  # a tied tensor is in the file once
    if trainer.args.world_size > 1:
        for tensor in trainer.model.parameters():
            torch.distributed.broadcast(tensor.data, src=0)
    return trainer.evaluate_quietly("average_eval")
