# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A whole training run: from a recipe and raw text to a model folder."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerState, set_seed
from transformers.integrations.integration_utils import get_reporting_integration_callbacks
from transformers.trainer_utils import TrainOutput, has_length
from transformers.utils import logging

from ..data.readers import check_sides, existing_file
from ..data.rows import pair_lengths
from ..evaluation.decoding import DECODING
from ..evaluation.results import METRICS
from ..files import STATE_FILE
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from .arguments import VaswaniTransformerTrainingArguments
from .averaging import drop_later_snapshots
from .callbacks import EarlyStoppingCallback
from .checkpoints import best_checkpoint, checkpoint_step, take_up_checkpoint
from .finish import finish_run
from .folder import check_output_dir, clear_run, holding, read_train_results
from .loading import RunData, cleaning_rules, prepare_data
from .recipes import SPLITS, Recipe
from .schedule import paper_peak_learning_rate
from .trainer import VaswaniTransformerTrainer

logger = logging.get_logger(__name__)


def train(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    overwrite: bool = False,
    resume: bool = False,
    bf16: bool = False,
    use_cpu: bool = False,
    report_to: str | Sequence[str] = (),
    num_proc: int | None = None,
) -> dict[str, Any]:
    """Trains the model of a recipe and leaves it, ready for `from_pretrained` and `pipeline`, in a folder.

    The folder ends up with the model (the average of the newest snapshots, or the best checkpoint, or the last
    update: the recipe says which), its tokenizer and card, `recipe.json`, `train_results.json`, the whole log in
    `trainer_state.json`, the resumable checkpoints and the snapshots. Under torchrun or `accelerate launch` every
    process calls this with the same arguments.

    Args:
        recipe: What to train; see `get_recipe`.
        output_dir: Folder of the run.
        overwrite: Delete the run the folder holds, once the data are read.
        resume: Go on from the newest checkpoint in the folder.
        bf16: Compute in bfloat16 where it is safe; weights stay in float32.
        use_cpu: Ignore accelerators.
        report_to: Trackers of the library that receive the log, one name or several; "tensorboard" writes into
            `output_dir/runs`.
        num_proc: Processes that tokenise the data; None is all cores for a large corpus.

    Returns:
        Results as written to `train_results.json`: the library's `train_*` figures, the training's cost (see
        `training.cost.measure_cost`), the layout it ran on, the number of updates, pairs, parameters and averaged
        snapshots, and what cleaning dropped. Validations are there as `last_eval_*` (the last during training, of the
        weights at that update), as `best_eval_*` with `best_eval_step` (the best by the recipe's
        `metric_for_best_model` where that decides, else by BLEU, else by nll), and as `average_eval_*` (of the
        averaged weights, which are the final model's).

    Raises:
        ValueError: If the folder holds another run, or a value does not fit; nothing is lost then.
        FileNotFoundError: If data, tokenizer or checkpoint are missing or incomplete.
        ImportError: If the package of a tracker is missing.
        KeyboardInterrupt: After SIGINT or SIGTERM, when a resumable checkpoint is written.
    """
    with holding(output_dir):
        trainer, output, data = run_training(
            recipe,
            output_dir,
            overwrite=overwrite,
            resume=resume,
            num_proc=num_proc,
            bf16=bf16,
            use_cpu=use_cpu,
            report_to=report_to,
        )
        return finish_run(recipe, trainer, output, data)


def make_model(recipe: Recipe, data: RunData) -> VaswaniTransformerForConditionalGeneration:
    """Freshly initialised model of the recipe, with the recipe's search as its generation config."""
    model = VaswaniTransformerForConditionalGeneration(recipe.model_config(len(data.tokenizer)))
    model.generation_config.update(**{name: getattr(recipe, name) for name in DECODING})
    # Beyond this length the pipeline warns.
    longest = recipe.max_tokens_per_sentence if recipe.streaming else int(pair_lengths(data.train)[0].max())
    model.generation_config.longest_training_source = longest  # type: ignore[attr-defined]  # it takes any key
    return model


