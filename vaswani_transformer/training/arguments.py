# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training arguments with the paper's values as defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import Seq2SeqTrainingArguments
from transformers.utils import logging

from ..recipe import Recipe

logger = logging.get_logger(__name__)


def _as_in_recipe(name: str) -> Any:
    """Return a field with the default and the help text of the recipe field `name`."""
    known = Recipe.__dataclass_fields__[name]
    return field(default=known.default, metadata={"help": known.metadata["help"]})


@dataclass
class VaswaniTransformerTrainingArguments(Seq2SeqTrainingArguments):
    """`Seq2SeqTrainingArguments` with the paper's defaults, and with batches counted in tokens.

    Every argument of transformers still works, except those that `warn_of_no_effect` names. Each
    field has its help text in `metadata["help"]`. A batch is the effective batch of one update,
    over all devices and accumulation steps.

    `max_padded_tokens_per_device` bounds the number of tokens in a micro-batch, with source, target
    and padding. `gradient_accumulation_steps` is raised until every micro-batch fits. So the bound
    limits memory and leaves the effective batches unchanged. The exception is a stream: its
    effective batches depend on the bound, because each process cuts its own micro-batches by this
    bound. If `max_padded_tokens_per_device` is None, the bound depends on the device:

    - on CUDA devices, for this package's models, as many tokens as fit into the free memory, but no
      bound for a stream;
    - on CPUs, 4,096 tokens, or more if a pair is longer: small micro-batches have little padding,
      need less memory than large ones, and are not slower;
    - on other devices, no bound.

    Raises:
        ValueError: `warmup_steps` is 0 or less, but the paper's schedule (`lr_scheduler_type` is
            "inverse_sqrt") or the paper's peak learning rate (`learning_rate` is None) needs a
            warm-up.

    Paper: section 5.
    """

    output_dir: str = field(default="trainer_output", metadata={"help": "Folder of the run."})
    # In transformers the learning rate cannot be None.
    learning_rate: float | None = _as_in_recipe("learning_rate")  # type: ignore[assignment]
    lr_scheduler_type: str = field(
        default="inverse_sqrt",
        metadata={
            "help": "`inverse_sqrt` is the paper's schedule; all others are those of transformers."
        },
    )
    warmup_steps: float = field(
        default=4000,
        metadata={
            "help": "Updates of the linear warm-up. A value below 1 is a share of the training."
        },
    )
    adam_beta2: float = _as_in_recipe("adam_beta2")
    adam_epsilon: float = _as_in_recipe("adam_epsilon")
    weight_decay: float = field(default=0.0, metadata={"help": "Weight decay; the paper has none."})
    max_grad_norm: float = _as_in_recipe("max_grad_norm")
    label_smoothing_factor: float = _as_in_recipe("label_smoothing_factor")
    max_source_tokens_per_batch: int = _as_in_recipe("max_source_tokens_per_batch")
    max_target_tokens_per_batch: int = _as_in_recipe("max_target_tokens_per_batch")
    max_padded_tokens_per_device: int | None = _as_in_recipe("max_padded_tokens_per_device")
    bpe_dropout: float = _as_in_recipe("bpe_dropout")
    bpe_dropout_side: str = _as_in_recipe("bpe_dropout_side")
    snapshot_steps: int = _as_in_recipe("snapshot_steps")
    num_averaged_snapshots: int = _as_in_recipe("num_averaged_snapshots")

    predict_with_generate: bool = field(
        default=True, metadata={"help": "Translate the evaluation set and score it."}
    )
    per_device_eval_batch_size: int = field(
        default=64, metadata={"help": "Number of sentences in an evaluation batch per device."}
    )
    logging_nan_inf_filter: bool = field(
        default=False,
        metadata={
            "help": "Hide non-finite losses from the log. If False, such a loss stops the training."
        },
    )
    use_cache: bool = field(
        default=True,
        metadata={"help": "`use_cache` of the saved config. Training itself never uses a cache."},
    )
    ddp_broadcast_buffers: bool | None = field(
        default=False,
        metadata={
            "help": "Broadcast buffers before each forward pass. The model's buffers are constants."
        },
    )
    ddp_find_unused_parameters: bool | None = field(
        default=False,
        metadata={"help": "Search for unused parameters. The model uses all of its parameters."},
    )

    def __post_init__(self) -> None:
        """Check the warm-up and set `greater_is_better`, then let transformers set the rest."""
        self.get_warmup_steps(num_training_steps=1)
        if self.greater_is_better is None and (self.metric_for_best_model or "").endswith(
            ("nll", "perplexity")
        ):
            self.greater_is_better = False
        super().__post_init__()

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """Return the number of updates of the warm-up, as transformers computes it.

        Raises:
            ValueError: The warm-up would have no updates, but the paper's schedule or the paper's
                peak learning rate (`learning_rate` is None) needs a warm-up.
        """
        warmup_steps: int = super().get_warmup_steps(num_training_steps)
        needs_warmup = self.lr_scheduler_type == "inverse_sqrt" or self.learning_rate is None
        if needs_warmup and warmup_steps < 1:
            raise ValueError(
                "`warmup_steps` must be at least 1 update, or a share of the training below 1, got "
                f"{self.warmup_steps}. The paper uses 4000."
            )
        return warmup_steps


def warn_of_no_effect(
    args: VaswaniTransformerTrainingArguments, *, is_batched_by_tokens: bool
) -> None:
    """Warn of each argument that is set but has no effect.

    Reset the arguments that would break an evaluation.
    """
    reasons = {
        "dataloader_drop_last": "no pair is dropped",
        "dataloader_in_order": "results keep the data's order",
    }
    reasons["eval_do_concat_batches"] = reasons["dataloader_in_order"]
    if is_batched_by_tokens:
        reasons["per_device_train_batch_size"] = (
            "tokens bound a batch. Set `max_source_tokens_per_batch` and the like"
        )
        reasons["auto_find_batch_size"] = "if memory runs out, an error suggests a smaller batch"
        reasons["train_sampling_strategy"] = "batches are of similar lengths and in random order"
    if args.lr_scheduler_type == "inverse_sqrt":
        reasons["lr_scheduler_kwargs"] = (
            "the paper's schedule uses only `learning_rate` and `warmup_steps`"
        )
    for name, reason in reasons.items():
        value, default = (getattr(each, name, None) for each in (args, Seq2SeqTrainingArguments))
        if (value or value is False) and value != default and args.process_index == 0:
            logger.warning(f"`{name}` of {value} has no effect: {reason}.")
    args.dataloader_drop_last, args.dataloader_in_order, args.eval_do_concat_batches = (
        False,
        True,
        True,
    )
