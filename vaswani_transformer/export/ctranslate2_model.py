# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A trained model as a folder for CTranslate2."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from ..evaluation.checkpoint import load_for_inference
from ..extras import requiring
from .folder import check_output_folder, writing_folder

logger = logging.getLogger(__name__)

QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)
# The key of an exported config.json that tells what `Translator` has to know of the model.
DESCRIPTION = "vaswani_transformer"

WEIGHTS_FILE, VOCABULARY_FILE = "model.bin", "shared_vocabulary.json"


def export_ctranslate2(model: str | Path, output_dir: str | Path, *, quantization: str = "float32") -> Path:
    """Writes a trained model as a folder that CTranslate2 reads, and `Translator` with nothing else.

    The folder appears whole or not at all.

    Args:
        model: Folder of a model, or its id on the Hub.
        output_dir: Folder to make; it may exist if it is empty.
        quantization: How weights are stored: one of `QUANTIZATIONS`. In int8 the model is a quarter as large.

    Returns:
        The folder.

    Raises:
        ImportError: CTranslate2 is missing; the message names the extra.
        FileNotFoundError: There is no such model, or its folder lacks a file.
        ValueError: There is no such quantization, the output folder holds something, or the model is none of this
            package or not whole.

    Example:
        >>> export_ctranslate2("runs/quickstart", "runs/quickstart-int8", quantization="int8")
    """
    check_ctranslate2()
    if quantization not in QUANTIZATIONS:
        raise ValueError(f"`quantization` must be one of {', '.join(QUANTIZATIONS)}, got {quantization!r}.")
    check_output_folder(output_dir)
    from .ctranslate2_loader import VaswaniTransformerLoader

    loaded, tokenizer = load_for_inference(model, device="cpu")
    loaded.float()  # type: ignore[no-untyped-call]  # CTranslate2 makes int8_bfloat16 of bf16's int8
    spec = VaswaniTransformerLoader()(loaded, tokenizer)
    spec.validate()
    spec.optimize(quantization=quantization)
    with writing_folder(output_dir) as folder:
        spec.save(str(folder))
        tokenizer.save_pretrained(folder)
        loaded.generation_config.save_pretrained(folder)
    _tell_what_is_computed(Path(output_dir), quantization)
    return Path(output_dir)


def check_ctranslate2() -> Any:
    """CTranslate2, or an ImportError that says how to install it."""
    with requiring("export", "for its exports"):
        import ctranslate2
    return ctranslate2


def _tell_what_is_computed(folder: Path, quantization: str) -> None:
    """Logs what this machine's CPU will compute with, where that is not what the weights are stored for."""
    ctranslate2 = check_ctranslate2()
    supported = ctranslate2.get_supported_compute_types("cpu")
    if quantization not in supported:
        level = ctranslate2.get_log_level()
        ctranslate2.set_log_level(logging.ERROR)  # it would say the same in other words
        computed = ctranslate2.Translator(str(folder), device="cpu").compute_type
        ctranslate2.set_log_level(level)
        logger.warning(
            f"This machine's CPU cannot compute in {quantization}, only in {', '.join(sorted(supported))}: here the "
            f"model will be computed in {computed}. On devices that can, it is computed as exported."
        )
