# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The decoder, one token per step.

`IncrementalDecoder` gives the results of the decoder's modules without the cost of calling them.

Source keys and values are shared by all beams of a sentence, so they are stored once. Target keys
and values are never reordered. When a beam continues another beam, only the attention mask changes:
the mask selects the keys of the beam's own past.

On a CPU, a step attends to the tokens so far, with the kernels of this package. On an accelerator,
a step attends to the whole capacity of the cache, so all shapes are constant. A step on an
accelerator also never syncs. So a step can be captured as a CUDA graph.

Shapes: A = sentences that are still searched, N = beams, R = A * N rows, S = source length,
T = target positions that a step attends to, P = length of the prompt, L = any length, D = d_model,
H = heads, K = any width of a head (d_k, d_v or a sum of these), V = vocabulary.
"""

import math
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .cpu_kernels_vaswani_transformer import (
    Int8Embedding,
    Int8Linear,
    Linear,
    can_pack,
    is_fast_half,
    multiply,
    pack,
)

# Packages of the module classes in a plain model: only `torch.nn.modules` and this package.
_PLAIN_PACKAGES = ("torch.nn.modules", __name__.rpartition(".")[0])
# Methods that no module of a plain model overrides in its own `__dict__`.
_PATCHABLE = {
    "forward",
    "prepare_inputs_for_generation",
    "_update_model_kwargs_for_generation",
    "_reorder_cache",
}
# Minimum number of multiplications for which a packed weight is used. With fewer multiplications,
# MKL is faster than oneDNN.
_FEWEST_TO_USE_PACKED = 2**20
# The rows are split into parts. This is the largest number of logits of one part: 32 MiB in fp32.
# For a larger block of memory, the C library makes a new request to the system at each allocation.
_LARGEST_PRODUCT = 2**23
_FIRST_CAPACITY = 32  # first capacity of the cache, in tokens

# shape, weight, bias and epsilon of a LayerNorm
_Norm = tuple[tuple[int, ...], torch.Tensor, torch.Tensor, float]


def is_plain(model: Any) -> bool:
    """Return True if `IncrementalDecoder` gives the same results as the decoder's modules.

    The result is False for models with adapters, hooks, sharding, offloading, dropout, patched
    instances, or layers that this file cannot compute. It is also False for quantization other than
    this package's int8, and for attention backends other than eager and sdpa. On a CPU, the result
    is also False for fp16, and for bf16 if the CPU has no instructions for bf16. Patched classes
    are not detected.
    """
    if not (_is_of_this_package(model) and _is_supported(model)):
        return False

    decoder = model.model.decoder
    for module in (model, model.model, model.lm_head, *decoder.modules()):
        if is_watched(module) or module.training or _PATCHABLE & module.__dict__.keys():
            return False
        if not _is_of_this_package(module):
            return False
        for parameter in filter(torch.is_tensor, module._parameters.values()):
            is_alike = parameter.device == model.device and parameter.dtype == model.dtype
            if type(parameter) is not nn.Parameter or not is_alike:
                return False
    embedding = decoder.embed_tokens
    is_usual = type(embedding) is nn.Embedding and embedding.max_norm is None
    if not (is_usual or type(embedding) is Int8Embedding):
        return False
    return all(map(_has_usual_parts, decoder.layers)) and _is_linear(model.lm_head)


def is_watched(module: Any) -> bool:
    """Return True if a module has hooks other than those of `output_attentions`.

    transformers does not remove the hooks of `output_attentions` after their first use.
    """
    for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
        if getattr(hook, "__module__", "") != "transformers.utils.output_capturing":
            return True
    return False


def _is_of_this_package(module: Any) -> bool:
    """Return True if a module's class is from `torch.nn` or from the package of this file."""
    return type(module).__module__.rpartition(".")[0] in _PLAIN_PACKAGES


