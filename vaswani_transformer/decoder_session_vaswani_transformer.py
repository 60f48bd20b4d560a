# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The decoder for one token per step, with the results of the model's modules but without the cost
of their calls.

Source keys and values are shared by all beams of a sentence, so they are stored once. Target keys
and values are never reordered: when a beam continues another one, only the attention mask changes,
and it selects the keys of the beam's own past.

On a CPU a step attends to the tokens so far, with the kernels of this package. On a device it
attends to the whole capacity of the cache, which keeps all shapes constant, and never syncs. So it
can be captured as a CUDA graph.

Shapes: A sentences still searched, N beams, R = A * N rows, S source length, T target positions
that a step attends to, D d_model, H heads, K d_k (or d_v), V vocabulary.
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

# packages of the classes in a plain model
_PLAIN = ("torch.nn.modules", __name__.rpartition(".")[0])
# A plain model has none of these methods replaced on an instance.
_PREPARED = {
    "forward",
    "prepare_inputs_for_generation",
    "_update_model_kwargs_for_generation",
    "_reorder_cache",
}
_FEWEST_PRODUCTS = 2**20  # multiplications; below this number, MKL is faster than oneDNN
# elements: above 32 MiB, the C library requests memory from the system page by page
_LARGEST_PRODUCT = 2**23
_FIRST_CAPACITY = 32  # first capacity of the cache, in tokens

# shape, weight, bias and epsilon of a LayerNorm
_Norm = tuple[tuple[int, ...], torch.Tensor, torch.Tensor, float]


def is_plain(model: Any) -> bool:
    """Return True if `DecoderSession` gives the same results as the decoder's modules.

    It does not with adapters, quantization other than this package's int8, hooks, sharding,
    offloading, dropout, other layers, patched instances or attention backends other than eager and
    sdpa. On CPUs it does not in fp16, or in bf16 without instructions for it. Patched classes are
    not detected.
    """
    if not (_is_of_this_package(model) and _is_undisturbed(model)):
        return False
    decoder = model.model.decoder
    for module in (model, model.model, model.lm_head, *decoder.modules()):
        if is_watched(module) or module.training or _PREPARED & module.__dict__.keys():
            return False
        if not _is_of_this_package(module):
            return False
        for parameter in filter(torch.is_tensor, module._parameters.values()):
            is_alike = parameter.device == model.device and parameter.dtype == model.dtype
            if type(parameter) is not nn.Parameter or not is_alike:
                return False
    embedding = decoder.embed_tokens
    is_usual = type(embedding) is Int8Embedding or (
        type(embedding) is nn.Embedding and embedding.max_norm is None
    )
    return is_usual and all(map(_has_usual_parts, decoder.layers)) and _is_linear(model.lm_head)


def is_watched(module: Any) -> bool:
    """Return True if a module has hooks, except those that transformers keeps after the first
    `output_attentions`.
    """
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    return any(
        getattr(hook, "__module__", "") != "transformers.utils.output_capturing" for hook in hooks
    )


def _is_of_this_package(module: Any) -> bool:
    """Return True if a module's class is from torch or from a file in this file's package."""
    return type(module).__module__.rpartition(".")[0] in _PLAIN


def _is_undisturbed(model: Any) -> bool:
    """Return True if dtype, device and attention backend are supported, and no mode of torch
    changes the results.

    Such modes are global hooks, autocast, compilation, gradients and dispatch modes.
    """
    backend, library, device = (
        model.config._attn_implementation,
        nn.modules.module,
        model.device.type,
    )
    return (
        (
            model.dtype in (torch.float32, torch.float64)
            or device != "cpu"
            or is_fast_half(model.dtype)
        )
        and device not in ("meta", "mps")  # mps lacks float64, the dtype of the lengths
        and (
            backend == "eager"
            or (backend == "sdpa" and ALL_ATTENTION_FUNCTIONS["sdpa"] is sdpa_attention_forward)
        )
        and not (library._global_forward_hooks or library._global_forward_pre_hooks)
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled(device)
        and not torch.compiler.is_compiling()
        and not is_in_torch_dispatch_mode()
    )


