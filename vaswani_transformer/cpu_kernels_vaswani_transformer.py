# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""nn.Linear by oneDNN where that is faster than MKL, or in int8, and dropout with cheap random numbers.

torch multiplies fp32 matrices with MKL, which runs no AVX-512 on CPUs of other makers than Intel; oneDNN, which torch
holds as well, does, in the same precision. `torch.backends.mkldnn.enabled = False` turns this off. What decides never
changes on a machine: the two round differently, and a timing would let a resumed run differ from an undisturbed one.

Shapes: N rows, I features of a row, O features of its projection.
"""

import functools
import logging
import platform
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

logger = logging.getLogger(__name__)

_FEWEST_PRODUCTS = 2**21  # N * I * O; below, the call costs more than it saves
_SMALLEST_PACKED = {"AVX512": 1, "AVX2": 2**18}  # I * O; MKL is faster with less
_STEPS = 2**16  # a random number has 16 bits


class Linear(nn.Linear):
    """`nn.Linear`, computed by `linear`."""

    init_fan_out: int  # outputs of the matrix that this is a part of, where it is initialised as a part

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(..., I) -> (..., O)."""
        return linear(input, self.weight, self.bias)


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Input (..., I) @ weight (O, I) transposed + bias (O,), like `torch.nn.functional.linear`."""
    is_usual_bias = bias is None or (bias.dtype == weight.dtype and bias.shape == weight.shape[:1])
    if not (is_usual_bias and runs_on_onednn(input, weight)):
        return nn.functional.linear(input, weight, bias)
    rows = input.reshape(-1, input.shape[-1])
    needs_grad = input.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    if torch.is_grad_enabled() and needs_grad:
        product: torch.Tensor = _Linear.apply(rows, weight, bias)
    else:
        product = multiply(rows, weight, bias)
    return product.view(*input.shape[:-1], -1)


def runs_on_onednn(input: torch.Tensor, weight: torch.Tensor) -> bool:
    """True if `multiply` may and should compute the product of `input` (..., I) and `weight` (O, I).

    Only plain fp32 tensors on such a CPU, and where nobody looks at, traces or compiles the operations.
    """
    return (
        input.dtype == weight.dtype == torch.float32
        and input.device.type == "cpu"
        and type(input) is torch.Tensor
        and type(weight) in (nn.Parameter, torch.Tensor)
        and input.layout == weight.layout == torch.strided
        and weight.ndim == 2
        and input.shape[-1] == weight.shape[1]
        and not torch.compiler.is_compiling()  # before sizes are compared: each side would be a graph of its own
        and input.numel() * weight.shape[0] >= _FEWEST_PRODUCTS
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()  # type: ignore[attr-defined]  # torch's
        and not is_in_torch_dispatch_mode()
        and forward_ad._current_level < 0
        and bool(torch.backends.mkldnn.enabled)
        and onednn_is_faster()
    )


def multiply(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str = "none"
) -> torch.Tensor:
    """Rows (N, I) @ weight (O, I) transposed + bias (O,), by oneDNN and without gradients.

    The weight may be packed; the activation is "relu" or "none".
    """
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, activation, [], "")
    return product


def pack(weight: torch.Tensor) -> torch.Tensor:
    """A copy of weight (O, I) in the order in which oneDNN reads it, which tells when there are few rows."""
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, 64)  # the same order for any rows but 1
    return packed


@functools.cache
def onednn_is_faster() -> bool:
    """True if oneDNN multiplies faster than MKL: with AVX-512, which MKL uses on Intel's CPUs alone."""
    has_avx512 = torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return has_avx512 and "GenuineIntel" not in (_processor() or "GenuineIntel") and _onednn_is_right()


def can_pack(weight: torch.Tensor) -> bool:
    """True if a packed copy of weight (O, I) is faster than MKL, and torch's operators give the right products."""
    smallest = _SMALLEST_PACKED.get(torch.backends.cpu.get_cpu_capability())
    return smallest is not None and weight.numel() >= smallest and _onednn_is_right()


def is_fast_half(dtype: torch.dtype) -> bool:
    """True for bfloat16 on a CPU that multiplies it."""
    return dtype == torch.bfloat16 and torch.cpu._is_avx512_bf16_supported()