def _is_supported(model: Any) -> bool:
    """Return True if device, dtype, attention backend and torch's present mode are supported.

    Modes that are not supported are global hooks, gradients, autocast, compilation and dispatch
    modes.
    """
    device = model.device.type
    if device in ("meta", "mps"):  # the lengths on an accelerator are in float64, which mps lacks
        return False
    is_precise = model.dtype in (torch.float32, torch.float64)
    if device == "cpu" and not (is_precise or is_fast_half(model.dtype)):
        return False

    backend = model.config._attn_implementation
    is_usual_sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"] is sdpa_attention_forward
    if backend != "eager" and not (backend == "sdpa" and is_usual_sdpa):
        return False

    library = nn.modules.module
    return not (
        library._global_forward_hooks
        or library._global_forward_pre_hooks
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled(device)
        or torch.compiler.is_compiling()
        or is_in_torch_dispatch_mode()
    )


def _has_usual_parts(layer: Any) -> bool:
    """Return True if a decoder layer has the modules that this file can compute."""
    for attention in (layer.self_attn, layer.encoder_attn):
        inputs = attention.q_proj, attention.k_proj, attention.v_proj
        if not all(_is_linear(projection) for projection in (*inputs, attention.out_proj)):
            return False
        num_biases = sum(projection.bias is not None for projection in inputs)
        if num_biases not in (0, len(inputs)) or attention.scaling != attention.d_k**-0.5:
            return False

    norms = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm
    if not all(type(norm) is nn.LayerNorm for norm in norms):
        return False
    return _is_linear(layer.fc1) and _is_linear(layer.fc2)


def _is_linear(module: nn.Module) -> bool:
    is_usual = type(module) in (nn.Linear, Linear) and "weight" in module._parameters
    return is_usual or type(module) is Int8Linear


class Projection:
    """One matrix product for linear layers that read the same states.

    For several layers, the projection holds a copy of their weights. For a single layer, it uses
    the layer's own weight, or a copy that is packed for oneDNN where the packed copy is faster.

    Args:
        layers: The linear layers.
        heads: Number of heads. The outputs are ordered by head, and within a head by layer. For the
            layers q, k and v they are q1 k1 v1 q2 k2 v2 ...
        activation: "relu" or "none".
    """

    def __init__(self, *layers: Any, heads: int = 1, activation: str = "none") -> None:
        self._activation = activation
        self._int8: Int8Linear | None = None
        is_int8 = type(layers[0]) is Int8Linear
        if is_int8 and len(layers) == 1:
            self._int8 = layers[0]
            return

        if len(layers) == 1:
            weight = layers[0].weight.detach()
        else:
            weight = _concatenated([layer.weight for layer in layers], heads)
        self._bias = None
        if layers[0].bias is not None:
            self._bias = _concatenated([layer.bias for layer in layers], heads)
        if is_int8:
            self._int8 = Int8Linear(weight, self._bias)
            return

        self._products = weight.numel()  # multiplications for one row
        is_fast_dtype = weight.dtype == torch.float32 or is_fast_half(weight.dtype)
        may_pack = weight.device.type == "cpu" and torch.backends.mkldnn.enabled
        self._packed = None
        if may_pack and is_fast_dtype and can_pack(weight):
            self._packed = pack(weight)
        is_always_packed = self._packed is not None and self._products >= _FEWEST_TO_USE_PACKED
        if not is_always_packed:
            self._weight = weight

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Return all layers' outputs (R, ..) for states (R, D), with the activation applied."""
        if self._int8 is not None:
            return self._int8.forward(states, self._activation)
        if self._packed is not None and states.shape[0] * self._products >= _FEWEST_TO_USE_PACKED:
            return multiply(states, self._packed, self._bias, self._activation)
        output = nn.functional.linear(states, self._weight, self._bias)
        if self._activation == "relu":
            output.relu_()
        return output


def _concatenated(parts: list[torch.Tensor], heads: int) -> torch.Tensor:
    """Concatenate weights or biases along their outputs, ordered by head, then by layer."""
    by_head = [part.unflatten(0, (heads, -1)) for part in parts]
    return torch.cat(by_head, dim=1).flatten(0, 1)


