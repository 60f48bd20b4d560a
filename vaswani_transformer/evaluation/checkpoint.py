# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Strict loading of a trained model: an incomplete folder, other tensors or pickled weights are refused by name."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled
from transformers.utils.peft_utils import find_adapter_config_file

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..files import read_json
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration

_OTHER_FILES = (GENERATION_CONFIG_NAME, "tokenizer.json", "tokenizer_config.json")
# What the exports for CTranslate2 and ONNX hold, and no model does.
_EXPORTED = ("shared_vocabulary.json", "encoder_model.onnx")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def load_for_inference(
    name_or_path: str | Path, *, device: str | torch.device | None = None
) -> tuple[VaswaniTransformerForConditionalGeneration, PreTrainedTokenizerBase]:
    """A trained model in eval mode, as `from_pretrained` gives it, and its tokenizer.

    `from_pretrained` fills missing tensors with random numbers and only warns; this refuses them.

    Args:
        name_or_path: Folder of a model, or its id on the Hub.
        device: Where the model goes, for example "cpu" or "cuda:1"; None means a GPU if there is one.

    Raises:
        FileNotFoundError: There is no such model, or its folder lacks a file.
        ValueError: It is no model of this package, its weights are pickled or broken, its tensors are not those
            that its config describes, or its vocabulary lacks entries of the tokenizer.

    Example:
        >>> model, tokenizer = load_for_inference("runs/quickstart")
    """
    check_model_path(name_or_path)
    if Path(name_or_path).is_dir():
        check_checkpoint_folder(name_or_path)
    device = _device(device)
    model = _load_model(str(name_or_path))
    tokenizer = load_tokenizer(name_or_path)
    model.check_tokenizer(tokenizer)
    model.to(device)  # type: ignore[arg-type]  # the library's types take the device for self
    return model, tokenizer


def load_tokenizer(name_or_path: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer in a model's folder, or of a model of the Hub.

    Raises:
        ValueError: It is broken, in a folder, or names files to take instead of its own.
    """
    _check_names_no_file(Path(name_or_path) / "tokenizer_config.json")
    try:
        # of a model of the Hub, what is given here wins over its tokenizer_config.json
        return AutoTokenizer.from_pretrained(str(name_or_path), trust_remote_code=False, gguf_file=None)
    except Exception as error:  # the tokenizers library raises nothing more special
        if isinstance(error, OSError) or not Path(name_or_path).is_dir():
            raise
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"`tokenizer.json` and `tokenizer_config.json` must be those of a tokenizer, got broken ones in "
            f"{name_or_path} ({reason}). Copy them again."
        ) from error


def _check_names_no_file(path: Path) -> None:
    """Raises ValueError for a tokenizer_config.json with a key by which the library opens files of any place."""
    found = [name for name in ("gguf_file", "fast_tokenizer_files") if path.is_file() and name in read_json(path)]
    if found:
        raise ValueError(
            f"`{path}` must not name other files, got {' and '.join(found)}. Delete them there: the tokenizer is in "
            "tokenizer.json."
        )


@contextlib.contextmanager
def checking_config(name_or_path: str | Path) -> Iterator[None]:
    """Names the folder whose config has values that no model can have."""
    try:
        yield
    except (StrictDataclassError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"`model` must have a {CONFIG_NAME} of valid values, got others in {name_or_path} ({reason}). Use the "
            "config that was saved with the weights."
        ) from error


def check_model_path(name_or_path: str | Path) -> None:
    """Refuses what is neither a folder nor looks like a model's id on the Hub; what a folder holds is not looked at.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    path = Path(name_or_path)
    if path.is_dir():
        return
    if len(path.parts) > 1 and path.parent.is_dir():
        raise FileNotFoundError(
            f"`model` must be the folder of a trained model, got {name_or_path}: the folder {path.parent} has no "
            f"{path.name}. Check the path. (Models of the Hub are looked for where there is no such folder.)"
        )
    if not HUB_ID.fullmatch(str(name_or_path)):
        raise FileNotFoundError(
            f"`model` must be the folder of a trained model, got {name_or_path}, which does not exist. Check the path."
        )


def check_checkpoint_folder(folder: str | Path) -> None:
    """Refuses a folder that is not a whole model with tokenizer, naming what is missing.

    Raises:
        FileNotFoundError: A file is missing, also a shard that the index of the weights names.
        ValueError: The weights are pickled or an adapter's, the config is none of this package, or a JSON file is
            broken.
    """
    folder = Path(folder)
    check_no_adapter(folder)
    if any((folder / name).is_file() for name in _EXPORTED) and not any(folder.glob("*.safetensors*")):
        raise ValueError(
            f"`model` must be a model that is not exported, got an export for another engine in {folder}. Pass the "
            "folder it was made from, or use the export in Python: see vaswani_transformer.export."
        )
    _require(folder, CONFIG_NAME)
    model_type = read_json(folder / CONFIG_NAME).get("model_type")
    if model_type != VaswaniTransformerConfig.model_type:
        raise ValueError(
            f"`model_type` must be {VaswaniTransformerConfig.model_type}, got {model_type!r} in {folder}. Pass a "
            "model trained with this package."
        )
    if not (folder / SAFE_WEIGHTS_NAME).is_file():
        _check_shards(folder)
    for name in _OTHER_FILES:
        _require(folder, name)
        read_json(folder / name)


def shard_names(index: Path) -> dict[str, str]:
    """The name of the file of each tensor, from the index of a model's shards.

    Raises:
        ValueError: The index is broken, or names a file outside its folder or one that is not safetensors.
    """
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict):
        raise ValueError(f"`{index}` must hold a `weight_map`, got a file without one. Copy it again.")
    for name in names.values():
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(
                f"`{index}` must name safetensors files of its own folder, got {name!r}. Save the model again with "
                "save_pretrained."
            )
    return names


