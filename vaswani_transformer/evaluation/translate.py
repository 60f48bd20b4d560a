# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation of many sentences or of a file: read in chunks, batched by length, given back in order."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import torch
from tqdm.auto import tqdm
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..extras import requiring
from ..files import STANDARD_STREAM, check_outputs, decode_lines, is_stream, line_bytes, open_text, write_lines
from ..pipeline_vaswani_transformer import (
    MAX_TEXT_BYTES,
    Batching,
    Document,
    Hypothesis,
    TextReader,
    TorchEngine,
    translate_texts,
)
from ..search_vaswani_transformer import check_length_penalty, gnmt_length_penalty
from .loading import precision_of

# Sentences tokenised and sorted by length together: enough for batches without padding, little enough for memory.
SENTENCES_PER_CHUNK = 4096
DEFAULT_MAX_TOKENS_PER_BATCH = 4096

# A `PreTrainedModel` that is a `GenerationMixin`, ours or transformers': a type for both at once cannot be written.
GenerativeModel: TypeAlias = Any

BLANK = Hypothesis("")

# ---- sentences ----


def translate(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    *,
    split_sentences: bool = False,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
    processes: Any = None,
    **generate_kwargs: Any,
) -> Iterator[str]:
    """Yield the translations of the sentences, in their order.

    Sentences are read in chunks, so an endless stream or a large file is never held as a whole. White space around a
    sentence comes back around its translation; empty and blank sentences become empty strings. Nothing is truncated: a
    sentence longer than the budget is translated whole, alone in its batch.

    Args:
        model: In eval mode; decodes as its generation config says.
        tokenizer: Saved with the model.
        sentences: Source sentences, each of at most 65,536 bytes.
        split_sentences: Whether each may be a text of several sentences, which are translated one by one, as by the
            pipeline.
        max_tokens_per_batch: Padded source tokens of one batch: number of sentences x longest sentence. It changes
            speed and memory, not what is translated.
        progress: Whether to show a progress bar on stderr.
        total: Number of sentences, if known, for the progress bar.
        processes: Accelerate's `PartialState` of processes that share the work, each with the same model and
            sentences; from `join_processes`.
        **generate_kwargs: Passed to `model.generate`, for example num_beams or length_penalty.

    Example:
        >>> list(translate(model, tokenizer, ["A dog runs.", ""]))
        ['Ein Hund rennt.', '']

    Paper: section 6.1.
    """
    engine = SharedEngine(model, tokenizer, {**generate_kwargs, "num_return_sequences": 1}, processes)
    for document in _translate(engine, sentences, split_sentences, max_tokens_per_batch, progress, total):
        yield document.translation(0)


def translate_n_best(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    num_best: int,
    *,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    total: int | None = None,
    processes: Any = None,
    **generate_kwargs: Any,
) -> Iterator[list[Hypothesis]]:
    """Yield the best translations of each sentence, best first; with `do_sample` as many that are drawn.

    The log-probabilities are the model's own, as `score_pairs` finds them. Where the search found fewer than
    `num_best`, there are fewer. The same text may come twice, in other tokens. An empty or blank sentence has one
    hypothesis, empty and unscored.

    Args:
        model: Of this package. It and all other arguments are those of `translate`.
        num_best: Translations of each sentence, at most as many as beams.

    Raises:
        ValueError: `num_best` is below 1 or above the number of beams.

    Example:
        >>> next(translate_n_best(model, tokenizer, ["A dog runs."], 2))[1]
        Hypothesis(text='Ein Hund läuft.', score=-1.27, log_prob=-1.83, length=6, words=[{'word': 'Ein', ...}, ...])

    Paper: section 6.1.
    """
    decoding = decoding_config(model, **generate_kwargs)
    check_num_best(num_best, num_best if decoding.do_sample else decoding.num_beams)
    options = {**generate_kwargs, "num_return_sequences": num_best}
    engine = SharedEngine(model, tokenizer, options, processes, return_scores=True)
    documents = _translate(engine, sentences, False, max_tokens_per_batch, progress, total)
    return (_best(document, decoding) for document in documents)


def _best(document: Document, decoding: GenerationConfig) -> list[Hypothesis]:
    """Return what was found for a text that is one sentence."""
    (sentence,) = document.sentences
    return with_gnmt_scores(sentence.found, decoding) if sentence.source else [BLANK]


def with_gnmt_scores(found: list[Hypothesis], decoding: GenerationConfig) -> list[Hypothesis]:
    """Return hypotheses with the scores by which beam search ranks, without those that do not exist."""
    scored = []
    for each in found:
        if each.log_prob is None:
            scored.append(each)
        elif each.length > 0:
            score = each.log_prob / penalty_of(decoding, each.length)
            scored.append(dataclasses.replace(each, score=score))
    return scored


