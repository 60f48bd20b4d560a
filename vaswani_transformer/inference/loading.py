# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Load a trained model of this package, or a model of another architecture, with its tokenizer.

A model must have all its weights. Remote code never runs. Weights of this package's models must be
safetensors files.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils.peft_utils import find_adapter_config_file

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..cpu_kernels_vaswani_transformer import is_int8, to_int8
from ..files import EXPORT_FILE, WEIGHTS_FILE, WEIGHTS_INDEX, read_json
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
    languages: tuple[str | None, str | None] | None = None,
) -> tuple[VaswaniTransformerForConditionalGeneration, PreTrainedTokenizerBase]:
    """Load a trained model in eval mode, and its tokenizer.

    `from_pretrained` fills missing tensors with random numbers. This function refuses a model with
    missing tensors.

    Args:
        name_or_path: Folder of a model, or its id on the Hub.
        device: For example "cpu" or "cuda:1". None uses the CPU if `int8` is set, and otherwise a
            GPU if there is one.
        int8: Whether to round the weights to int8, for faster translations on a CPU.
        bf16: Whether to compute in bfloat16, on a GPU.
        languages: Source and target language for a model of another architecture, which can be any
            encoder-decoder of transformers. Use the codes of its tokenizer, or (None, None) if the
            tokenizer has no codes. If `languages` is None, other architectures are refused.

    Raises:
        FileNotFoundError: The folder does not exist.
        OSError: A file of the model is missing.
        ValueError: The model is an adapter or has another architecture, its tensors do not match
            its config, its vocabulary lacks entries of the tokenizer, it does not know the
            languages, or the device does not exist or does not support `int8` or `bf16`.

    Example:
        >>> model, tokenizer = load_for_inference("runs/quickstart")
        >>> nllb = "facebook/nllb-200-distilled-600M"
        >>> teacher, tokenizer = load_for_inference(nllb, languages=("eng_Latn", "deu_Latn"))
    """
    device = check_device("cpu" if device is None and int8 else device, bf16)
    if int8 and torch.device(device).type != "cpu":
        raise ValueError(f"`device` must be cpu for `int8`, got {device}. Drop one of them.")
    dtype = torch.bfloat16 if bf16 else None
    check_model_path(name_or_path)
    name, folder = str(name_or_path), Path(name_or_path)
    is_adapter = find_adapter_config_file(name) is not None
    if is_adapter:  # without this check, transformers loads the base model that the adapter names
        raise ValueError(
            f"`model` must be a whole model, got a PEFT adapter in {name_or_path}. Merge it into "
            "its model first (merge_and_unload, then save_pretrained), and pass that folder."
        )
    kind = VaswaniTransformerConfig.get_config_dict(name)[0].get("model_type")
    if kind != VaswaniTransformerConfig.model_type:
        found = (
            f"of type {kind!r}. Only the command translate takes other architectures, with the "
            "`engine` torch and without `int8`."
        )
        if (folder / EXPORT_FILE).is_file():
            found = "an export for CTranslate2. Pass the model itself, or the `engine` ctranslate2."
        elif kind is None:
            found = "without config.json. Pass a finished training, or a checkpoint-* of it."
        elif languages is not None and not int8:
            model, tokenizer = _load_teacher(name, languages)
            return model.to(device, dtype), tokenizer
        raise ValueError(f"`model` must be a model of this package, got {name_or_path}, {found}")
    if (folder / WEIGHTS_INDEX).is_file() and not (folder / WEIGHTS_FILE).is_file():
        _check_index(folder / WEIGHTS_INDEX)
    try:
        model = VaswaniTransformerForConditionalGeneration.from_pretrained(name)
    except RuntimeError as error:
        if "mismatched" not in str(error):
            raise
        raise ValueError(
            f"`model` must have tensors of the shapes that its config.json gives, got {name}."
        ) from error
    model.check_loaded_weights()
    tokenizer = load_tokenizer(name_or_path)
    model.check_tokenizer(tokenizer)
    if int8:
        to_int8(model.float())
    return model.to(device, dtype), tokenizer


