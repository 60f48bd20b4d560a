# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A whole training run: from a recipe and raw text to a model folder."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import tempfile
from collections.abc import Callable, Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.utils.memory import clear_device_cache
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback, PreTrainedModel, set_seed
from transformers.integrations.integration_utils import get_reporting_integration_callbacks
from transformers.trainer_utils import EvalPrediction, TrainOutput
from transformers.utils import logging

from ..analysis.cost import measure_cost
from ..data.preparation import pair_lengths
from ..files import (
    CODE_FILES,
    CURVES_FILE,
    RECIPE_FILE,
    STAGING_FOLDER,
    STATE_FILE,
    TEST_RESULTS_PATTERN,
    TRAIN_RESULTS_FILE,
    WEIGHTS_FILE,
    clear_run,
    locking,
    read_json,
    read_json_if_any,
    run_files,
    write_json,
    writing_beside,
)
from ..hub.card import refresh_card
from ..inference import DECODING, METRICS
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..recipe import DECIDING, Recipe, fit_schedule
from .arguments import VaswaniTransformerTrainingArguments
from .averaging import write_average
from .callbacks import LogLines, PaceCallback
from .checkpoints import checkpoint_step, checkpoint_to_resume, clear_staging, list_checkpoints
from .data import RunData, check_text, cleaning_rules, default_workers, prepare_data
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
    report_to: str | list[str] = "none",
    num_proc: int | None = None,
    compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None,
) -> dict[str, Any]:
    """Train the model of a recipe, and save it to a folder for `from_pretrained` and `pipeline`.

    The folder gets the final model, its tokenizer and card, `recipe.json`, `train_results.json`,
    the log in `trainer_state.json`, resumable checkpoints and snapshots. The recipe decides whether
    the final model is the average of the newest snapshots, the best checkpoint, or the model after
    the last update. Under torchrun or `accelerate launch`, every process calls this function with
    the same arguments.

    Args:
        recipe: What to train; see `get_recipe`.
        output_dir: Folder of the run.
        overwrite: Delete the run in the folder, once the data have been read.
        resume: Resume from the newest checkpoint in the folder. If the folder has neither a
            checkpoint nor a finished model, start a new run.
        bf16: Compute in bfloat16 by autocast; weights stay in float32.
        use_cpu: Ignore accelerators.
        report_to: Trackers of transformers that receive the log, one name or several; "tensorboard"
            writes into `output_dir/runs`.
        num_proc: Number of processes that tokenize the data. If it is None, `tokenize_corpus`
            chooses the number by the size of the corpus.
        compute_metrics: The argument of `Trainer`: a function that gets the translations of the
            validation set, in the order of the set, and returns their scores.
            `metric_for_best_model` may name one of these scores. None means the scores of
            `inference.METRICS`.

    Returns:
        The content of `train_results.json`: the `train_*` figures of transformers, the cost (see
        `measure_cost`), and the numbers of processes, accumulation steps, updates, kept pairs,
        dropped pairs, parameters and averaged snapshots. `train_text` is the report of
        `check_text`. `train_end` has the recipe's `max_steps` and `early_stopping_patience`.
        `last_eval_*` is the last validation of the training. `best_eval_*` is the best validation,
        present only if `metric_for_best_model` selects the final checkpoint or decides when to stop
        the training. `average_eval_*` is the validation of the averaged weights, present only if
        the averaged weights are the final model.

    Raises:
        ValueError: If the folder holds another run, a value is invalid for this run, or the loss is
            not finite.
        FileNotFoundError: If data, tokenizer or checkpoint are missing or incomplete.
        ImportError: If the package of a tracker is missing.
        KeyboardInterrupt: After SIGINT or SIGTERM, once a resumable checkpoint is saved.
    """
    is_main = os.environ.get("RANK", "0") == "0"  # The training arguments do not exist yet.
    output_dir = Path(output_dir)
    lock = locking(output_dir) if is_main else contextlib.nullcontext()
    with lock:
        check_output_dir(output_dir, recipe, overwrite=overwrite, resume=resume)
        # A finished run may have a model, but no checkpoint. If the recipe has not changed, nothing
        # is left to train, and resuming only returns the results. If the recipe has changed, for
        # example to more updates, `checkpoint_to_resume` raises an error for the missing
        # checkpoint, so that the model is not deleted.
        has_model = (output_dir / WEIGHTS_FILE).is_file()
        can_resume = resume and (has_model or bool(list_checkpoints(output_dir)))
        results = _finished_results(recipe, output_dir) if can_resume else None
        if results is not None:
            logger.info(
                f"All {results['train_steps']:,} updates are done, and {output_dir} has the model."
            )
            if is_main:
                refresh_card(output_dir)
            return results
        if resume and not can_resume:
            logger.info(f"{output_dir} holds no run to resume: a new one starts there.")
        _check_recipe(recipe, compute_metrics is not None)
        arguments = training_arguments(
            recipe, output_dir, bf16=bf16, use_cpu=use_cpu, report_to=report_to
        )
        try:
            for tracker in get_reporting_integration_callbacks(arguments.report_to):
                tracker()  # raises an error for a missing package, before anything is deleted
        except RuntimeError as error:
            raise ImportError(str(error)) from error
        checkpoint = checkpoint_to_resume(arguments) if can_resume else None
        finished_steps = 0 if checkpoint is None else checkpoint_step(checkpoint)
        if recipe.max_steps < finished_steps:
            raise ValueError(
                f"`max_steps` must be at least {finished_steps}, the updates the run to resume has "
                f"made, got {recipe.max_steps}. Pass a larger number."
            )
        # Wait until every process has read the folder. Only then may the main process write to it.
        arguments.distributed_state.wait_for_everyone()
        with arguments.main_process_first(local=False, desc="preparing the data"):
            data = prepare_data(recipe, arguments, checkpoint, num_proc)
            if arguments.process_index == 0:
                if checkpoint is None:
                    clear_run(output_dir)
                    output_dir.mkdir(parents=True, exist_ok=True)
                    data.tokenizer.save_pretrained(output_dir)
                recipe.save(output_dir)
        text_report = check_text(recipe, data.texts) if is_main else None
        for corpus in data.corpora:
            if len(data.corpora) > 1:
                logger.info(
                    f"Training corpus {corpus.name}, {corpus.weight} times an epoch: "
                    f"{corpus.report}."
                )
        if data.report is not None:
            logger.info(f"Training data: {data.report}.")
        trainer = build_trainer(recipe, arguments, data, make_model, compute_metrics)
        logger.info(describe_plan(trainer))
        output = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        return finish_run(recipe, trainer, output, data, text_report)


