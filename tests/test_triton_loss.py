# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The Triton kernel of the loss, run by Triton's interpreter or a GPU, and compiled for GPUs.

Triton reads TRITON_INTERPRET when it is imported, so this file runs itself in another process.
"""

import json
import os
import subprocess
import sys

import pytest
import torch
from tiny import ON_CPU_AND_GPU

from vaswani_transformer import loss_vaswani_transformer as losses


def run_this_file(name, **variables):
    """Return what the function of this name prints as JSON in a process of its own."""
    pytest.importorskip("triton", reason="needs triton, which is for Linux")
    command = [sys.executable, __file__, name]
    return json.loads(subprocess.check_output(command, env={**os.environ, **variables}))


# ---- in the other process ----


def relative_errors(got, expected):
    return [
        float((own - other).norm() / other.norm()) for own, other in zip(got, expected, strict=True)
    ]


def with_gradients(loss_of, states, weight, labels, smoothing):
    states, weight = states.clone().requires_grad_(), weight.clone().requires_grad_()
    loss, nll = loss_of(states, weight, labels, smoothing)
    (2.5 * loss).backward()
    found = loss, loss if nll is None else nll, states.grad, weight.grad
    return [each.detach().double() for each in found]


def compare():
    """Print the relative errors of losses and gradients, with and without the kernel."""
    from vaswani_transformer.triton_loss_vaswani_transformer import log_sums_and_slopes_

    device = torch.device(os.environ["DEVICE"])
    torch.set_default_device(device)
    has_kernel = losses._find_kernel(device, torch.bfloat16) is not None
    assert has_kernel == (device.type == "cuda")
    torch.compiler.is_compiling = lambda: True  # ignored tokens are computed, too, as on a GPU
    found = []
    for dtype in ("float32", "bfloat16", "float16"):
        for vocab_size in (11, 4099):  # 4,099: one block and 3 logits
            for smoothing in (0.0, 0.1):
                torch.manual_seed(0)
                labels = torch.randint(0, vocab_size, (3, 5))
                labels[0, 3:] = labels[2] = losses.IGNORE_INDEX
                states = torch.randn(3, 5, 32).to(getattr(torch, dtype))
                weight = torch.randn(vocab_size, 32).to(states.dtype)
                weight[-1] = states[0, 0]  # this token's largest logit is in the last block
                losses._CHUNK_LOGITS = 7 * vocab_size  # three chunks
                arguments = (states, weight, labels, smoothing)
                exact = with_gradients(
                    lambda h, w, *rest: losses.translation_loss(h @ w.T, *rest),
                    *(states.double(), weight.double(), labels, smoothing),
                )
                losses._find_kernel = lambda device, dtype: None
                loop = with_gradients(losses.fused_translation_loss, *arguments)
                losses._find_kernel = lambda device, dtype: log_sums_and_slopes_
                own = with_gradients(losses.fused_translation_loss, *arguments)
                pairs = (own, exact), (loop, exact), (own, loop)
                found.append([dtype, *(relative_errors(*pair) for pair in pairs)])
    print(json.dumps(found))


def compile_for_a_gpu():
    """Compile the kernels for an H100."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from vaswani_transformer.triton_loss_vaswani_transformer import _compute_row

    for kind in ("*bf16", "*fp32"):
        types = [kind, "*i64", "*fp32", "i32", "i32", "fp32", "constexpr"]
        signature = dict(zip(_compute_row.arg_names, types, strict=True))
        source = ASTSource(_compute_row, signature=signature, constexprs={"BLOCK": 4096})
        assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
    print("true")  # as JSON


# ---- in the process of the tests ----


@ON_CPU_AND_GPU
def test_kernel_gives_the_losses_and_gradients_of_the_loop(where):
    if where == "cpu":
        pytest.importorskip("triton", "3.7", reason="the interpreter of 3.6 needs numpy below 2.4")
    variables = {"DEVICE": where, "TRITON_INTERPRET": "1" if where == "cpu" else "0"}
    for dtype, *errors, differences in run_this_file("compare", **variables):
        if dtype == "float32":
            assert max(differences) < 1e-6
        for own, loop in zip(*errors, strict=True):
            # The interpreter rounds bfloat16 toward zero, a GPU to the nearest number.
            assert own <= 2 * loop + 1e-6, dtype


@pytest.mark.heavy
def test_kernel_compiles_for_a_gpu_without_one():
    assert run_this_file("compile_for_a_gpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_is_computed_without_the_kernel_where_it_does_not_run(dtype, recwarn, caplog):
    losses._find_kernel.cache_clear()
    assert losses._find_kernel(torch.device("cpu"), dtype) is None
    if not torch.cuda.is_available():
        # The import or the first launch fails.
        assert losses._find_kernel(torch.device("cuda"), dtype) is None
    assert not recwarn.list and not caplog.records


if __name__ == "__main__":
    globals()[sys.argv[1]]()