def check_no_adapter(name_or_path: str | Path) -> None:
    """Refuses a PEFT adapter, also one beside a whole model: the library loads both, and what the adapter names.

    Raises:
        ValueError: There is one.
    """
    if find_adapter_config_file(str(name_or_path)) is not None:
        raise ValueError(
            f"`model` must be a whole model, got a PEFT adapter in {name_or_path}. Merge it into its model first "
            "(merge_and_unload, then save_pretrained), and pass that folder."
        )


def _require(folder: Path, name: str) -> None:
    if not (folder / name).is_file():
        raise FileNotFoundError(
            f"`model` must be a complete checkpoint folder, got {folder} without {name}. Let the training finish, or "
            "copy the whole folder."
        )


def _check_shards(folder: Path) -> None:
    """Raises for a folder without a file of all weights, unless it has every shard that its index names."""
    if (folder / SAFE_WEIGHTS_INDEX_NAME).is_file():
        for shard in sorted(set(shard_names(folder / SAFE_WEIGHTS_INDEX_NAME).values())):
            _require(folder, shard)
        return
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern) if _looks_like_weights(path))
    if pickled:
        raise ValueError(
            f"`model` must have its weights in safetensors, got pickled weights {', '.join(pickled)} in {folder}. "
            "Loading them could run foreign code; save the model again with save_pretrained."
        )
    _require(folder, SAFE_WEIGHTS_NAME)


def _looks_like_weights(path: Path) -> bool:
    """False for the state of optimiser, schedule and random generators that lies in a training checkpoint."""
    return not path.name.startswith(("optimizer", "scheduler", "scaler", "training_args", "rng_state"))


def _device(device: str | torch.device | None) -> torch.device:
    """The device itself, or a GPU if there is one; refused where this machine has none such."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"`device` must be a device of this machine, for example cpu or cuda, got {str(device)!r} ({reason})."
        ) from error


def _load_model(name_or_path: str) -> VaswaniTransformerForConditionalGeneration:
    """The model, with exactly the tensors its config describes."""
    try:
        check_no_adapter(name_or_path)
        with checking_config(name_or_path):
            config = VaswaniTransformerConfig.from_pretrained(name_or_path)
        if Path(name_or_path).is_dir():
            _check_names(Path(name_or_path), config)
        model: VaswaniTransformerForConditionalGeneration
        with _bar_on_terminals(name_or_path):
            model = VaswaniTransformerForConditionalGeneration.from_pretrained(name_or_path, config=config)
    except SafetensorError as error:
        raise ValueError(
            f"`model` must have whole safetensors files, got a broken one in {name_or_path} ({error}). Copy it again."
        ) from error
    except OSError as error:
        clear_error = None if Path(name_or_path).is_dir() else _clear_error(name_or_path, error)
        if clear_error is None:
            raise
        raise clear_error from error
    except RuntimeError as error:
        raise ValueError(
            f"`model` must have tensors of the shapes its config.json describes, got others in {name_or_path} "
            f"({error})."
        ) from error
    model.check_loaded_weights()
    return model


@contextlib.contextmanager
def _bar_on_terminals(name_or_path: str) -> Iterator[None]:
    """Shows a folder's loading on terminals alone, being noise in a file of messages; downloads are always shown."""
    is_hidden = Path(name_or_path).is_dir() and is_progress_bar_enabled() and not sys.stderr.isatty()
    if is_hidden:
        disable_progress_bar()
    try:
        yield
    finally:
        if is_hidden:
            enable_progress_bar()


def _check_names(folder: Path, config: VaswaniTransformerConfig) -> None:
    """Refuses weights that lack tensors of the config's model, before memory is taken for these."""
    names: set[str] = set()
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as weights:
            names |= set(weights.keys())
    with torch.device("meta"):
        model: Any = VaswaniTransformerForConditionalGeneration(config)
    missing = set(model.state_dict()) - set(model.all_tied_weights_keys) - names
    model._loading_info = {"missing_keys": sorted(missing)}
    model.check_loaded_weights()


def _clear_error(name_or_path: str, error: OSError) -> Exception | None:
    """What to do about a model of the Hub that cannot be loaded; None where the library's own error says it."""
    if SAFE_WEIGHTS_NAME in str(error):
        return ValueError(
            f"`model` must have its weights in safetensors, got {name_or_path} without {SAFE_WEIGHTS_NAME}. Loading "
            "pickled weights could run foreign code; ask for the model to be saved again with save_pretrained."
        )
    if error.filename is not None:
        return OSError(
            f"`HF_HOME` must be a folder that can be written to, got an error at {error.filename} ({error.strerror}). "
            "Set it to another folder."
        )
    return None