def make_model(recipe: Recipe, data: RunData) -> VaswaniTransformerForConditionalGeneration:
    """Return a newly initialized model of the recipe.

    Its generation config contains the recipe's settings for the search.
    """
    model = VaswaniTransformerForConditionalGeneration(recipe.model_config(len(data.tokenizer)))
    model.generation_config.update(**{name: getattr(recipe, name) for name in DECODING})
    # The pipeline warns of sources that are longer than this.
    longest = (
        recipe.max_tokens_per_sentence
        if recipe.streaming
        else int(pair_lengths(data.train)[0].max())
    )
    # A generation config accepts and saves any attribute.
    model.generation_config.longest_training_source = longest  # type: ignore[attr-defined]
    return model


def fit_to_minutes(
    recipe: Recipe,
    minutes: float,
    *,
    keep: Collection[str] = (),
    num_proc: int | None = None,
    **options: Any,
) -> Recipe:
    """Return the recipe with as many updates as fit into `minutes` minutes on this machine.

    The first updates of a training in a temporary folder are timed. The timing takes a twentieth of
    `minutes`. A tenth of `minutes` is reserved for validations and checkpoints.

    Args:
        recipe: What to train.
        minutes: Duration of the training.
        keep: Names of the recipe's fields that must not change; see `fit_schedule`.
        num_proc: Number of processes that tokenize the data.
        **options: `bf16` and `use_cpu` of `train`.

    Raises:
        ValueError: If `minutes` is out of range, there are several processes, or the recipe cannot
            be trained.
    """
    if not 0 < minutes < math.inf or os.environ.get("WORLD_SIZE", "1") != "1":
        raise ValueError(
            f"`minutes` must be a finite number above 0, for one process, got {minutes}. Pass "
            "`max_steps` instead."
        )
    _check_recipe(recipe)
    with tempfile.TemporaryDirectory() as folder:
        logger.info("Timing the first updates. Their model is discarded.")
        timed = dataclasses.replace(
            recipe,
            max_steps=2**31 - 1,
            num_averaged_snapshots=0,
            early_stopping_patience=None,
            load_best_model_at_end=False,
        )
        arguments = training_arguments(timed, folder, **options)
        arguments.eval_strategy = arguments.save_strategy = arguments.logging_strategy = "no"
        arguments.logging_first_step, arguments.disable_tqdm = False, True
        trainer = build_trainer(
            timed, arguments, prepare_data(timed, arguments, None, num_proc), make_model
        )
        # A signal ends the timing at once, because there is nothing to save.
        trainer._catching_stop_signals = contextlib.nullcontext  # type: ignore[assignment]
        pace = PaceCallback(3 * minutes)
        trainer.add_callback(pace)
        trainer.remove_callback(LogLines)
        trainer.train()
        del trainer
        # Free the device's memory, because the training will measure how much is free.
        clear_device_cache(garbage_collection=True)
    fitted = fit_schedule(recipe, max(1, int(0.9 * 60 * minutes / pace.seconds)), keep=keep)
    logger.info(
        f"One update takes {pace.seconds:.3g} s: {fitted.max_steps:,} updates in about {minutes:g} "
        "minutes."
    )
    return fitted