def _load_teacher(name: str, languages: tuple[str | None, str | None]) -> tuple[Any, Any]:
    """Load a model of another architecture, and its tokenizer.

    The languages become `source_language` and `target_language` of the model's config. The config
    may have settings for this pair of languages, as the config of T5 has. These settings are added
    to the generation config, and the `prefix` among them becomes `source_prefix` of the config.
    """
    config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    tokenizer = load_tokenizer(name)
    settings = settings_of_pair(config, tokenizer, *languages)
    config.source_language, config.target_language = languages
    config.source_prefix = settings.get("prefix", "")
    model, report = AutoModelForSeq2SeqLM.from_pretrained(
        name, config=config, trust_remote_code=False, output_loading_info=True
    )
    if report["missing_keys"]:
        raise ValueError(
            f"`model` must have all its tensors, got none for {min(report['missing_keys'])}. Pass "
            "the complete model."
        )
    model.generation_config.update(**settings)
    return model, tokenizer


def settings_of_pair(
    config: Any, tokenizer: Any, source: str | None, target: str | None
) -> dict[str, Any]:
    """Return a model's own settings for a pair of languages, such as T5's `prefix`.

    If the tokenizer has language codes, both languages must be such codes. Otherwise the languages
    must be a pair that the model's config names, or both must be None.

    Raises:
        ValueError: The model does not know the languages.
    """
    if hasattr(tokenizer, "_build_translation_inputs"):
        tokens = getattr(tokenizer, "lang_code_to_id", None) or tokenizer.extra_special_tokens
        codes = [token.strip("_") for token in tokens]
        for name, code in (("source_language", source), ("target_language", target)):
            if code not in codes:
                given = (code or "").lower()
                alike = [each for each in codes if each.startswith(given[:2])]
                nearest = alike or difflib.get_close_matches(given, codes, cutoff=0)
                raise ValueError(
                    f"`{name}` must be a code of the model's tokenizer, got {code}. Pass a code "
                    f"such as {', '.join(nearest[:5])}."
                )
        return {}
    settings = getattr(config, "task_specific_params", None) or {}
    known = list(settings)
    own = getattr(config, "language_pair", None)
    if own:
        known.append("translation_{}_to_{}".format(*own))
    pair = f"translation_{source}_to_{target}"
    if (source or target) and pair not in known:
        names = ", ".join(known).replace("translation_", "").replace("_to_", " and ")
        raise ValueError(
            "`source_language` and `target_language` must be a pair that the model names, got "
            f"{source} and {target}. Leave both out. It names: {names or 'no pair'}."
        )
    return dict(settings.get(pair, {}))


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
    """Return the entries `engine` and `precision` that describe a model in results.

    An entry is left out if it has its default value, torch or fp32.
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


def check_model_path(name_or_path: str | Path, name: str = "model") -> None:
    """Raise FileNotFoundError unless this is a folder or may be an id on the Hub.

    `name` is the name of the argument in the message, "model" or "tokenizer".
    """
    path = Path(name_or_path)
    may_be_hub_id = _HUB_ID.fullmatch(str(name_or_path)) and not path.parent.is_dir()
    if not path.is_dir() and not may_be_hub_id:
        raise FileNotFoundError(
            f"`{name}` must be the folder of a trained {name}, got {name_or_path}, which does not "
            f"exist. Check the path. (A {name} is looked up on the Hub only if no local folder has "
            "the name of its owner.)"
        )


def _check_index(index: Path) -> None:
    """Raise ValueError if the index of a sharded model names other files than shards beside it."""
    for name in read_json(index)["weight_map"].values():
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(
                f"`{index}` must name safetensors files of its own folder, got {name!r}. Save the "
                "model again with save_pretrained."
            )
