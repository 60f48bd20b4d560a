# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Loading of a trained model and its tokenizer: from safetensors alone, without foreign code, and whole."""

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
    """Return True if a name can be an id on the Hub and is no folder here."""
    return _HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def load_for_inference(
    name_or_path: str | Path, *, device: str | torch.device | None = None, int8: bool = False, bf16: bool = False
) -> tuple[VaswaniTransformerForConditionalGeneration, PreTrainedTokenizerBase]:
    """A trained model in eval mode, as `from_pretrained` gives it, and its tokenizer.

    `from_pretrained` fills missing tensors with random numbers and only warns; this refuses them.

    Args:
        name_or_path: Folder of a model, or its id on the Hub.
        device: For example "cpu" or "cuda:1"; None means a GPU if there is one.
        int8: Whether to round the weights to int8, for faster translations on a CPU.
        bf16: Whether to compute in bfloat16, on a GPU.

    Raises:
        FileNotFoundError: There is no such folder.
        OSError: The model lacks a file.
        ValueError: It is an adapter, its tensors are not those that its config describes, or its vocabulary lacks
            entries of the tokenizer.

    Example:
        >>> model, tokenizer = load_for_inference("runs/quickstart")
    """
    check_model_path(name_or_path)
    if find_adapter_config_file(str(name_or_path)) is not None:  # transformers loads the model that it names
        raise ValueError(
            f"`model` must be a whole model, got a PEFT adapter in {name_or_path}. Merge it into its model first "
            "(merge_and_unload, then save_pretrained), and pass that folder."
        )
    kind = VaswaniTransformerConfig.get_config_dict(str(name_or_path))[0].get("model_type")
    if kind != VaswaniTransformerConfig.model_type:
        raise ValueError(
            f"`model_type` must be {VaswaniTransformerConfig.model_type}, got {kind!r} in {name_or_path}. Pass "
            "the folder of a finished training, or use transformers for other architectures."
        )
    folder = Path(name_or_path)
    if (folder / WEIGHTS_INDEX).is_file() and not (folder / WEIGHTS_FILE).is_file():
        shard_names(folder / WEIGHTS_INDEX)
    model = VaswaniTransformerForConditionalGeneration.from_pretrained(str(name_or_path))
    model.check_loaded_weights()
    tokenizer = load_tokenizer(name_or_path)
    model.check_tokenizer(tokenizer)
    device = device or ("cuda" if torch.cuda.is_available() and not int8 else "cpu")
    if int8 and torch.device(device).type != "cpu":
        raise ValueError(f"`device` must be cpu for `int8`, got {device}. Drop one of them.")
    if bf16 and torch.device(device).type == "cpu":
        raise ValueError(f"`device` must be a GPU for `bf16`, got {device}. Drop one of them.")
    if int8:
        to_int8(model.float())
    try:
        return model.to(device, torch.bfloat16 if bf16 else None), tokenizer
    except (AssertionError, RuntimeError) as error:
        raise ValueError(f"`device` must be a device of this machine, got {device} ({error}).") from error


def precision_of(model: Any) -> dict[str, str]:
    """Return what results say of the precision that a model computes in; nothing for fp32."""
    if is_int8(model):
        return {"precision": "int8"}
    return {"precision": "bf16"} if model.dtype == torch.bfloat16 else {}


def load_tokenizer(name_or_path: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model's folder or of a model of the Hub."""
    # what is given here wins over a tokenizer_config.json that names another file or code
    return AutoTokenizer.from_pretrained(str(name_or_path), trust_remote_code=False, gguf_file=None)


def check_model_path(name_or_path: str | Path) -> None:
    """Raises FileNotFoundError for what is neither a folder nor looks like a model's id on the Hub."""
    path = Path(name_or_path)
    if not path.is_dir() and (not _HUB_ID.fullmatch(str(name_or_path)) or path.parent.is_dir()):
        raise FileNotFoundError(
            f"`model` must be the folder of a trained model, got {name_or_path}, which does not exist. Check the "
            "path. (A model is looked up on the Hub only if no folder has its owner's name.)"
        )


def shard_names(index: Path) -> dict[str, str]:
    """The name of the file of each tensor, from the index of a model's shards.

    Raises:
        ValueError: The index names a file outside its folder, or one that is not safetensors.
    """
    names: dict[str, str] = read_json(index)["weight_map"]
    for name in names.values():
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(
                f"`{index}` must name safetensors files of its own folder, got {name!r}. Save the model again with "
                "save_pretrained."
            )
    return names