def training_arguments(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    bf16: bool = False,
    use_cpu: bool = False,
    report_to: str | list[str] = "none",
) -> VaswaniTransformerTrainingArguments:
    """Return the training arguments of a recipe. They use the CPU if there is no accelerator."""
    values = recipe.trainer_values()
    if recipe.load_best_model_at_end:
        values["num_averaged_snapshots"] = 0
        # Every validated model is saved, so that the best one can be loaded at the end.
        values["save_steps"] = recipe.eval_steps
    if not recipe.decides_by_validation:
        values["metric_for_best_model"] = None
    if recipe.dataloader_num_workers is None:
        values["dataloader_num_workers"] = default_workers(use_cpu)
    return VaswaniTransformerTrainingArguments(
        output_dir=str(output_dir),
        bf16=bf16,
        use_cpu=use_cpu or not torch.accelerator.is_available(),
        eval_strategy="no" if recipe.data_arguments("validation") is None else "steps",
        predict_with_generate=recipe.generation_num_beams > 0,
        logging_first_step=True,
        # In seconds. The other processes wait while the main one prepares a large corpus.
        ddp_timeout=4 * 3600,
        disable_tqdm=not sys.stderr.isatty(),
        report_to=report_to,
        **values,
    )


def build_trainer(
    recipe: Recipe,
    arguments: VaswaniTransformerTrainingArguments,
    data: RunData,
    make_model: Callable[[Recipe, RunData], PreTrainedModel],
    compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None,
) -> VaswaniTransformerTrainer:
    """Return a trainer with a new model, and with the data and the callbacks of the recipe.

    The trainer works with a copy of `arguments`, and changes `gradient_accumulation_steps` and some
    other arguments in the copy. Use `trainer.args` after this call.
    """
    if (
        compute_metrics is None
        and recipe.target_language is None
        and arguments.metric_for_best_model == "sacrebleu"
    ):
        logger.info(
            "chrF chooses the best model: sacreBLEU's tokenizer needs --target-language, and none "
            "was given."
        )
        arguments.metric_for_best_model = "chrf"
    set_seed(recipe.seed)
    model, patience = make_model(recipe, data), recipe.early_stopping_patience
    return VaswaniTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=data.train,
        eval_dataset=data.validation,
        processing_class=data.tokenizer,
        compute_metrics=compute_metrics,
        callbacks=None if patience is None else [EarlyStoppingCallback(patience)],
        stream_rules=cleaning_rules(recipe),
    )


