# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Faster layers for CPUs: linear layers by oneDNN, int8 layers, and dropout.

torch multiplies fp32 matrices with MKL, and MKL uses AVX-512 on Intel's CPUs only. torch also
contains oneDNN, which uses AVX-512 on other CPUs too, in the same precision.
`torch.backends.mkldnn.enabled = False` turns oneDNN off.

oneDNN and MKL round differently, so the choice between them must be reproducible. The choice
depends only on the CPU and on the sizes of the matrices, never on a timing. So a run that is
resumed on the same machine makes the same choices and gives the same numbers as an uninterrupted
run.

Shapes: N rows, I input features, O output features, V vocabulary, D width of an embedding.
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

# Minimum number of multiplications (N * I * O) for which oneDNN is used. For smaller products,
# calling oneDNN costs more than it saves.
_FEWEST_PRODUCTS = 2**21
# For each CPU capability, the minimum number of elements (I * O) at which a weight is packed. For
# smaller weights, MKL is faster.
_SMALLEST_PACKED = {"AVX512": 1, "AVX2": 2**18}
_NUM_VALUES = 2**16  # number of values that a 16-bit random number can have


class Linear(nn.Linear):
    """`nn.Linear` that computes with oneDNN where oneDNN is faster; see `linear`."""

    # If several layers are initialized as parts of one matrix: the number of outputs of the whole
    # matrix. Otherwise not set.
    init_fan_out: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Project (..., I) to (..., O)."""
        return linear(input, self.weight, self.bias)


def linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Compute `torch.nn.functional.linear(input, weight, bias)`, with oneDNN if that is faster.

    Args:
        input: (..., I).
        weight: (O, I).
        bias: (O,) or None.

    Returns:
        (..., O).
    """
    is_usual_bias = bias is None or (bias.dtype == weight.dtype and bias.shape == weight.shape[:1])
    if not (is_usual_bias and runs_on_onednn(input, weight)):
        return nn.functional.linear(input, weight, bias)

    rows = input.reshape(-1, input.shape[-1])
    needs_grad = input.requires_grad or weight.requires_grad
    if bias is not None and bias.requires_grad:
        needs_grad = True
    if torch.is_grad_enabled() and needs_grad:
        product: torch.Tensor = _Linear.apply(rows, weight, bias)
    else:
        product = multiply(rows, weight, bias)
    return product.view(*input.shape[:-1], -1)


def runs_on_onednn(input: torch.Tensor, weight: torch.Tensor) -> bool:
    """Return True if `multiply` should compute the product of `input` (..., I) and `weight` (O, I).

    The result is True only for plain fp32 tensors on a CPU where oneDNN is faster than MKL, and
    only if the product is large enough to benefit. The result is False under compilation, tracing,
    autocast, forward-mode differentiation and dispatch modes.
    """
    return (
        input.dtype == weight.dtype == torch.float32
        and input.device.type == "cpu"
        and type(input) is torch.Tensor
        and type(weight) in (nn.Parameter, torch.Tensor)
        and input.layout == weight.layout == torch.strided
        and weight.ndim == 2
        and input.shape[-1] == weight.shape[1]
        # Check this before the sizes. Otherwise torch.compile would make one graph per outcome of
        # the comparison.
        and not torch.compiler.is_compiling()
        and input.numel() * weight.shape[0] >= _FEWEST_PRODUCTS
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()  # type: ignore[attr-defined]  # torch does not export it
        and not is_in_torch_dispatch_mode()
        and forward_ad._current_level < 0
        and bool(torch.backends.mkldnn.enabled)
        and onednn_is_faster()
    )


def multiply(
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
) -> torch.Tensor:
    """Return activation(rows @ weight.T + bias), computed by oneDNN without gradients.

    Args:
        rows: (N, I).
        weight: (O, I), plain or from `pack`.
        bias: (O,) or None.
        activation: "relu" or "none".

    Returns:
        (N, O).
    """
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
        rows, weight, bias, activation, [], ""
    )
    return product


def pack(weight: torch.Tensor) -> torch.Tensor:
    """Return a copy of `weight` (O, I) in oneDNN's memory layout.

    Multiplying a few rows by this copy is faster than multiplying them by `weight`.
    """
    num_rows = 64  # the layout is the same for every number of rows above 1
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, num_rows)
    return packed


@functools.cache
def onednn_is_faster() -> bool:
    """Return True if oneDNN multiplies fp32 matrices faster than MKL.

    oneDNN is faster on CPUs with AVX-512 that are not Intel's. An unknown CPU counts as Intel's.
    """
    has_mkl = torch.backends.mkl.is_available()
    has_avx512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
    if not (has_mkl and has_avx512):
        return False
    processor = _processor() or "GenuineIntel"
    return "GenuineIntel" not in processor and _onednn_is_right()


