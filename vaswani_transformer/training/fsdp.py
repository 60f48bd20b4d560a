# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the library's FSDP2 lacks: the precision of other layouts, and a model folder as theirs.

Left alone, accelerate casts every gradient, the residual stream and even the loss to bf16, where other layouts use
autocast; torch refuses a matrix that four modules share; and the folder receives torch's source files instead of the
model's, with a copy of the shared matrix under each of its names.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from safetensors.torch import load_file
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from transformers import PreTrainedModel, TrainingArguments

from ..files import WEIGHTS_FILE


def set_up_fsdp(accelerator: Accelerator, args: TrainingArguments) -> None:
    """With FSDP, keeps the parameters in fp32, so that autocast alone lowers the precision.

    Raises:
        ValueError: If FSDP is asked for where there is none, or in a form that leaves no model.
    """
    plugin = getattr(accelerator.state, "fsdp_plugin", None)
    if plugin is not None:
        check_plugin(plugin)
        plugin.mixed_precision_policy = MixedPrecisionPolicy()
    elif args.fsdp or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        raise ValueError(
            f"`fsdp` must be off without several accelerators, got it on {args.device}, where accelerate would ignore "
            "it. Leave it out: torchrun alone trains on several CPUs."
        )


def check_plugin(plugin: Any) -> None:
    """Raises ValueError on what would train otherwise than without FSDP, or end without a model."""
    if plugin.fsdp_version != 2:
        raise ValueError(f"`fsdp_version` must be 2, got {plugin.fsdp_version}. Set it in the accelerate config.")
    if (kind := plugin.state_dict_type.name) != "FULL_STATE_DICT":
        raise ValueError(
            f"`fsdp_state_dict_type` must be FULL_STATE_DICT, got {kind}. Set it in the accelerate config; of shards "
            "the library makes no model that loads."
        )
    if plugin.activation_checkpointing:
        raise ValueError(
            "`fsdp_activation_checkpointing` must be off, got it on. Accelerate computes the layers again with other "
            "dropout masks; `gradient_checkpointing` of the training arguments keeps them."
        )


def check_tied(model: PreTrainedModel) -> None:
    """Raises ValueError when sharding has made two matrices of a tied embedding and head."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if model.config.tie_word_embeddings and embedding.weight is not head.weight:
        raise ValueError(
            f"`accelerate` must be at least 1.15 for FSDP with tied embeddings, got {version('accelerate')}, which "
            "unties them. Install a newer one."
        )


def load_into_shards(model: nn.Module, checkpoint: str | Path) -> None:
    """Loads a checkpoint's weights, those for `from_pretrained`, into a sharded model; every process reads them."""
    weights = load_file(Path(checkpoint) / WEIGHTS_FILE)
    options = StateDictOptions(full_state_dict=True, strict=False)  # tied weights have one name in the file
    set_model_state_dict(model, {**weights}, options=options)


@contextlib.contextmanager
def as_own_class(model: nn.Module) -> Iterator[None]:
    """Gives a model that FSDP2 has wrapped back the class it was, with whose name and source it is saved."""
    wrapped: Any = type(model)
    if isinstance(model, FSDPModule):
        model.__class__ = wrapped.__mro__[wrapped._orig_cls_mro_index]
    try:
        yield
    finally:
        model.__class__ = wrapped