def describe_plan(trainer: VaswaniTransformerTrainer) -> str:
    """Describe the coming training in one paragraph.

    Warn if the training ends before the warm-up does, or before the first snapshot.
    """
    args, data = trainer.args, cast("Any", trainer.train_dataset)
    warmup = int(args.warmup_steps)
    peak = args.learning_rate or paper_peak_learning_rate(trainer.model.config.d_model, warmup)
    if (batches := trainer.train_batches) is not None:
        described = (
            f"{len(data):,} pairs, {batches.num_effective_batches:,} updates an epoch, "
            f"{batches.padding_fraction:.1%} of padding"
        )
    else:
        described = f"a stream of {data.num_shards:,} shard(s)"
    pair = getattr(trainer.model.config, "language_pair", None)
    languages = (
        f", {' -> '.join(pair)}," if pair else " (no --source-language or no --target-language)"
    )
    if warmup > args.max_steps:
        logger.warning(
            f"The warm-up of {warmup:,} updates is longer than the training. Pass --warmup-steps "
            f"{max(1, args.max_steps // 5)} --learning-rate {peak:.2g}, which is the same peak."
        )
    if args.num_averaged_snapshots > 0 and args.snapshot_steps > args.max_steps:
        logger.warning(
            "No snapshot will be made and averaged. Pass --snapshot-steps "
            f"{max(1, args.max_steps // 10)}."
        )
    return (
        f"Training {trainer.model.num_parameters(only_trainable=True):,} parameters{languages} on "
        f"{described}: {args.max_steps:,} updates. An update holds up to "
        f"{args.max_source_tokens_per_batch:,} source and {args.max_target_tokens_per_batch:,} "
        f"target tokens, split over {args.world_size} device(s) x "
        f"{args.gradient_accumulation_steps} accumulation step(s). Learning rate up to {peak:.2e} "
        f"at update {warmup:,}; {'bf16' if args.bf16 else 'fp32'} on {args.device}."
    )


def _check_recipe(recipe: Recipe, has_own_metrics: bool = False) -> None:
    """Raise an error for a recipe that would fail later, after the old run has been deleted.

    Without this check, such a recipe might fail only after hours of training.
    """
    recipe.model_config()
    corpora = recipe.train_corpora()
    if not corpora:
        raise ValueError(
            f"`train_source` and `train_target` must be given, got a recipe ({recipe.name}) "
            "without training data. Pass two text files, `train_pairs` or `dataset`."
        )
    if recipe.streaming and recipe.tokenizer is None:
        raise ValueError(
            "`tokenizer` must be given with `streaming`, got none: a vocabulary cannot be trained "
            "on a stream. Train one on some of the text with `vaswani-transformer "
            "train-tokenizer`, then pass its folder."
        )
    if recipe.streaming and [weight for _, weight in corpora] != [1]:
        raise ValueError(
            "`streaming` must be off with several corpora or `train_weights`, got it on: a stream "
            "cannot be mixed evenly. Train without it, or mix the files first."
        )
    has_validation = recipe.data_arguments("validation") is not None
    if recipe.decides_by_validation and not has_validation:
        raise ValueError(
            "`validation_source` and `validation_target` must be given for "
            f"`load_best_model_at_end` and `early_stopping_patience`, got a recipe ({recipe.name}) "
            "without validation data. Pass two text files, or switch both off (false, none)."
        )
    if has_own_metrics:
        return
    scores: dict[str, Any] = {}
    if has_validation and recipe.generation_num_beams > 0:
        from ..inference.metrics import score_translations

        # raises an error now if a package for the scores is missing
        scores = score_translations(["."], ["."], recipe.target_language)
    known = [name for name in DECIDING if name in scores or name not in METRICS]
    if recipe.decides_by_validation and recipe.metric_for_best_model not in known:
        raise ValueError(
            f"`metric_for_best_model` must be one of {', '.join(known)}, got "
            f"{recipe.metric_for_best_model!r}. Pass one of them, translate at validations "
            "(`generation_num_beams`), or pass `compute_metrics` to `train`."
        )


