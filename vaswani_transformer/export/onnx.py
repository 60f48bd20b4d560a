# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""ONNX: a trained model as two graphs, the encoder and one step of the decoder with its cache; both under `generate`.

The loops that others keep for ONNX do not take it: optimum-onnx 0.1.0 needs transformers below 4.58 and imports names
that version 5 removed; onnxruntime-genai runs a closed list of architectures, of which this is none.

Shapes: B sources, N beams, R rows of a step (B, or B * N with those of one source together), S source length, T target
tokens of a step, P target tokens before it, D d_model, H heads, K d_k (or d_v), V vocabulary. B, R, S, T and P are
free when a graph runs; P is 0 in the first step.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils import CONFIG_NAME
from transformers.utils.generic import ModelOutput

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..evaluation.loading import load_for_inference
from ..extras import requiring
from ..files import write_json
from ..generation_vaswani_transformer import VaswaniTransformerGenerationMixin
from ..modeling_vaswani_transformer import (
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerPreTrainedModel,
)
from ..version import __version__
from .ctranslate2 import writing_folder

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions
    from torch.onnx import ONNXProgram

ENCODER_FILE = "encoder_model.onnx"
DECODER_FILE = "decoder_model.onnx"
_OPSET = 20
_KEYS_OF_THE_HUB = ("architectures", "auto_map", "custom_pipelines")  # they name classes and files of a checkpoint


