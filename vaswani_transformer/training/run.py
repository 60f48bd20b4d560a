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
from ..evaluation import DECODING, METRICS
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
    run_files,
    write_json,
    writing_beside,
)
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from .arguments import VaswaniTransformerTrainingArguments
from .averaging import write_average
from .callbacks import LogLines, PaceCallback
from .card import refresh_card
from .checkpoints import checkpoint_step, clear_staging, list_checkpoints, take_up_checkpoint
from .loading import RunData, cleaning_rules, default_workers, prepare_data
from .recipes import DECIDING, Recipe, laid_out
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
    """Trains the model of a recipe and leaves it, ready for `from_pretrained` and `pipeline`, in a folder.

    The folder ends up with the model (the average of the newest snapshots, or the best checkpoint, or the last
    update: the recipe says which), its tokenizer and card, `recipe.json`, `train_results.json`, the whole log in
    `trainer_state.json`, the resumable checkpoints and the snapshots. Under torchrun or `accelerate launch` every
    process calls this with the same arguments.

    Args:
        recipe: What to train; see `get_recipe`.
        output_dir: Folder of the run.
        overwrite: Delete the run the folder holds, once the data are read.
        resume: Resume from the newest checkpoint in the folder; where a run has none yet, or no run is, start there.
        bf16: Compute in bfloat16 where it is safe; weights stay in float32.
        use_cpu: Ignore accelerators.
        report_to: Trackers of transformers that receive the log, one name or several; "tensorboard" writes into
            `output_dir/runs`.
        num_proc: Processes that tokenise the data; None is all cores for a large corpus.
        compute_metrics: Of `Trainer`: figures of the validation set's translations, in its order, one of which can be
            `metric_for_best_model`; None computes those of `evaluation.METRICS`.

    Returns:
        Results as written to `train_results.json`: the `train_*` figures of transformers, the training's cost (see
        `measure_cost`) and layout, the number of updates, pairs, parameters and averaged snapshots, and
        what cleaning dropped. Validations are `last_eval_*` (the last during training), `best_eval_*` (the best by
        `metric_for_best_model`, where it decides), and `average_eval_*` (of the averaged weights, which are the final
        model's).

    Raises:
        ValueError: If the folder holds another run, or a value does not fit; nothing is lost then.
        FileNotFoundError: If data, tokenizer or checkpoint are missing or incomplete.
        ImportError: If the package of a tracker is missing.
        KeyboardInterrupt: After SIGINT or SIGTERM, when a resumable checkpoint is written.
    """
    is_main = os.environ.get("RANK", "0") == "0"
    output_dir = Path(output_dir)
    with locking(output_dir) if is_main else contextlib.nullcontext():
        check_output_dir(output_dir, recipe, overwrite=overwrite, resume=resume)
        resumes = resume and _has_something_to_resume(output_dir)
        results = _finished_results(recipe, output_dir) if resumes else None
        if results is not None:
            logger.info(f"All {recipe.max_steps:,} updates are made, and {output_dir} has the model.")
            if is_main:
                refresh_card(output_dir)
            return results
        if resume and not resumes:
            logger.info(f"{output_dir} holds no run to resume: a new one starts there.")
        _check_recipe(recipe, compute_metrics is not None)
        arguments = training_arguments(recipe, output_dir, bf16=bf16, use_cpu=use_cpu, report_to=report_to)
        try:
            for tracker in get_reporting_integration_callbacks(arguments.report_to):
                tracker()  # names a package that is missing before anything is deleted
        except RuntimeError as error:
            raise ImportError(str(error)) from error
        checkpoint = take_up_checkpoint(arguments) if resumes else None
        finished_steps = 0 if checkpoint is None else checkpoint_step(checkpoint)
        if recipe.max_steps < finished_steps:
            raise ValueError(
                f"`max_steps` must be at least {finished_steps}, the updates the run to resume has made, got "
                f"{recipe.max_steps}. Pass a larger number."
            )
        arguments.distributed_state.wait_for_everyone()  # all have looked into the folder before the first one writes
        with arguments.main_process_first(local=False, desc="preparing the data"):
            data = prepare_data(recipe, arguments, checkpoint, num_proc)
            if arguments.process_index == 0:
                if checkpoint is None:
                    clear_run(output_dir)
                    output_dir.mkdir(parents=True, exist_ok=True)
                    data.tokenizer.save_pretrained(output_dir)
                recipe.save(output_dir)
        for corpus in data.corpora:
            if len(data.corpora) > 1:
                report = f": {corpus['report']}" if corpus["report"] else ""
                logger.info(f"Training corpus {corpus['name']}, {corpus['weight']} times an epoch{report}.")
        if data.report is not None:
            logger.info(f"Training data: {data.report}.")
        trainer = build_trainer(recipe, arguments, data, make_model, compute_metrics)
        logger.info(describe_plan(trainer))
        output = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        return finish_run(recipe, trainer, output, data)