# ---- the folder of a run ----


def check_output_dir(
    output_dir: str | Path, recipe: Recipe, *, overwrite: bool, resume: bool
) -> None:
    """Raise an error if the folder has a run that would be lost, or that cannot be resumed.

    Raises:
        ValueError: If another run would be lost, or the run to resume has another recipe.
        FileNotFoundError: If the folder has parts of a run to resume, but no recipe.
    """
    output_dir = Path(output_dir)
    # torchrun starts the same command again after a lost process, and counts such restarts on the
    # process's own machine.
    is_restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    if overwrite and (resume or is_restart):
        raise ValueError(
            "`overwrite` must not be set with `resume`, nor when torchrun restarts a run. Drop it."
        )
    if overwrite or not run_files(output_dir):
        return
    if not resume:
        raise ValueError(
            f"`output_dir` must not hold another run, got {output_dir}. Pass another folder, or "
            "resume or overwrite that run (--resume, --overwrite)."
        )
    if not (output_dir / RECIPE_FILE).is_file():
        raise FileNotFoundError(
            f"`output_dir` must hold the run to resume, got {output_dir} without {RECIPE_FILE}. "
            "Pass its folder, or another one to start a run."
        )
    _check_same_recipe(Recipe.load(output_dir), recipe)


def _finished_results(recipe: Recipe, output_dir: Path) -> dict[str, Any] | None:
    """Return the results of a run if it has finished exactly this recipe, and otherwise None."""
    results = read_json_if_any(output_dir / TRAIN_RESULTS_FILE)
    # Results of 0.1.0 and 0.2.0 lack `train_end`. Such a run is finished if it made all updates.
    old_end = [results.get("train_steps"), recipe.early_stopping_patience]
    end = [recipe.max_steps, recipe.early_stopping_patience]
    is_done = results.get("train_end", old_end) == end
    return results if is_done and Recipe.load(output_dir) == recipe else None


def _check_same_recipe(trained: Recipe, wanted: Recipe) -> None:
    """Raise ValueError if the recipes differ in a field that a resumed run must not change."""
    differences = [
        f"{field.name} {getattr(trained, field.name)!r} instead of {getattr(wanted, field.name)!r}"
        for field in dataclasses.fields(Recipe)
        if not field.metadata["free"]
        and getattr(trained, field.name) != getattr(wanted, field.name)
    ]
    if differences:
        raise ValueError(
            "`recipe` must be the one of the run to resume, got another: the run has "
            f"{'; '.join(differences)}. Pass the same values, or another `output_dir`."
        )


# ---- the end of a run ----


def finish_run(
    recipe: Recipe,
    trainer: VaswaniTransformerTrainer,
    output: TrainOutput,
    data: RunData,
    text_report: dict[str, Any] | None,
) -> dict[str, Any]:
    """Write the final model, results and card into the run's folder, and return the results.

    Every process must call this function after the last update.
    """
    args, batches, output_dir = trainer.args, trainer.train_batches, Path(trainer.args.output_dir)
    num_averaged = _write_model(recipe, trainer)
    num_averaged = trainer.accelerator.reduce(
        torch.tensor(num_averaged, device=args.device), "sum"
    ).item()
    figures: dict[str, Any] = {
        name: value for name, value in output.metrics.items() if name.startswith("train_")
    }
    figures |= measure_cost(trainer)
    if (report := data.report or trainer.stream_report()) is not None:
        figures |= {"train_pairs": report.num_kept, "train_dropped_pairs": report.dropped}
    if len(data.corpora) > 1:
        figures["train_corpora"] = [
            {
                "name": corpus.name,
                "weight": corpus.weight,
                "pairs": corpus.report and corpus.report.num_kept,
            }
            for corpus in data.corpora
        ]
    results = {
        "recipe": recipe.name,
        "train_versions": {
            name: version(name) for name in ("transformers", "torch", "tokenizers", "datasets")
        },
        "train_processes": args.world_size,
        "train_accumulation_steps": args.gradient_accumulation_steps,
        "train_max_padded_tokens_per_device": args.max_padded_tokens_per_device,
        "train_padding_fraction": None if batches is None else batches.padding_fraction,
        **figures,
        "train_text": text_report,
        **_validation_figures(trainer),
        **(_evaluate_average(trainer) if num_averaged else {}),
        "train_steps": output.global_step,
        "train_end": [recipe.max_steps, recipe.early_stopping_patience],
        "num_parameters": trainer.model.num_parameters(),
        "num_averaged_snapshots": num_averaged,
        "best_checkpoint": trainer.state.best_model_checkpoint
        if recipe.load_best_model_at_end
        else None,
    }
    if trainer.is_world_process_zero():
        _set_aside_scores(output_dir, output.global_step)
        with writing_beside(output_dir / STATE_FILE) as beside:
            trainer.state.save_to_json(str(beside))
        write_json(output_dir / TRAIN_RESULTS_FILE, results)
        refresh_card(output_dir)
    trainer.accelerator.wait_for_everyone()
    return results


