# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Averaging of snapshots: a callback that writes them by step, and functions that average weights and folders.

Paper: section 6.1, the published models average the last 5 (base) or 20 (big) checkpoints.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..evaluation.checkpoint import shard_names
from ..files import (
    RUN_FILES,
    SNAPSHOT_FOLDER,
    WEIGHTS_FILE,
    WEIGHTS_INDEX,
    check_no_link_out,
    writing_beside,
)
from .checkpoints import checkpoint_step, list_checkpoints

_FORMAT = {"format": "pt"}  # metadata of a model's weights
_HASH = "sha256"  # of a snapshot's tensors, in its metadata
_SNAPSHOT_PATTERN = re.compile(r"step-\d+\.safetensors")
_ELEMENTS_AT_A_TIME = 2**20
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def list_snapshots(output_dir: str | Path) -> list[Path]:
    """Snapshots of a run, oldest first.

    Args:
        output_dir: Folder of the run, which holds `snapshots/`.
    """
    folder = Path(output_dir) / SNAPSHOT_FOLDER
    found = [path for path in folder.glob("step-*.safetensors") if _SNAPSHOT_PATTERN.fullmatch(path.name)]
    return sorted(found, key=_snapshot_step)


def drop_later_snapshots(output_dir: str | Path, step: int) -> None:
    """Deletes the snapshots of updates after `step`, which a run that goes on from there has yet to make."""
    for path in list_snapshots(output_dir):
        if _snapshot_step(path) > step:
            path.unlink()


def missing_snapshots(output_dir: str | Path, steps: Sequence[int]) -> list[str]:
    """Names of those snapshots of a run, after these updates, that are not in its folder."""
    found = {_snapshot_step(path) for path in list_snapshots(output_dir)}
    return [_snapshot_name(step) for step in steps if step not in found]


