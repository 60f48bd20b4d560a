# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the trainer adds to the library's FSDP2: the precision of other layouts, and a model folder as theirs."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from transformers import PreTrainedModel, Seq2SeqTrainer

from .averaging import WEIGHTS_FILE, without_tied


class ShardedTrainer(Seq2SeqTrainer):
    """`Seq2SeqTrainer` that trains and saves under FSDP2 what it would without.

    Left alone, accelerate casts every gradient, the residual stream and even the loss to bf16, where other layouts
    use autocast; torch refuses a matrix that four modules share; and the folder receives torch's source files instead
    of the model's, with a copy of the shared matrix under each of its names.
    """

    def create_accelerator_and_postprocess(self):
        """As the library's; with FSDP the parameters stay in fp32 and autocast alone lowers the precision.

        Raises:
            ValueError: If FSDP is asked for where there is none, or in a form that leaves no model.
        """
        super().create_accelerator_and_postprocess()
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if plugin is not None:
            check_plugin(plugin)
            plugin.mixed_precision_policy = MixedPrecisionPolicy()
        elif self.args.fsdp or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
            raise ValueError(
                f"`fsdp` must be off without several accelerators, got it on {self.args.device}, where accelerate "
                "would ignore it. Leave it out: torchrun alone trains on several CPUs."
            )

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True):
        """Autocast around the loss under FSDP; elsewhere accelerate has put it around the model's forward."""
        if self.is_fsdp_enabled:
            return self.accelerator.autocast()
        return super().autocast_smart_context_manager(cache_enabled)

    def _prepare_for_training(self, *args, **kwargs):
        """As the library's; with FSDP both stacks look up their tokens in one module, as FSDP2 shards it only once."""
        if self.is_fsdp_enabled:
            self.model.set_input_embeddings(self.model.get_input_embeddings())
        prepared = super()._prepare_for_training(*args, **kwargs)
        if self.is_fsdp_enabled:
            check_tied(self.model)
        return prepared

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        """Loads a checkpoint's weights; with FSDP those for `from_pretrained`, which each process reads."""
        if not self.is_fsdp_enabled:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        weights = load_file(Path(resume_from_checkpoint) / WEIGHTS_FILE)
        options = StateDictOptions(full_state_dict=True, strict=False)  # tied weights have one name in the file
        set_model_state_dict(model or self.model, weights, options=options)

    def _load_best_model(self) -> None:
        """Loads the weights of the best checkpoint."""
        if self.is_fsdp_enabled:
            self._load_from_checkpoint(self.state.best_model_checkpoint)
        else:
            super()._load_best_model()

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """Saves a model that FSDP2 has wrapped as the class it was, each tied tensor once."""
        model, wrapped = self.model, type(self.model)
        if self.is_fsdp_enabled and state_dict:
            state_dict = without_tied(model, state_dict)
        if isinstance(model, FSDPModule):
            model.__class__ = wrapped.__mro__[wrapped._orig_cls_mro_index]
        try:
            super()._save(output_dir, state_dict)
        finally:
            model.__class__ = wrapped


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