class LayerProjections:
    """Projections of one decoder layer."""

    def __init__(self, layer: Any, heads: int) -> None:
        self_attn, cross = layer.self_attn, layer.encoder_attn
        self.qkv = Projection(self_attn.q_proj, self_attn.k_proj, self_attn.v_proj, heads=heads)
        self.out = Projection(self_attn.out_proj)
        self.cross_q = Projection(cross.q_proj)
        self.cross_kv = Projection(cross.k_proj, cross.v_proj, heads=heads)
        self.cross_out = Projection(cross.out_proj)
        self.fc1 = Projection(layer.fc1, activation="relu")
        self.fc2 = Projection(layer.fc2)


class DecoderProjections:
    """All projections of a decoding step, kept between searches.

    The projections are rebuilt when a weight moves or changes. But a write through `.data`, or by a
    fused optimizer, is noticed only if the write changes one of about 64 sampled numbers of the
    weight. If such a write may leave these numbers unchanged, call `model.eval()` after the write,
    to drop the projections.
    """

    _kept: weakref.WeakKeyDictionary[nn.Module, "DecoderProjections"] = weakref.WeakKeyDictionary()

    def __init__(self, model: Any, weights: list[torch.Tensor]) -> None:
        self.state = _state_of(weights)
        # `state` contains the addresses of the weights. Keep the weights alive, because otherwise
        # another tensor could get one of these addresses.
        self._weights = [weight.detach() for weight in weights]
        self.layers = [
            LayerProjections(layer, model.config.num_heads) for layer in model.model.decoder.layers
        ]
        self.head = Projection(model.lm_head)

    @classmethod
    def of(cls, model: Any) -> "DecoderProjections":
        """Return the projections of a model, rebuilt if a weight has changed."""
        weights: list[torch.Tensor] = []
        for module in (*model.model.decoder.layers.modules(), model.lm_head):
            if _is_linear(module):
                weights.extend(module.parameters())
        kept = cls._kept.get(model)
        if kept is None or kept.state != _state_of(weights):
            kept = cls(model, weights)
            cls._kept[model] = kept
        return kept

    @classmethod
    def drop(cls, model: nn.Module) -> None:
        """Drop the projections of a model."""
        cls._kept.pop(model, None)


def _state_of(weights: list[torch.Tensor]) -> list[object]:
    """Return a value that changes when a weight is replaced or written to.

    For inference tensors, each call returns a new value, because torch does not count the writes to
    inference tensors.
    """
    if any(weight.is_inference() for weight in weights):
        return [object()]
    samples = []
    for weight in weights:
        stride = 1 + weight.numel() // 64
        samples.append(weight.detach().flatten()[::stride])
    numbers: list[float] = []
    if samples:  # int8 layers have no parameters
        numbers = torch.cat(samples).tolist()
    versions = [(weight.data_ptr(), weight._version) for weight in weights]
    return [torch.backends.mkldnn.enabled, numbers, versions]


def is_static(device: torch.device) -> bool:
    """Return True if steps on this device have constant shapes and never sync."""
    return device.type != "cpu"


