# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training loss of the original Transformer, from logits or fused with the output projection.

Shapes: B batch, T target length, N real target tokens (all labels but -100), C tokens of a
chunk, D d_model, V vocabulary.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import Seq2SeqLMOutput

from .cpu_kernels_vaswani_transformer import Linear, linear, multiply, runs_on_onednn

IGNORE_INDEX = -100

# The fused loss computes logits for a chunk of tokens at a time. These are the limits of a chunk.
_CHUNK_LOGITS = 2**26  # 256 MiB in fp32
# Smaller chunks would fit into a CPU's cache. But each chunk reads the whole weight and its
# gradient, and with smaller chunks these reads would cost more than the cache saves.
_CHUNK_TOKENS_ON_CPU = 512
# 32 MiB in fp32. oneDNN allocates new memory for every product. For a block of more than 32 MiB,
# the C library makes a new request to the system at each allocation.
_CHUNK_LOGITS_OF_ONEDNN = 2**23


@dataclass
class VaswaniTransformerLMOutput(Seq2SeqLMOutput):
    """`Seq2SeqLMOutput` with `nll`, the loss before label smoothing.

    If labels are not smoothed, `nll` is None, because it would be equal to `loss`.
    """

    nll: torch.Tensor | None = None


def translation_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing_factor: float = 0.0,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the cross-entropy over the real target tokens, with the paper's label smoothing.

    The smoothing mass is spread over the whole vocabulary, including the correct token.

    Args:
        logits: (B, T, V) scores before the softmax.
        labels: (B, T) token ids. Tokens with -100 are ignored, all others are real.
        label_smoothing_factor: Probability mass taken from the correct token, in [0, 1].
        num_items_in_batch: Divisor of the sum over tokens: the number of real target tokens in the
            whole effective batch, over all processes and accumulation steps. None means the number
            of real tokens in `labels`.

    Returns:
        The loss in nats per token, and the unsmoothed loss with the same divisor. The unsmoothed
        loss has no gradient, and is None without smoothing.

    Paper: section 5.4.
    """
    flat_labels = labels.reshape(-1).to(logits.device)
    flat_logits = logits.reshape(-1, logits.shape[-1])
    flat_logits = flat_logits.to(torch.promote_types(flat_logits.dtype, torch.float32))
    divisor = _divisor(num_items_in_batch, flat_labels)

    if not label_smoothing_factor:
        nll = nn.functional.cross_entropy(
            flat_logits, flat_labels, ignore_index=IGNORE_INDEX, reduction="sum"
        )
        return nll / divisor, None

    # The same as `cross_entropy(label_smoothing=...)`, written out so that the smoothed and the
    # plain loss share one log-softmax.
    log_probs = flat_logits.log_softmax(dim=1)
    nll = nn.functional.nll_loss(log_probs, flat_labels, ignore_index=IGNORE_INDEX, reduction="sum")
    uniform = -log_probs.mean(dim=1).masked_fill(flat_labels == IGNORE_INDEX, 0.0).sum()
    loss = (1.0 - label_smoothing_factor) * nll + label_smoothing_factor * uniform
    return loss / divisor, nll.detach() / divisor


def can_fuse(head: nn.Module) -> bool:
    """Return True if `fused_translation_loss` may compute this output projection itself.

    `head` must be a plain `Linear` without bias. Adapters, quantization, parametrizations, hooks
    and offloading take effect only when a layer is called, but the fused loss does not call `head`.
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

    The forward pass handles one chunk of tokens after another. For each chunk, the forward pass
    computes the logits and, from these logits, the gradients. The backward pass only scales the
    gradients. On a CPU, ignored tokens cost nothing.

    Args:
        states: (B, T, D) output of the decoder.
        weight: (V, D) weight of the output projection.
        labels: As for `translation_loss`.
        label_smoothing_factor: As for `translation_loss`.
        num_items_in_batch: As for `translation_loss`.

    Returns:
        The two losses of `translation_loss`.

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
        # On an accelerator, selecting the N real tokens would be a sync, because the shape of the
        # result depends on the data. So all B * T tokens are computed. `_FusedLoss` leaves tokens
        # that are not real out of both losses. But the states of these tokens must be zero, because
        # `_FusedLoss` computes the gradient of the weight from the states of all tokens.
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
    """Return the divisor of the summed loss. If it is a tensor, move it to the labels' device."""
    if num_items_in_batch is None:
        return (labels != IGNORE_INDEX).sum().clamp(min=1)
    if torch.is_tensor(num_items_in_batch):
        return num_items_in_batch.to(labels.device)
    return num_items_in_batch


