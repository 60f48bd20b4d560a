# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A run's folder: who may write into it, and how results get there."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..files import (
    CARD_FILE,
    CURVES_FILE,
    RECIPE_FILE,
    SNAPSHOT_FOLDER,
    STAGING_FOLDER,
    STATE_FILE,
    TEST_RESULTS_FILE,
    TEST_RESULTS_PATTERN,
    TRAIN_RESULTS_FILE,
    WEIGHTS_FILE,
    read_json,
    write_json,
)
from .checkpoints import list_checkpoints
from .recipes import Recipe

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.get_logger(__name__)

CARD_MARKER = (
    "<!-- written by `vaswani-transformer train` and anew by `evaluate`; without this line it is kept as it is -->"
)

# A folder with one of the first holds a run; the others only go with it.
_RUN_FILES = (
    RECIPE_FILE,
    TRAIN_RESULTS_FILE,
    TEST_RESULTS_FILE,
    "config.json",
    "generation_config.json",
    WEIGHTS_FILE,
)
_DELETED_WITH_A_RUN = (TEST_RESULTS_PATTERN, f"after-*-updates-{TEST_RESULTS_PATTERN}", STATE_FILE, CURVES_FILE)

# Changing these does not change the updates already made, so a resumed run may.
_FREE_TO_CHANGE = frozenset(
    (
        "name",
        "description",
        "test_split",
        "test_source",
        "test_target",
        "test_pairs",
        "max_steps",
        "max_padded_tokens_per_device",
        "eval_steps",
        "eval_num_beams",
        "save_steps",
        "save_total_limit",
        "logging_steps",
        "early_stopping_patience",
        "num_beams",
        "length_penalty",
        "length_penalty_offset",
        "max_new_tokens_over_source",
    )
)


def holds_a_run(output_dir: str | Path) -> bool:
    """Whether a folder holds a model, a checkpoint, snapshots or results."""
    output_dir = Path(output_dir)
    names = (*_RUN_FILES, SNAPSHOT_FOLDER)
    return any((output_dir / name).exists() for name in names) or bool(list_checkpoints(output_dir))


def check_output_dir(output_dir: str | Path, recipe: Recipe, *, overwrite: bool, resume: bool) -> None:
    """Refuses a folder that would lose another run, or that does not hold the run to resume.

    Args:
        output_dir: Folder of the run.
        recipe: Recipe about to be trained.
        overwrite: Whether a run in the folder may be deleted.
        resume: Whether the run in the folder goes on.

    Raises:
        ValueError: If the folder is a file or holds another run, if both switches are on, or if the recipe to resume
            differs.
        FileNotFoundError: If there is nothing to resume.
    """
    output_dir = Path(output_dir)
    if output_dir.exists() and not output_dir.is_dir():
        raise ValueError(f"`output_dir` must be a folder, got the file {output_dir}. Pass another path.")
    if overwrite and resume:
        raise ValueError("`overwrite` and `resume` must not both be set, got both. Choose one of them.")
    if resume and not (output_dir / RECIPE_FILE).is_file():
        raise FileNotFoundError(
            f"`output_dir` must hold the run to resume, got {output_dir} without {RECIPE_FILE}. Leave --resume out to "
            "start one, or pass --resume-or-start."
        )
    if resume:
        check_same_recipe(Recipe.load(output_dir), recipe)
    elif not overwrite and holds_a_run(output_dir):
        raise ValueError(
            f"`output_dir` must not hold another run, got {output_dir}. Pass another folder, or resume or overwrite "
            "that run (--resume, --overwrite)."
        )


@contextlib.contextmanager
def holding(output_dir: str | Path) -> Iterator[None]:
    """Keeps a folder to one training at a time; the first of several processes does so for all.

    Raises:
        ValueError: Another training is writing there. (Not noticed on Windows, and where a file system has no locks.)
        OSError: The folder cannot be made.
    """
    output_dir = Path(output_dir)
    if fcntl is None or os.environ.get("RANK", "0") != "0" or (output_dir.exists() and not output_dir.is_dir()):
        yield
        return
    is_new = not output_dir.exists()
    output_dir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(output_dir, os.O_RDONLY)
    try:
        _lock(descriptor, output_dir)
        yield
    finally:
        os.close(descriptor)
        if is_new and not any(output_dir.iterdir()):
            output_dir.rmdir()


