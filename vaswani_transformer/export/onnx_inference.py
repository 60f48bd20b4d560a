# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""An exported model run by onnxruntime under the library's `generate`.

The loops that others keep for ONNX do not take it: optimum-onnx 0.1.0 needs transformers below 4.58 and imports names
that version 5 removed; onnxruntime-genai runs a closed list of architectures, of which this is none.

Shapes: B sources, N beams, R rows of a step (B, or B * N with those of one source together), S source length, T target
tokens of a step, P target tokens before it, D d_model, H heads, K d_k (or d_v), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils.generic import ModelOutput

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..extras import requiring
from ..generation_vaswani_transformer import VaswaniTransformerGenerationMixin
from ..inputs_vaswani_transformer import check_batch, check_cache, check_mask, check_token_ids
from ..modeling_vaswani_transformer import VaswaniTransformerPreTrainedModel
from .onnx_files import check_providers, open_graphs, read_config
from .onnx_model import cache_names, cache_tensors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions


@dataclass
class OnnxEncoderOutput(ModelOutput):
    """What the encoder's graph gives for B sources.

    Args:
        last_hidden_state: (B, S, D).
        cross: Keys and values (B, H, S, K) of each decoder layer, in turn. They stay B rows when beams are made.
    """

    last_hidden_state: torch.Tensor | None = None
    cross: tuple[torch.Tensor, ...] | None = None