class IncrementalDecoder:
    """Decoder state of a batch during a search, for a model for which `is_plain` is true.

    Args:
        model: The model.
        encoder_states: (A, S, D) output of the encoder.
        encoder_mask: (A, S), 0 for padding; None means no padding.
        num_beams: Number of beams N.
    """

    def __init__(
        self,
        model: Any,
        encoder_states: torch.Tensor,
        encoder_mask: torch.Tensor | None,
        num_beams: int,
    ) -> None:
        decoder = model.model.decoder
        self.device = model.device
        self.is_static = is_static(model.device)
        self.dtype = torch.promote_types(model.dtype, torch.float32)  # dtype of the scores
        self.length = 0  # tokens so far; the caller of `step` increments it
        self.beams = torch.arange(num_beams, device=self.device)
        self._num_beams = num_beams
        self._heads = model.config.num_heads
        self._widths = model.config.d_k, model.config.d_v
        self._rows_per_part = max(1, _LARGEST_PRODUCT // model.config.vocab_size)

        self._embed = decoder.embed_tokens
        self._scale = decoder.embed_scale
        self._encode_positions = decoder.embed_positions
        # Only learned positions have a limit.
        self._max_length: Any = getattr(decoder.embed_positions, "num_embeddings", math.inf)
        self._projections = DecoderProjections.of(model)
        self._norms: list[list[_Norm]] = []
        for layer in decoder.layers:
            norms = (
                layer.self_attn_layer_norm,
                layer.encoder_attn_layer_norm,
                layer.final_layer_norm,
            )
            self._norms.append(
                [(norm.normalized_shape, norm.weight, norm.bias, norm.eps) for norm in norms]
            )

        # For each layer, keys and values side by side: of the source (A * H, S, d_k + d_v), and of
        # the target (A * H, capacity * N, d_k + d_v).
        num_sentences, source_length, _ = encoder_states.shape
        rows = encoder_states.flatten(0, 1)
        self._source_cache = [
            self._by_head(layer.cross_kv(rows), source_length) for layer in self._projections.layers
        ]
        self._target_cache = [cache[:, :0] for cache in self._source_cache]
        self._source_mask = None
        if encoder_mask is not None:
            self._source_mask = _additive_mask(encoder_mask != 0, rows.dtype).unsqueeze(1)

        self._log_probs: torch.Tensor | None = None
        self._encodings: torch.Tensor  # (capacity, D) encodings of the positions
        # Position of the tokens that the next `step` reads. `step` increments this position. On an
        # accelerator, the position is a (1,) tensor, because in a CUDA graph a Python number would
        # keep its value from the capture.
        self._position: Any = self.beams.new_zeros(1) if self.is_static else 0
        # (A, N, capacity): for each beam and each token of its past, the beam that wrote the token
        # to the cache. On an accelerator, positions without a token have -1.
        self._ancestors = self.beams.new_empty(num_sentences, num_beams, 0)

    @property
    def has_room(self) -> bool:
        """Return True if the model has a position for one more token."""
        return bool(self.length < self._max_length)

    def make_room(self) -> bool:
        """Grow the cache if it is full, and return True if it grew.

        The capacity doubles. With learned positions, the capacity is at most their number.
        """
        capacity = self._ancestors.shape[2]
        if self.length < capacity:
            return False

        doubled = max(_FIRST_CAPACITY, 2 * capacity)
        capacity = max(self.length + 1, min(doubled, self._max_length))
        encodings = self._encode_positions(torch.arange(capacity, device=self.device), capacity)
        self._encodings = encodings.to(self._target_cache[0].dtype)
        self._copy_cache(slice(None), capacity)
        return True

    def read(self, prompt: torch.Tensor) -> None:
        """Run a step for each token of the prompts (A, P).

        All beams of a sentence share the sentence's prompt.
        """
        for column in prompt.unbind(1):
            self.make_room()
            self.step(column.unsqueeze(1).expand(-1, self._num_beams))
            self.length += 1

    def step(self, tokens: torch.Tensor, parents: torch.Tensor | None = None) -> torch.Tensor:
        """Run the decoder on the newest tokens, and return its output states (R, D).

        The cache must have capacity for these tokens; see `make_room`.

        Args:
            tokens: (A, N) newest tokens.
            parents: (A, N) beams that the tokens continue. None means that each beam continues
                itself.
        """
        masks = self._masks(parents)
        embeddings = self._embed(tokens.flatten()) * self._scale
        states: torch.Tensor = embeddings + self._encodings[self._position]
        for index in range(len(self._norms)):
            states = self._layer(index, states, masks)
        self._position += 1
        return states

    def log_probabilities(self, states: torch.Tensor) -> Iterable[torch.Tensor]:
        """Yield log-probabilities (.., V) of the next tokens for parts of the states (R, D).

        On a CPU, the results of all parts use the same memory, so each result overwrites the result
        before it.
        """
        for logits in self.logits(states):
            if self.is_static:
                yield torch.log_softmax(logits, dim=-1)
                continue
            if self._log_probs is None:
                self._log_probs = torch.empty_like(logits)  # the first part is the largest
            yield torch.log_softmax(logits, dim=-1, out=self._log_probs[: len(logits)])

    def logits(self, states: torch.Tensor) -> Iterable[torch.Tensor]:
        """Yield the logits (.., V) of the next tokens for consecutive parts of the states (R, D).

        On an accelerator, all rows are one part.
        """
        rows_per_part = len(states) if self.is_static else self._rows_per_part
        for part in states.split(rows_per_part):
            yield self._projections.head(part).to(self.dtype)

    def keep(self, sentences: torch.Tensor) -> None:
        """Keep only the sentences with these indices (A,)."""
        self._copy_cache(sentences, self._ancestors.shape[2])
        self._source_cache = [self._of(cache, sentences) for cache in self._source_cache]
        if self._source_mask is not None:
            self._source_mask = self._source_mask[sentences]

    def _copy_cache(self, sentences: torch.Tensor | slice, capacity: int) -> None:
        """Replace the target cache by a copy of some of its sentences, with room for more tokens.

        Args:
            sentences: Indices of the sentences to copy.
            capacity: Number of tokens in the new cache.
        """
        ancestors = self._ancestors[sentences, :, : self.length]
        self._ancestors = self._enlarged(ancestors, 2, capacity, -1)
        num_entries = self.length * self._num_beams
        for index, cache in enumerate(self._target_cache):
            self._target_cache[index] = self._enlarged(
                self._of(cache[:, :num_entries], sentences), 1, capacity * self._num_beams, 0
            )

    def _enlarged(self, kept: torch.Tensor, dim: int, size: int, filler: int) -> torch.Tensor:
        """Return a copy of a tensor, extended to `size` entries along a dimension."""
        larger = kept.new_empty(*kept.shape[:dim], size, *kept.shape[dim + 1 :])
        if self.is_static:  # on a CPU, steps read no entry before it is written
            larger.fill_(filler)
        larger.narrow(dim, 0, kept.shape[dim]).copy_(kept)
        return larger

    def _of(self, states: torch.Tensor, sentences: torch.Tensor | slice) -> torch.Tensor:
        """Return the rows of a tensor (A * H, ..) that belong to the given sentences."""
        by_sentence: torch.Tensor = states.unflatten(0, (-1, self._heads))
        return by_sentence[sentences].flatten(0, 1)

    def _masks(
        self, parents: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return additive masks of self-attention and cross-attention, and update the ancestors.

        A beam has one ancestor for each token of its hypothesis: the beam that wrote the token to
        the cache. In a step, each beam copies the ancestors of its parent, and appends itself as
        the ancestor of its newest token. For example, with two beams:

            tokens 0 and 1, parents (0, 1):    ancestors of beam 0: 0 0      of beam 1: 1 1
            token 2, parents (1, 1):           ancestors of beam 0: 1 1 0    of beam 1: 1 1 1

        Beam b writes the key of token t to entry t * N + b of the cache. So beam 0 attends to the
        entries 1, 3 and 4, and beam 1 to the entries 1, 3 and 5.

        Args:
            parents: As for `step`.

        Returns:
            Masks (A, N, T * N) and (A, 1, S), expanded to all heads by `_for_heads`. None means no
            mask.
        """
        cross_mask = None
        if self._source_mask is not None:
            cross_mask = self._for_heads(self._source_mask)
        if self._num_beams == 1 and not self.is_static:
            return None, cross_mask

        ancestors = self._ancestors[:, :, : self._num_positions]
        if parents is not None:
            indices = parents.unsqueeze(-1).expand(-1, -1, ancestors.shape[2])
            ancestors.copy_(ancestors.gather(1, indices))
        self._write(ancestors, 2, self.beams.expand(len(ancestors), -1).unsqueeze(2))
        is_ancestor = ancestors.unsqueeze(-1) == self.beams  # (A, N, T, N)
        self_mask = _additive_mask(is_ancestor.flatten(2), self._target_cache[0].dtype)
        return self._for_heads(self_mask), cross_mask

    @property
    def _num_positions(self) -> int:
        """Return T, the number of target positions that a step attends to."""
        if self.is_static:
            return self._ancestors.shape[2]
        return self.length + 1

    def _write(self, cache: torch.Tensor, dim: int, new: torch.Tensor) -> None:
        """Write the entries of the newest token into `cache` along `dim`.

        On a CPU, `cache` ends with the position of the newest token, so the new entries are written
        to its end. On an accelerator, `cache` also has room for later tokens, so the new entries
        are written to the position `_position`.

        Args:
            cache: Ancestors, or keys and values of a layer.
            dim: Dimension of the positions.
            new: The new entries. Along `dim`, ancestors have one entry. Keys and values have one
                entry for each beam.
        """
        size = new.shape[dim]
        if not self.is_static:
            cache.narrow(dim, cache.shape[dim] - size, size).copy_(new)
        elif size == 1:
            cache.index_copy_(dim, self._position, new)
        else:
            cache.index_copy_(dim, self._position * size + self.beams, new)

    def _for_heads(self, mask: torch.Tensor) -> torch.Tensor:
        """Expand a mask (A, ..) to all heads.

        Return (A * H, ..) on a CPU, and (A, 1, ..) on an accelerator, where the mask is broadcast.
        """
        mask = mask.unsqueeze(1)
        if self.is_static:
            return mask
        return mask.expand(-1, self._heads, -1, -1).flatten(0, 1)

    def _layer(
        self,
        index: int,
        states: torch.Tensor,
        masks: tuple[torch.Tensor | None, torch.Tensor | None],
    ) -> torch.Tensor:
        """Run a decoder layer on states (R, D), and write its keys and values to the cache."""
        projections = self._projections.layers[index]
        norms = self._norms[index]
        beams = self._num_beams
        d_k, d_v = self._widths

        qkv = self._by_head(projections.qkv(states), beams)
        cache = self._target_cache[index].narrow(1, 0, self._num_positions * beams)
        self._write(cache, 1, qkv.narrow(2, d_k, d_k + d_v))
        attended = self._attend(qkv.narrow(2, 0, d_k), cache, masks[0])
        states = torch.layer_norm(projections.out(attended).add_(states), *norms[0])

        q = self._by_head(projections.cross_q(states), beams)
        attended = self._attend(q, self._source_cache[index], masks[1])
        states = torch.layer_norm(projections.cross_out(attended).add_(states), *norms[1])

        hidden = projections.fc1(states)
        return torch.layer_norm(projections.fc2(hidden).add_(states), *norms[2])

    def _by_head(self, states: torch.Tensor, length: int) -> torch.Tensor:
        """Split (A * L, H * K) into heads, (A * H, L, K).

        If several projections are concatenated, K is the sum of their widths in a head. A row is
        q1 k1 v1 q2 k2 v2 ...
        """
        width = states.shape[1] // self._heads
        by_position = states.view(-1, length, self._heads, width)
        return by_position.transpose(1, 2).flatten(0, 1)

    def _attend(
        self, q: torch.Tensor, cache: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Attend from queries to keys and values, and return the heads concatenated, (R, H * d_v).

        Args:
            q: (A * H, N, d_k) queries.
            cache: (A * H, .., d_k + d_v) keys and values side by side.
            mask: Additive mask from `_masks`, or None.
        """
        d_k, d_v = self._widths
        scaling = d_k**-0.5
        keys = cache.narrow(2, 0, d_k)
        values = cache.narrow(2, d_k, d_v)
        if self.is_static:
            q, keys, values = (
                states.view(-1, self._heads, *states.shape[1:]) for states in (q, keys, values)
            )
            attended = nn.functional.scaled_dot_product_attention(
                q, keys, values, mask, scale=scaling
            )
        else:
            keys = keys.transpose(1, 2)
            if mask is None:
                scores = torch.bmm(q, keys).mul_(scaling)
            else:
                scores = torch.baddbmm(mask, q, keys, alpha=scaling)
            attended = torch.bmm(scores.softmax(dim=-1), values)
            attended = attended.view(-1, self._heads, *attended.shape[1:])  # (A, H, N, d_v)
        return attended.transpose(1, 2).reshape(-1, self._heads * d_v)


def _additive_mask(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a mask that is 0 where a boolean mask is True, else the lowest number of `dtype`."""
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill_(~mask, torch.finfo(dtype).min)