def _processor() -> str:
    """Text that names the maker of this machine's CPU; empty where the system does not tell."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()


@functools.cache
def _onednn_is_right() -> bool:
    """Tries `multiply` and `pack`: they rest on operators that torch does not promise to keep."""
    rows, weight, bias = torch.arange(-3.0, 3.0).view(2, 3), torch.arange(12.0).view(4, 3), torch.ones(4)
    expected = nn.functional.linear(rows, weight, bias)
    problem = "its product is wrong"
    try:
        product, of_packed = multiply(rows, weight, bias), multiply(rows, pack(weight), bias, "relu")
        if torch.equal(product, expected) and torch.equal(of_packed, expected.relu()):
            return True
    except (AttributeError, RuntimeError, TypeError) as error:
        problem = str(error)
    logger.warning("Matrix products stay with MKL: torch's operators for oneDNN cannot be used: %s", problem)
    return False


class _Linear(torch.autograd.Function):
    """`multiply` with gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return multiply(rows, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        needs, weight_grad = ctx.needs_input_grad, None
        if needs[1]:  # (O, I); oneDNN copies its left side when it is transposed: the smaller one
            is_wide = grad.shape[1] > rows.shape[1]
            weight_grad = linear(rows.T, grad.T).T.contiguous() if is_wide else linear(grad.T, rows.T)
        return linear(grad, weight.T) if needs[0] else None, weight_grad, grad.sum(dim=0) if needs[2] else None


class Dropout(nn.Dropout):
    """`nn.Dropout`; in training on CPUs with a mask of 16-bit random numbers, four of which are drawn at a time.

    There the rate is rounded to 1/65,536, and what is kept is scaled by the rounded rate, so that the mean is exact.
    The mask is kept for the backward pass in one byte an element instead of four.

    Paper: section 5.4.
    """

    def forward(self, input: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Same shape; elements are zero with probability `p`, the others are divided by 1 - p.

        `residual`, of the same shape, is added to that without further memory.
        """
        num_kept = round((1.0 - self.p) * _STEPS)
        if not self.training or input.device.type != "cpu" or torch.compiler.is_compiling() or num_kept in (0, _STEPS):
            dropped = super().forward(input)
            return dropped if residual is None else residual + dropped
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
        mask = (words.view(torch.int16)[: input.numel()] < num_kept - _STEPS // 2).view(input.shape)
        output: torch.Tensor = _MaskedScale.apply(input, mask, _STEPS / num_kept, residual)
        return output


class _MaskedScale(torch.autograd.Function):
    """input * mask * scale, plus residual if there is one."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, mask: torch.Tensor, scale: float, residual: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(mask)
        ctx.scale, ctx.dtype = scale, input.dtype
        if residual is None:
            return (input * mask).mul_(scale)
        kept = mask.to(torch.promote_types(input.dtype, residual.dtype))
        return torch.addcmul(residual, input, kept, value=scale, out=kept)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return (grad * mask).mul_(ctx.scale).to(ctx.dtype), None, None, grad if ctx.needs_input_grad[3] else None


class Int8Linear(nn.Module):
    """A linear layer with its weight in int8, with a scale of each output; activations are rounded as they come.

    All activations of a call share one scale, so that a sentence's numbers depend a little on what is beside it.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        weight, self.bias = weight.detach(), None if bias is None else bias.detach().clone()
        scales = weight.double().abs().amax(dim=1).clamp_(min=1e-30) / 127
        engines, before = torch.backends.quantized.supported_engines, torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm" if "fbgemm" in engines else before  # the faster one for few rows
        try:
            with warnings.catch_warnings(action="ignore"):  # torch means to replace its type of quantised tensors
                integers = torch.quantize_per_channel(weight, scales, scales.long() * 0, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(integers, self.bias)
        except (AttributeError, RuntimeError) as error:
            raise ValueError(f"int8 needs torch's quantised kernels, which fail here: {error}. Use fp32.") from error
        finally:
            torch.backends.quantized.engine = before
        self._has_fewer_bits = not torch.cpu._is_vnni_supported()  # of activations: else sums of 16 bits overflow

    def forward(self, input: torch.Tensor, activation: str = "none") -> torch.Tensor:
        """(..., I) -> (..., O), in fp32; the activation is "relu" or "none"."""
        kernels = torch.ops.quantized
        multiply = kernels.linear_relu_dynamic if activation == "relu" else kernels.linear_dynamic
        product: torch.Tensor = multiply(input, self._packed, self._has_fewer_bits)
        return product

    @property
    def weight(self) -> torch.Tensor:
        """(O, I) what the integers stand for, a copy in fp32."""
        weight: torch.Tensor = torch.ops.quantized.linear_unpack(self._packed)[0].dequantize()
        return weight


class Int8Embedding(nn.Module):
    """An embedding whose vectors are kept in int8, each with a scale."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self._scales = weight.detach().abs().amax(dim=1, keepdim=True).clamp_(min=1e-30) / 127
        self._integers = (weight.detach() / self._scales).round_().to(torch.int8)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(...) -> (..., D), in fp32."""
        return self._integers[input] * self._scales[input]


def to_int8(model: nn.Module) -> None:
    """Replaces linear layers and the embeddings of tokens of a model in fp32, on the CPU, by their counterparts."""
    made: dict[Any, nn.Module] = {}  # tied weights are rounded once
    layer: Any
    for parent in list(model.modules()):
        for name, layer in parent.named_children():
            is_embedding = name in ("shared", "embed_tokens")
            if is_embedding or isinstance(layer, nn.Linear):
                key = is_embedding, layer.weight
                if key not in made:
                    made[key] = Int8Embedding(layer.weight) if is_embedding else Int8Linear(layer.weight, layer.bias)
                setattr(parent, name, made[key].train(layer.training))
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # lets go of the file, whose pages were read for the others


def is_int8(model: Any) -> bool:
    """True for a model whose weights `to_int8` rounded."""
    return isinstance(getattr(model, "lm_head", None), Int8Linear)
