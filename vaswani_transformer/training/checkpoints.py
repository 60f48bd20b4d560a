# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Resumable checkpoints on disk: how one appears whole or not at all, how a broken one is noticed, which are kept."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import TrainerState
from transformers.utils import logging

from ..files import MANIFEST_FILE, PROGRESS_FILES, STAGING_FOLDER, STATE_FILE, flush_to_disk, read_json, write_json
from .arguments import VaswaniTransformerTrainingArguments
from .running_sums import holds_sums

logger = logging.get_logger(__name__)

_CHECKPOINT_PATTERN = re.compile(r"checkpoint-\d+")
_PARTS = (
    ("model*.safetensors", "adapter_model*.safetensors"),
    ("optimizer*",),
    ("scheduler.pt",),
    ("rng_state*.pth",),
    (STATE_FILE,),
)


def list_checkpoints(output_dir: str | Path) -> list[Path]:
    """Resumable checkpoints (`checkpoint-<step>`) of a run, whole or not, oldest first.

    Args:
        output_dir: Folder of the run.
    """
    paths = Path(output_dir).glob("checkpoint-*")
    found = [path for path in paths if _CHECKPOINT_PATTERN.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=checkpoint_step)


def checkpoint_step(checkpoint: Path) -> int:
    """Number of the last update before a checkpoint, from its name."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def find_checkpoint(output_dir: str | Path) -> Path:
    """Newest whole checkpoint of a run; warns of broken ones that are newer.

    Raises:
        FileNotFoundError: If there is none; the message names the broken ones.
    """
    output_dir, broken = Path(output_dir), []
    staged = [path for path in list_checkpoints(output_dir / STAGING_FOLDER) if (path / MANIFEST_FILE).is_file()]
    for checkpoint in sorted([*staged, *list_checkpoints(output_dir)], key=checkpoint_step, reverse=True):
        if not (faults := _faults(checkpoint)):
            return checkpoint
        broken.append(f"{checkpoint} has {', '.join(faults)}")
        logger.warning(f"`{checkpoint}` must be a complete checkpoint, got {', '.join(faults)}. It is passed over.")
    found = "; ".join(broken) if broken else f"{output_dir} without one"
    raise FileNotFoundError(
        f"`output_dir` must hold a complete checkpoint to resume from, got {found}. Start again with --overwrite."
    )


def take_up_checkpoint(args: VaswaniTransformerTrainingArguments) -> Path:
    """`find_checkpoint` for all processes, after the main one has cleared up what the lost run was saving.

    Args:
        args: Arguments of the training.
    """
    with args.main_process_first(local=False, desc="looking for checkpoints"):
        if args.process_index == 0:
            clear_staging(args.output_dir)
        return find_checkpoint(args.output_dir)


def check_checkpoint(checkpoint: str | Path) -> Path:
    """Refuses a checkpoint with a file that is not as it was saved.

    Raises:
        ValueError: If it has such a file, or less of one than was written.
    """
    if faults := _changed_files(Path(checkpoint)):
        raise ValueError(
            f"`resume_from_checkpoint` must be a whole checkpoint, got {checkpoint} with {', '.join(faults)}. Pass "
            "True to go on from the newest whole one."
        )
    return Path(checkpoint)


def best_checkpoint(checkpoint: Path) -> str | None:
    """The best checkpoint that the state in another one names, as it lies beside that one; None if deleted.

    Only its name is taken from the file, as a run may have been moved.
    """
    saved = read_json(checkpoint / STATE_FILE).get("best_model_checkpoint")
    best = saved and checkpoint.parent / Path(saved).name
    return str(best) if best and best.is_dir() else None


def publish_checkpoint(staged: Path, output_dir: Path) -> None:
    """Moves a checkpoint that is wholly written into the run's folder, with a manifest of its files.

    At any moment `find_checkpoint` finds it or what it replaces, after a power cut, too: what is older may be deleted
    when this returns.
    """
    files = sorted(path for path in staged.rglob("*") if path.is_file())
    write_json(staged / MANIFEST_FILE, {path.relative_to(staged).as_posix(): _fingerprint(path) for path in files})
    for path in (*staged.rglob("*"), staged):
        flush_to_disk(path)
    checkpoint = output_dir / staged.name
    if checkpoint.exists():
        os.replace(checkpoint, staged.with_name("replaced"))
    os.replace(staged, checkpoint)
    flush_to_disk(output_dir)


def clear_staging(output_dir: str | Path) -> None:
    """Deletes what is left of a save that failed or was killed; a checkpoint that lacked only its place gets it."""
    staging = Path(output_dir) / STAGING_FOLDER
    for staged in list_checkpoints(staging):
        if (staged / MANIFEST_FILE).is_file() and not (staging.parent / staged.name).exists():
            os.replace(staged, staging.parent / staged.name)
    shutil.rmtree(staging, ignore_errors=True)


def rotate_checkpoints(newest: Path, limit: int | None, best: str | Path | None = None) -> None:
    """Deletes a run's oldest checkpoints until `limit` are left; never the newest, which is whole, nor the best.

    Args:
        newest: The checkpoint just published.
        limit: Checkpoints to keep; None or 0 keeps all.
        best: A checkpoint to keep besides.
    """
    if not limit or limit < 0:
        return
    kept = {newest.resolve(), Path(best or newest).resolve()}
    others = [path for path in list_checkpoints(newest.parent) if path.resolve() not in kept]
    for path in others[: max(len(others) + len(kept) - max(limit, len(kept)), 0)]:
        shutil.rmtree(path, ignore_errors=True)


def how_to_go_on(output_dir: str | Path) -> str:
    """What to do after a run was lost: "resume", with its last whole checkpoint, or "start again"."""
    try:
        return f"resume: {find_checkpoint(output_dir)} is the last whole checkpoint"
    except FileNotFoundError:
        return "start again: there is no whole checkpoint yet"


def _faults(checkpoint: Path) -> list[str]:
    """What a checkpoint lacks to be resumed with the same result, and which of its files are not as saved."""
    faults = []
    for patterns in _PARTS:
        if not any(any(checkpoint.glob(pattern)) for pattern in patterns):
            faults.append(f"no {patterns[0]}")
    if (checkpoint / STATE_FILE).exists() and not _is_state(checkpoint / STATE_FILE):
        faults.append(f"a broken {STATE_FILE}, or one of another update")
    if (checkpoint / MANIFEST_FILE).exists():
        return faults + _changed_files(checkpoint)
    # of the library's own trainer
    return faults + [f"a broken {path.name}" for path in sorted(checkpoint.iterdir()) if not _is_well_formed(path)]


def _changed_files(checkpoint: Path) -> list[str]:
    """Files that are missing or not as the manifest says; none where there is no manifest."""
    manifest = checkpoint / MANIFEST_FILE
    if not manifest.exists():
        return []
    files = _read_object(manifest)
    if not files or STATE_FILE not in files:
        return [f"a broken {MANIFEST_FILE}"]
    present = {path.relative_to(checkpoint).as_posix() for path in checkpoint.rglob("*")}
    return [
        f"a broken {name}"
        for name, saved in files.items()
        if name not in present or _fingerprint(checkpoint / name) != saved
    ]


def _fingerprint(path: Path) -> dict[str, int | str] | None:
    """Size and SHA-256 of a file; None if there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _is_well_formed(path: Path) -> bool:
    """Whether a file of a checkpoint has the form its kind has; other kinds count as whole."""
    if not path.is_file():
        return path.is_dir() and not path.suffix  # a pipe would be waited for
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt"):
                return True
    except (OSError, SafetensorError):
        return False
    if path.suffix == ".json":
        content = _read_object(path)
        return content is not None and (not path.match(PROGRESS_FILES) or holds_sums(content))
    return path.suffix not in (".pt", ".pth") or zipfile.is_zipfile(path)


def _read_object(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds; None if that is no object."""
    try:
        content: dict[str, Any] = read_json(path)
    except (OSError, ValueError):
        return None
    return content


def _is_state(path: Path) -> bool:
    """Whether a trainer's state can be loaded and is that of its checkpoint's update."""
    try:
        state = TrainerState.load_from_json(str(path))
        lines = [isinstance(entry["step"], int) for entry in state.log_history]
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return False
    return all(lines) and type(state.global_step) is int and state.global_step == checkpoint_step(path.parent)