def _lock(descriptor: int, output_dir: Path) -> None:
    """Locks an open folder until it is closed, where its file system can."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(
            f"`output_dir` must take one training at a time, got {output_dir}, where another one is writing now. Wait "
            "for its end, stop it, or pass another folder."
        ) from error
    except OSError:
        logger.warning_once(f"{output_dir} is on a file system without locks: start no second training in it.")


def start_or_resume(output_dir: str | Path, recipe: Recipe) -> dict[str, bool]:
    """Switches for a run whose command is repeated until it is finished, as schedulers do after a lost machine.

    Args:
        output_dir: Folder of the run.
        recipe: Recipe about to be trained.

    Returns:
        `resume` and `overwrite` as for `train`: a run with a checkpoint goes on, one that was lost before its first
        starts anew. Where there is no run, and where there is another, both are off.

    Raises:
        ValueError: If the run lost before its first checkpoint is another recipe's.
    """
    output_dir = Path(output_dir)
    resume = bool(list_checkpoints(output_dir))
    was_lost = (
        not resume
        and (output_dir / RECIPE_FILE).is_file()
        and not any((output_dir / name).exists() for name in (WEIGHTS_FILE, TRAIN_RESULTS_FILE))
    )
    if was_lost:
        check_same_recipe(Recipe.load(output_dir), recipe)
    return {"resume": resume, "overwrite": was_lost}


def clear_run(output_dir: str | Path) -> None:
    """Deletes the run in a folder, with every `test_results*.json`; files of other origin stay."""
    output_dir = Path(output_dir)
    for folder in (*list_checkpoints(output_dir), output_dir / SNAPSHOT_FOLDER, output_dir / STAGING_FOLDER):
        if folder.exists():
            shutil.rmtree(folder)
    for pattern in (*_RUN_FILES, *_DELETED_WITH_A_RUN):
        for path in output_dir.glob(pattern):
            path.unlink()
    if is_own_card(output_dir / CARD_FILE):
        (output_dir / CARD_FILE).unlink()


def is_own_card(path: Path) -> bool:
    """Whether a file is a model card that this package wrote and nobody has made their own."""
    return path.is_file() and CARD_MARKER in path.read_text(encoding="utf-8", errors="replace")


def set_aside_scores(output_dir: str | Path, num_steps: int) -> list[Path]:
    """Takes from a run's folder what tells of its model after another number of updates, as a resumed run's does.

    Test results are renamed, for example to after-2500-updates-test_results.json; the curves, which can be drawn
    again, are deleted.

    Args:
        output_dir: Folder of the run, with the `train_results.json` of the earlier model.
        num_steps: Updates of the model that the folder holds now.

    Returns:
        The new names.
    """
    output_dir, earlier = Path(output_dir), read_train_results(output_dir).get("train_steps", num_steps)
    if earlier == num_steps:
        return []
    (output_dir / CURVES_FILE).unlink(missing_ok=True)
    results = sorted(output_dir.glob(TEST_RESULTS_PATTERN))
    return [path.replace(path.with_name(f"after-{earlier}-updates-{path.name}")) for path in results]


def write_train_results(output_dir: str | Path, results: dict[str, Any]) -> Path:
    """Writes `train_results.json` into a folder, atomically, and returns the file's path."""
    return write_json(Path(output_dir) / TRAIN_RESULTS_FILE, results)


def read_train_results(output_dir: str | Path) -> dict[str, Any]:
    """What `train_results.json` in a folder says; nothing if there is none.

    Raises:
        ValueError: If the file is broken.
    """
    path = Path(output_dir) / TRAIN_RESULTS_FILE
    return read_json(path, advice="Delete it.") if path.is_file() else {}


def check_same_recipe(trained: Recipe, wanted: Recipe) -> None:
    """Raises ValueError naming the fields in which a run to resume differs in a way that would make it another run.

    Args:
        trained: Of the run.
        wanted: About to be trained.
    """
    differences = [
        f"{field.name} {getattr(trained, field.name)!r} instead of {getattr(wanted, field.name)!r}"
        for field in dataclasses.fields(Recipe)
        if field.name not in _FREE_TO_CHANGE and getattr(trained, field.name) != getattr(wanted, field.name)
    ]
    if differences:
        raise ValueError(
            f"`recipe` must be the one of the run to resume, got another: the run has {'; '.join(differences)}. Pass "
            "the same values, or another `output_dir`."
        )
