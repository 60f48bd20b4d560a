# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Weight averaging: a callback that writes snapshots, and functions that average weights.

Paper: section 6.1. The published models average the last 5 (base) or 20 (big) checkpoints.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging

from ..files import (
    CONFIG_FILE,
    RECIPE_FILE,
    RUN_FILES,
    SNAPSHOT_FOLDER,
    TOKENIZER_FILES,
    WEIGHTS_FILE,
    check_no_link_out,
    read_json_if_any,
    writing_beside,
    writing_folder,
)
from .checkpoints import checkpoint_step, list_checkpoints

logger = logging.get_logger(__name__)

# Entries of config.json and tokenizer.json that change the meaning of the weights, but not their
# names or shapes. `model` holds the vocabulary and the merges.
_SHARED = (
    "num_heads",
    "layer_norm_eps",
    "source_language",
    "target_language",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "model",
)


def list_snapshots(output_dir: str | Path) -> list[Path]:
    """Return the snapshots in a run's folder, oldest first."""
    return sorted(
        (Path(output_dir) / SNAPSHOT_FOLDER).glob("step-[0-9]*.safetensors"), key=_snapshot_step
    )


class SnapshotCallback(TrainerCallback):
    """Write snapshots of the weights during training, and keep the newest ones.

    A snapshot is the file `output_dir/snapshots/step-NNNNNNNN.safetensors`. Snapshots are written
    every `snapshot_steps` updates, not after a fixed time. So the average of the snapshots does not
    depend on the speed of the hardware. `save_total_limit` does not apply to snapshots. Older
    snapshots are also kept if a run that is resumed from the newest checkpoint would need the older
    snapshots for its average.

    Args:
        snapshot_steps: Updates between two snapshots.
        num_kept: Number of newest snapshots to keep.
    """

    def __init__(self, snapshot_steps: int, num_kept: int):
        self.snapshot_steps = snapshot_steps
        self.num_kept = num_kept

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Delete the snapshots of all updates after the current one.

        An earlier training may have left such snapshots in the folder.
        """
        if state.is_world_process_zero:
            for path in list_snapshots(str(args.output_dir)):
                if _snapshot_step(path) > state.global_step:
                    path.unlink()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Write a snapshot if the number of finished updates is a multiple of `snapshot_steps`."""
        if state.global_step % self.snapshot_steps != 0 or not state.is_world_process_zero:
            return
        model = getattr(model, "_orig_mod", model)  # unwraps a compiled model
        tied = (
            dict(model.named_parameters(remove_duplicate=False)).keys()
            - dict(model.named_parameters()).keys()
        )
        weights = {
            name: tensor.cpu().contiguous()
            for name, tensor in model.state_dict().items()
            if name not in tied
        }
        output_dir = Path(str(args.output_dir))
        path = output_dir / SNAPSHOT_FOLDER / f"step-{state.global_step:08d}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        _save_weights(weights, path)
        snapshots, checkpoints = list_snapshots(output_dir), list_checkpoints(output_dir)
        saved_step = checkpoint_step(checkpoints[-1]) if checkpoints else 0
        up_to_checkpoint = [path for path in snapshots if _snapshot_step(path) <= saved_step]
        for path in {*snapshots[: -self.num_kept]} - {*up_to_checkpoint[-self.num_kept :]}:
            path.unlink()


def average_snapshots(paths: Sequence[str | Path]) -> dict[str, torch.Tensor]:
    """Return the mean weights of several files, by tensor name.

    Tensors are summed in float64, and the mean has the dtype of the files.

    Args:
        paths: Safetensors files, or folders with `model.safetensors`.

    Raises:
        ValueError: If a file is damaged, or names, shapes or dtypes differ.
        FileNotFoundError: If a folder has no `model.safetensors`.

    Paper: section 6.1.
    """
    files = []
    for path in map(Path, paths):
        files.append(path / WEIGHTS_FILE if path.is_dir() else path)
    names = [_tensor_names(file) for file in files]
    for path, others in zip(files, names, strict=True):
        if others != names[0]:
            raise ValueError(
                f"`{path}` must hold the same tensors as {files[0]}, but one of the two lacks "
                f"{min(others ^ names[0])}. Average checkpoints of one run."
            )
    return {name: _mean(files, name) for name in sorted(names[0])}


