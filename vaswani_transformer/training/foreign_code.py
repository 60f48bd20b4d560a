# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that could run code when they are loaded, found before any of their pickles is opened."""

from __future__ import annotations

from pathlib import Path

from torch.serialization import get_unsafe_globals_in_checkpoint
from transformers.trainer_pt_utils import safe_globals
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME

from ..evaluation.checkpoint import shard_names

# Weights as pickles; those of FSDP lie beside safetensors, which are read instead.
_PICKLED_WEIGHTS = ("pytorch_model.bin*", "pytorch_model-*.bin", "adapter_model*.bin")
# Torch's checkpoints in pieces, which it unpickles without limits, DeepSpeed's, which name their folder in a file, and
# accelerate's own; no training of this package leaves any.
_UNLIMITED = (".metadata", "*.distcp", "__*_metadata", "global_step*", "latest", "*.pkl")
_TORCH_FILES = (".pt", ".pth", ".bin")
_NEVER_LOADED = "training_args.bin"


def check_harmless(checkpoint: str | Path) -> None:
    """Refuses a checkpoint that holds pickled weights, or a pickle of more than tensors and plain values.

    The libraries limit most of what they unpickle at a resume to such values, too, but not all of it, and not with
    every layout. Nothing is unpickled here: the names of classes and functions are read from the files' instructions.

    Args:
        checkpoint: Its folder; what lies in folders of it is looked at, too.

    Raises:
        ValueError: It holds such a file; the message names it and the function or class.
    """
    checkpoint = Path(checkpoint)
    for path in sorted((*checkpoint.glob("*"), *checkpoint.glob("*/*"))):
        if fault := _fault(path):
            raise ValueError(
                f"`resume_from_checkpoint` must hold tensors and plain values, got {path} with {fault}. Loading it "
                "could run foreign code: go on from a checkpoint that this package saved, or begin a new training "
                "from the model's safetensors."
            )
    if (checkpoint / SAFE_WEIGHTS_INDEX_NAME).is_file():
        shard_names(checkpoint / SAFE_WEIGHTS_INDEX_NAME)


def _fault(path: Path) -> str:
    """What could run code when a file is loaded; nothing for one that is harmless or never loaded."""
    if any(path.match(pattern) for pattern in _PICKLED_WEIGHTS):
        return "pickled weights"
    if any(path.match(pattern) for pattern in _UNLIMITED):
        return "a pickle that may be loaded without limits"
    if not path.is_file() or path.suffix not in _TORCH_FILES or path.name == _NEVER_LOADED:
        return ""
    try:
        with safe_globals():  # numpy's arrays, in the state of the random numbers
            return ", ".join(sorted(get_unsafe_globals_in_checkpoint(path)))
    except Exception as error:  # torch's reader raises a dozen kinds on what torch.save has not written
        return f"content that torch.save does not write ({type(error).__name__}: {error})"
