# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training loss of the original Transformer, from logits or fused with the output projection.

Shapes: B batch, T target length, N real target tokens, C tokens of a chunk, D d_model, V
vocabulary.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers.modeling_outputs import Seq2SeqLMOutput

from .cpu_kernels_vaswani_transformer import Linear, linear, multiply, runs_on_onednn

IGNORE_INDEX = -100

# Limits of a chunk of the fused loss. The first is 256 MiB of fp32 logits.
_CHUNK_LOGITS = 2**26
# Smaller chunks would fit a CPU's cache, but each chunk reads the whole weight and its gradient.
# That costs more.
_CHUNK_TOKENS_ON_CPU = 512
# oneDNN allocates memory for every product. Above 32 MiB the C library requests it from the system
# each time.
_CHUNK_LOGITS_OF_ONEDNN = 2**23


@dataclass
class VaswaniTransformerLMOutput(Seq2SeqLMOutput):
    """`Seq2SeqLMOutput` with `nll`, the loss before label smoothing; None without smoothing."""

    nll: torch.Tensor | None = None


def translation_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing_factor: float = 0.0,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the cross-entropy over the real target tokens, with the paper's label smoothing.

    The smoothing mass is spread over the whole vocabulary, the right token included.

    Args:
        logits: (B, T, V) scores before the softmax.
        labels: (B, T) token ids; -100 is ignored.
        label_smoothing_factor: Probability mass taken from the right token, in [0, 1].
        num_items_in_batch: Divisor of the sum over tokens: the real target tokens of the whole
            effective batch, over all processes and accumulation steps. None means the real tokens
            of `labels`.

    Returns:
        The loss in nats per token, and the unsmoothed loss with the same divisor. The unsmoothed
        loss has no gradient, and is None without smoothing.

    Paper: section 5.4.
    """
    flat_labels = labels.reshape(-1).to(logits.device)
    flat_logits = logits.reshape(-1, logits.shape[-1])
    if flat_logits.dtype in (torch.float16, torch.bfloat16):
        flat_logits = flat_logits.float()
    divisor = _divisor(num_items_in_batch, flat_labels)

    if not label_smoothing_factor:
        nll = nn.functional.cross_entropy(
            flat_logits, flat_labels, ignore_index=IGNORE_INDEX, reduction="sum"
        )
        return nll / divisor, None

    # The same as `cross_entropy(label_smoothing=...)`, written out so that both losses share one
    # log-softmax.
    log_probs = flat_logits.log_softmax(dim=1)
    nll = nn.functional.nll_loss(log_probs, flat_labels, ignore_index=IGNORE_INDEX, reduction="sum")
    uniform = -log_probs.mean(dim=1).masked_fill(flat_labels == IGNORE_INDEX, 0.0).sum()
    loss = (1.0 - label_smoothing_factor) * nll + label_smoothing_factor * uniform
    return loss / divisor, nll.detach() / divisor


def can_fuse(head: nn.Module) -> bool:
    """Return True if `fused_translation_loss` may compute this output projection itself.

    It may for a plain `Linear` without bias. Adapters, quantization, parametrizations, hooks and
    offloading change the result of a call.
    """
    hooks = (
        head._forward_pre_hooks,
        head._forward_hooks,
        head._backward_pre_hooks,
        head._backward_hooks,
    )
    return (
        type(head) in (nn.Linear, Linear)
        and head.bias is None
        and type(head.weight) is nn.Parameter
        and "forward" not in vars(head)
        and not any(hooks)
    )


def fused_translation_loss(
    states: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing_factor: float = 0.0,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return `translation_loss(states @ weight.T, labels, ...)` without ever holding all logits.

    The forward pass computes logits chunk by chunk, and already the gradients from them. On CPUs it
    skips padding.

    Args:
        states: (B, T, D) output of the decoder.
        weight: (V, D) weight of the output projection.
        labels: As for `translation_loss`.
        label_smoothing_factor: As for `translation_loss`.
        num_items_in_batch: As for `translation_loss`.

    Paper: sections 3.4 and 5.4.
    """
    labels = labels.to(states.device)
    is_real = labels != IGNORE_INDEX
    divisor = _divisor(num_items_in_batch, labels)
    if not torch.is_grad_enabled():
        weight = weight.detach()

    if states.device.type == "cpu" and not torch.compiler.is_compiling():
        states = states[is_real]  # (N, D)
        labels = labels[is_real]  # (N,)
    else:
        # On a device, counting the N real tokens would sync. So all B * T tokens are computed, and
        # the loss ignores the others.
        states = states.masked_fill(~is_real.unsqueeze(-1), 0.0)

    loss, nll = _FusedLoss.apply(
        states.reshape(-1, states.shape[-1]), weight, labels.reshape(-1), label_smoothing_factor
    )
    if not label_smoothing_factor:
        return loss / divisor, None
    return loss / divisor, nll / divisor