def _translate(
    engine: SharedEngine, texts: Iterable[str], splits: bool, max_tokens: int, progress: bool, total: int | None
) -> Iterator[Document]:
    """Yield the texts with the translations of their sentences."""
    config = engine.model.config
    languages = (getattr(config, "source_language", None), getattr(config, "target_language", None))
    reader = TextReader(engine.tokenizer, *languages, splits)
    batching = Batching(max_tokens, pool_size=SENTENCES_PER_CHUNK)
    is_hidden = not (progress and _is_main(engine.processes))
    with tqdm(total=None if splits else total, unit=" sentences", desc="translating", disable=is_hidden) as bar:
        yield from translate_texts(texts, reader, engine, batching, bar)


class SharedEngine(TorchEngine):
    """`TorchEngine` whose batches may be shared by several processes, each of which gets the results of all."""

    def __init__(
        self, model: Any, tokenizer: Any, options: dict[str, Any], processes: Any = None, return_scores: bool = False
    ) -> None:
        super().__init__(model, tokenizer, {**options, "return_dict_in_generate": False}, return_scores)
        self.processes = processes

    def compute(self, batches: list[list[list[int]]]) -> Iterable[list[list[Hypothesis]]]:
        """Yield the hypotheses of each row of each batch; each process computes every n-th batch."""
        if self.processes is None:
            return super().compute(batches)
        from accelerate.utils import gather_object

        count = self.processes.num_processes
        own = batches[self.processes.process_index :: count]
        shares = gather_object([[self.translate_batch(batch) for batch in own]])
        return [shares[number % count][number // count] for number in range(len(batches))]


def paired(sources: Iterable[str], targets: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of two streams; raises ValueError where one ends before the other."""
    for pair in itertools.zip_longest(sources, targets):
        if None in pair:
            raise ValueError("`targets` must be as many as the sentences, got more of one. Align them line by line.")
        yield pair


# ---- decoding ----


def decoding_config(model: GenerativeModel, **generate_kwargs: Any) -> GenerationConfig:
    """The config by which `model.generate` would decode with these arguments, checked."""
    given = generate_kwargs.pop("generation_config", None)
    config: GenerationConfig = model._prepare_generation_config(given, **generate_kwargs)[0]
    return config


def decoding_overrides(**values: Any) -> dict[str, Any]:
    """Arguments of `generate` without those that are None, which leaves the model's own; checks the search."""
    check_length_penalty(values.get("length_penalty"), values.get("length_penalty_offset"))
    if (num_beams := values.get("num_beams")) is not None and num_beams < 1:
        raise ValueError(f"`num_beams` must be at least 1, which is greedy search, got {num_beams}.")
    return {name: value for name, value in values.items() if value is not None}


def penalty_of(decoding: GenerationConfig, length: int) -> float:
    """Divisor of the log-probability of a hypothesis of so many tokens, at least 1, `</s>` included.

    Paper: section 6.1.
    """
    offset: float = decoding.length_penalty_offset  # type: ignore[attr-defined]  # a key of ours
    return float(gnmt_length_penalty(length, decoding.length_penalty, offset))


def check_num_best(num_best: int, num_beams: int, name: str = "num_best") -> None:
    """Raises ValueError unless so many translations can be had from so many beams; `name` is what errors call them."""
    if not 1 <= num_best <= num_beams:
        raise ValueError(
            f"`{name}` must be at least 1 and at most `num_beams`, which is {num_beams}, got {num_best}. Raise "
            "`num_beams`, or ask for fewer translations."
        )


# ---- processes ----


def join_processes() -> Any:
    """Accelerate's state of all processes that torchrun or accelerate started, each of which calls this; None alone.

    Example:
        >>> translate_file(model, tokenizer, "newstest2014.en", "newstest2014.de", processes=join_processes())
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    with requiring("train", "to translate with several processes"):
        from accelerate import PartialState
    return PartialState(cpu=not torch.cuda.is_available())


def _is_main(processes: Any) -> bool:
    return processes is None or processes.is_main_process


# ---- files ----


def translate_file(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    input_file: str | Path = STANDARD_STREAM,
    output_file: str | Path = STANDARD_STREAM,
    *,
    num_best: int | None = None,
    resume: bool = False,
    tag: str | None = None,
    document: bool = False,
    processes: Any = None,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    **generate_kwargs: Any,
) -> int:
    """Translates a file line by line and returns the number of lines.

    The input is streamed. The output file appears, or replaces an older one, only when it is complete; until then its
    lines lie in OUTPUT.part, and stay there when the translation of a file is interrupted. The other arguments are
    those of `translate`; of several processes, each calls this with the same.

    Args:
        input_file: UTF-8 text, one sentence a line; "-" is stdin.
        output_file: Where the translations go; "-" is stdout.
        num_best: How many translations of each line are written, at most as many as beams, as JSON lines
            `{"source": ..., "translations": [...]}` of what a `Hypothesis` holds, best first; None writes the best
            alone, as text.
        resume: Whether to skip the lines that OUTPUT.part holds already. Input, model and options must be the same.
        tag: What is written before each translation that is not blank, and a space; for text alone.
        document: Whether lines may hold several sentences, which are translated one by one, and list marks.

    Raises:
        ValueError: A line is not UTF-8, of which nothing is translated, or there are fewer beams than `num_best`.

    Example:
        >>> translate_file(model, tokenizer, "newstest2014.en", "newstest2014.de", progress=True)
    """
    check_outputs({"output": output_file}, [input_file])
    if num_best is not None and document:
        raise ValueError("`document` must be off with `num_best`, got both. Drop one.")
    if tag is not None and (num_best is not None or not tag.strip() or len(tag.splitlines()) > 1):
        raise ValueError(
            f"`tag` must be some characters in one line, and `num_best` left out, got {tag!r} and {num_best}."
        )
    total = count_lines(input_file)
    if processes is not None and total is None:
        raise ValueError(f"`input` must be a file for several processes, got {input_file}, a stream. Save it first.")
    has_part = total is not None and not is_stream(output_file)
    if resume and not has_part:
        raise ValueError("`resume` must come with files as `input` and `output`, got a stream. Name the files.")
    num_kept = _keep_part(output_file, resume) if has_part and _is_main(processes) else 0
    if processes is not None:
        from accelerate.utils import broadcast_object_list

        num_kept = broadcast_object_list([num_kept])[0]
    options: dict[str, Any] = {"max_tokens_per_batch": max_tokens_per_batch, "progress": progress}
    options |= {"processes": processes, "total": total and total - num_kept, **generate_kwargs}
    with open_lines(input_file) as sentences:
        rest: Iterator[str] = itertools.islice(sentences, num_kept, None)
        if num_best is None:
            lines = translate(model, tokenizer, rest, split_sentences=document, **options)
            if tag is not None:
                lines = (f"{tag} {line}" if line else line for line in lines)
        else:
            rest, sources = itertools.tee(rest)
            named = precision_of(model)
            found = translate_n_best(model, tokenizer, rest, num_best, **options)
            rows = (
                {**named, "source": source, "translations": [dataclasses.asdict(each) for each in hypotheses]}
                for source, hypotheses in zip(sources, found, strict=True)
            )
            lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        if not _is_main(processes):
            return num_kept + sum(1 for _ in lines)
        return num_kept + (_append_lines(lines, output_file) if has_part else write_lines(lines, output_file))


def part_of(output_file: str | Path) -> Path:
    """Where lines are collected until the output is whole."""
    path = Path(output_file).resolve()
    return path.with_name(path.name + ".part")


def _keep_part(output_file: str | Path, resume: bool) -> int:
    """Cuts the part behind its last whole chunk, so that the rest is batched as before, and returns its lines.

    Deletes the part unless it is to be resumed.
    """
    part = part_of(output_file)
    if not resume or part.is_symlink() or not part.is_file():
        part.unlink(missing_ok=True)
        return 0
    end = size = num_kept = 0
    with part.open("r+b") as stream:
        for number, line in enumerate(stream, start=1):
            size += len(line)
            if line.endswith(b"\n") and number % SENTENCES_PER_CHUNK == 0:
                end, num_kept = size, number
        stream.truncate(end)
    return num_kept


def _append_lines(lines: Iterator[str], output_file: str | Path) -> int:
    """Writes lines behind those of the part, each chunk to the disk, and renames the part; returns their number."""
    part, num_lines = part_of(output_file), 0
    try:
        with part.open("ab") as stream:
            while chunk := list(itertools.islice(lines, SENTENCES_PER_CHUNK)):
                stream.write(b"".join(map(line_bytes, chunk)))
                stream.flush()
                os.fsync(stream.fileno())
                num_lines += len(chunk)
    except BaseException as error:
        if part.stat().st_size:
            error.add_note(f"What is translated is kept in {part}: the same command with `resume` goes on.")
        else:
            part.unlink()
        raise
    os.replace(part, Path(output_file).resolve())
    return num_lines


def count_lines(file: str | Path) -> int | None:
    """Lines of a file, each of which must be text; None for a stream, which cannot be read twice."""
    if is_stream(file):
        return None
    with open_lines(file) as lines:
        return sum(1 for _ in lines)


@contextlib.contextmanager
def open_lines(file: str | Path) -> Iterator[Iterator[str]]:
    """Lines of a file of UTF-8 text, or of stdin, each of at most 65,536 bytes."""
    if str(file) == STANDARD_STREAM:
        yield decode_lines(sys.stdin.buffer, "stdin", MAX_TEXT_BYTES)
    else:
        with open_text(file) as stream:
            yield decode_lines(stream, str(file), MAX_TEXT_BYTES)
