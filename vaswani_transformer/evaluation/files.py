# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Files and standard streams of sentences: read line by line, translated, scored or aligned, written when complete.

A line ends at a line feed and nowhere else; a carriage return in front of it and a byte order mark at the beginning
of a file are dropped. A line of more than 65,536 bytes is refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from transformers import PreTrainedTokenizerBase

from ..lines import decode_lines
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..pipeline_vaswani_transformer import MAX_TEXT_BYTES
from .alignment import align_pairs
from .batches import DEFAULT_MAX_TOKENS_PER_BATCH
from .decoding import GenerativeModel
from .outputs import STANDARD_STREAM, check_outputs, is_stream, write_lines
from .processes import ALONE, Processes
from .resuming import append_lines, begin_part, check_resume, describe, keep_part
from .scoring import score_pairs
from .translate import translate, translate_n_best


def translate_file(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    input_file: str | Path = STANDARD_STREAM,
    output_file: str | Path = STANDARD_STREAM,
    *,
    num_best: int | None = None,
    resume: bool = False,
    processes: Processes = ALONE,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    **generate_kwargs: Any,
) -> int:
    """Translates a file line by line; the output has as many lines as the input.

    The input is streamed. The output file appears, or replaces an older one, only when it is complete; until then its
    lines lie in OUTPUT.part, and stay there when the translation of a file is interrupted.

    Args:
        model: In eval mode; decodes as its generation config says.
        tokenizer: Saved with the model.
        input_file: UTF-8 text, one sentence a line; "-" is stdin.
        output_file: Where the translations go; "-" is stdout.
        num_best: How many translations of each line are written, at most as many as beams, as JSON lines
            `{"source": ..., "translations": [{"text": ..., "score": ..., "log_prob": ..., "length": ...}, ...]}`, best
            first; None writes the best alone, as text.
        resume: Whether to go on with what an interrupted translation left: same input, model and options.
        processes: Share the work, each calling this with the same arguments; from `join_processes`.
        max_tokens_per_batch: As for `translate`.
        progress: Whether to show a progress bar on stderr.
        **generate_kwargs: Passed to `model.generate`, for example num_beams or length_penalty.

    Returns:
        Number of lines.

    Raises:
        FileNotFoundError: The input file, the output's folder or what to go on with does not exist.
        ValueError: The input file is empty or not UTF-8, input and output are the same file, there are fewer beams
            than `num_best`, or what to go on with was made of another input, by another model or with other options.

    Example:
        >>> translate_file(model, tokenizer, "newstest2014.en", "newstest2014.de", progress=True)
    """
    total = check_files(input_file, output_file, resume=resume, num_processes=processes.count)
    writes_part = processes.is_main and total is not None and not is_stream(output_file)
    num_kept = 0
    if writes_part:
        description = describe(model, tokenizer, input_file, {"num_best": num_best, **generate_kwargs})
        num_kept = keep_part(output_file, description) if resume else 0
    num_kept = processes.from_main(num_kept)
    options: dict[str, Any]
    options = {"max_tokens_per_batch": max_tokens_per_batch, "progress": progress, "processes": processes}
    options |= {"total": None if total is None else total - num_kept, **generate_kwargs}
    with _open_input(input_file) as stream:
        sentences = itertools.islice(_lines(stream, input_file), num_kept, None)
        if num_best is None:
            lines = translate(model, tokenizer, sentences, **options)
        else:
            lines = _n_best_lines(model, tokenizer, sentences, num_best, options)
        if writes_part:
            if not resume:  # only now, when the options are known to be good, is an older part replaced
                begin_part(output_file, description)
            return num_kept + append_lines(lines, output_file)
        return num_kept + (write_lines(lines, output_file) if processes.is_main else sum(1 for _ in lines))


def _n_best_lines(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterator[str],
    num_best: int,
    options: dict[str, Any],
) -> Iterator[str]:
    """The best translations of each sentence as a line of JSON."""
    sentences, sources = itertools.tee(sentences)
    found = translate_n_best(model, tokenizer, sentences, num_best, **options)
    return (
        _json_line({"source": source, "translations": [dataclasses.asdict(hypothesis) for hypothesis in hypotheses]})
        for source, hypotheses in zip(sources, found, strict=True)
    )


def score_files(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    source_file: str | Path,
    target_file: str | Path,
    output_file: str | Path = STANDARD_STREAM,
    **options: Any,
) -> int:
    """Scores two files line by line, as JSON lines `{"log_prob": ..., "length": ..., "score": ...}`.

    The files are streamed. The output file appears, or replaces an older one, only when it is complete.

    Args:
        model: In eval mode.
        tokenizer: Saved with the model.
        source_file: UTF-8 text, one sentence a line; "-" is stdin.
        target_file: Translations, line by line as in `source_file`; "-" is stdin.
        output_file: Where the JSON lines go; "-" is stdout.
        **options: Of `score_pairs`, for example length_penalty or progress.

    Returns:
        Number of lines.

    Raises:
        FileNotFoundError: An input file or the output's folder does not exist.
        ValueError: An input is empty or not UTF-8, the inputs differ in their number of lines, or one file is named
            twice.

    Example:
        >>> score_files(model, tokenizer, "newstest2014.en", "newstest2014.de", "scores.jsonl")
    """
    with _open_pairs(source_file, target_file, output_file) as (sources, targets, total):
        scores = score_pairs(model, tokenizer, sources, targets, total=total, **options)
        return write_lines((_json_line(dataclasses.asdict(score)) for score in scores), output_file)