def make_model(recipe: Recipe, data: RunData) -> VaswaniTransformerForConditionalGeneration:
    """Freshly initialised model of the recipe, with the recipe's search as its generation config."""
    model = VaswaniTransformerForConditionalGeneration(recipe.model_config(len(data.tokenizer)))
    model.generation_config.update(**{name: getattr(recipe, name) for name in DECODING})
    # Beyond this length the pipeline warns.
    longest = recipe.max_tokens_per_sentence if recipe.streaming else int(pair_lengths(data.train)[0].max())
    model.generation_config.longest_training_source = longest  # type: ignore[attr-defined]  # it takes any key
    return model


def fit_to_minutes(
    recipe: Recipe, minutes: float, *, keep: Collection[str] = (), num_proc: int | None = None, **options: Any
) -> Recipe:
    """Returns the recipe with as many updates as fit into these minutes here, laid out for them.

    The first updates are timed in a folder that is deleted, for a twentieth of the minutes; a tenth is left to
    validations and checkpoints. `keep` names values of the recipe that stay; options are `bf16` and `use_cpu`; what
    cannot be trained raises ValueError.
    """
    if not 0 < minutes < math.inf or os.environ.get("WORLD_SIZE", "1") != "1":
        raise ValueError(
            f"`minutes` must be a finite number above 0, for one process, got {minutes}. Pass `max_steps`."
        )
    _check_recipe(recipe)
    with tempfile.TemporaryDirectory() as folder:
        logger.info("Timing the first updates, with a vocabulary that is thrown away.")
        timed = dataclasses.replace(
            recipe, num_averaged_snapshots=0, early_stopping_patience=None, load_best_model_at_end=False
        )
        arguments = training_arguments(timed, folder, **options)
        arguments.eval_strategy = arguments.save_strategy = arguments.logging_strategy = "no"
        arguments.logging_first_step, arguments.disable_tqdm = False, True
        trainer = build_trainer(timed, arguments, prepare_data(timed, arguments, None, num_proc), make_model)
        trainer._catching_stop_signals = contextlib.nullcontext  # type: ignore[assignment]  # there is nothing to save
        pace = PaceCallback(3 * minutes)
        trainer.add_callback(pace)
        trainer.remove_callback(LogLines)
        trainer.train()
        del trainer
        clear_device_cache(garbage_collection=True)  # the training measures what is free
    fitted = laid_out(recipe, max(1, int(0.9 * 60 * minutes / pace.seconds)), keep=keep)
    logger.info(f"One update takes {pace.seconds:.3g} s: {fitted.max_steps:,} updates in about {minutes:g} minutes.")
    return fitted


def training_arguments(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    bf16: bool = False,
    use_cpu: bool = False,
    report_to: str | list[str] = "none",
) -> VaswaniTransformerTrainingArguments:
    """Training arguments of a recipe; on a machine without accelerator they use the CPU."""
    values = recipe.trainer_values()
    if recipe.load_best_model_at_end:
        values["num_averaged_snapshots"] = 0
        values["save_steps"] = recipe.eval_steps  # only what was saved can be loaded
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
        ddp_timeout=4 * 3600,  # seconds: the first process prepares a large corpus alone
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
    """Trainer with a freshly made model, the recipe's data and its callbacks."""
    if compute_metrics is None and recipe.target_language is None and arguments.metric_for_best_model == "sacrebleu":
        logger.info("chrF decides: the tokeniser of sacreBLEU needs --target-language, and none was given.")
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
    """One paragraph on what is about to be trained: size, batches, devices, updates, learning rate, precision."""
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
    languages = f", {pair[0]} -> {pair[1]}," if pair else " (no --source-language, no --target-language)"
    if warmup > args.max_steps:
        logger.warning(
            f"The warm-up of {warmup:,} updates is longer than the training. Pass --warmup-steps "
            f"{max(1, args.max_steps // 5)} --learning-rate {peak:.2g}, which is the same peak."
        )
    return (
        f"Training {trainer.model.num_parameters(only_trainable=True):,} parameters{languages} on {described}: "
        f"{args.max_steps:,} updates. An update holds up to {args.max_source_tokens_per_batch:,} source and "
        f"{args.max_target_tokens_per_batch:,} target tokens, split over {args.world_size} device(s) x "
        f"{args.gradient_accumulation_steps} accumulation step(s). Learning rate up to {peak:.2e} at update "
        f"{warmup:,}; {'bf16' if args.bf16 else 'fp32'} on {args.device}."
    )