def can_pack(weight: torch.Tensor) -> bool:
    """Return True if products with a packed `weight` (O, I) are correct and faster than MKL's."""
    smallest = _SMALLEST_PACKED.get(torch.backends.cpu.get_cpu_capability())
    return smallest is not None and weight.numel() >= smallest and _onednn_is_right()


def is_fast_half(dtype: torch.dtype) -> bool:
    """Return True if `dtype` is bfloat16 and the CPU has AVX512-BF16.

    AVX512-BF16 has instructions that multiply bfloat16 numbers.
    """
    return dtype == torch.bfloat16 and torch.cpu._is_avx512_bf16_supported()


def _processor() -> str:
    """Return a text that contains the name of the CPU's maker, or "" if the maker is unknown."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()


@functools.cache
def _onednn_is_right() -> bool:
    """Return True if `multiply` and `pack` give the correct results for an example.

    Both functions call private operators of torch. These operators may change with a release.
    """
    rows = torch.arange(-3.0, 3.0).view(2, 3)
    weight = torch.arange(12.0).view(4, 3)
    bias = torch.ones(4)
    expected = nn.functional.linear(rows, weight, bias)
    problem = "their product is wrong"
    try:
        product = multiply(rows, weight, bias)
        packed_product = multiply(rows, pack(weight), bias, "relu")
        if torch.equal(product, expected) and torch.equal(packed_product, expected.relu()):
            return True
    except (AttributeError, RuntimeError, TypeError) as error:
        problem = str(error)
    logger.warning(
        "Matrix products stay with MKL: torch's operators for oneDNN cannot be used: %s", problem
    )
    return False


class _Linear(torch.autograd.Function):
    """Compute rows @ weight.T + bias with `multiply`, and support gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        return multiply(rows, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        needs_rows, needs_weight, needs_bias = ctx.needs_input_grad
        rows_grad = weight_grad = bias_grad = None
        if needs_rows:
            rows_grad = linear(grad, weight.T)
        if needs_weight:
            # The gradient is grad.T @ rows (O, I). oneDNN copies a transposed left operand. To keep
            # the copy small, the narrower of `grad` and `rows` is the left operand. If `rows` is on
            # the left, the product is the transposed gradient, so transpose the product.
            if grad.shape[1] > rows.shape[1]:
                weight_grad = linear(rows.T, grad.T).T.contiguous()
            else:
                weight_grad = linear(grad.T, rows.T)
        if needs_bias:
            bias_grad = grad.sum(dim=0)
        return rows_grad, weight_grad, bias_grad


class Dropout(nn.Dropout):
    """`nn.Dropout`, but cheaper in training on CPUs.

    On a CPU, the mask comes from 16-bit random numbers, so the rate is rounded to a multiple of
    1/65,536. The random numbers are drawn four at a time. The scale of kept elements is computed
    from the rounded rate, so the mean is exact. The mask that the backward pass needs takes one
    byte per element instead of four.

    Paper: section 5.4.
    """

    def forward(self, input: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Zero elements of `input` with probability `p`, scale the others, and add `residual`.

        The scale is 1 / (1 - p). `input`, `residual` and the result have the same shape. In
        training on a CPU, adding `residual` takes no further memory.
        """
        # An element is kept if its random number is one of the `num_kept` lowest of 65,536 values.
        num_kept = round((1.0 - self.p) * _NUM_VALUES)
        if (
            not self.training
            or input.device.type != "cpu"
            or torch.compiler.is_compiling()
            or num_kept in (0, _NUM_VALUES)
        ):
            dropped = super().forward(input)
            if residual is None:
                return dropped
            return residual + dropped

        # A random int64 word holds four random numbers from -32,768 to 32,767.
        num_words = -(-input.numel() // 4)
        words = torch.empty(num_words, dtype=torch.int64, device=input.device)
        words.random_(-(2**63), None)
        numbers = words.view(torch.int16)[: input.numel()]
        mask = (numbers < num_kept - _NUM_VALUES // 2).view(input.shape)
        output: torch.Tensor = _MaskedScale.apply(input, mask, _NUM_VALUES / num_kept, residual)
        return output


class _MaskedScale(torch.autograd.Function):
    """Compute input * mask * scale, and add `residual` if there is one.

    All tensors have the same shape.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        mask: torch.Tensor,
        scale: float,
        residual: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        ctx.dtype = input.dtype
        if residual is None:
            return (input * mask).mul_(scale)
        kept = mask.to(torch.promote_types(input.dtype, residual.dtype))
        return torch.addcmul(residual, input, kept, value=scale, out=kept)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        input_grad = (grad * mask).mul_(ctx.scale).to(ctx.dtype)
        residual_grad = grad if ctx.needs_input_grad[3] else None
        return input_grad, None, None, residual_grad


class Int8Linear(nn.Module):
    """Linear layer with an int8 weight and dynamically quantized activations.

    Each row of the weight (one row per output feature) has its own scale. All activations of a call
    share one scale, so the result for a sentence depends slightly on the other sentences of its
    batch.

    Args:
        weight: (O, I) in fp32.
        bias: (O,) in fp32, or None.

    Raises:
        ValueError: torch's quantized kernels do not work on this machine, or this release of torch
            has none.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.bias = None
        if bias is not None:
            self.bias = bias.detach().clone()
        try:
            self._packed = _pack_int8(weight.detach(), self.bias)
        except AttributeError as error:
            raise ValueError(
                f"int8 cannot be used: torch {torch.__version__} has no quantized tensors any more "
                f"({error}). Use fp32, `--engine ctranslate2` or an earlier torch."
            ) from error
        except RuntimeError as error:
            raise ValueError(
                f"int8 needs torch's quantized kernels, and they fail on this machine: {error}. "
                "Use fp32."
            ) from error
        # Without VNNI, activations must be quantized to 7 bits, because with 8 bits the 16-bit sums
        # of the kernels would overflow.
        self._has_fewer_bits = not torch.cpu._is_vnni_supported()

    def forward(self, input: torch.Tensor, activation: str = "none") -> torch.Tensor:
        """Project (..., I) to (..., O) in fp32, then apply the activation, "relu" or "none"."""
        kernel = torch.ops.quantized.linear_dynamic
        if activation == "relu":
            kernel = torch.ops.quantized.linear_relu_dynamic
        product: torch.Tensor = kernel(input, self._packed, self._has_fewer_bits)
        return product

    @property
    def weight(self) -> torch.Tensor:
        """Return a dequantized copy of the weight, (O, I) in fp32."""
        weight: torch.Tensor = torch.ops.quantized.linear_unpack(self._packed)[0].dequantize()
        return weight


def _pack_int8(weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
    """Return `weight` (O, I) in int8 and `bias` (O,), packed for torch's int8 kernels.

    Each row of the weight (one row per output feature) has its own scale.
    """
    scales = weight.double().abs().amax(dim=1).clamp_(min=1e-30) / 127
    before = torch.backends.quantized.engine
    if "fbgemm" in torch.backends.quantized.supported_engines:  # this engine is faster for few rows
        torch.backends.quantized.engine = "fbgemm"
    try:
        with warnings.catch_warnings():
            # torch warns that one of its later releases will drop quantized tensors. The installed
            # release still has them, so users need not act.
            warnings.filterwarnings("ignore", message=".*quantized tensor creation functions")
            integers = torch.quantize_per_channel(weight, scales, scales.long() * 0, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(integers, bias)
    finally:
        torch.backends.quantized.engine = before


class Int8Embedding(nn.Module):
    """Embedding with int8 vectors and one scale per vector, made from an fp32 weight (V, D)."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self._scales = weight.detach().abs().amax(dim=1, keepdim=True).clamp_(min=1e-30) / 127
        self._integers = (weight.detach() / self._scales).round_().to(torch.int8)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the vectors (..., D) of token ids (...), in fp32."""
        return self._integers[input] * self._scales[input]


def to_int8(model: nn.Module) -> None:
    """Replace the linear layers and token embeddings of a model by int8 ones, in place.

    The model must be in fp32 on the CPU. Layers that are already in int8 are left as they are.
    """
    embeddings: dict[nn.Parameter, Int8Embedding] = {}  # by weight, for tied layers
    layer: Any
    for parent in list(model.modules()):
        for name, layer in parent.named_children():
            replacement: nn.Module
            if isinstance(layer, nn.Linear):
                replacement = Int8Linear(layer.weight, layer.bias)
            elif name in ("shared", "embed_tokens") and not isinstance(layer, Int8Embedding):
                if layer.weight not in embeddings:
                    embeddings[layer.weight] = Int8Embedding(layer.weight)
                replacement = embeddings[layer.weight]
            else:
                continue
            setattr(parent, name, replacement.train(layer.training))

    # The remaining parameters may be views of the memory-mapped checkpoint file. Copies let the
    # file be unmapped.
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


def is_int8(model: Any) -> bool:
    """Return True for a model that `to_int8` has changed."""
    return isinstance(getattr(model, "lm_head", None), Int8Linear)