def _has_usual_parts(layer: Any) -> bool:
    """Return True if a decoder layer has the modules that `LayerProjections` and `DecoderSession`
    read.
    """
    attentions = layer.self_attn, layer.encoder_attn
    projections = [[each.q_proj, each.k_proj, each.v_proj, each.out_proj] for each in attentions]
    norms = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm
    return (
        all(_is_linear(each) for each in (*projections[0], *projections[1], layer.fc1, layer.fc2))
        and all(len({each.bias is None for each in own[:3]}) == 1 for own in projections)
        and all(type(norm) is nn.LayerNorm for norm in norms)
        and all(attention.scaling == attention.d_k**-0.5 for attention in attentions)
    )


def _is_linear(module: nn.Module) -> bool:
    is_usual = type(module) in (nn.Linear, Linear) and "weight" in module._parameters
    return is_usual or type(module) is Int8Linear


class Projection:
    """One matrix product for linear layers that read the same states.

    It holds a copy of the weights of several layers, but a single layer's own weight unless it is
    packed for oneDNN.

    Args:
        layers: The linear layers.
        heads: Number of heads. The outputs are ordered by head, and within a head by layer: q1 k1
            v1 q2 k2 v2 ...
        activation: "relu" or "none".
    """

    def __init__(self, *layers: Any, heads: int = 1, activation: str = "none") -> None:
        self._int8 = layers[0] if type(layers[0]) is Int8Linear else None
        self._activation = activation
        if self._int8 is not None and len(layers) == 1:
            return

        def together(parts: list[torch.Tensor]) -> torch.Tensor:
            return torch.cat([part.unflatten(0, (heads, -1)) for part in parts], dim=1).flatten(
                0, 1
            )

        weight = (
            layers[0].weight.detach()
            if len(layers) == 1
            else together([layer.weight for layer in layers])
        )
        self._bias = None if layers[0].bias is None else together([layer.bias for layer in layers])
        if self._int8 is not None:
            self._int8 = Int8Linear(weight, self._bias)
            return
        self._products = weight.numel()  # multiplications for one row
        is_plain = weight.device.type == "cpu" and (
            weight.dtype == torch.float32 or is_fast_half(weight.dtype)
        )
        is_packed = is_plain and can_pack(weight) and torch.backends.mkldnn.enabled
        self._packed = pack(weight) if is_packed else None
        # else oneDNN is faster even for one row
        if not is_packed or self._products < _FEWEST_PRODUCTS:
            self._weight = weight

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Project states (R, D) to the outputs of all layers (R, ..), after the activation."""
        if self._int8 is not None:
            return self._int8.forward(states, self._activation)
        if self._packed is not None and states.shape[0] * self._products >= _FEWEST_PRODUCTS:
            return multiply(states, self._packed, self._bias, self._activation)
        output = nn.functional.linear(states, self._weight, self._bias)
        return output.relu_() if self._activation == "relu" else output


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

    They are rebuilt when a weight moves or changes. A write through `.data`, or by a fused
    optimizer, is noticed only if it changes one of about 64 sampled numbers of a weight. After a
    smaller write, call `model.eval()`, which drops the projections.
    """

    _kept: weakref.WeakKeyDictionary[nn.Module, "DecoderProjections"] = weakref.WeakKeyDictionary()

    def __init__(self, model: Any, weights: list[torch.Tensor]) -> None:
        self.state = _state_of(weights)
        # alive, so that no other tensor gets their addresses
        self._weights = [weight.detach() for weight in weights]
        self.layers = [
            LayerProjections(layer, model.config.num_heads) for layer in model.model.decoder.layers
        ]
        self.head = Projection(model.lm_head)

    @classmethod
    def of(cls, model: Any) -> "DecoderProjections":
        """Return the projections of a model with its current weights; rebuild them if a weight has
        changed.
        """
        projections = [
            part for part in model.model.decoder.layers.modules() if _is_linear(part)
        ] + [model.lm_head]
        weights = [parameter for part in projections for parameter in part.parameters()]
        kept = cls._kept.get(model)
        if kept is None or kept.state != _state_of(weights):
            kept = cls._kept[model] = cls(model, weights)
        return kept

    @classmethod
    def drop(cls, model: nn.Module) -> None:
        """Drop the projections of a model."""
        cls._kept.pop(model, None)


