# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What an export to ONNX holds, read and checked when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..evaluation.checkpoint import checking_config
from ..files import read_json
from .onnx_model import DECODER_FILE, ENCODER_FILE, cache_names

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg, SessionOptions

# Names and sizes of a graph's inputs or outputs, in order; None is a size that a batch decides.
_Tensors: TypeAlias = list[tuple[str, tuple[int | None, ...]]]


def read_config(folder: Path) -> VaswaniTransformerConfig:
    """The configuration in a folder of `export_onnx`, which must be whole."""
    for name in (CONFIG_NAME, ENCODER_FILE, DECODER_FILE, GENERATION_CONFIG_NAME):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"`folder` must be one that export_onnx wrote, got {folder} without {name}. Export the model, or copy "
                "the whole folder."
            )
    read_json(folder / GENERATION_CONFIG_NAME)
    model_type = read_json(folder / CONFIG_NAME).get("model_type")
    if model_type != VaswaniTransformerConfig.model_type:
        raise ValueError(
            f"`model_type` must be {VaswaniTransformerConfig.model_type}, got {model_type!r} in {folder}. Export a "
            "model trained with this package."
        )
    with checking_config(folder):
        return VaswaniTransformerConfig.from_pretrained(folder)


def check_providers(providers: Sequence[Any]) -> None:
    """Refuses providers that onnxruntime does not have here; it would print so and run on the CPU."""
    from onnxruntime import get_available_providers

    names = [each if isinstance(each, str) else each[0] for each in providers]
    available = get_available_providers()
    if unknown := [str(name) for name in names if name not in available]:
        raise ValueError(
            f"`providers` must be among {', '.join(available)}, which this onnxruntime has, got {', '.join(unknown)}. "
            "Install the onnxruntime that has it, or leave it out."
        )


def open_graphs(
    folder: Path, config: VaswaniTransformerConfig, options: SessionOptions, providers: list[Any]
) -> list[InferenceSession]:
    """The encoder and the decoder, which must be those that the config describes."""
    sessions = []
    tensors = {ENCODER_FILE: _encoder_tensors(config), DECODER_FILE: _decoder_tensors(config)}
    for name, (inputs, outputs) in tensors.items():
        session = _open(folder / name, options, providers)
        found = [*session.get_inputs(), *session.get_outputs()]
        for expected, got in zip_longest(inputs + outputs, map(_described, found)):
            if expected != got:
                raise ValueError(
                    f"`{folder / name}` must be the graph of the model that {CONFIG_NAME} describes, with "
                    f"{_shown(expected)}, got {_shown(got)}. Copy the whole folder again."
                )
        sessions.append(session)
    return sessions


def _open(path: Path, options: SessionOptions, providers: list[Any]) -> InferenceSession:
    from onnxruntime import InferenceSession
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, InvalidProtobuf

    try:
        return InferenceSession(str(path), options, providers=providers)
    except (Fail, InvalidArgument, InvalidGraph, InvalidProtobuf) as error:
        raise ValueError(
            f"`folder` must hold whole ONNX files, got a broken {path.name} in {path.parent} ({error}). Copy it again."
        ) from error


def _encoder_tensors(config: VaswaniTransformerConfig) -> tuple[_Tensors, _Tensors]:
    """Inputs and outputs of the encoder's graph."""
    inputs: _Tensors = [("input_ids", (None, None)), ("attention_mask", (None, None))]
    states = ("last_hidden_state", (None, None, config.d_model))
    return inputs, [states, *_caches(config, "present", "encoder")]


def _decoder_tensors(config: VaswaniTransformerConfig) -> tuple[_Tensors, _Tensors]:
    """Inputs and outputs of the decoder's graph."""
    inputs: _Tensors = [("input_ids", (None, None)), ("encoder_attention_mask", (None, None))]
    past = [each for kind in ("decoder", "encoder") for each in _caches(config, "past_key_values", kind)]
    logits = ("logits", (None, None, config.vocab_size))
    return inputs + past, [logits, *_caches(config, "present", "decoder")]


def _caches(config: VaswaniTransformerConfig, prefix: str, kind: str) -> _Tensors:
    names = cache_names(prefix, kind, config.num_decoder_layers)
    widths = [config.d_k, config.d_v] * config.num_decoder_layers
    return [(name, (None, config.num_heads, None, width)) for name, width in zip(names, widths, strict=True)]


def _described(tensor: NodeArg) -> tuple[str, tuple[int | None, ...]]:
    return tensor.name, tuple(size if isinstance(size, int) else None for size in tensor.shape)


def _shown(tensor: tuple[str, tuple[int | None, ...]] | None) -> str:
    if tensor is None:
        return "nothing more"
    name, sizes = tensor
    return f"{name} ({', '.join('any' if size is None else str(size) for size in sizes)})"
