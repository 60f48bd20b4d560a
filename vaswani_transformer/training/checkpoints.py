# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Resumable checkpoints on disk: written aside and renamed, checked for damage, rotated, with each process's sums."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import TrainerState
from transformers.utils import logging

from ..files import MANIFEST_FILE, PROGRESS_FILES, STAGING_FOLDER, STATE_FILE, flush_to_disk, read_json, write_json
from .arguments import VaswaniTransformerTrainingArguments

logger = logging.get_logger(__name__)

_CHECKPOINT_PATTERN = re.compile(r"checkpoint-\d+")
_PARTS = (
    ("model*.safetensors", "adapter_model*.safetensors"),
    ("optimizer*",),
    ("scheduler.pt",),
    ("rng_state*.pth",),
    (STATE_FILE,),
)


# ---- finding one ----


def list_checkpoints(output_dir: str | Path) -> list[Path]:
    """Resumable checkpoints (`checkpoint-<step>`) of a run, damaged or not, oldest first."""
    paths = Path(output_dir).glob("checkpoint-*")
    found = [path for path in paths if _CHECKPOINT_PATTERN.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=checkpoint_step)


def checkpoint_step(checkpoint: Path) -> int:
    """Number of the last update before a checkpoint, from its name."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def find_checkpoint(output_dir: str | Path) -> Path:
    """Newest undamaged checkpoint of a run; warns of damaged ones that are newer.

    Raises:
        FileNotFoundError: If there is none; the message names the damaged ones.
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
    """`find_checkpoint` for all processes, after the main one has cleared up what the lost run was saving."""
    with args.main_process_first(local=False, desc="looking for checkpoints"):
        if args.process_index == 0:
            clear_staging(args.output_dir)
        return find_checkpoint(args.output_dir)


def check_checkpoint(checkpoint: str | Path) -> Path:
    """Compares a checkpoint's files with its manifest.

    Raises:
        ValueError: If a file is not as it was saved.
    """
    if faults := _changed_files(Path(checkpoint)):
        raise ValueError(
            f"`resume_from_checkpoint` must be a whole checkpoint, got {checkpoint} with {', '.join(faults)}. Pass "
            "True to resume from the newest whole one."
        )
    return Path(checkpoint)


def best_checkpoint(checkpoint: Path) -> str | None:
    """The best checkpoint that the state in another one names, as it lies beside that one; None if deleted.

    Only its name is taken from the file, as a run may have been moved.
    """
    saved = read_json(checkpoint / STATE_FILE).get("best_model_checkpoint")
    best = saved and checkpoint.parent / Path(saved).name
    return str(best) if best and best.is_dir() else None


def _faults(checkpoint: Path) -> list[str]:
    """Parts that a checkpoint lacks, and files that are not as they were saved."""
    faults = [f"no {names[0]}" for names in _PARTS if not any(any(checkpoint.glob(name)) for name in names)]
    if (checkpoint / STATE_FILE).exists() and not _is_state(checkpoint / STATE_FILE):
        faults.append(f"a broken {STATE_FILE}, or one of another update")
    if (checkpoint / MANIFEST_FILE).exists():
        return faults + _changed_files(checkpoint)
    # saved by transformers' own trainer
    return faults + [f"a broken {path.name}" for path in sorted(checkpoint.iterdir()) if not _is_well_formed(path)]


def _changed_files(checkpoint: Path) -> list[str]:
    """Files that are missing or not as the manifest says; none where there is no manifest."""
    if not (checkpoint / MANIFEST_FILE).exists():
        return []
    files = _read_object(checkpoint / MANIFEST_FILE)
    if not files or STATE_FILE not in files:
        return [f"a broken {MANIFEST_FILE}"]
    return [f"a broken {name}" for name, saved in files.items() if _fingerprint(checkpoint / name) != saved]


def _fingerprint(path: Path) -> dict[str, int | str] | None:
    """Size and SHA-256 of a file; None if there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _is_well_formed(path: Path) -> bool:
    """Checks the form of a file by its kind; other kinds pass."""
    if not path.is_file():
        return path.is_dir() and not path.suffix
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="pt"):
                return True
        except (OSError, SafetensorError):
            return False
    if path.suffix == ".json":
        content = _read_object(path)
        return content is not None and (not path.match(PROGRESS_FILES) or RunningSums.fits(content))
    return path.suffix not in (".pt", ".pth") or zipfile.is_zipfile(path)


def _read_object(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if it holds none."""
    try:
        content: dict[str, Any] = read_json(path)
    except (OSError, ValueError):
        return None
    return content


