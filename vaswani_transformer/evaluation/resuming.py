# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translations that an interruption does not lose: they stay beside their file, and the same command goes on.

What is translated lies in OUTPUT.part. It is gone on with at the beginning of a chunk, so that the rest is batched,
and thereby rounded, as it would have been. OUTPUT.part.json says what it was made of: translations of other files,
models or options are never mixed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..files import read_json
from . import batches
from .outputs import STANDARD_STREAM, description_of, is_stream, line_bytes, open_output, open_part, part_of

logger = logging.get_logger(__name__)


def check_resume(input_file: str | Path, output_file: str | Path) -> None:
    """Refuses to go on with a translation that left nothing to go on with.

    Raises:
        FileNotFoundError: There is no part of the output, or nothing that says what it was made of.
        ValueError: Input or output is a stream.
    """
    for name, file in (("input", input_file), ("output", output_file)):
        if str(file) == STANDARD_STREAM or is_stream(file):
            raise ValueError(
                f"`{name}` must be a file for `resume`, got {file}, a stream. Translate from file to file."
            )
    for path in (part_of(output_file), description_of(output_file)):
        if not path.is_file():
            raise FileNotFoundError(
                f"`resume` must find what an interrupted translation left, got no {path}. Leave `resume` out to begin."
            )


def describe(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    input_file: str | Path,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """All that must be equal for two translations to be halves of one, as JSON has it.

    Args:
        model: What counts are its weights and its generation config, not where they lie.
        tokenizer: What counts is its vocabulary.
        input_file: What counts are its bytes.
        options: How it is decoded where that is not as the generation config says.
    """
    with Path(input_file).open("rb") as stream:
        input_digest = hashlib.file_digest(stream, "sha256").hexdigest()
    vocabulary = json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()
    digests = {"input": input_digest, "model": _digest(model), "tokenizer": hashlib.sha256(vocabulary).hexdigest()}
    own = {name: value for name, value in model.generation_config.to_dict().items() if not name.startswith("_")}
    given = {name: value for name, value in {**digests, **own, **options}.items() if value is not None}
    described: dict[str, Any] = json.loads(json.dumps(given, default=repr))
    return described


def _digest(model: PreTrainedModel) -> str:
    """SHA-256 of names, types, shapes and values of the weights; sharded or offloaded ones count without values."""
    digest = hashlib.sha256()
    for name, weight in model.named_parameters():
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        if type(weight.data) is torch.Tensor and not weight.is_meta:
            digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def begin_part(output_file: str | Path, description: Mapping[str, Any]) -> None:
    """Begins an empty part, in place of an older one.

    Args:
        output_file: Where the whole translation will lie.
        description: From `describe`.
    """
    part, described = part_of(output_file), description_of(output_file)
    if described.is_file() and part.is_file() and part.stat().st_size:
        logger.warning(f"{part} is replaced: an interrupted translation, with which --resume would have gone on.")
    with open_part(output_file) as stream:
        stream.truncate(0)
        with open_output(described) as text:
            text.write(json.dumps(description, indent=2).encode() + b"\n")


def keep_part(output_file: str | Path, description: Mapping[str, Any]) -> int:
    """Cuts the part behind its last whole chunk of whole lines, and returns the number of lines before that.

    Args:
        output_file: Where the whole translation will lie.
        description: From `describe`.

    Raises:
        ValueError: The part was made of something else.
    """
    part = part_of(output_file)
    begun = read_json(description_of(output_file))
    different = [f"`{name}`" for name in {**begun, **description} if begun.get(name) != description.get(name)]
    if different:
        raise ValueError(
            f"`resume` must go on as {part} was begun, got another value of {', '.join(different)}. Pass the same, or "
            "leave `resume` out to begin anew."
        )
    end = size = num_kept = 0
    with open_part(output_file) as stream:
        with part.open("rb") as written:
            for number, line in enumerate(written, start=1):
                size += len(line)
                if line.endswith(b"\n") and number % batches.SENTENCES_PER_CHUNK == 0:
                    end, num_kept = size, number
        stream.truncate(end)
    return num_kept


def append_lines(lines: Iterator[str], output_file: str | Path) -> int:
    """Writes lines behind those of the part, moves it into its place and returns how many they were.

    Each chunk is on the disk before the next one is translated. Where that ends early, the part stays and the error
    gets a note that says how to go on.
    """
    part, num_lines, is_ours = part_of(output_file), 0, False
    try:
        with open_part(output_file) as stream:
            is_ours = True
            while chunk := list(itertools.islice(lines, batches.SENTENCES_PER_CHUNK)):
                stream.write(b"".join(map(line_bytes, chunk)))
                stream.flush()
                os.fsync(stream.fileno())
                num_lines += len(chunk)
    except BaseException as error:
        if is_ours and part.stat().st_size:
            error.add_note(f"What is translated is kept in {part}: the same command with `resume` goes on.")
        elif is_ours:
            part.unlink()
            description_of(output_file).unlink()
        raise
    os.replace(part, Path(output_file).resolve())
    description_of(output_file).unlink()
    return num_lines