def align_files(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    source_file: str | Path,
    target_file: str | Path,
    output_file: str | Path = STANDARD_STREAM,
    **options: Any,
) -> int:
    """Writes the word alignments of two files in Pharaoh's format, "0-0 2-1": source word, target word, from 0.

    Args:
        **options: Of `align_pairs`, for example layer, heads or progress. What comes before them, what is returned
            and what is raised is as for `score_files`.

    Example:
        >>> align_files(model, tokenizer, "newstest2014.en", "newstest2014.de", "newstest2014.align", layer=3)
    """
    with _open_pairs(source_file, target_file, output_file) as (sources, targets, total):
        aligned = align_pairs(model, tokenizer, sources, targets, total=total, **options)
        lines = (" ".join(f"{source}-{target}" for source, target in words) for words in aligned)
        return write_lines(lines, output_file)


def check_files(
    input_file: str | Path, output_file: str | Path, *, resume: bool = False, num_processes: int = 1
) -> int | None:
    """Refuses files that `translate_file` would fail on, before any time is spent on them.

    Args:
        input_file: To translate.
        output_file: To write.
        resume: Whether to go on with what an interrupted translation left.
        num_processes: How many read the input.

    Returns:
        Number of lines of the input, or None if it is a stream, which cannot be read twice.

    Raises:
        FileNotFoundError: The input file, the output's folder or what to go on with does not exist.
        ValueError: The input file is empty or not UTF-8, input and output are the same file, or one of them is a
            stream where it must not be.
    """
    check_outputs({"output": output_file}, [input_file])
    total = _count_lines(input_file, "input")
    if num_processes > 1 and total is None:
        raise ValueError(
            f"`input` must be a file for {num_processes} processes, got {_name(input_file)}. Save it to a file first."
        )
    if resume:
        check_resume(input_file, output_file)
    return total


def check_pair_files(source_file: str | Path, target_file: str | Path, output_file: str | Path) -> int | None:
    """Refuses files that `score_files` and `align_files` would fail on, before any time is spent on them.

    Returns:
        Number of pairs, or None if both sides are streams, which cannot be read twice.

    Raises:
        FileNotFoundError: An input file or the output's folder does not exist.
        ValueError: An input is empty or not UTF-8, both are stdin, one is the output, or their numbers of lines
            differ; where one is a stream, that is found only when the other ends.
    """
    check_outputs({"output": output_file}, [source_file, target_file])
    if str(source_file) == str(target_file) == STANDARD_STREAM:
        raise ValueError("`source` and `target` must be two inputs, got stdin for both. Pass a file for one of them.")
    num_source, num_target = _count_lines(source_file, "source"), _count_lines(target_file, "target")
    if None not in (num_source, num_target) and num_source != num_target:
        raise ValueError(
            f"`target` must have as many lines as `source`, got {num_source} lines in {source_file} and {num_target} "
            f"lines in {target_file}. Align the files line by line."
        )
    return num_target if num_source is None else num_source


def _count_lines(file: str | Path, name: str) -> int | None:
    """Lines of a readable, whole file; None for a stream. `name` is the file's in errors."""
    if str(file) == STANDARD_STREAM:
        return None
    if not Path(file).exists():
        raise FileNotFoundError(f"`{name}` must be a file, got {file}, which does not exist. Check the path.")
    if Path(file).is_dir():
        raise ValueError(f"`{name}` must be a file, got the folder {file}. Pass a text file.")
    if not Path(file).is_file():
        return None
    with _open_input(file) as stream:
        num_lines = sum(1 for _ in _lines(stream, file))
    if num_lines == 0:
        raise ValueError(f"`{name}` must hold at least one line, got the empty file {file}. Check how it was made.")
    return num_lines


@contextlib.contextmanager
def _open_pairs(
    source_file: str | Path, target_file: str | Path, output_file: str | Path
) -> Iterator[tuple[Iterator[str], Iterator[str], int | None]]:
    """Lines of both sides, and the number of pairs if it is known; refuses files as `check_pair_files` does."""
    total = check_pair_files(source_file, target_file, output_file)
    with _open_input(source_file) as sources, _open_input(target_file) as targets:
        yield _lines(sources, source_file), _lines(targets, target_file), total


def _json_line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False)


def _lines(stream: BinaryIO, input_file: str | Path) -> Iterator[str]:
    """Lines of an input that is open."""
    return decode_lines(stream, _name(input_file), MAX_TEXT_BYTES)


def _name(input_file: str | Path) -> str:
    return "stdin" if str(input_file) == STANDARD_STREAM else str(input_file)


def _open_input(input_file: str | Path) -> contextlib.AbstractContextManager[BinaryIO]:
    if str(input_file) == STANDARD_STREAM:
        return contextlib.nullcontext(sys.stdin.buffer)
    return Path(input_file).open("rb")