class _FusedLoss(torch.autograd.Function):
    """Smoothed and plain cross-entropy of `states @ weight.T`, each summed over the tokens.

    The states of ignored tokens must be zero. The gradients that `backward` returns for these
    states are not zero, but the caller's `masked_fill` replaces them by zero.
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
    def backward(
        ctx: Any, loss_grad: torch.Tensor, nll_grad: Any
    ) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "The fused loss has no second derivatives. Call the model without "
                "`return_logits=False`, and load it with `attn_implementation='eager'`."
            )
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
    """Return the smoothed and the plain loss, and the gradients of the smoothed loss.

    Both losses are sums over the tokens. The gradient with respect to the logits is softmax -
    target distribution. The target distribution has two parts: 1 - label_smoothing_factor at the
    correct token, and a uniform part, label_smoothing_factor / V at every token of the vocabulary.
    The uniform part does not need the logits: label_smoothing_factor * (mean row of the weight) is
    subtracted from the gradient of each state, and label_smoothing_factor / V * (sum of the states)
    is subtracted from each row of the weight's gradient.

    Args:
        states: (N, D) output of the decoder.
        weight: (V, D) weight of the output projection.
        labels: (N,) token ids; -100 is ignored.
        label_smoothing_factor: As for `translation_loss`.
        needs_grad: Two booleans: whether the gradient of the states is needed, and whether the
            gradient of the weight is needed.

    Returns:
        Both losses as scalars in fp32 or fp64, and the gradients (N, D) and (V, D). A gradient that
        is not needed is None.
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
    kernel = _find_kernel(states.device, states.dtype)
    row_length = vocab_size
    if kernel is not None:
        row_length += -vocab_size % 64  # a GPU multiplies matrices faster if their rows are aligned
    if not is_onednn:  # oneDNN allocates its own memory for every product
        buffer = states.new_empty(chunk, row_length)[:, :vocab_size]

    # If there are no tokens, one empty chunk sets the gradient of the weight to zero.
    for start in range(0, max(1, num_tokens), chunk):
        rows = slice(start, start + chunk)
        part = states[rows]  # (C, D)
        is_ignored = labels[rows] == IGNORE_INDEX
        right = labels[rows].masked_fill(is_ignored, 0).unsqueeze(1)  # (C, 1)
        if is_onednn:
            logits = multiply(part, weight)  # (C, V)
        else:
            logits = torch.mm(part, weight.T, out=buffer[: part.shape[0]])

        # Read the logits before they are overwritten.
        right_logits = logits.gather(1, right).to(precise)
        mean_logits = part.to(precise) @ mean_row
        if kernel is not None:
            log_sums = kernel(logits, labels[rows], label_smoothing_factor)
        else:
            logits = logits.to(precise)
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

        # The slope (C, V) is the gradient with respect to the logits, without the uniform part of
        # the target distribution. But in fp32 and fp64, without the kernel, the slope is exp_sums
        # times this gradient. Instead of the slope, the states (C, D) and their gradient are
        # divided by exp_sums, because they are smaller.
        divides_states = kernel is None and states.dtype == precise
        if kernel is not None:
            slope = logits
        else:
            if not divides_states:
                exps /= exp_sums
                exp_sums = torch.ones_like(exp_sums)  # after the division, each row sums to 1
            slope = exps.scatter_add_(1, right, exp_sums * (label_smoothing_factor - 1.0))
            slope = slope.to(states.dtype)

        if states_grad is not None:
            part_grad = linear(slope, weight.T)
            if divides_states:
                part_grad /= exp_sums
            states_grad[rows] = part_grad.sub_(mean_row * label_smoothing_factor)
        if weight_grad is not None:
            if divides_states:
                part = part / exp_sums
            is_first = start == 0  # `weight_grad` is uninitialized, so overwrite it
            if states.dtype == precise:
                weight_grad.addmm_(slope.T, part, beta=0 if is_first else 1)
            elif is_first:
                weight_grad.copy_(slope.T @ part)
            else:
                weight_grad += slope.T @ part

    if weight_grad is not None:
        weight_grad -= states.sum(dim=0, dtype=precise) * (label_smoothing_factor / vocab_size)
    return loss, nll, states_grad, weight_grad


@functools.cache
def _find_kernel(device: torch.device, dtype: torch.dtype) -> Any:
    """Return the Triton kernel of the loss, or None if it does not run on the device.

    The kernel does not run without Triton, without a C compiler, or on a device that Triton does
    not know.
    """
    if device.type != "cuda" or dtype == torch.float64:
        return None
    try:
        from .triton_loss_vaswani_transformer import log_sums_and_slopes_

        # Like the loss's logits, these have gaps between the rows.
        logits = torch.zeros(2, 128, device=device, dtype=dtype)[:, :70]
        log_sums_and_slopes_(logits, logits[:, 0].long(), 0.0)
    except Exception:  # Triton has no common base class for its errors
        return None
    return log_sums_and_slopes_


# A checkpoint's own code is a copy of this module and registers this operator, too. The module's
# name keeps the two operators apart.
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

    Otherwise torch.compile would unroll the loop over chunks, and would compile it again for each
    number of tokens. A gradient that is not needed is an empty tensor.
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
    """Return C, the number of tokens in a chunk of the fused loss."""
    sizes = [states.shape[0], _CHUNK_LOGITS // vocab_size]
    if states.device.type == "cpu":
        sizes.append(_CHUNK_TOKENS_ON_CPU)
    if is_onednn:
        sizes.append(_CHUNK_LOGITS_OF_ONEDNN // vocab_size)
    return max(1, min(sizes))
