# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training loss of the original Transformer."""

import torch
from torch import nn

IGNORE_INDEX = -100


def translation_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Cross-entropy over the real target tokens, with the paper's label smoothing.

    The smoothing mass is spread over the whole vocabulary, the right token included.

    Args:
        logits: (B, T, V) scores before the softmax.
        labels: (B, T) token ids; -100 is ignored.
        label_smoothing: Probability mass taken from the right token, in [0, 1].
        num_items_in_batch: What the sum over tokens is divided by: the real target tokens of the whole effective
            batch, over all processes and accumulation steps. None means those of `labels`.

    Returns:
        The loss in nats per token, and the unsmoothed loss under the same division without gradient; the latter is
        None when nothing is smoothed, since it is then the loss itself.

    Raises:
        ValueError: `label_smoothing` lies outside [0, 1].

    Paper: section 5.4.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"`label_smoothing` must lie in [0, 1], got {label_smoothing}.")
    flat_labels = labels.reshape(-1).to(logits.device)
    flat_logits = logits.reshape(flat_labels.shape[0], -1)
    if flat_logits.dtype in (torch.float16, torch.bfloat16):
        flat_logits = flat_logits.float()
    if num_items_in_batch is None:
        num_items_in_batch = (flat_labels != IGNORE_INDEX).sum().clamp(min=1)
    elif torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(logits.device)
    if not label_smoothing:
        nll = nn.functional.cross_entropy(flat_logits, flat_labels, ignore_index=IGNORE_INDEX, reduction="sum")
        return nll / num_items_in_batch, None
    # As `cross_entropy(label_smoothing=...)` does it, written out so that one log-softmax serves both figures.
    log_probs = flat_logits.log_softmax(dim=1)
    nll = nn.functional.nll_loss(log_probs, flat_labels, ignore_index=IGNORE_INDEX, reduction="sum")
    uniform = -(log_probs.mean(dim=1) * (flat_labels != IGNORE_INDEX)).sum()
    loss = (1.0 - label_smoothing) * nll + label_smoothing * uniform
    return loss / num_items_in_batch, nll.detach() / num_items_in_batch
