# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Triton kernel of the training loss, for GPUs.

loss_vaswani_transformer.py imports this module only on a GPU. If the import fails, it computes the
loss by operators of PyTorch. On Linux, installing PyTorch for GPUs also installs Triton.
"""

import torch

# A checkpoint has a copy of this file. If an import outside of a `try` block names a package that
# is not installed, then transformers does not load the checkpoint's code.
try:
    import triton
    import triton.language as tl
except ImportError:
    raise


def log_sums_and_slopes_(
    logits: torch.Tensor, labels: torch.Tensor, label_smoothing_factor: float
) -> torch.Tensor:
    """Return the log of the summed exponentials of each row, and overwrite the logits.

    The new values are the gradient of the loss with respect to the logits, without the uniform part
    of the target distribution. The new values of ignored tokens have no meaning. The computation is
    in fp32.

    Args:
        logits: (C, V). Each row is contiguous. If there are gaps between the rows, they are
            overwritten with zeros, because some matrix products read them.
        labels: (C,) token ids; -100 is ignored.
        label_smoothing_factor: As for `translation_loss`.

    Returns:
        (C, 1) in fp32.
    """
    num_tokens, vocab_size = logits.shape
    log_sums = torch.empty(num_tokens, 1, device=logits.device)
    with torch.cuda.device_of(logits):  # Triton launches on the current device
        _compute_row[(num_tokens,)](
            logits,
            labels,
            log_sums,
            logits.stride(0),
            vocab_size,
            1.0 - label_smoothing_factor,
            BLOCK=4096,  # not measured on a GPU
        )
    return log_sums


@triton.jit  # type: ignore[untyped-decorator]
def _compute_row(  # type: ignore[no-untyped-def]
    logits, labels, log_sums, stride, vocab_size, right_probability, BLOCK: tl.constexpr
):
    """Compute the row of one token: sum its exponentials, then overwrite its logits.

    The program reads BLOCK logits at once. It reads and writes the gap after the row, too: a mask
    with the stride, a multiple of 64, lets it move several logits by one instruction.
    """
    token = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + token)
    row = logits + token * stride
    block = tl.arange(0, BLOCK)

    largest = float("-inf")
    exp_sum = 0.0
    for start in range(0, vocab_size, BLOCK):
        columns = start + block
        values = tl.load(row + columns, mask=columns < stride, other=0.0).to(tl.float32)
        values = tl.where(columns < vocab_size, values, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(values))
        exp_sum = exp_sum * tl.exp(largest - new_largest) + tl.sum(tl.exp(values - new_largest))
        largest = new_largest
    log_sum = largest + tl.log(exp_sum)
    tl.store(log_sums + token, log_sum)

    for start in range(0, vocab_size, BLOCK):
        columns = start + block
        values = tl.load(row + columns, mask=columns < stride, other=0.0).to(tl.float32)
        slope = tl.exp(values - log_sum) - tl.where(columns == label, right_probability, 0.0)
        slope = tl.where(columns < vocab_size, slope, 0.0)
        tl.store(row + columns, slope.to(logits.dtype.element_ty), mask=columns < stride)