def run_training(
    recipe: Recipe,
    output_dir: str | Path,
    make_model: Callable[[Recipe, RunData], PreTrainedModel] = make_model,
    *,
    overwrite: bool = False,
    resume: bool = False,
    num_proc: int | None = None,
    **options: Any,
) -> tuple[VaswaniTransformerTrainer, TrainOutput, RunData]:
    """All of `train` up to the last update, for any model; see there for what is not described here.

    Args:
        make_model: Makes the model to train from the recipe and its data.
        **options: `bf16`, `use_cpu` and `report_to`.
    """
    output_dir = Path(output_dir)
    check_output_dir(output_dir, recipe, overwrite=overwrite, resume=resume)
    _check_recipe(recipe)
    arguments = training_arguments(recipe, output_dir, **options)
    try:
        for tracker in get_reporting_integration_callbacks(arguments.report_to):
            tracker()  # names a package that is missing before anything is deleted
    except RuntimeError as error:
        raise ImportError(str(error)) from error
    checkpoint = take_up_checkpoint(arguments) if resume else None
    finished_steps = 0 if checkpoint is None else checkpoint_step(checkpoint)
    _check_max_steps(recipe, finished_steps)
    with arguments.main_process_first(local=False, desc="preparing the data"):
        data = prepare_data(recipe, arguments, checkpoint, num_proc)
        if arguments.process_index == 0:
            if checkpoint is None:
                clear_run(output_dir)
                output_dir.mkdir(parents=True, exist_ok=True)
                data.tokenizer.save_pretrained(output_dir)
            recipe.save(output_dir)
    if data.report is not None:
        logger.info(f"Training data: {data.report}.")
        if dropped := data.report.dropped.get("over_token_budget"):
            logger.warning(
                f"{dropped:,} pairs are not trained on, as they are longer than a batch or a device's share of it. "
                "Raise `max_source_tokens_per_batch`, `max_target_tokens_per_batch` or `max_padded_tokens_per_device`."
            )
    trainer = build_trainer(recipe, arguments, data, make_model)
    logger.info(describe_plan(trainer))
    if checkpoint is not None and finished_steps >= recipe.max_steps:
        logger.info(f"All {finished_steps:,} updates are made; the model and its results are written again.")
        if (state := _finished_state(output_dir, finished_steps)) is not None:
            return trainer, _restore_finished(recipe, trainer, checkpoint, state), data
    output = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return trainer, output, data


def training_arguments(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    bf16: bool = False,
    use_cpu: bool = False,
    report_to: str | Sequence[str] = (),
) -> VaswaniTransformerTrainingArguments:
    """Training arguments of a recipe; on a machine without accelerator they use the CPU."""
    names = Recipe.__dataclass_fields__.keys() & VaswaniTransformerTrainingArguments.__dataclass_fields__.keys()
    values = {name: getattr(recipe, name) for name in names}
    if recipe.load_best_model:
        values["num_averaged_snapshots"] = 0
    if not _needs_metric(recipe):
        values["metric_for_best_model"] = None
    return VaswaniTransformerTrainingArguments(
        output_dir=str(output_dir),
        bf16=bf16,
        use_cpu=use_cpu or not torch.accelerator.is_available(),
        label_smoothing_factor=recipe.label_smoothing,
        load_best_model_at_end=recipe.load_best_model,
        eval_strategy="no" if recipe.data_arguments("validation") is None else "steps",
        predict_with_generate=recipe.eval_num_beams > 0,
        generation_num_beams=recipe.eval_num_beams or None,
        disable_tqdm=not sys.stderr.isatty(),
        report_to=[report_to] if isinstance(report_to, str) else [*report_to],
        **values,
    )


def build_trainer(
    recipe: Recipe,
    arguments: VaswaniTransformerTrainingArguments,
    data: RunData,
    make_model: Callable[[Recipe, RunData], PreTrainedModel],
) -> VaswaniTransformerTrainer:
    """Trainer with a freshly made model, the recipe's data and its callbacks."""
    set_seed(recipe.seed)
    model, patience = make_model(recipe, data), recipe.early_stopping_patience
    return VaswaniTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=data.train,
        eval_dataset=data.validation,
        processing_class=data.tokenizer,
        callbacks=[] if patience is None else [EarlyStoppingCallback(patience)],
        stream_rules=cleaning_rules(recipe),
    )


def describe_plan(trainer: VaswaniTransformerTrainer) -> str:
    """One paragraph on what is about to be trained: size, batches, devices, updates, learning rate, precision."""
    arguments = trainer.args
    warmup, budget = int(arguments.warmup_steps), arguments.max_padded_tokens_per_device
    peak = arguments.learning_rate or paper_peak_learning_rate(trainer.model.config.d_model, warmup)
    precision = "bf16" if arguments.bf16 else "fp32"
    return (
        f"Training {trainer.model.num_parameters(only_trainable=True):,} parameters on {_describe_data(trainer)}. "
        f"An update holds up to {arguments.max_source_tokens_per_batch:,} source and "
        f"{arguments.max_target_tokens_per_batch:,} target tokens, split over {arguments.world_size} device(s) x "
        f"{arguments.gradient_accumulation_steps} accumulation step(s), "
        f"{f'at most {budget:,}' if budget else 'any number of'} padded tokens per device at a time. "
        f"Learning rate up to {peak:.2e} at update {warmup:,}; {precision} on {arguments.device}."
    )