def _check_recipe(recipe: Recipe, has_own_metrics: bool = False) -> None:
    """Raise on what would be noticed when an old run is deleted already, after hours, or not at all."""
    recipe.model_config()
    corpora = recipe.train_corpora()
    if not corpora:
        raise ValueError(
            f"`train_source` and `train_target` must be given, got a recipe ({recipe.name}) without training data. "
            "Pass two text files, `train_pairs` or `dataset`."
        )
    if recipe.streaming and recipe.tokenizer is None:
        raise ValueError(
            "`tokenizer` must be given with `streaming`, got none: a vocabulary cannot be trained on a stream. Train "
            "one on some of the text with `vaswani-transformer train-tokenizer`, then pass its folder."
        )
    if recipe.streaming and [weight for _, weight in corpora] != [1]:
        raise ValueError(
            "`streaming` must be off with several corpora or `train_weights`, got it on: a stream cannot be mixed "
            "evenly. Train without it, or mix the files first."
        )
    has_validation = recipe.data_arguments("validation") is not None
    if recipe.decides_by_validation and not has_validation:
        raise ValueError(
            "`validation_source` and `validation_target` must be given for `load_best_model_at_end` and "
            f"`early_stopping_patience`, got a recipe ({recipe.name}) without validation data. Pass two text files, "
            "or switch both off (false, none)."
        )
    if has_own_metrics:
        return
    scores: dict[str, Any] = {}
    if has_validation and recipe.generation_num_beams > 0:
        from ..evaluation.metrics import score_translations

        scores = score_translations(["."], ["."], recipe.target_language)  # names a package that is missing
    known = [name for name in DECIDING if name in scores or name not in METRICS]
    if recipe.decides_by_validation and recipe.metric_for_best_model not in known:
        raise ValueError(
            f"`metric_for_best_model` must be one of {', '.join(known)}, got {recipe.metric_for_best_model!r}. Pass "
            "one of them, translate at validations (`generation_num_beams`), or pass `compute_metrics` to `train`."
        )


# ---- the folder of a run ----


def check_output_dir(output_dir: str | Path, recipe: Recipe, *, overwrite: bool, resume: bool) -> None:
    """Refuse a folder that would lose another run, or whose run cannot be resumed.

    Raises:
        ValueError: If another run would be lost, or the run is another recipe's.
        FileNotFoundError: If the folder holds parts of a run, and no recipe.
    """
    output_dir = Path(output_dir)
    if overwrite and resume:
        raise ValueError("`overwrite` and `resume` must not both be set, got both. Choose one of them.")
    if overwrite or not run_files(output_dir):
        return
    if not resume:
        raise ValueError(
            f"`output_dir` must not hold another run, got {output_dir}. Pass another folder, or resume or overwrite "
            "that run (--resume, --overwrite)."
        )
    if not (output_dir / RECIPE_FILE).is_file():
        raise FileNotFoundError(
            f"`output_dir` must hold the run to resume, got {output_dir} without {RECIPE_FILE}. Pass its folder, or "
            "another one to start a run."
        )
    _check_same_recipe(Recipe.load(output_dir), recipe)


def _has_something_to_resume(output_dir: Path) -> bool:
    """Return False for a folder without a run, or with one that was lost before its first checkpoint."""
    return (output_dir / WEIGHTS_FILE).is_file() or bool(list_checkpoints(output_dir))


def _finished_results(recipe: Recipe, output_dir: Path) -> dict[str, Any] | None:
    """Results of a run that this very recipe has finished."""
    if not (output_dir / TRAIN_RESULTS_FILE).is_file():
        return None
    results: dict[str, Any] = read_json(output_dir / TRAIN_RESULTS_FILE)
    is_done = results.get("train_steps") == recipe.max_steps and Recipe.load(output_dir) == recipe
    return results if is_done else None