def _divisor(
    num_items_in_batch: torch.Tensor | int | None, labels: torch.Tensor
) -> torch.Tensor | int:
    """Return the divisor of sums over tokens, on the device of the labels."""
    if num_items_in_batch is None:
        return (labels != IGNORE_INDEX).sum().clamp(min=1)
    if torch.is_tensor(num_items_in_batch):
        return num_items_in_batch.to(labels.device)
    return num_items_in_batch


class _FusedLoss(torch.autograd.Function):
    """Sums over N tokens of the smoothed and the plain cross-entropy of `states @ weight.T`.

    Ignored tokens must have states of zero. Their gradient is not zero here; the caller's mask
    makes it zero.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        label_smoothing_factor: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        device = states.device.type
        dtype = weight.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        compute: Any = _loss_and_gradients
        if torch.compiler.is_compiling():
            compute = _opaque_loss_and_gradients

        with torch.autocast(device, enabled=False):
            loss, nll, states_grad, weight_grad = compute(
                states.to(dtype),
                weight.to(dtype),
                labels,
                label_smoothing_factor,
                ctx.needs_input_grad[:2],
            )
        ctx.save_for_backward(states_grad, weight_grad)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, loss_grad: torch.Tensor, nll_grad: Any
    ) -> tuple[torch.Tensor | None, ...]:
        states_grad, weight_grad = ctx.saved_tensors
        if states_grad is not None:
            states_grad = states_grad * loss_grad
        if weight_grad is not None:
            weight_grad = weight_grad * loss_grad
        return states_grad, weight_grad, None, None


def _loss_and_gradients(
    states: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing_factor: float,
    needs_grad: tuple[bool, ...],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Return the sums of smoothed and plain loss, and the gradients of the smoothed loss.

    Both sums are at least in fp32. d loss / d logits is softmax - target distribution. The target
    distribution has a uniform part, label_smoothing_factor / V for all tokens and words. Its
    contribution to the gradients needs no logits: for states it is the mean row of the weight, for
    the weight the sum of the states, each times a constant.
    """
    num_tokens = states.shape[0]
    vocab_size = weight.shape[0]
    is_onednn = runs_on_onednn(states, weight)
    chunk = _chunk_size(states, vocab_size, is_onednn)
    precise = torch.promote_types(states.dtype, torch.float32)
    states_grad = torch.empty_like(states) if needs_grad[0] else None
    weight_grad = torch.empty_like(weight, dtype=precise) if needs_grad[1] else None
    mean_row = weight.mean(dim=0, dtype=precise)
    loss, nll = states.new_zeros(2, dtype=precise)
    if not is_onednn:  # oneDNN allocates memory for every product
        buffer = states.new_empty(chunk, vocab_size)

    # Without tokens there is one empty chunk. It sets the gradient of the weight to zero.
    for start in range(0, max(1, num_tokens), chunk):
        rows = slice(start, start + chunk)
        part = states[rows]  # (C, D)
        right = labels[rows].clamp(min=0).unsqueeze(1)  # (C, 1)
        is_ignored = labels[rows] == IGNORE_INDEX
        if is_onednn:
            logits = multiply(part, weight)
        else:
            logits = torch.mm(part, weight.T, out=buffer[: part.shape[0]])
        logits = logits.to(precise)  # (C, V)

        # `sub_` and `exp_` overwrite the logits, so read them first.
        right_logits = logits.gather(1, right)
        mean_logits = part.to(precise) @ mean_row
        largest = logits.amax(dim=1, keepdim=True)
        exps = logits.sub_(largest).exp_()
        exp_sums = exps.sum(dim=1, keepdim=True)
        log_sums = exp_sums.log() + largest

        part_nll = (log_sums - right_logits).squeeze(1).masked_fill(is_ignored, 0.0).sum()
        nll = nll + part_nll
        uniform = (log_sums.squeeze(1) - mean_logits).masked_fill(is_ignored, 0.0).sum()
        loss = loss + (1.0 - label_smoothing_factor) * part_nll + label_smoothing_factor * uniform
        if not any(needs_grad):
            continue

        # `slope` is exp_sums * (softmax - target distribution) without the uniform part of the
        # target. In fp32 it is cheaper to divide its products, or the states, by exp_sums.
        if states.dtype != precise:
            exps = exps.div_(exp_sums)
            exp_sums = torch.ones_like(exp_sums)
        slope = exps.scatter_add_(1, right, exp_sums * (label_smoothing_factor - 1.0))
        slope = slope.to(states.dtype)

        if states_grad is not None:
            part_grad = linear(slope, weight.T).div_(exp_sums)
            states_grad[rows] = part_grad.sub_(mean_row * label_smoothing_factor)
        if weight_grad is not None:
            part = (part / exp_sums).to(states.dtype)
            is_first = start == 0  # the memory of `weight_grad` is uninitialized
            if states.dtype == precise:
                weight_grad.addmm_(slope.T, part, beta=0 if is_first else 1)
            elif is_first:
                weight_grad.copy_(slope.T @ part)
            else:
                weight_grad += slope.T @ part

    if weight_grad is not None:
        weight_grad -= states.sum(dim=0, dtype=precise) * (label_smoothing_factor / vocab_size)
    return loss, nll, states_grad, weight_grad


