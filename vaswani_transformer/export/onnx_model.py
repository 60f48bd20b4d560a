# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A trained model as two ONNX graphs: the encoder, and one step of the decoder with its cache.

Shapes: B batch, S source length, T target tokens of a step, P target tokens before it, D d_model, H heads, K d_k (or
d_v), V vocabulary. Every one of B, S, T and P is free when a graph runs; P is 0 in the first step.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..evaluation.checkpoint import load_for_inference
from ..extras import requiring
from ..files import write_json
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..version import __version__
from .folder import check_output_folder, writing_folder

if TYPE_CHECKING:
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
    check_output_folder(output_dir)
    loaded, tokenizer = load_for_inference(model, device="cpu")
    loaded.float()
    loaded.set_attn_implementation("sdpa")
    _compute_positions_in_the_graph(loaded)
    with writing_folder(output_dir) as folder:
        with torch.no_grad():
            _export_encoder(loaded).save(folder / ENCODER_FILE)
            _export_decoder(loaded).save(folder / DECODER_FILE)
        _save_other_files(loaded, tokenizer, folder)
    return Path(output_dir)


def cache_names(prefix: str, kind: str, num_layers: int) -> list[str]:
    """Names of keys and values, layer by layer: `prefix` is past_key_values or present, `kind` decoder or encoder."""
    return [f"{prefix}.{layer}.{kind}.{part}" for layer in range(num_layers) for part in ("key", "value")]


def cache_tensors(cache: DynamicCache) -> list[torch.Tensor]:
    """Keys and values of a cache, layer by layer."""
    layers: list[Any] = cache.layers  # the library knows kinds without keys, which are not ours
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


# ------------------------------------------------------------------------------------------------------- graphs


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


def _compute_positions_in_the_graph(model: VaswaniTransformerForConditionalGeneration) -> None:
    """Empties the tables of sinusoids: a graph cannot choose between table and formula, and a table is a limit."""
    if model.config.position_encoding == "sinusoidal":
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.table = stack.embed_positions.table[:0]


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
    """The graph as ONNX, without the exporter's chatter and without the paths and source lines that it records."""
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


# -------------------------------------------------------------------------------------------------------- files


def _save_other_files(
    model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Configs and tokenizer, as a checkpoint has them."""
    config: VaswaniTransformerConfig = model.config
    config.dtype = torch.float32
    values = {name: value for name, value in config.to_dict().items() if name not in _KEYS_OF_THE_HUB}
    write_json(folder / CONFIG_NAME, values)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
