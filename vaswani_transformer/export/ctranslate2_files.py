# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What an export for CTranslate2 holds beside the weights, read and checked when it is opened."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from transformers import GenerationConfig, PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

from ..evaluation.batches import check_count
from ..evaluation.decoding import DECODING, decoding_overrides
from ..files import read_json
from ..search_vaswani_transformer import GNMT_OFFSET, PAPER_ALPHA

logger = logging.getLogger(__name__)

# The key of an exported config.json that tells what `Translator` has to know of the model.
DESCRIPTION = "vaswani_transformer"

WEIGHTS_FILE, VOCABULARY_FILE = "model.bin", "shared_vocabulary.json"

_HOW_TO_EXPORT = "Make one: vaswani-transformer export --model DIR --to ctranslate2 --output-dir NEW."
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
OPTIONS = (*DECODING, "max_new_tokens")

# What a generation_config.json may hold without changing what `generate` finds.
_HARMLESS = {
    *("max_length", "longest_training_source", "use_cache", "transformers_version", "return_dict_in_generate"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "num_return_sequences"),
}


def read_description(folder: Path) -> dict[str, Any]:
    """What the loader wrote of the model; refuses a folder that is no export, saying how to make one."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"`folder` must be that of an exported model, got {folder}, which does not exist. {_HOW_TO_EXPORT}"
        )
    if not (folder / WEIGHTS_FILE).is_file():
        is_model = (folder / CONFIG_NAME).is_file()
        got = "a model that is not exported" if is_model else f"no {WEIGHTS_FILE}"
        raise FileNotFoundError(f"`folder` must be that of an exported model, got {got} in {folder}. {_HOW_TO_EXPORT}")
    for name in (CONFIG_NAME, VOCABULARY_FILE, GENERATION_CONFIG_NAME, *_TOKENIZER_FILES):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"`folder` must be a complete export, got {folder} without {name}. Copy the file there from the "
                f"model's folder if it is there. {_HOW_TO_EXPORT}"
            )
    for name in _TOKENIZER_FILES:  # what breaks in the library's reader is not told by name
        read_json(folder / name)
    description = read_json(folder / CONFIG_NAME).get(DESCRIPTION)
    if not isinstance(description, dict):
        raise ValueError(
            f"`folder` must hold an export of a model of this package, got another's in {folder}. {_HOW_TO_EXPORT}"
        )
    advice = f"Copy {folder / CONFIG_NAME} again, or export anew."
    for name in ("vocab_size", "num_positions"):
        check_count(f"{DESCRIPTION}.{name}", description.get(name), advice)
    if description.get("position_encoding") not in ("sinusoidal", "learned"):
        raise ValueError(
            f"`{DESCRIPTION}.position_encoding` must be one of sinusoidal, learned, got "
            f"{description.get('position_encoding')!r}. {advice}"
        )
    return description


def read_names(folder: Path, vocab_size: int, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The names of the vocabulary's entries, by id, which must be the model's and the tokenizer's."""
    path = folder / VOCABULARY_FILE
    names: list[str] = read_json(path, list)
    if len(names) != vocab_size:
        raise ValueError(
            f"`{path}` must have the {vocab_size} names of the model's vocabulary, got {len(names)}. Copy it again."
        )
    for token, index in tokenizer.get_vocab().items():
        if index >= vocab_size or names[index] != token:
            raise ValueError(
                f"`{path}` must have the tokenizer's names, got another for entry {index}, {token!r}. Use the "
                "vocabulary and the tokenizer of one and the same export."
            )
    return names


def read_generation_config(folder: Path, vocab_size: int, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """How the model decodes by default, ends as a list; says which of its settings CTranslate2 does not follow."""
    path = folder / GENERATION_CONFIG_NAME
    own = {name: value for name, value in read_json(path).items() if value is not None}
    ends = own.get("eos_token_id", tokenizer.eos_token_id)
    own["eos_token_id"] = ends if isinstance(ends, list) else [ends]
    try:
        _check_decoding(own, vocab_size)
    except ValueError as error:
        raise ValueError(f"{error} It is in `{path}`.") from error
    _tell_what_is_ignored(own, path)
    library_limit = max(own.get("max_length", 20) - 1, 1)
    return {
        **own,
        "num_beams": own.get("num_beams", 1),
        "length_penalty": own.get("length_penalty", PAPER_ALPHA if "max_new_tokens_over_source" in own else 1.0),
        "length_penalty_offset": own.get("length_penalty_offset", GNMT_OFFSET),
        "max_new_tokens_over_source": None if "max_new_tokens" in own else own.get("max_new_tokens_over_source"),
        "max_new_tokens": own.get("max_new_tokens", library_limit),
    }


def _check_decoding(own: dict[str, Any], vocab_size: int) -> None:
    """Raises ValueError for a value that no search can take."""
    decoding_overrides(**{name: own[name] for name in DECODING if name in own})
    for name in ("max_new_tokens", "max_length", "longest_training_source"):
        if name in own:
            check_count(name, own[name], "Leave it out for the default.")
    ends = own["eos_token_id"]
    if not ends or any(type(end) is not int or not 0 <= end < vocab_size for end in ends):
        raise ValueError(
            f"`eos_token_id` must hold ids of the model's vocabulary, in [0, {vocab_size}), got {ends}. Copy the file "
            "from the model's folder again."
        )


def _tell_what_is_ignored(own: dict[str, Any], path: Path) -> None:
    library = GenerationConfig().to_dict()
    ignored = [
        f"{name}={value!r}"
        for name, value in own.items()
        if not name.startswith("_") and name not in (*_HARMLESS, *OPTIONS) and value not in (library.get(name), False)
    ]
    if ignored:
        logger.warning(
            f"`{path}` asks for {', '.join(ignored)}, which have no effect here. Use the pipeline, which follows them."
        )