def _check_same_recipe(trained: Recipe, wanted: Recipe) -> None:
    """Raises ValueError naming the fields in which a run to resume differs so that it would be another run."""
    differences = [
        f"{field.name} {getattr(trained, field.name)!r} instead of {getattr(wanted, field.name)!r}"
        for field in dataclasses.fields(Recipe)
        if not field.metadata["free"] and getattr(trained, field.name) != getattr(wanted, field.name)
    ]
    if differences:
        raise ValueError(
            f"`recipe` must be the one of the run to resume, got another: the run has {'; '.join(differences)}. Pass "
            "the same values, or another `output_dir`."
        )


# ---- the end of a run ----


def finish_run(
    recipe: Recipe, trainer: VaswaniTransformerTrainer, output: TrainOutput, data: RunData
) -> dict[str, Any]:
    """Writes the final model, the results and the card into the run's folder, and returns the results.

    Every process calls it after the last update.
    """
    args, batches, output_dir = trainer.args, trainer.train_batches, Path(trainer.args.output_dir)
    num_averaged = _write_model(recipe, trainer)
    num_averaged = trainer.accelerator.reduce(torch.tensor(num_averaged, device=args.device), "sum").item()
    figures: dict[str, Any] = {name: value for name, value in output.metrics.items() if name.startswith("train_")}
    figures |= measure_cost(trainer)
    if (report := data.report or trainer.stream_report()) is not None:
        figures |= {"train_pairs": report.num_kept, "train_dropped_pairs": report.dropped}
    if len(data.corpora) > 1:
        figures["train_corpora"] = [
            {
                "name": corpus["name"],
                "weight": corpus["weight"],
                "pairs": corpus["report"] and corpus["report"].num_kept,
            }
            for corpus in data.corpora
        ]
    results = {
        "recipe": recipe.name,
        "train_processes": args.world_size,
        "train_accumulation_steps": args.gradient_accumulation_steps,
        "train_max_padded_tokens_per_device": args.max_padded_tokens_per_device,
        "train_padding_fraction": None if batches is None else batches.padding_fraction,
        **figures,
        **_validation_figures(trainer),
        **(_evaluate_average(trainer) if num_averaged else {}),
        "train_steps": output.global_step,
        "num_parameters": trainer.model.num_parameters(),
        "num_averaged_snapshots": num_averaged,
        "best_checkpoint": trainer.state.best_model_checkpoint if recipe.load_best_model_at_end else None,
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
    """Writes the final model and returns the number of averaged snapshots; every process calls it.

    Its files are first written elsewhere, then renamed: a half-written file would block a resume.
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
                if path.name not in saved:  # of an earlier version
                    path.unlink()
    finally:
        if trainer.is_world_process_zero():
            clear_staging(output_dir)
    return num_averaged


def _set_aside_scores(output_dir: Path, num_steps: int) -> None:
    """Renames the test results of an earlier model of a run that was resumed, and deletes its curves."""
    results = output_dir / TRAIN_RESULTS_FILE
    if not results.is_file() or (earlier := read_json(results).get("train_steps", num_steps)) == num_steps:
        return
    (output_dir / CURVES_FILE).unlink(missing_ok=True)
    for path in output_dir.glob(TEST_RESULTS_PATTERN):
        renamed = path.replace(path.with_name(f"after-{earlier}-updates-{path.name}"))
        logger.warning(f"Scores of the model before these updates are now in {renamed}.")


def _validation_figures(trainer: VaswaniTransformerTrainer) -> dict[str, float]:
    """Return the last validation as `last_eval_*`, and the one that `metric_for_best_model` chose as `best_eval_*`."""
    figures: dict[str, float] = {}
    for entry in trainer.state.log_history:
        validation = {name: value for name, value in entry.items() if name.startswith("eval_")}
        figures |= {f"last_{name}": value for name, value in validation.items()}
        if entry["step"] == trainer.state.best_global_step:
            figures |= {f"best_{name}": value for name, value in validation.items()}
    return figures


def _evaluate_average(trainer: VaswaniTransformerTrainer) -> dict[str, float]:
    """Load the averaged weights of a run and measure them on the validation set; every process calls it.

    Returns:
        `average_eval_*`; empty without a validation set.
    """
    dataset: Any = trainer.eval_dataset
    if dataset is None:
        return {}
    weights = load_file(Path(trainer.args.output_dir) / WEIGHTS_FILE)
    trainer.model.load_state_dict(weights, strict=False)  # a tied tensor is in the file once
    trainer.args.prediction_loss_only = not trainer.args.predict_with_generate
    return trainer.predict(dataset, metric_key_prefix="average_eval").metrics or {}