class SnapshotCallback(TrainerCallback):
    """Writes the weights alone to `output_dir/snapshots/step-NNNNNNNN.safetensors` and keeps the newest ones.

    Snapshots count in updates, so hardware does not change the average, and they are no resumable checkpoints:
    `save_total_limit` does not touch them. Those that a run resumed from the newest checkpoint would hold are kept
    besides.

    Args:
        snapshot_steps: Updates between two snapshots, at least 1.
        num_kept: Newest snapshots kept, at least 1.
    """

    def __init__(self, snapshot_steps: int, num_kept: int):
        self.snapshot_steps = snapshot_steps
        self.num_kept = num_kept

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Writes a snapshot when the number of finished updates is a multiple of `snapshot_steps`."""
        if state.global_step % self.snapshot_steps != 0:
            return
        weights = _full_state_dict(model)
        if not state.is_world_process_zero:
            return
        output_dir = Path(str(args.output_dir))
        folder = output_dir / SNAPSHOT_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _snapshot_name(state.global_step)
        _save_weights(weights, path, {_HASH: _hash(weights.keys(), weights.__getitem__)})
        self._prune(output_dir)

    def _prune(self, output_dir: str | Path) -> None:
        """Deletes the snapshots that neither this run nor one resumed from its newest checkpoint will average."""
        snapshots, checkpoints = list_snapshots(output_dir), list_checkpoints(output_dir)
        saved_step = checkpoint_step(checkpoints[-1]) if checkpoints else 0
        of_checkpoint = [path for path in snapshots if _snapshot_step(path) <= saved_step]
        for path in {*snapshots[: -self.num_kept]} - {*of_checkpoint[-self.num_kept :]}:
            path.unlink()


def average_snapshots(paths: Sequence[str | Path]) -> dict[str, torch.Tensor]:
    """Mean of several sets of weights, each tensor summed in float64 and returned in its own dtype.

    Paper: section 6.1.

    Args:
        paths: Safetensors files, or folders with `model.safetensors` (or its shards).

    Returns:
        State dict of the mean.

    Raises:
        ValueError: If `paths` is empty, if weights are pickled, or if names, shapes or dtypes differ.
        FileNotFoundError: If a path holds no weights.
    """
    if not paths:
        raise ValueError("`paths` must name at least one snapshot, got none. Check `snapshot_steps` and `max_steps`.")
    files = [_tensor_files(Path(path)) for path in paths]
    for path, names in zip(paths[1:], files[1:], strict=True):
        _check_same_names(paths[0], files[0], path, names)
    return {name: _mean([names[name] for names in files], name) for name in files[0]}


def average_checkpoints(
    inputs: str | Path | Sequence[str | Path], output_dir: str | Path, *, last: int | None = None
) -> Path:
    """Writes a model folder whose weights are the mean of several snapshots or model folders.

    Args:
        inputs: Snapshot files and model folders, or one folder of a run, which means the snapshots in it (without
            snapshots: its resumable checkpoints).
        output_dir: New or empty folder; receives weights, config, generation config and tokenizer.
        last: Number of newest inputs to average; None means all.

    Returns:
        `output_dir`.

    Raises:
        ValueError: If `last` is not in range, `output_dir` is not empty, or the weights do not fit together.
        FileNotFoundError: If there is nothing to average, or no folder with a `config.json` beside the weights.
    """
    output_dir = Path(output_dir)
    if output_dir.exists() and any(output_dir.iterdir()):
        raise ValueError(f"`output_dir` must be new or empty, got {output_dir}. Pass another folder.")
    paths = _expand_inputs(inputs)
    if last is not None:
        if not 1 <= last <= len(paths):
            raise ValueError(
                f"`last` must be at least 1 and at most the number of inputs found, {len(paths)}, got {last}. "
                "Leave it out to average all."
            )
        paths = paths[-last:]
    base = _model_folder(paths[-1])
    copied = [path for file in RUN_FILES if file.averaged for path in base.glob(file.name)]
    for path in copied:
        check_no_link_out(path, base)
    weights = average_snapshots(paths)
    output_dir.mkdir(parents=True, exist_ok=True)
    for path in copied:
        shutil.copy2(path, output_dir / path.name)
    _save_weights(weights, output_dir / WEIGHTS_FILE, _FORMAT)
    return output_dir


def write_average(output_dir: str | Path, num_averaged: int, model_dir: str | Path) -> int:
    """Replaces a finished run's weights by the mean of its newest snapshots, atomically.

    Args:
        output_dir: Folder of the run, with `snapshots/`.
        num_averaged: Newest snapshots to average.
        model_dir: Folder of the weights to replace.

    Returns:
        Number of snapshots averaged; fewer than `num_averaged` if the run was short, 0 if it wrote none.
    """
    paths = list_snapshots(output_dir)[-num_averaged:]
    if paths:
        _save_weights(average_snapshots(paths), Path(model_dir) / WEIGHTS_FILE, _FORMAT)
    return len(paths)


def _full_state_dict(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Weights on the CPU under the names of the state dict, each tied tensor under its first name only."""
    tied = dict(model.named_parameters(remove_duplicate=False)).keys() - dict(model.named_parameters()).keys()
    weights: dict[str, Any] = get_model_state_dict(model, options=StateDictOptions(cpu_offload=True))
    return {name: tensor.contiguous() for name, tensor in weights.items() if name not in tied}