def _write_model(recipe: Recipe, trainer: VaswaniTransformerTrainer) -> int:
    """Write the final model and return the number of averaged snapshots.

    The files are written to a staging folder and then renamed, because a half-written file would
    prevent a resume. Every process must call this function. In all processes but the main one, the
    returned number is 0.
    """
    output_dir, num_averaged = Path(trainer.args.output_dir), 0
    staged = output_dir / STAGING_FOLDER / "model"
    try:
        trainer.save_model(str(staged))
        if trainer.is_world_process_zero():
            (staged / "training_args.bin").unlink(missing_ok=True)
            if not recipe.load_best_model_at_end and recipe.num_averaged_snapshots > 0:
                num_averaged = write_average(output_dir, recipe.num_averaged_snapshots, staged)
            saved = {path.name: path.replace(output_dir / path.name) for path in staged.iterdir()}
            for path in output_dir.glob(CODE_FILES):
                if path.name not in saved:  # An earlier version of the package saved this file.
                    path.unlink()
    finally:
        if trainer.is_world_process_zero():
            clear_staging(output_dir)
    return num_averaged


def _set_aside_scores(output_dir: Path, num_steps: int) -> None:
    """Rename the test results of the run's earlier model, and delete the earlier curves.

    There is an earlier model if the run was once finished, and later resumed for more updates.
    """
    results = output_dir / TRAIN_RESULTS_FILE
    if (
        not results.is_file()
        or (earlier := read_json(results).get("train_steps", num_steps)) == num_steps
    ):
        return
    (output_dir / CURVES_FILE).unlink(missing_ok=True)
    for path in output_dir.glob(TEST_RESULTS_PATTERN):
        renamed = path.replace(path.with_name(f"after-{earlier}-updates-{path.name}"))
        logger.warning(f"Scores of the model before these updates are now in {renamed}.")


def _validation_figures(trainer: VaswaniTransformerTrainer) -> dict[str, float]:
    """Return the figures of the last validation (`last_eval_*`) and of the best (`best_eval_*`).

    `metric_for_best_model` decides which validation is the best.
    """
    state = trainer.state
    validations = [entry for entry in state.log_history if "eval_runtime" in entry]
    best = [entry for entry in validations if entry["step"] == state.best_global_step]
    return {
        f"{which}_{name}": value
        for which, entries in (("last", validations), ("best", best))
        for entry in entries[-1:]
        for name, value in entry.items()
        if name.startswith("eval_")
    }


def _evaluate_average(trainer: VaswaniTransformerTrainer) -> dict[str, float]:
    """Load the averaged weights and return the figures of their validation, `average_eval_*`.

    The result is empty if there is no validation set. Every process must call this function.
    """
    dataset: Any = trainer.eval_dataset
    if dataset is None:
        return {}
    weights = load_file(Path(trainer.args.output_dir) / WEIGHTS_FILE)
    # Not strict, because the file contains each tied tensor only once.
    trainer.model.load_state_dict(weights, strict=False)
    trainer.args.prediction_loss_only = not trainer.args.predict_with_generate
    return trainer.predict(dataset, metric_key_prefix="average_eval").metrics or {}