def average_checkpoints(inputs: str | Path | Sequence[str | Path], output_dir: str | Path) -> Path:
    """Write a model folder with the mean weights of several snapshots or model folders.

    Args:
        inputs: Snapshot files and model folders, or the folder of one run. The recipe of a run says
            how many of its newest snapshots are averaged. Without a recipe, all its snapshots are
            averaged. There may be more of them than `num_averaged_snapshots`, because a resume can
            need older ones. If the run has no snapshots, its resumable checkpoints are averaged.
        output_dir: New or empty folder. It gets the mean weights, and the configs, tokenizer, code
            and recipe of the last input's model.

    Returns:
        `output_dir`.

    Raises:
        ValueError: If `output_dir` is not empty, or the weights do not fit together, because the
            models differ in tensors, config or tokenizer.
        FileNotFoundError: If a run has nothing to average, or an input has no `config.json`.
    """
    paths = [Path(path) for path in ([inputs] if isinstance(inputs, (str, Path)) else inputs)]
    if len(paths) == 1 and paths[0].is_dir():
        run = paths[0]
        # A run may have more snapshots while it trains. A number of 0 or None means all.
        num_averaged = read_json_if_any(run / RECIPE_FILE).get("num_averaged_snapshots") or 0
        paths = list_snapshots(run)[-num_averaged:] or list_checkpoints(run)
        if not paths:
            raise FileNotFoundError(
                f"`inputs` must hold {SNAPSHOT_FOLDER}/ or checkpoint-* folders, got {run}. Pass "
                "the folder of a run or several model folders."
            )
    base = _model_folder(paths[-1])
    for other in dict.fromkeys(map(_model_folder, paths)):
        _check_alike(other, base)
    logger.info(f"Averaging {', '.join(path.name for path in paths)}.")
    with writing_folder(output_dir) as folder:
        for file in RUN_FILES:
            if file.copied:
                for path in base.glob(file.name):
                    check_no_link_out(path, base)
                    shutil.copy2(path, folder / path.name)
        _save_weights(average_snapshots(paths), folder / WEIGHTS_FILE)
    return Path(output_dir)


def write_average(output_dir: str | Path, num_averaged: int, model_dir: str | Path) -> int:
    """Atomically replace the weights in `model_dir` with the mean of a run's newest snapshots.

    Returns:
        The number of averaged snapshots. It is below `num_averaged` if the run has fewer snapshots.
        If the run has no snapshots, the number is 0, and the weights are not replaced.
    """
    paths = list_snapshots(output_dir)[-num_averaged:]
    if paths:
        _save_weights(average_snapshots(paths), Path(model_dir) / WEIGHTS_FILE)
    return len(paths)


def _save_weights(weights: dict[str, torch.Tensor], path: Path) -> None:
    """Write a safetensors file atomically."""
    with writing_beside(path) as beside:
        save_file(weights, beside, metadata={"format": "pt"})


def _snapshot_step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def _model_folder(path: Path) -> Path:
    """Return the folder with the `config.json` that belongs to a snapshot or a model folder."""
    run = path.parent.parent
    for folder in [path] if path.is_dir() else [path.parent, run, *reversed(list_checkpoints(run))]:
        if (folder / CONFIG_FILE).is_file():
            return folder
    raise FileNotFoundError(
        f"`inputs` must be model folders, or snapshots of a run that has one, got {path} without a "
        f"{CONFIG_FILE}. Check the path, or let the run finish."
    )


def _check_alike(folder: Path, base: Path) -> None:
    """Raise ValueError if the weights of two models have different meanings."""
    for name in (CONFIG_FILE, TOKENIZER_FILES[0]):
        first = read_json_if_any(folder / name)
        second = read_json_if_any(base / name)
        for key in _SHARED:
            if first.get(key) != second.get(key):
                raise ValueError(
                    f"`inputs` must be models that differ only in their weights, got {folder} "
                    f"and {base} with different `{key}` in their {name}. Average checkpoints "
                    "of one run."
                )


def _tensor_names(path: Path) -> set[str]:
    """Return the names of the tensors in a safetensors file.

    Raises:
        ValueError: If the file is damaged.
    """
    try:
        with safe_open(path, framework="pt") as weights:
            return set(weights.keys())
    except SafetensorError as error:
        raise ValueError(
            f"`{path}` must be a whole safetensors file, got a broken one ({error}). Copy it "
            "again, or delete it to average without it."
        ) from error


def _mean(files: list[Path], name: str) -> torch.Tensor:
    """Return the mean of the tensor with this name over all files, summed in float64."""
    kinds: set[Any] = set()
    for file in files:
        with safe_open(file, framework="pt") as weights:  # Closing the file frees memory.
            tensor = weights.get_tensor(name)
        if not kinds:
            total = torch.zeros_like(tensor, dtype=torch.float64)
        kinds.add((tuple(tensor.shape), tensor.dtype))
        if len(kinds) > 1:
            raise ValueError(
                f"`{name}` must have one shape and dtype in every input, got another in {file}. "
                "Average checkpoints of one run."
            )
        total += tensor
    return (total / len(files)).to(tensor.dtype)