def _save_weights(weights: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Writes a safetensors file beside its place, then moves it there.

    Args:
        metadata: One entry: the order of several would change from file to file.
    """
    with writing_beside(path) as beside:
        save_file(weights, beside, metadata=metadata)


def _hash(names: Iterable[str], get_tensor: Callable[[str], torch.Tensor]) -> str:
    """SHA-256 of tensors with their names, dtypes and shapes."""
    digest = hashlib.sha256()
    for name in sorted(names):
        tensor = get_tensor(name)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _snapshot_name(step: int) -> str:
    """File name of the snapshot after an update."""
    return f"step-{step:08d}.safetensors"


def _snapshot_step(path: Path) -> int:
    """Number of the last update before a snapshot, from its name."""
    return int(path.stem.removeprefix("step-"))


def _expand_inputs(inputs: str | Path | Sequence[str | Path]) -> list[Path]:
    """List of files and folders to average, oldest first; a single run folder is replaced by what it holds."""
    paths = [Path(inputs)] if isinstance(inputs, (str, Path)) else [Path(path) for path in inputs]
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"`inputs` must exist, got {path}. Check the path.")
    if len(paths) != 1 or paths[0].is_file():
        return paths
    found = list_snapshots(paths[0]) or list_checkpoints(paths[0])
    if not found:
        raise FileNotFoundError(
            f"`inputs` must hold {SNAPSHOT_FOLDER}/ or checkpoint-* folders, got {paths[0]}. Pass the folder of a run "
            "or several model folders."
        )
    return found


def _model_folder(path: Path) -> Path:
    """Folder with the config.json that belongs to a snapshot file or model folder."""
    run = path.parent.parent
    candidates = [path] if path.is_dir() else [path.parent, run, *reversed(list_checkpoints(run))]
    for folder in candidates:
        if (folder / "config.json").is_file():
            return folder
    raise FileNotFoundError(
        f"`inputs` must lie in a model folder, got {path} without a config.json. Let the run finish."
    )


def _tensor_files(path: Path) -> dict[str, Path]:
    """Safetensors file of each tensor of a snapshot file or model folder."""
    if path.is_dir():
        return _folder_tensor_files(path)
    if path.suffix in _PICKLED:
        raise ValueError(f"`{path}` must be safetensors, got pickled weights. Save the model as safetensors first.")
    try:
        with safe_open(path, framework="pt") as weights:
            names, saved = weights.keys(), (weights.metadata() or {}).get(_HASH)
            if saved is None or saved == _hash(names, weights.get_tensor):
                return dict.fromkeys(names, path)
            error = "its tensors are not those that were saved"
    except SafetensorError as broken:
        error = str(broken)
    raise ValueError(
        f"`{path}` must be a whole safetensors file, got a broken one ({error}). Copy it again, or delete it to "
        "average without it."
    )


def _folder_tensor_files(folder: Path) -> dict[str, Path]:
    """Safetensors file of each tensor of a model folder, sharded or not."""
    if (folder / WEIGHTS_FILE).is_file():
        return _tensor_files(folder / WEIGHTS_FILE)
    if (folder / WEIGHTS_INDEX).is_file():
        return {name: folder / shard for name, shard in shard_names(folder / WEIGHTS_INDEX).items()}
    if pickled := sorted(path.name for path in folder.glob("pytorch_model*.bin")):
        raise ValueError(f"`{folder / pickled[0]}` must be safetensors, got pickled weights. Convert the model first.")
    raise FileNotFoundError(f"`{folder}` must hold {WEIGHTS_FILE}, got a folder without it. It may be incomplete.")


def _check_same_names(
    first_path: str | Path, first: Mapping[str, Any], other_path: str | Path, other: Mapping[str, Any]
) -> None:
    """Raises ValueError naming the tensors that only one of two sets of weights has."""
    missing, extra = sorted(first.keys() - other.keys()), sorted(other.keys() - first.keys())
    if missing or extra:
        raise ValueError(
            f"`{other_path}` must hold the same tensors as {first_path}, got missing {missing or 'none'} and extra "
            f"{extra or 'none'}. Average checkpoints of one run."
        )


def _mean(files: list[Path], name: str) -> torch.Tensor:
    """Mean of one tensor over files, accumulated in float64; an integer tensor is the last file's.

    It is made some rows at a time, so that neither the files nor the sum in float64 take much memory.
    """
    with safe_open(files[0], framework="pt") as weights:
        mean: torch.Tensor = weights.get_tensor(name).clone()
    for file in files:
        with safe_open(file, framework="pt") as weights:
            _check_same_kind(mean, weights.get_tensor(name), name, files[0], file)
    if mean.dim() == 0 or not mean.is_floating_point():
        tensors = [_rows(file, name, ...) for file in files]
        return torch.stack(tensors).double().mean(dim=0).to(mean.dtype) if mean.is_floating_point() else tensors[-1]
    num_rows = max(1, _ELEMENTS_AT_A_TIME * len(mean) // mean.numel()) if mean.numel() else len(mean)
    for start in range(0, len(mean), num_rows):
        rows = slice(start, start + num_rows)
        total = sum((_rows(file, name, rows).double() for file in files), start=torch.zeros((), dtype=torch.float64))
        mean[rows] = (total / len(files)).to(mean.dtype)
    return mean


def _rows(file: Path, name: str, rows: Any) -> torch.Tensor:
    """Some rows of a tensor; the file is open only while they are copied."""
    with safe_open(file, framework="pt") as weights:
        tensor: torch.Tensor = weights.get_tensor(name)[rows].clone()
    return tensor


def _check_same_kind(first: torch.Tensor, other: torch.Tensor, name: str, first_file: Path, file: Path) -> None:
    """Raises ValueError when a tensor differs in shape or dtype between two files."""
    if (other.shape, other.dtype) != (first.shape, first.dtype):
        raise ValueError(
            f"`{name}` must have one shape and dtype in every input, got {tuple(other.shape)} {other.dtype} in {file} "
            f"and {tuple(first.shape)} {first.dtype} in {first_file}. Average checkpoints of one run."
        )
