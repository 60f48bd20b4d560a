# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Resumable checkpoints on disk: find, check, publish and delete them.

A checkpoint is first written to a staging folder. Its manifest, with the size and hash of each
file, is written last. Then the checkpoint is moved to the run's folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from transformers.utils import logging

from ..files import MANIFEST_FILE, STAGING_FOLDER, STATE_FILE, read_json, write_json
from .arguments import VaswaniTransformerTrainingArguments

logger = logging.get_logger(__name__)


# ---- finding a checkpoint ----


def list_checkpoints(output_dir: str | Path) -> list[Path]:
    """Return a run's resumable checkpoints (`checkpoint-<step>`), oldest first.

    Damaged ones are included.
    """
    paths = [
        path
        for path in Path(output_dir).glob("checkpoint-*")
        if path.is_dir() and path.name.partition("-")[2].isdecimal()
    ]
    return sorted(paths, key=checkpoint_step)


def checkpoint_step(checkpoint: Path) -> int:
    """Return a checkpoint's step, read from the checkpoint's name.

    The step is the number of the update after which the checkpoint was saved.
    """
    return int(checkpoint.name.removeprefix("checkpoint-"))


def find_checkpoint(output_dir: str | Path) -> Path:
    """Return the newest undamaged checkpoint of a run, and warn of damaged ones that are newer.

    Raises:
        FileNotFoundError: There is no undamaged checkpoint.
    """
    for checkpoint in reversed(list_checkpoints(output_dir)):
        if not (faults := _faults(checkpoint)):
            return checkpoint
        logger.warning(
            f"`{checkpoint}` must be a complete checkpoint, got {', '.join(faults)}. It is skipped."
        )
    raise FileNotFoundError(
        f"`output_dir` must hold a complete checkpoint to resume from, got {output_dir} without an "
        "undamaged one. Start again in another folder, or use --overwrite, which deletes the run."
    )


def checkpoint_to_resume(args: VaswaniTransformerTrainingArguments) -> Path:
    """Clean up after a killed save, and return the newest undamaged checkpoint.

    Every process must call this function. The main process calls `clear_staging` before any process
    looks for checkpoints.
    """
    with args.main_process_first(local=False, desc="looking for checkpoints"):
        if args.process_index == 0:
            clear_staging(args.output_dir)
        return find_checkpoint(args.output_dir)


def best_checkpoint(checkpoint: Path) -> str | None:
    """Return the path of the run's best checkpoint, according to the state in `checkpoint`.

    The state names an absolute path, but the run's folder may have been moved. So only the last
    component of this path is used: it is looked up in the folder that contains `checkpoint`. Return
    None if the best checkpoint was deleted, or if the state names no best checkpoint.
    """
    saved = read_json(checkpoint / STATE_FILE).get("best_model_checkpoint")
    best = saved and checkpoint.parent / Path(saved).name
    return str(best) if best and best.is_dir() else None


def _faults(checkpoint: Path) -> list[str]:
    """Return a description of each missing or changed file of a checkpoint."""
    # A checkpoint without a manifest was saved by transformers' own `Trainer`. `Trainer` writes the
    # state last, so the checkpoint is complete if there is a state.
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
    """Return the size and the SHA-256 hash of a file, or None if there is no file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


# ---- saving a checkpoint ----


def publish_checkpoint(staged: Path, output_dir: Path) -> None:
    """Write the manifest of a staged checkpoint, and move the checkpoint to the run's folder.

    An earlier checkpoint of the same name is replaced. If the process is killed during the
    replacement, either the run's folder or the staging folder has a complete checkpoint of this
    name. If only the staging folder has it, `clear_staging` moves it to the run's folder. But the
    function `train` does not call `clear_staging` if the run's folder has neither a checkpoint nor
    a model: it starts a new run. Once this function has returned, no killed process can damage the
    checkpoint. A power cut still can, because this function does not wait until the files are on
    the disk.
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
    """Delete the staging folder, which a failed or killed save may have left.

    If the staging folder has a complete checkpoint that the run's folder lacks, the checkpoint is
    first moved to the run's folder.
    """
    staging = Path(output_dir) / STAGING_FOLDER
    for staged in list_checkpoints(staging):
        if (staged / MANIFEST_FILE).is_file() and not (staging.parent / staged.name).exists():
            os.replace(staged, staging.parent / staged.name)
    shutil.rmtree(staging, ignore_errors=True)


def rotate_checkpoints(newest: Path, limit: int | None, best: str | Path | None = None) -> None:
    """Delete a run's oldest checkpoints until `limit` are left; None or 0 keeps all of them.

    The best checkpoint and `newest`, which was just published, are always kept. `newest` may have a
    lower number than the checkpoints that an earlier training left.
    """
    if not limit or limit < 0:
        return
    kept = {newest.name, Path(best or newest).name}
    others = [path for path in list_checkpoints(newest.parent) if path.name not in kept]
    num_deleted = len(others) - max(limit - len(kept), 0)
    for path in others[: max(num_deleted, 0)]:
        shutil.rmtree(path, ignore_errors=True)
