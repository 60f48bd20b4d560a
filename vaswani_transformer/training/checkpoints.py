# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Resumable checkpoints on disk: staged and renamed, checked against their manifest, rotated."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from transformers.utils import logging

from ..files import MANIFEST_FILE, STAGING_FOLDER, STATE_FILE, read_json, write_json
from .arguments import VaswaniTransformerTrainingArguments

logger = logging.get_logger(__name__)


# ---- finding one ----


def list_checkpoints(output_dir: str | Path) -> list[Path]:
    """Return the resumable checkpoints (`checkpoint-<step>`) of a run, damaged or not, oldest
    first.
    """
    paths = [path for path in Path(output_dir).glob("checkpoint-*") if path.is_dir()]
    return sorted(
        (path for path in paths if path.name.partition("-")[2].isdecimal()), key=checkpoint_step
    )


def checkpoint_step(checkpoint: Path) -> int:
    """Return the number of the last update in a checkpoint, from its name."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def find_checkpoint(output_dir: str | Path) -> Path:
    """Return the newest undamaged checkpoint of a run, and warn of damaged ones that are newer.

    Raises:
        FileNotFoundError: There is none.
    """
    for checkpoint in reversed(list_checkpoints(output_dir)):
        if not (faults := _faults(checkpoint)):
            return checkpoint
        logger.warning(
            f"`{checkpoint}` must be a complete checkpoint, got {', '.join(faults)}. It is skipped."
        )
    raise FileNotFoundError(
        f"`output_dir` must hold a complete checkpoint to resume from, got {output_dir} without an "
        "undamaged one. Start again with --overwrite."
    )


def take_up_checkpoint(args: VaswaniTransformerTrainingArguments) -> Path:
    """Return `find_checkpoint` in all processes, after the main one has called `clear_staging`."""
    with args.main_process_first(local=False, desc="looking for checkpoints"):
        if args.process_index == 0:
            clear_staging(args.output_dir)
        return find_checkpoint(args.output_dir)


def best_checkpoint(checkpoint: Path) -> str | None:
    """Return the best checkpoint that the state of a checkpoint names, or None if it was deleted.

    It is looked up by its name in the same folder, because the folder of the run may have moved.
    """
    saved = read_json(checkpoint / STATE_FILE).get("best_model_checkpoint")
    best = saved and checkpoint.parent / Path(saved).name
    return str(best) if best and best.is_dir() else None


def _faults(checkpoint: Path) -> list[str]:
    """Return a description of each file of a checkpoint that is missing or has changed."""
    # saved by transformers' own trainer, which writes the state last
    if not (checkpoint / MANIFEST_FILE).exists():
        return [] if (checkpoint / STATE_FILE).is_file() else [f"no {STATE_FILE}"]
    try:
        files = read_json(checkpoint / MANIFEST_FILE)
    except (OSError, ValueError):
        files = {}
    if STATE_FILE not in files:
        return [f"a broken {MANIFEST_FILE}"]
    return [
        f"a broken {name}"
        for name, saved in files.items()
        if _fingerprint(checkpoint / name) != saved
    ]


def _fingerprint(path: Path) -> dict[str, int | str] | None:
    """Return size and SHA-256 of a file, or None if there is no file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


# ---- saving one ----


def publish_checkpoint(staged: Path, output_dir: Path) -> None:
    """Write the manifest of a staged checkpoint, and move the checkpoint into the run's folder.

    If the process is killed, the run or its staging folder holds the new checkpoint or the one that
    it replaces. `clear_staging` restores it. Older checkpoints may be deleted once this returns.
    """
    files = sorted(path for path in staged.rglob("*") if path.is_file())
    write_json(
        staged / MANIFEST_FILE,
        {path.relative_to(staged).as_posix(): _fingerprint(path) for path in files},
    )
    checkpoint = output_dir / staged.name
    if checkpoint.exists():
        os.replace(checkpoint, staged.with_name("replaced"))
    os.replace(staged, checkpoint)


def clear_staging(output_dir: str | Path) -> None:
    """Delete the leftovers of a failed or killed save, after moving a complete checkpoint to a run
    that lacks it.
    """
    staging = Path(output_dir) / STAGING_FOLDER
    for staged in list_checkpoints(staging):
        if (staged / MANIFEST_FILE).is_file() and not (staging.parent / staged.name).exists():
            os.replace(staged, staging.parent / staged.name)
    shutil.rmtree(staging, ignore_errors=True)


def rotate_checkpoints(newest: Path, limit: int | None, best: str | Path | None = None) -> None:
    """Delete a run's oldest checkpoints until `limit` are left; None or 0 keeps all.

    The newest checkpoint, which was just published, and the best one are always kept, whatever
    their numbers.
    """
    if not limit or limit < 0:
        return
    kept = {newest.name, Path(best or newest).name}
    others = [path for path in list_checkpoints(newest.parent) if path.name not in kept]
    num_deleted = len(others) - max(limit - len(kept), 0)
    for path in others[: max(num_deleted, 0)]:
        shutil.rmtree(path, ignore_errors=True)