# The operator is named after its module, because checkpoints bring copies of the module.
@torch.library.custom_op(
    "vaswani_transformer::" + re.sub(r"\W", "_", __name__, flags=re.ASCII), mutates_args=()
)
def _opaque_loss_and_gradients(
    states: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing_factor: float,
    needs_grad: Sequence[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run `_loss_and_gradients` as one operator of a compiled graph.

    Compilation would unroll its loop for each length. Gradients that are not needed are returned
    empty.
    """
    loss, nll, states_grad, weight_grad = _loss_and_gradients(
        states, weight, labels, label_smoothing_factor, tuple(needs_grad)
    )
    if states_grad is None:
        states_grad = states.new_empty(0)
    if weight_grad is None:
        weight_grad = states.new_empty(0)
    return loss, nll, states_grad, weight_grad


@_opaque_loss_and_gradients.register_fake
def _(
    states: torch.Tensor,
    weight: torch.Tensor,
    labels: Any,
    label_smoothing_factor: float,
    needs_grad: Any,
) -> Any:
    precise = torch.promote_types(states.dtype, torch.float32)
    loss = states.new_empty((), dtype=precise)
    nll = states.new_empty((), dtype=precise)
    states_grad = states.new_empty(0)
    if needs_grad[0]:
        states_grad = torch.empty_like(states)
    weight_grad = states.new_empty(0)
    if needs_grad[1]:
        weight_grad = torch.empty_like(weight, dtype=precise)
    return loss, nll, states_grad, weight_grad


def _chunk_size(states: torch.Tensor, vocab_size: int, is_onednn: bool) -> int:
    """Return the number of tokens in a chunk of the fused loss."""
    sizes = [states.shape[0], _CHUNK_LOGITS // vocab_size]
    if states.device.type == "cpu":
        sizes.append(_CHUNK_TOKENS_ON_CPU)
    if is_onednn:
        sizes.append(_CHUNK_LOGITS_OF_ONEDNN // vocab_size)
    return max(1, min(sizes))