class OnnxEncoder(torch.nn.Module):
    """The encoder's graph, called as the model's encoder is."""

    def __init__(self, session: InferenceSession, config: VaswaniTransformerConfig) -> None:
        super().__init__()
        self._session, self._config = session, config

    def forward(
        self, input_ids: torch.LongTensor | None = None, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> OnnxEncoderOutput:
        """Encodes (B, S) source tokens; `attention_mask` has 1 for "attend" and 0 for padding."""
        _check_options(kwargs)
        ids = _required("input_ids", input_ids)
        check_token_ids("input_ids", ids, self._config.vocab_size)
        check_mask("attention_mask", attention_mask, *ids.shape)
        _check_positions(self._config, "input_ids", ids.shape[1])
        inputs = {"input_ids": ids, "attention_mask": _mask(attention_mask, ids.shape)}
        states, *cross = _run(self._session, inputs)
        return OnnxEncoderOutput(last_hidden_state=states, cross=tuple(cross))


class VaswaniTransformerOnnxModel(VaswaniTransformerPreTrainedModel, VaswaniTransformerGenerationMixin):
    """A folder written by `export_onnx`, for `generate`, `pipeline("translation")` and whatever else only translates.

    `generate` decodes by section 6.1 like the model it was exported from, with every option of the library that needs
    logits alone. It is for inference on the CPU's side: torch tensors go in and come out on "cpu", whatever provider
    the graphs run on (on a machine with a GPU, call the pipeline with device="cpu"). There are no losses, no
    attention weights, no embeddings as inputs and no padding in front of target prefixes.

    Example:
        >>> model = VaswaniTransformerOnnxModel.from_pretrained("runs/quickstart-onnx")
        >>> translate = pipeline("translation", model=model, tokenizer="runs/quickstart-onnx", device="cpu")
        >>> translate("A dog runs.")
        [{'translation_text': 'Ein Hund rennt.'}]

    Paper: section 6.1.
    """

    def __init__(self, config: VaswaniTransformerConfig, encoder: InferenceSession, decoder: InferenceSession) -> None:
        super().__init__(config)
        self._encoder, self._decoder = OnnxEncoder(encoder, config), decoder
        self._set_default_generation()
        self.eval()

    @classmethod
    def from_pretrained(  # type: ignore[override]  # the weights are in the graphs
        cls,
        folder: str | Path,
        *,
        providers: Sequence[Any] = ("CPUExecutionProvider",),
        session_options: SessionOptions | None = None,
    ) -> VaswaniTransformerOnnxModel:
        """Opens a folder of `export_onnx`.

        Args:
            folder: The folder.
            providers: What onnxruntime runs the graphs on, best first.
            session_options: Of onnxruntime; None means its own, with as many threads as torch has.

        Raises:
            FileNotFoundError: There is no such folder, or it lacks a file.
            ImportError: onnxruntime is missing.
            ValueError: It is a model of another architecture, a file is broken, the graphs are not those of the
                config, or this machine's onnxruntime lacks a provider.
        """
        with requiring("export", "for ONNX"):
            from onnxruntime import SessionOptions
        config = read_config(Path(folder))
        check_providers(providers)
        if session_options is None:
            session_options = SessionOptions()
            session_options.intra_op_num_threads = torch.get_num_threads()
            # Its threads would go on spinning while torch's rank the beams, on the same cores.
            session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        sessions = open_graphs(Path(folder), config, session_options, list(providers))
        model = cls(config, *sessions)
        model.generation_config = GenerationConfig.from_pretrained(folder)
        return model

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Refuses: the weights are in the graphs.

        Raises:
            TypeError: Always.
        """
        raise TypeError("An ONNX model cannot be saved anew. Copy its folder; it suffices.")

    @property
    def device(self) -> torch.device:
        """Where tensors go in and come out: "cpu"."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """Of the graphs: fp32."""
        return torch.float32

    def to(self, *args: Any, **kwargs: Any) -> VaswaniTransformerOnnxModel:  # type: ignore[override]
        """The model itself; other devices and types than its own are refused.

        Raises:
            ValueError: Another device or type.
        """
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        if device not in (None, self.device) or dtype not in (None, self.dtype):
            raise ValueError(
                f"`device` and `dtype` must be cpu and torch.float32 for an ONNX model, got {device} and {dtype}. "
                'Pass device="cpu" to the pipeline; onnxruntime\'s own devices are the `providers` of from_pretrained.'
            )
        return self

    def get_encoder(self, modality: str | None = None) -> OnnxEncoder:
        """The encoder's graph."""
        return self._encoder

    @torch.no_grad()
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        encoder_outputs: OnnxEncoderOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Scores what follows the target tokens.

        Args:
            input_ids: (B, S) source tokens, or
            encoder_outputs: what `get_encoder()` gave for them.
            attention_mask: (R, S), 1 for "attend", 0 for padding.
            decoder_input_ids: (R, T) target tokens that are not yet in the cache.
            past_key_values: Cache of earlier steps, extended in place; None decodes without.
            use_cache: Whether to make a cache where none is given.

        Returns:
            `logits` (R, T, V) and `past_key_values`.
        """
        ids = _required("decoder_input_ids", decoder_input_ids)
        check_token_ids("decoder_input_ids", ids, self.config.vocab_size)
        rows = ids.shape[0]
        check_cache(past_key_values, rows)
        _check_dynamic(past_key_values)
        _check_options(kwargs)
        if encoder_outputs is None:
            encoder_outputs = self._encoder(input_ids, attention_mask)
        if not isinstance(encoder_outputs, OnnxEncoderOutput) or encoder_outputs.cross is None:
            raise TypeError(
                "`encoder_outputs` must be what this model's get_encoder() gave, got "
                f"{type(encoder_outputs).__name__}. Leave it out, or call that."
            )
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        source_length = encoder_outputs.cross[0].shape[2]
        check_mask("attention_mask", attention_mask, rows, source_length)
        cross = self._cross(encoder_outputs.cross, past_key_values, rows)
        past = self._past(past_key_values, rows)
        _check_positions(self.config, "decoder_input_ids", past[0].shape[2] + ids.shape[1])
        num_layers = self.config.num_decoder_layers
        inputs = {
            "input_ids": ids,
            "encoder_attention_mask": _mask(attention_mask, (rows, source_length)),
            **dict(zip(cache_names("past_key_values", "decoder", num_layers), past, strict=True)),
            **dict(zip(cache_names("past_key_values", "encoder", num_layers), cross, strict=True)),
        }
        logits, *present = _run(self._decoder, inputs)
        if past_key_values is not None:
            _fill(past_key_values.self_attention_cache, present)
        return Seq2SeqLMOutput(
            logits=logits,
            past_key_values=past_key_values,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
        )

    def _cross(
        self, encoded: tuple[torch.Tensor, ...], cache: EncoderDecoderCache | None, rows: int
    ) -> list[torch.Tensor]:
        """Keys and values (R, H, S, K) of the sources, made for R rows once and then kept in the cache."""
        if cache is not None and cache.is_updated.get(0):
            return cache_tensors(cache.cross_attention_cache)
        num_sources = encoded[0].shape[0]
        if rows % num_sources:
            check_batch(rows, num_sources)
        cross = [each.repeat_interleave(rows // num_sources, dim=0) for each in encoded]
        if cache is not None:
            cache.cross_attention_cache = _SourceCache()
            _fill(cache.cross_attention_cache, cross)
            cache.is_updated = dict.fromkeys(range(self.config.num_decoder_layers), True)
        return cross

    def _past(self, cache: EncoderDecoderCache | None, rows: int) -> list[torch.Tensor]:
        """Keys and values (R, H, P, K) of earlier steps; P is 0 where there were none."""
        if cache is not None and cache.self_attention_cache.get_seq_length():
            return cache_tensors(cache.self_attention_cache)
        widths = [self.config.d_k, self.config.d_v] * self.config.num_decoder_layers
        return [torch.zeros(rows, self.config.num_heads, 0, width) for width in widths]


class _SourceCache(DynamicCache):
    """Keys and values of sources: the same for all beams of one, so that beams may change places."""

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Does nothing: beams change places only with those of their own source."""


def _fill(cache: DynamicCache, tensors: Sequence[torch.Tensor]) -> None:
    """Puts keys and values, layer by layer, in the place of what the cache held."""
    layers: list[Any] = cache.layers
    layers.extend(DynamicLayer() for _ in range(len(tensors) // 2 - len(layers)))
    for layer, keys, values in zip(layers, tensors[::2], tensors[1::2], strict=True):
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values


def _run(session: InferenceSession, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """All outputs of a graph, in its order; tensors are handed over without copies."""
    arrays = {name: tensor.long() if name.endswith(("ids", "mask")) else tensor for name, tensor in inputs.items()}
    outputs = session.run(None, {name: tensor.numpy() for name, tensor in arrays.items()})
    return [torch.from_numpy(output) for output in outputs]


def _check_dynamic(cache: EncoderDecoderCache | None) -> None:
    for layer in [] if cache is None else cache.self_attention_cache.layers:
        if type(layer) is not DynamicLayer:
            raise ValueError(
                f"`cache_implementation` must be dynamic for an ONNX model, got layers of {type(layer).__name__}. "
                "Leave it out."
            )


def _mask(mask: torch.Tensor | None, shape: Sequence[int]) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.long) if mask is None else mask


def _check_positions(config: VaswaniTransformerConfig, name: str, num_tokens: int) -> None:
    """Raises ValueError for more tokens, those in the cache included, than there are learned positions."""
    if config.position_encoding == "learned" and num_tokens > config.max_position_embeddings:
        raise ValueError(
            f"`{name}` must have at most {config.max_position_embeddings} tokens, for which the model learned "
            f"positions, got {num_tokens}. Split the text into sentences, or ask for shorter output."
        )


def _required(name: str, ids: torch.Tensor | None) -> torch.Tensor:
    if ids is None:
        raise ValueError(f"`{name}` must be given to an ONNX model, got none. Pass token ids.")
    return ids


def _check_options(options: dict[str, Any]) -> None:
    """Refuses what the graphs do not have; the library passes its switches even when they are off."""
    given = sorted(name for name, value in options.items() if value is not None and value is not False)
    if unknown := [name for name in given if name != "return_dict"]:
        raise ValueError(
            f"An ONNX model must be called with token ids, masks and a cache alone, got {', '.join(unknown)}. Load "
            "the checkpoint that it was exported from."
        )