def _state_of(weights: list[torch.Tensor]) -> list[object]:
    """Return a value that differs once a weight is replaced or written to.

    It differs in every call for inference tensors, because torch does not count the writes to them.
    """
    if any(weight.is_inference() for weight in weights):
        return [object()]
    sums = [
        weight.detach().flatten()[:: 1 + weight.numel() // 64].float().sum() for weight in weights
    ]
    numbers = torch.stack(sums).tolist() if sums else []  # none in int8
    return [torch.backends.mkldnn.enabled, numbers, *((w.data_ptr(), w._version) for w in weights)]


def is_static(device: torch.device) -> bool:
    """Return True if steps on this device have constant shapes and never sync."""
    return device.type != "cpu"


class DecoderSession:
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
        self.device, self.is_static = model.device, is_static(model.device)
        self.dtype = torch.promote_types(model.dtype, torch.float32)  # of scores
        self.length = 0  # tokens so far; the caller of `step` increments it
        self._embed, self._scale = decoder.embed_tokens, decoder.embed_scale
        # rows per part of the logits
        self._num_rows = max(1, _LARGEST_PRODUCT // model.config.vocab_size)
        self._encode_positions = decoder.embed_positions
        self._norms = [
            [
                (norm.normalized_shape, norm.weight, norm.bias, norm.eps)
                for norm in (
                    layer.self_attn_layer_norm,
                    layer.encoder_attn_layer_norm,
                    layer.final_layer_norm,
                )
            ]
            for layer in decoder.layers
        ]
        self._projections = DecoderProjections.of(model)
        self.beams, self._num_beams = torch.arange(num_beams, device=self.device), num_beams
        num_sentences, source_length, _ = encoder_states.shape
        self._heads, rows = model.config.num_heads, encoder_states.flatten(0, 1)
        self._widths = model.config.d_k, model.config.d_v
        # Concatenated keys and values of each layer: source (A * H, S, 2K) and target (A * H,
        # capacity * N, 2K)
        self._cross = [
            self._by_head(layer.cross_kv(rows), source_length) for layer in self._projections.layers
        ]
        self._own = [both[:, :0] for both in self._cross]
        self._cross_mask = (
            None if encoder_mask is None else _added(encoder_mask != 0, rows.dtype).unsqueeze(1)
        )
        self._log_probs: torch.Tensor | None = None
        # Position of the next token: an int on a CPU, else a tensor (1,), which a captured step can
        # read.
        self._place: Any = self.beams.new_zeros(1) if self.is_static else 0
        self._positions: torch.Tensor  # (capacity, D) position encodings
        # (A, N, capacity): for each token of a beam's past, the beam whose cache entry holds it; -1
        # if there is none
        self._writers = self.beams.new_empty(num_sentences, num_beams, 0)

    @property
    def has_room(self) -> bool:
        """True if learned positions are left for another token. Sinusoids have no limit."""
        return bool(self.length < getattr(self._encode_positions, "num_embeddings", math.inf))

    def make_room(self) -> bool:
        """Grow the cache if it is full, and return True if it grew.

        The capacity doubles, but not beyond the learned positions.
        """
        room = self._writers.shape[2]
        if self.length < room:
            return False
        room = max(_FIRST_CAPACITY, 2 * room)
        room = max(
            self.length + 1, min(room, getattr(self._encode_positions, "num_embeddings", room))
        )
        encodings = self._encode_positions(torch.arange(room, device=self.device), room)
        self._positions = encodings.to(self._own[0].dtype)
        self._move(slice(None), room)
        return True

    def read(self, prompt: torch.Tensor) -> None:
        """Run the steps of a prompt (A, P) that all beams share."""
        for column in prompt.unbind(1):
            self.make_room()
            self.step(column.unsqueeze(1).expand(-1, self._num_beams))
            self.length += 1

    def step(self, tokens: torch.Tensor, parents: torch.Tensor | None = None) -> torch.Tensor:
        """Run the decoder on the newest tokens, and return its output states (R, D).

        The cache must have capacity for them; see `make_room`.

        Args:
            tokens: (A, N) newest tokens.
            parents: (A, N) beams that they continue; None means that each beam continues itself.
        """
        masks = self._masks(parents)
        states: torch.Tensor = (
            self._embed(tokens.flatten()) * self._scale + self._positions[self._place]
        )
        parts = zip(self._projections.layers, self._norms, self._own, self._cross, strict=True)
        for projections, norms, own, cross in parts:
            states = self._layer(states, projections, norms, own, cross, masks)
        self._place += 1
        return states

    def log_probabilities(self, states: torch.Tensor) -> Iterable[torch.Tensor]:
        """Yield log-probabilities (.., V) of the next tokens from states (R, D), for consecutive
        parts of the rows.

        On a CPU all parts use the same memory, so each part overwrites the one before.
        """
        for logits in self.logits(states):
            if self._log_probs is None and not self.is_static:
                self._log_probs = torch.empty_like(logits)  # the first part is the largest
            memory = None if self._log_probs is None else self._log_probs[: len(logits)]
            yield torch.log_softmax(logits, dim=-1, out=memory)

    def logits(self, states: torch.Tensor) -> Iterable[torch.Tensor]:
        """Yield the logits (.., V) of the next tokens from states (R, D), for consecutive parts of
        the rows.
        """
        for part in states.split(len(states) if self.is_static else self._num_rows):
            yield self._projections.head(part).to(self.dtype)

    def keep(self, sentences: torch.Tensor) -> None:
        """Keep only the sentences with these indices (A,)."""
        self._move(sentences, self._writers.shape[2])
        self._cross = [self._of(both, sentences) for both in self._cross]
        if self._cross_mask is not None:
            self._cross_mask = self._cross_mask[sentences]

    def _move(self, sentences: torch.Tensor | slice, room: int) -> None:
        """Copy the target cache of some sentences to new memory for `room` tokens."""

        def moved(kept: torch.Tensor, dim: int, size: int, filler: int) -> torch.Tensor:
            larger = kept.new_empty(*kept.shape[:dim], size, *kept.shape[dim + 1 :])
            if self.is_static:  # on a CPU, steps never read unused capacity
                larger.fill_(filler)
            larger.narrow(dim, 0, kept.shape[dim]).copy_(kept)
            return larger

        beams = self._num_beams
        self._writers = moved(self._writers[sentences, :, : self.length], 2, room, -1)
        for index, both in enumerate(self._own):
            self._own[index] = moved(
                self._of(both[:, : self.length * beams], sentences), 1, room * beams, 0
            )

    def _of(self, states: torch.Tensor, sentences: torch.Tensor | slice) -> torch.Tensor:
        """Return the (A * H, ..) rows of some sentences."""
        by_sentence: torch.Tensor = states.unflatten(0, (-1, self._heads))
        return by_sentence[sentences].flatten(0, 1)

    def _masks(
        self, parents: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return additive masks of self-attention (A, N, T * N) and cross-attention (A, 1, S),
        shaped for the heads.

        None means no mask. `parents` are those of `step`; the beams' pasts are updated by them.
        """
        cross = None if self._cross_mask is None else self._for_heads(self._cross_mask)
        if self._num_beams == 1 and not self.is_static:
            return None, cross
        writers = self._writers[:, :, : self._end]
        if parents is not None:
            writers.copy_(writers.gather(1, parents.unsqueeze(-1).expand(-1, -1, writers.shape[2])))
        self._write(writers, 2, self.beams.expand(len(writers), -1).unsqueeze(2))
        own = _added(writers.unsqueeze(-1) == self.beams, self._own[0].dtype)  # (A, N, T, N)
        return self._for_heads(own.flatten(2)), cross

    @property
    def _end(self) -> int:
        """Number T of target positions that a step attends to: the tokens so far, or on a device
        the capacity.
        """
        return self._writers.shape[2] if self.is_static else self.length + 1

    def _write(self, room: torch.Tensor, dim: int, new: torch.Tensor) -> None:
        """Write `new`, the entries of the newest token, into `room` along `dim`; on a CPU they are
        its last.
        """
        size = new.shape[dim]
        if self.is_static:
            places = self._place if size == 1 else self._place * size + self.beams
            room.index_copy_(dim, places, new)
        else:
            room.narrow(dim, room.shape[dim] - size, size).copy_(new)

    def _for_heads(self, mask: torch.Tensor) -> torch.Tensor:
        mask = mask.unsqueeze(1)
        return mask if self.is_static else mask.expand(-1, self._heads, -1, -1).flatten(0, 1)

    def _layer(
        self,
        states: torch.Tensor,
        projections: LayerProjections,
        norms: list[_Norm],
        own: torch.Tensor,
        cross: torch.Tensor,
        masks: tuple[torch.Tensor | None, torch.Tensor | None],
    ) -> torch.Tensor:
        """Run one decoder layer on states (R, D), write keys and values to `own`, and return states
        (R, D).
        """
        beams, width = self._num_beams, self._widths[0]
        qkv = self._by_head(projections.qkv(states), beams)
        own = own.narrow(1, 0, self._end * beams)
        self._write(own, 1, qkv.narrow(2, width, own.shape[2]))
        attended = self._attend(qkv.narrow(2, 0, width), own, masks[0])
        states = torch.layer_norm(projections.out(attended).add_(states), *norms[0])
        attended = self._attend(self._by_head(projections.cross_q(states), beams), cross, masks[1])
        states = torch.layer_norm(projections.cross_out(attended).add_(states), *norms[1])
        return torch.layer_norm(projections.fc2(projections.fc1(states)).add_(states), *norms[2])

    def _by_head(self, states: torch.Tensor, length: int) -> torch.Tensor:
        """Split (A * L, H * K) into heads, (A * H, L, K).

        For fused projections, K is the width of everything that belongs to a head: a row is q1 k1
            v1 q2 k2 v2 ...
        """
        return (
            states.view(-1, length, self._heads, states.shape[1] // self._heads)
            .transpose(1, 2)
            .flatten(0, 1)
        )

    def _attend(
        self, q: torch.Tensor, both: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Attend from queries (A * H, N, K) to keys and values (A * H, .., 2K), and return joined
        heads (R, H * K).
        """
        width, value_width = self._widths
        keys, values, scaling = (
            both.narrow(2, 0, width),
            both.narrow(2, width, value_width),
            width**-0.5,
        )
        if self.is_static:
            q, keys, values = (
                each.view(-1, self._heads, *each.shape[1:]) for each in (q, keys, values)
            )
            attended = nn.functional.scaled_dot_product_attention(
                q, keys, values, mask, scale=scaling
            )
        else:
            keys = keys.transpose(1, 2)
            scores = (
                torch.bmm(q, keys).mul_(scaling)
                if mask is None
                else torch.baddbmm(mask, q, keys, alpha=scaling)
            )
            attended = torch.bmm(scores.softmax(dim=-1), values)
            attended = attended.view(-1, self._heads, *attended.shape[1:])  # (A, H, N, K)
        return attended.transpose(1, 2).reshape(-1, self._heads * value_width)


def _added(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return an additive mask: 0 where the boolean `mask` is True, else the lowest number of
    `dtype`.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        ~mask, torch.finfo(dtype).min
    )