def _is_state(path: Path) -> bool:
    """Checks that a trainer's state can be loaded and is that of its checkpoint's update."""
    try:
        state = TrainerState.load_from_json(str(path))
        lines = [isinstance(entry["step"], int) for entry in state.log_history]
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return False
    return all(lines) and type(state.global_step) is int and state.global_step == checkpoint_step(path.parent)


# ---- saving one ----


def publish_checkpoint(staged: Path, output_dir: Path) -> None:
    """Moves a completely written checkpoint into the run's folder, with a manifest of its files.

    At any moment `find_checkpoint` finds it or the one that it replaces, after a power cut, too. Older ones may be
    deleted when this returns.
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
    """Deletes what a failed or killed save left; a checkpoint that lacked only its place gets it."""
    staging = Path(output_dir) / STAGING_FOLDER
    for staged in list_checkpoints(staging):
        if (staged / MANIFEST_FILE).is_file() and not (staging.parent / staged.name).exists():
            os.replace(staged, staging.parent / staged.name)
    shutil.rmtree(staging, ignore_errors=True)


def rotate_checkpoints(newest: Path, limit: int | None, best: str | Path | None = None) -> None:
    """Deletes a run's oldest checkpoints until `limit` are left, None or 0 for all.

    Never the newest, which is just published, nor the best.
    """
    if not limit or limit < 0:
        return
    kept = {newest.resolve(), Path(best or newest).resolve()}
    others = [path for path in list_checkpoints(newest.parent) if path.resolve() not in kept]
    for path in others[: max(len(others) + len(kept) - max(limit, len(kept)), 0)]:
        shutil.rmtree(path, ignore_errors=True)


# ---- sums that transformers does not save ----


@dataclass(frozen=True, kw_only=True)
class RunningSums:
    """Sums of one process, as they lie in a checkpoint; release 0.1.0 did not write the last two."""

    loss_since_log: float
    nll_since_log: float  # the same unsmoothed
    step_of_last_log: int
    logged_loss: float  # of all updates up to that line of the log
    first_step: int  # before the first update that `logged_loss` counts
    data: dict[str, Any] | None  # place of a stream
    pairs_and_tokens: list[int] | None  # pairs, source and target tokens of a training set with a length
    plan_version: int = 1  # `PLAN_VERSION` of the batches
    skipped_updates: int = 0  # left out of an epoch because the plan had changed

    @classmethod
    def fits(cls, content: dict[str, Any]) -> bool:
        """Checks that the keys of a file are those of this class."""
        required = {field.name for field in fields(cls) if field.default is MISSING}
        return required <= content.keys() <= cls.__dataclass_fields__.keys()

    def save(self, checkpoint: Path, process_index: int) -> None:
        """Writes them into a checkpoint."""
        write_json(checkpoint / PROGRESS_FILES.replace("*", str(process_index)), asdict(self))

    @classmethod
    def load(cls, checkpoint: Path, args: VaswaniTransformerTrainingArguments) -> RunningSums | None:
        """Reads this process's sums, or its share of another number's; None if transformers' trainer saved.

        Raises:
            ValueError: If a stream was read by another number of processes.
        """
        paths = sorted(checkpoint.glob(PROGRESS_FILES))
        own = checkpoint / PROGRESS_FILES.replace("*", str(args.process_index))
        if not paths:
            return None
        if len(paths) == args.world_size and own in paths:
            return cls(**read_json(own))
        saved = [cls(**read_json(path)) for path in paths]
        if saved[0].data is not None:
            raise ValueError(
                f"A training on a stream must be resumed with as many processes as it had, {len(paths)}, got "
                f"{args.world_size}. Start {len(paths)}."
            )
        # the loss is averaged over processes, nll is summed
        nll_share = 1 / args.world_size if args.average_tokens_across_devices else 1 / len(saved)
        shared = {
            "loss_since_log": sum(sums.loss_since_log for sums in saved) * (1 / len(saved)),
            "nll_since_log": sum(sums.nll_since_log for sums in saved) * nll_share,
        }
        return cls(**asdict(saved[0]) | shared)