def export_onnx(model: str | Path, output_dir: str | Path) -> Path:
    """Writes a trained model as a folder that onnxruntime needs nothing beside, in fp32, and returns the folder.

    It holds `encoder_model.onnx`, `decoder_model.onnx`, the configs and the tokenizer, and appears whole or not at
    all. The graphs, with names as in optimum's exports (N counts the decoder's layers):

    - encoder: `input_ids`, `attention_mask` (B, S) -> `last_hidden_state` (B, S, D) and, computed once for each
      source, `present.N.encoder.key` and `.value` (B, H, S, K);
    - decoder: `input_ids` (B, T), `encoder_attention_mask` (B, S), `past_key_values.N.decoder.key` and `.value`
      (B, H, P, K), `past_key_values.N.encoder.key` and `.value` -> `logits` (B, T, V) and `present.N.decoder.key` and
      `.value` (B, H, P + T, K).

    One decoder graph does the first step, with P = 0, and all others. Sinusoids are computed in the graphs, for any
    length; learned positions end at `max_position_embeddings`.

    Args:
        model: Folder of a trained model, or its id on the Hub.
        output_dir: Folder to make; it may exist if it is empty.

    Raises:
        FileNotFoundError: There is no such model, or its folder lacks a file.
        ImportError: onnx or onnxscript is missing.
        ValueError: It is no model of this package, or broken; or `output_dir` holds something.

    Example:
        >>> export_onnx("runs/quickstart", "runs/quickstart-onnx")
    """
    with requiring("export", "for ONNX"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    with writing_folder(output_dir) as folder:
        loaded, tokenizer = load_for_inference(model, device="cpu")
        loaded.float()
        loaded.set_attn_implementation("sdpa")
        if loaded.config.position_encoding == "sinusoidal":
            # A graph cannot choose between table and formula, and a table is a limit.
            for stack in (loaded.model.encoder, loaded.model.decoder):
                stack.embed_positions.table = stack.embed_positions.table[:0]
        with torch.no_grad():
            _export_encoder(loaded).save(folder / ENCODER_FILE)
            _export_decoder(loaded).save(folder / DECODER_FILE)
        loaded.config.dtype = torch.float32
        values = {name: value for name, value in loaded.config.to_dict().items() if name not in _KEYS_OF_THE_HUB}
        write_json(folder / CONFIG_NAME, values)
        loaded.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return Path(output_dir)


def cache_names(prefix: str, kind: str, num_layers: int) -> list[str]:
    """Names keys and values, layer by layer: `prefix` is past_key_values or present, `kind` decoder or encoder."""
    return [f"{prefix}.{layer}.{kind}.{part}" for layer in range(num_layers) for part in ("key", "value")]


def cache_tensors(cache: DynamicCache) -> list[torch.Tensor]:
    """Keys and values of a cache, layer by layer."""
    layers: list[Any] = cache.layers  # the library knows kinds without keys, which are not ours
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


# ---- graphs ----


class _EncoderGraph(nn.Module):
    """The encoder, and what the decoder's layers read of its output."""

    def __init__(self, model: VaswaniTransformerForConditionalGeneration) -> None:
        super().__init__()
        self.encoder = model.model.encoder
        layers: Any = model.model.decoder.layers
        self.cross_attentions: Any = nn.ModuleList([layer.encoder_attn for layer in layers])

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        states = self.encoder(input_ids, attention_mask).last_hidden_state
        pairs = [attention._keys_and_values(states, states, None) for attention in self.cross_attentions]
        return states, *(tensor for pair in pairs for tensor in pair)


class _DecoderGraph(nn.Module):
    """The decoder and the output projection, behind a cache whose cross-attention part is complete."""

    no_bias: torch.Tensor

    def __init__(self, model: VaswaniTransformerForConditionalGeneration) -> None:
        super().__init__()
        self.decoder, self.lm_head = model.model.decoder, model.lm_head
        self.register_buffer("no_bias", torch.zeros(model.config.vocab_size))

    def forward(
        self, input_ids: torch.Tensor, encoder_attention_mask: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        pairs = list(zip(past[::2], past[1::2], strict=True))
        num_layers = len(pairs) // 2
        cache = EncoderDecoderCache(DynamicCache(pairs[:num_layers]), DynamicCache(pairs[num_layers:]))
        encoded = pairs[num_layers][0][:, 0, :, :1]  # (B, S, 1); only its shape is read, keys and values are there
        states = self.decoder(
            input_ids,
            encoder_hidden_states=encoded.expand(-1, -1, self.decoder.config.d_model),
            encoder_attention_mask=encoder_attention_mask,
            past_key_values=cache,
        ).last_hidden_state
        # Rows with a bias become ONNX's Gemm, which reads the embedding's matrix as it is: it is stored once.
        logits = nn.functional.linear(states.flatten(0, 1), self.lm_head.weight, self.no_bias)
        return logits.unflatten(0, input_ids.shape), *cache_tensors(cache.self_attention_cache)


def _export_encoder(model: VaswaniTransformerForConditionalGeneration) -> ONNXProgram:
    ids = torch.zeros(5, 3, dtype=torch.long)
    sizes = {0: "batch", 1: "source_length"}
    return _export(
        _EncoderGraph(model),
        (ids, torch.ones_like(ids)),
        input_names=["input_ids", "attention_mask"],
        output_names=["last_hidden_state", *cache_names("present", "encoder", model.config.num_decoder_layers)],
        dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
    )


def _export_decoder(model: VaswaniTransformerForConditionalGeneration) -> ONNXProgram:
    config = model.config
    batch, source, target, past = 5, 3, 2, 4
    ids, mask = torch.zeros(batch, target, dtype=torch.long), torch.ones(batch, source, dtype=torch.long)
    widths = [config.d_k, config.d_v] * config.num_decoder_layers
    caches = [torch.zeros(batch, config.num_heads, length, width) for length in (past, source) for width in widths]
    lengths = ["past_length"] * len(widths) + ["source_length"] * len(widths)
    names = [cache_names("past_key_values", kind, config.num_decoder_layers) for kind in ("decoder", "encoder")]
    return _export(
        _DecoderGraph(model),
        (ids, mask, caches),
        input_names=["input_ids", "encoder_attention_mask", *names[0], *names[1]],
        output_names=["logits", *cache_names("present", "decoder", config.num_decoder_layers)],
        dynamic_shapes={
            "input_ids": {0: "batch", 1: "target_length"},
            "encoder_attention_mask": {0: "batch", 1: "source_length"},
            "past": [{0: "batch", 2: length} for length in lengths],
        },
    )


def _export(graph: nn.Module, inputs: tuple[Any, ...], **names: Any) -> ONNXProgram:
    """Exports a graph without the exporter's chatter and without the paths and source lines that it records."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.onnx.export(
                graph.eval(), inputs, dynamo=True, opset_version=_OPSET, external_data=False, verbose=False, **names
            )
    finally:
        log.setLevel(level)
    program = cast("ONNXProgram", exported)  # None comes without dynamo alone
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.model.producer_name, program.model.producer_version = "vaswani_transformer", __version__
    return program


# ---- inference ----


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
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, **kwargs: Any
    ) -> OnnxEncoderOutput:
        """Encodes (B, S) source tokens; `attention_mask` has 1 for "attend" and 0 for padding."""
        _check_options(kwargs)
        inputs = {"input_ids": input_ids, "attention_mask": _mask(attention_mask, input_ids.shape)}
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
            ImportError: onnxruntime is missing.
            ValueError: The folder is not an export.
        """
        with requiring("export", "for ONNX"):
            from onnxruntime import InferenceSession, SessionOptions
        path = Path(folder)
        if not (path / ENCODER_FILE).is_file():
            raise ValueError(f"`folder` must be one that export_onnx wrote, got {folder}. Export the model.")
        if session_options is None:
            session_options = SessionOptions()
            session_options.intra_op_num_threads = torch.get_num_threads()
            # Its threads would go on spinning while torch's rank the beams, on the same cores.
            session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        sessions = [
            InferenceSession(str(path / name), session_options, providers=list(providers))
            for name in (ENCODER_FILE, DECODER_FILE)
        ]
        model = cls(VaswaniTransformerConfig.from_pretrained(folder), *sessions)
        model.generation_config = GenerationConfig.from_pretrained(folder)
        return model

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Raises TypeError: the weights are in the graphs."""
        raise TypeError("An ONNX model cannot be saved anew. Copy its folder; it suffices.")

    @property
    def device(self) -> torch.device:
        """Device on which tensors go in and come out: "cpu"."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """Type of the graphs: fp32."""
        return torch.float32

    def to(self, *args: Any, **kwargs: Any) -> VaswaniTransformerOnnxModel:  # type: ignore[override]
        """Returns the model itself; raises ValueError for another device or type."""
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        if device not in (None, self.device) or dtype not in (None, self.dtype):
            raise ValueError(
                f"`device` and `dtype` must be cpu and torch.float32 for an ONNX model, got {device} and {dtype}. "
                'Pass device="cpu" to the pipeline; onnxruntime\'s own devices are the `providers` of from_pretrained.'
            )
        return self

    def get_encoder(self, modality: str | None = None) -> OnnxEncoder:
        """Returns the encoder's graph."""
        return self._encoder

    @torch.no_grad()
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
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
        _check_options(kwargs)
        assert decoder_input_ids is not None
        ids, rows = decoder_input_ids, decoder_input_ids.shape[0]
        if encoder_outputs is None:
            assert input_ids is not None
            encoder_outputs = self._encoder(input_ids, attention_mask)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(config=self.config), DynamicCache(config=self.config))
        assert encoder_outputs.cross is not None
        source_length = encoder_outputs.cross[0].shape[2]
        cross = self._cross(encoder_outputs.cross, past_key_values, rows)
        past = self._past(past_key_values, rows)
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
        """Returns keys and values (R, H, S, K) of the sources, made for R rows once and then kept in the cache."""
        if cache is not None and cache.is_updated.get(0):
            return cache_tensors(cache.cross_attention_cache)
        cross = [each.repeat_interleave(rows // each.shape[0], dim=0) for each in encoded]
        if cache is not None:
            cache.cross_attention_cache = _SourceCache()
            _fill(cache.cross_attention_cache, cross)
            cache.is_updated = dict.fromkeys(range(self.config.num_decoder_layers), True)
        return cross

    def _past(self, cache: EncoderDecoderCache | None, rows: int) -> list[torch.Tensor]:
        """Returns keys and values (R, H, P, K) of earlier steps; P is 0 where there were none."""
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
    """Returns all outputs of a graph, in its order; tensors are handed over without copies."""
    arrays = {name: tensor.long() if name.endswith(("ids", "mask")) else tensor for name, tensor in inputs.items()}
    outputs = session.run(None, {name: tensor.numpy() for name, tensor in arrays.items()})
    return [torch.from_numpy(output) for output in outputs]


def _mask(mask: torch.Tensor | None, shape: Sequence[int]) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.long) if mask is None else mask


def _check_options(options: dict[str, Any]) -> None:
    """Refuses what the graphs do not have; the library passes its switches even when they are off."""
    given = sorted(name for name, value in options.items() if value is not None and value is not False)
    if unknown := [name for name in given if name != "return_dict"]:
        raise ValueError(
            f"An ONNX model must be called with token ids, masks and a cache alone, got {', '.join(unknown)}. Load "
            "the checkpoint that it was exported from."
        )