def _describe_data(trainer: VaswaniTransformerTrainer) -> str:
    """Pairs, epochs and batches of the training data, as far as they are known."""
    data: Any = trainer.train_dataset
    num_steps = trainer.args.max_steps
    if not has_length(data):
        return f"a stream of {data.num_shards:,} shard(s): {num_steps:,} updates"
    updates = trainer.train_batches().num_effective_batches
    source, target = trainer.train_batches().tokens_per_batch
    return (
        f"{len(data):,} pairs: {num_steps:,} updates, {updates:,} an epoch, "
        f"{num_steps / updates:.1f} epochs, {source:,.0f} source and {target:,.0f} target tokens an update on average "
        f"and {trainer.train_batches().padding_fraction:.1%} of padding"
    )


def _needs_metric(recipe: Recipe) -> bool:
    """Whether a validation figure decides anything in this run."""
    return recipe.load_best_model or recipe.early_stopping_patience is not None


def _check_max_steps(recipe: Recipe, finished_steps: int) -> None:
    """Raises ValueError when a run to resume has made more updates than are asked for."""
    if recipe.max_steps < finished_steps:
        raise ValueError(
            f"`max_steps` must be at least {finished_steps}, the updates the run to resume has made, got "
            f"{recipe.max_steps}. Pass a larger number."
        )


def _check_recipe(recipe: Recipe) -> None:
    """Raises on what the model, the loader or the trainer would only notice after hours, or not at all."""
    recipe.model_config()
    _check_files(recipe)
    if recipe.data_arguments("train") is None:
        raise ValueError(
            f"`train_source` and `train_target` must be given, got a recipe ({recipe.name}) without training data. "
            "Pass two text files, `train_pairs` or `dataset`; files for one split replace `dataset` for all."
        )
    if recipe.streaming and recipe.tokenizer is None:
        raise ValueError(
            "`tokenizer` must be given with `streaming`, got none: a vocabulary cannot be trained on a stream. Train "
            "one on some of the text with `vaswani-transformer train-tokenizer`, then pass its folder."
        )
    if recipe.data_arguments("validation") is None:
        _check_needs_no_validation(recipe)
    if recipe.eval_num_beams > 0 and recipe.data_arguments("validation") is not None:
        from ..evaluation import metrics  # noqa: F401  (an extra that is missing is named before a run is deleted)
    metric = recipe.metric_for_best_model
    if _needs_metric(recipe) and metric in METRICS and recipe.eval_num_beams < 1:
        raise ValueError(
            f"`eval_num_beams` must be at least 1 to decide by {metric}, got {recipe.eval_num_beams}. Pass 1."
        )


def _check_needs_no_validation(recipe: Recipe) -> None:
    """Raises ValueError when a recipe without validation data would have them decide something."""
    off = {}
    if recipe.load_best_model:
        off["load_best_model"] = "false"
    if recipe.early_stopping_patience is not None:
        off["early_stopping_patience"] = "none"
    if off:
        choices, values = (f"`{name}`" for name in off), (f"`{name}` {value}" for name, value in off.items())
        raise ValueError(
            f"`validation_source` and `validation_target` must be given for {' and '.join(choices)}, got a recipe "
            f"({recipe.name}) without validation data. Pass two text files, or switch it off: {', '.join(values)}."
        )


def _check_files(recipe: Recipe) -> None:
    """Raises on files of a recipe that lack their other side or do not exist; those of the test set may come later."""
    for split in SPLITS:
        source, target, pairs = (getattr(recipe, f"{split}_{part}") for part in ("source", "target", "pairs"))
        check_sides({f"{split}_source": source, f"{split}_target": target})
        if source is not None and pairs is not None:
            raise ValueError(
                f"`{split}_pairs` must be left out beside `{split}_source`, got {pairs}. Drop one of them."
            )
        for part, file in (("source", source), ("target", target), ("pairs", pairs)):
            if file is not None and split != "test":
                existing_file(file, f"{split}_{part}")


def _finished_state(output_dir: Path, num_steps: int) -> TrainerState | None:
    """State, with the whole log, of a run that has written its results; None if it was lost before or is damaged.

    The end of the training is then made again from the last checkpoint, which lacks the last lines of the log.
    """
    try:
        state = TrainerState.load_from_json(str(output_dir / STATE_FILE))
    except (OSError, TypeError, ValueError):
        return None
    return state if state.global_step == read_train_results(output_dir).get("train_steps") == num_steps else None


def _restore_finished(
    recipe: Recipe, trainer: VaswaniTransformerTrainer, checkpoint: Path, state: TrainerState
) -> TrainOutput:
    """Loads the last checkpoint of a run that was finished, with the figures of its training."""
    trainer.state = state
    trainer.cost.restore(trainer.state)
    trainer.state.best_model_checkpoint = best_checkpoint(checkpoint) if recipe.load_best_model else None
    trainer._load_from_checkpoint(trainer.state.best_model_checkpoint or str(checkpoint))
    if trainer.is_world_process_zero():
        drop_later_snapshots(trainer.args.output_dir, state.global_step)
    return TrainOutput(state.global_step, math.nan, read_train_results(trainer.args.output_dir))
