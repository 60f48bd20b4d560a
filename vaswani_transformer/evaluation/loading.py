# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Load a trained model and its tokenizer.

Only complete safetensors weights are accepted, and no remote code runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils.peft_utils import find_adapter_config_file

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..cpu_kernels_vaswani_transformer import is_int8, to_int8
from ..files import WEIGHTS_FILE, WEIGHTS_INDEX, read_json
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def is_hub_id(name: str) -> bool:
    """Return True if a name looks like an id on the Hub and is not a local path."""
    return _HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def load_for_inference(
    name_or_path: str | Path,
    *,
    device: str | torch.device | None = None,
    int8: bool = False,
    bf16: bool = False,
) -> tuple[VaswaniTransformerForConditionalGeneration, PreTrainedTokenizerBase]:
    """Load a trained model in eval mode, and its tokenizer.

    `from_pretrained` fills missing tensors with random numbers. This function refuses such a model.

    Args:
        name_or_path: Folder of a model, or its id on the Hub.
        device: For example "cpu" or "cuda:1". None uses the CPU with `int8`, else a GPU if there is
            one.
        int8: Whether to round the weights to int8, for faster translations on a CPU.
        bf16: Whether to compute in bfloat16, on a GPU.

    Raises:
        FileNotFoundError: The folder does not exist.
        OSError: A file of the model is missing.
        ValueError: The model is an adapter or has another architecture, its tensors do not match
            its config, its vocabulary lacks entries of the tokenizer, or the device does not exist
            or does not support `int8` or `bf16`.

    Example:
        >>> model, tokenizer = load_for_inference("runs/quickstart")
    """
    device = check_device("cpu" if device is None and int8 else device, bf16)
    check_model_path(name_or_path)
    is_adapter = find_adapter_config_file(str(name_or_path)) is not None
    if is_adapter:  # without this check, transformers loads the base model that the adapter names
        raise ValueError(
            f"`model` must be a whole model, got a PEFT adapter in {name_or_path}. Merge it into "
            "its model first (merge_and_unload, then save_pretrained), and pass that folder."
        )
    kind = VaswaniTransformerConfig.get_config_dict(str(name_or_path))[0].get("model_type")
    if kind != VaswaniTransformerConfig.model_type:
        raise ValueError(
            f"`model_type` must be {VaswaniTransformerConfig.model_type}, got {kind!r} in "
            f"{name_or_path}. Pass the folder of a finished training, or use transformers for "
            "other architectures."
        )
    folder = Path(name_or_path)
    if (folder / WEIGHTS_INDEX).is_file() and not (folder / WEIGHTS_FILE).is_file():
        shard_names(folder / WEIGHTS_INDEX)
    model = VaswaniTransformerForConditionalGeneration.from_pretrained(str(name_or_path))
    model.check_loaded_weights()
    tokenizer = load_tokenizer(name_or_path)
    model.check_tokenizer(tokenizer)
    if int8 and torch.device(device).type != "cpu":
        raise ValueError(f"`device` must be cpu for `int8`, got {device}. Drop one of them.")
    if int8:
        to_int8(model.float())
    return model.to(device, torch.bfloat16 if bf16 else None), tokenizer


def check_device(device: str | torch.device | None, bf16: bool = False) -> str | torch.device:
    """Return the device to use. None means a GPU if there is one, else the CPU.

    Raises:
        ValueError: This machine lacks the device, or `bf16` is set for a CPU.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:
        raise ValueError(
            f"`device` must be a device of this machine, got {device} ({error})."
        ) from error
    if bf16 and torch.device(device).type == "cpu":
        raise ValueError(f"`device` must be a GPU for `bf16`, got {device}. Drop one of them.")
    return device


def is_translator(model: Any) -> bool:
    """Return True for a `Translator` (engine ctranslate2), False for a model of transformers."""
    return hasattr(model, "compute_type")


def precision_of(model: Any) -> dict[str, str]:
    """Return the entries `engine` and `precision` for results.

    The defaults, torch and fp32, are left out.
    """
    if is_translator(model):
        is_fp32 = model.compute_type == "float32"
        return {"engine": "ctranslate2"} | ({} if is_fp32 else {"precision": model.compute_type})
    if is_int8(model):
        return {"precision": "int8"}
    return {"precision": "bf16"} if model.dtype == torch.bfloat16 else {}


def load_tokenizer(name_or_path: str | Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model from its folder or the Hub, without remote code."""
    # A tokenizer_config.json may name remote code or a GGUF file. These arguments override it.
    return AutoTokenizer.from_pretrained(str(name_or_path), trust_remote_code=False, gguf_file=None)


def check_model_path(name_or_path: str | Path) -> None:
    """Raise FileNotFoundError unless the argument is a folder or may be the id of a model on the
    Hub.
    """
    path = Path(name_or_path)
    may_be_hub_id = _HUB_ID.fullmatch(str(name_or_path)) and not path.parent.is_dir()
    if not path.is_dir() and not may_be_hub_id:
        raise FileNotFoundError(
            f"`model` must be the folder of a trained model, got {name_or_path}, which does not "
            "exist. Check the path. (A model is looked up on the Hub only if no local folder has "
            "the name of its owner.)"
        )


def shard_names(index: Path) -> dict[str, str]:
    """Read the index of a sharded model and return the file name of each tensor.

    Raises:
        ValueError: The index names a file outside its folder, or a file that is not a safetensors
            file.
    """
    names: dict[str, str] = read_json(index)["weight_map"]
    for name in names.values():
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(
                f"`{index}` must name safetensors files of its own folder, got {name!r}. Save the "
                "model again with save_pretrained."
            )
    return names
