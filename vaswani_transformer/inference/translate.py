# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translate many sentences or a file.

Sentences are read in chunks, batched by length and returned in order.
"""

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

from ..beam_search_vaswani_transformer import (
    check_length_penalty,
    check_over_source,
    gnmt_length_penalty,
)
from ..extras import requiring
from ..files import (
    STANDARD_STREAM,
    check_outputs,
    decode_lines,
    is_stream,
    json_text,
    line_bytes,
    open_text,
    write_lines,
    write_text,
)
from ..pipeline_vaswani_transformer import (
    MAX_TEXT_BYTES,
    Batching,
    Document,
    Hypothesis,
    TextReader,
    TorchEngine,
    translate_texts,
)
from .loading import is_translator, precision_of

# Number of sentences in a chunk. The sentences of a chunk are read together and sorted by length.
# Larger chunks need more memory, and smaller chunks need more padding. A resumed translation keeps
# only whole chunks, so that the remaining sentences form the same batches as in an uninterrupted
# translation.
SENTENCES_PER_CHUNK = 4096
DEFAULT_MAX_TOKENS_PER_BATCH = 4096
# OUTPUT.part.json holds the model, the input and the options of OUTPUT.part.
_SETTINGS_SUFFIX = ".part.json"

# A model that translates. It is either a `PreTrainedModel` with `GenerationMixin`, of this package
# or of another package, or a `Translator` for the engine ctranslate2.
GenerativeModel: TypeAlias = Any

# ---- sentences ----


def translate(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    *,
    split_sentences: bool = False,
    max_tokens_per_batch: int | None = None,
    progress: bool = False,
    total: int | None = None,
    processes: Any = None,
    **generate_kwargs: Any,
) -> Iterator[str]:
    """Translate sentences and yield their translations in order.

    Sentences are read in chunks, so the input may be endless. A translation has the same white
    space around it as its sentence, and a blank sentence is returned as it is. Nothing is
    truncated: a sentence longer than `max_tokens_per_batch` forms a batch of its own.

    Args:
        model: Model in eval mode, of any architecture, or a `Translator`. The model's generation
            config holds the default search settings.
        tokenizer: Tokenizer that was saved with the model.
        sentences: Source sentences, each of at most 65,536 bytes.
        split_sentences: Whether an item of `sentences` may hold several sentences. If so, each item
            is split, and its sentences are translated separately, as in the pipeline.
        max_tokens_per_batch: Padded source tokens per batch (number of sentences x longest
            sentence). None means 4,096, or 1,024 for a `Translator` on a CPU. The value changes
            speed and memory, not the translations, except for a few in int8.
        progress: Whether to show a progress bar on stderr.
        total: Number of sentences, if known, for the progress bar.
        processes: Result of `join_processes`, if several processes share the work. Each process
            must pass the same model and sentences.
        **generate_kwargs: Arguments of `model.generate`, for example num_beams or length_penalty.

    Example:
        >>> list(translate(model, tokenizer, ["A dog runs.", ""]))
        ['Ein Hund rennt.', '']

    Paper: section 6.1.
    """
    engine = make_engine(
        model, tokenizer, {**generate_kwargs, "num_return_sequences": 1}, processes
    )
    reader = reader_of(model, tokenizer, split_sentences)
    # `total` counts texts, and the progress bar counts sentences.
    total = None if split_sentences else total
    for document in _documents(engine, reader, sentences, max_tokens_per_batch, progress, total):
        yield document.translation(0)


def translate_n_best(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[str],
    num_best: int,
    *,
    max_tokens_per_batch: int | None = None,
    progress: bool = False,
    total: int | None = None,
    processes: Any = None,
    **generate_kwargs: Any,
) -> Iterator[list[Hypothesis]]:
    """Yield the n best hypotheses per sentence, best first, or n samples if `do_sample` is set.

    The log-probabilities are those that `score_pairs` computes. If the search finds fewer than n
    hypotheses, the list is shorter. Two hypotheses may have the same text but different tokens. An
    empty or blank sentence has one empty hypothesis without a score. All arguments except
    `num_best` are those of `translate`.

    Args:
        model: Model of this package, in eval mode, or a `Translator`. The hypotheses of a
            `Translator` have no `words`.
        num_best: Hypotheses per sentence, at most the number of beams. With `do_sample`, any
            number.

    Raises:
        ValueError: `num_best` is below 1 or above the number of beams.

    Example:
        >>> next(translate_n_best(model, tokenizer, ["A dog runs."], 2))[1]
        Hypothesis(text='Ein Hund läuft.', score=-1.27, log_prob=-1.83, length=6, words=[...])

    Paper: section 6.1.
    """
    decoding = decoding_config(model, **generate_kwargs)
    check_num_best(num_best, num_best if decoding.do_sample else decoding.num_beams)
    options = {**generate_kwargs, "num_return_sequences": num_best}
    engine = make_engine(model, tokenizer, options, processes, return_scores=True)
    reader = reader_of(model, tokenizer, split_sentences=False)
    documents = _documents(engine, reader, sentences, max_tokens_per_batch, progress, total)
    return (_best(document, decoding) for document in documents)


def _best(document: Document, decoding: GenerationConfig) -> list[Hypothesis]:
    """Return the hypotheses, with their scores, of a document that consists of one sentence."""
    (sentence,) = document.sentences
    if not sentence.source:
        return sentence.found[:1]
    return with_gnmt_scores(sentence.found, decoding)


def with_gnmt_scores(found: list[Hypothesis], decoding: GenerationConfig) -> list[Hypothesis]:
    """Return hypotheses with the scores of beam search.

    Hypotheses of length 0 are dropped. If the search finds fewer hypotheses than requested, it pads
    its list with them.
    """
    scored = []
    for each in found:
        if each.log_prob is None:
            scored.append(each)
        elif each.length > 0:
            score = each.log_prob / penalty_of(decoding, each.length)
            scored.append(dataclasses.replace(each, score=score))
    return scored


def reader_of(
    model: GenerativeModel, tokenizer: PreTrainedTokenizerBase, split_sentences: bool
) -> TextReader:
    """Return a `TextReader` for the languages of a model."""
    config = model.config
    source_language = getattr(config, "source_language", None)
    target_language = getattr(config, "target_language", None)
    return TextReader(tokenizer, source_language, target_language, split_sentences)


def make_engine(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    options: dict[str, Any],
    processes: Any = None,
    return_scores: bool = False,
) -> SharedEngine:
    """Return an engine for `translate_texts`. `options` are arguments of `generate`."""
    if is_translator(model):
        return SharedEngine(model.make_engine(**options), processes)
    options = {**options, "return_dict_in_generate": False}
    config = model.config
    engine = TorchEngine(
        model,
        tokenizer,
        options,
        return_scores,
        languages={
            "src_lang": getattr(config, "source_language", None),
            "tgt_lang": getattr(config, "target_language", None),
        },
        source_prefix=getattr(config, "source_prefix", ""),
    )
    return SharedEngine(engine, processes)


class SharedEngine:
    """An engine that can distribute the batches of another engine over several processes.

    Each process gets the results of all batches.
    """

    def __init__(self, engine: Any, processes: Any = None) -> None:
        self.processes = processes
        self.num_best: int = engine.num_best
        self.max_tokens: int = engine.max_tokens
        self.encode = engine.encode
        self._engine = engine

    def compute(self, batches: list[list[list[int]]]) -> Iterable[list[list[Hypothesis]]]:
        """Return, for each batch, a list of hypotheses for each row.

        If n processes share the work, each computes every n-th batch.
        """
        if self.processes is None:
            found: Iterable[list[list[Hypothesis]]] = self._engine.compute(batches)
            return found
        from accelerate.utils import gather_object

        count = self.processes.num_processes
        own = batches[self.processes.process_index :: count]
        shares = gather_object([list(self._engine.compute(own))])
        return [shares[number % count][number // count] for number in range(len(batches))]


def _documents(
    engine: SharedEngine,
    reader: TextReader,
    texts: Iterable[str],
    max_tokens: int | None,
    progress: bool,
    total: int | None,
) -> Iterator[Document]:
    """Yield a document for each text, with the translations of its sentences."""
    if max_tokens is None:
        max_tokens = engine.max_tokens
    batching = Batching(max_tokens, pool_size=SENTENCES_PER_CHUNK)
    is_hidden = not (progress and _is_main(engine.processes))
    with tqdm(total=total, unit=" sentences", desc="translating", disable=is_hidden) as bar:
        yield from translate_texts(texts, reader, engine, batching, bar)


def paired(sources: Iterable[str], targets: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs from two streams. Raise ValueError if one stream is shorter."""
    for pair in itertools.zip_longest(sources, targets):
        if None in pair:
            raise ValueError(
                "Each source must have one target, got more or fewer of them. Align them."
            )
        yield pair


# ---- decoding ----


def decoding_config(model: GenerativeModel, **generate_kwargs: Any) -> GenerationConfig:
    """Validate arguments of `generate`; return the generation config that they result in."""
    config: GenerationConfig
    if is_translator(model):
        config = model.decoding_config(**generate_kwargs)
        return config
    given = generate_kwargs.pop("generation_config", None)
    config = model._prepare_generation_config(given, **generate_kwargs)[0]
    return config


def decoding_overrides(**values: Any) -> dict[str, Any]:
    """Return the arguments of `generate` that are not None.

    Raise ValueError for an invalid search setting.
    """
    check_length_penalty(values.get("length_penalty"), values.get("length_penalty_offset"))
    check_over_source(values.get("max_new_tokens_over_source"))
    num_beams = values.get("num_beams")
    if num_beams is not None and num_beams < 1:
        raise ValueError(f"`num_beams` must be at least 1 (greedy search), got {num_beams}.")
    return {name: value for name, value in values.items() if value is not None}


def penalty_of(decoding: GenerationConfig, length: int) -> float:
    """Return the length penalty of a hypothesis.

    The log-probability divided by this penalty is the score of the hypothesis.

    Args:
        decoding: Settings of the search.
        length: Number of tokens, at least 1, `</s>` included.

    Paper: section 6.1.
    """
    offset: float = getattr(decoding, "length_penalty_offset", 0.0)  # other models lack it
    return float(gnmt_length_penalty(length, decoding.length_penalty, offset))


def check_num_best(num_best: int, num_beams: int, name: str = "num_best") -> None:
    """Raise ValueError if `num_best` is below 1 or above the number of beams.

    `name` is the name of `num_best` in the message.
    """
    if not 1 <= num_best <= num_beams:
        raise ValueError(
            f"`{name}` must be at least 1 and at most `num_beams`, which is {num_beams}, got "
            f"{num_best}. Raise `num_beams`, or ask for fewer translations."
        )


# ---- processes ----


def join_processes() -> Any:
    """Return accelerate's `PartialState` if several processes share the work, else None.

    The processes are started by torchrun or `accelerate launch`. Each must call this function.

    Example:
        >>> files = "newstest2014.en", "newstest2014.de"
        >>> translate_file(model, tokenizer, *files, processes=join_processes())
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
    max_tokens_per_batch: int | None = None,
    progress: bool = False,
    **generate_kwargs: Any,
) -> int:
    """Translate a file line by line and return the number of lines of the output.

    The input is read, translated and written in chunks of 4,096 lines. So if the input is stdin,
    the first translations appear after 4,096 lines or at the end of the input.

    Translations are collected in OUTPUT.part. When all lines are translated, OUTPUT.part is renamed
    to OUTPUT and replaces an older output file. After an interruption, OUTPUT.part is kept, and
    `resume` continues after its last whole chunk. If input or output is a stream, nothing can be
    resumed.

    If several processes share the work, each must call this function with the same arguments. The
    arguments that are not listed here are those of `translate`.

    Args:
        input_file: UTF-8 text with one sentence per line; "-" is stdin.
        output_file: File of the translations; "-" is stdout.
        num_best: Number of hypotheses to write for each line, best first, at most the number of
            beams. Each line becomes a JSON line `{"source": ..., "translations": [...]}`, where a
            translation has the fields of `Hypothesis`. None writes the best translation as plain
            text.
        resume: Whether to keep the complete chunks of OUTPUT.part and skip their lines. Input,
            model and options must be the same as before. They are compared with
            OUTPUT.part.json.
        tag: Text to write, with a space, before each translation that is not blank. It must be None
            if `num_best` is set.
        document: Whether to treat each line as the pipeline treats a text. It must be off if
            `num_best` is set.

    Raises:
        ValueError: A line of the input is not UTF-8 or too long, `resume` finds other settings,
            `num_best` exceeds the number of beams, or two arguments exclude each other. The whole
            input file is checked before anything is translated.

    Example:
        >>> translate_file(model, tokenizer, "newstest2014.en", "newstest2014.de", progress=True)
    """
    check_outputs({"output": output_file}, [input_file])
    if num_best is not None and document:
        raise ValueError("`document` must be off with `num_best`, got both. Drop one.")
    if tag is not None and (num_best is not None or not tag.strip() or len(tag.splitlines()) > 1):
        raise ValueError(
            f"`tag` must be one line that is not blank, without `num_best`, got {tag!r} and "
            f"{num_best}."
        )
    total = count_lines(input_file)
    if processes is not None and total is None:
        raise ValueError(
            f"`input` must be a file for several processes, got the stream {input_file}. Save it "
            "first."
        )
    has_part = total is not None and not is_stream(output_file)
    if resume and not has_part:
        raise ValueError(
            "`resume` must come with files as `input` and `output`, got a stream. Name the files."
        )
    precision = precision_of(model)
    num_kept = 0
    settings = ""
    if has_part and _is_main(processes):
        settings = json_text(
            {
                "model": model.config.name_or_path,
                "languages": [
                    getattr(model.config, name, None)
                    for name in ("source_language", "target_language")
                ],
                **precision,
                "input_bytes": os.path.getsize(input_file),
                "num_best": num_best,
                "tag": tag,
                "document": document,
                "options": str(generate_kwargs),
            }
        )
        num_kept = _keep_part(output_file, resume, settings)
    if processes is not None:
        from accelerate.utils import broadcast_object_list

        num_kept = broadcast_object_list([num_kept])[0]
    options: dict[str, Any] = {
        "max_tokens_per_batch": max_tokens_per_batch,
        "progress": progress,
        "processes": processes,
        "total": total and total - num_kept,
        **generate_kwargs,
    }
    with open_lines(input_file) as sentences:
        rest: Iterator[str] = itertools.islice(sentences, num_kept, None)
        if num_best is None:
            lines = translate(model, tokenizer, rest, split_sentences=document, **options)
            if tag is not None:
                lines = (f"{tag} {line}" if line.strip() else line for line in lines)
        else:
            rest, sources = itertools.tee(rest)
            found = translate_n_best(model, tokenizer, rest, num_best, **options)
            rows = (
                {
                    **precision,
                    "source": source,
                    "translations": [dataclasses.asdict(each) for each in hypotheses],
                }
                for source, hypotheses in zip(sources, found, strict=True)
            )
            lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        if not _is_main(processes):
            return num_kept + sum(1 for _ in lines)
        if has_part:
            return num_kept + _append_lines(lines, output_file, settings)
        return num_kept + write_lines(lines, output_file)


def part_of(output_file: str | Path) -> Path:
    """Return the path of OUTPUT.part, which holds the translations until the output is complete."""
    path = Path(output_file).resolve()
    return path.with_name(path.name + ".part")


def _keep_part(output_file: str | Path, resume: bool, settings: str) -> int:
    """Truncate OUTPUT.part after its last complete chunk, and return the number of lines kept.

    Thus the remaining input forms the same chunks, and so the same batches, as in an uninterrupted
    run. Without `resume`, or if OUTPUT.part is a link, delete it and return 0.

    Args:
        settings: Description of model, input and options.

    Raises:
        ValueError: OUTPUT.part was made with other settings.
    """
    part = part_of(output_file)
    settings_file = part.with_suffix(_SETTINGS_SUFFIX)
    if not resume or part.is_symlink() or not part.is_file():
        part.unlink(missing_ok=True)
        return 0
    if settings_file.is_file() and settings_file.read_text(encoding="utf-8") != settings:
        raise ValueError(
            "`resume` must repeat the interrupted translation, got other settings than those in "
            f"{settings_file}. Repeat the first command, or start again without `resume`."
        )
    end = size = num_kept = 0
    with part.open("r+b") as stream:
        for number, line in enumerate(stream, start=1):
            size += len(line)
            if line.endswith(b"\n") and number % SENTENCES_PER_CHUNK == 0:
                end, num_kept = size, number
        stream.truncate(end)
    return num_kept


def _append_lines(lines: Iterator[str], output_file: str | Path, settings: str) -> int:
    """Append lines to OUTPUT.part in chunks, then rename OUTPUT.part to OUTPUT.

    Return the number of lines that were appended. OUTPUT.part.json holds `settings` until the
    rename.
    """
    part, num_lines = part_of(output_file), 0
    settings_file = write_text(part.with_suffix(_SETTINGS_SUFFIX), settings)
    stream = part.open("ab")
    try:
        with stream:
            while chunk := list(itertools.islice(lines, SENTENCES_PER_CHUNK)):
                stream.write(b"".join(map(line_bytes, chunk)))
                stream.flush()
                os.fsync(stream.fileno())
                num_lines += len(chunk)
    except BaseException as error:
        if part.stat().st_size:
            error.add_note(
                f"The translated lines are kept in {part}. To continue, repeat the command with "
                "`resume`."
            )
        else:
            part.unlink()
            settings_file.unlink(missing_ok=True)
        raise
    os.replace(part, Path(output_file).resolve())
    settings_file.unlink(missing_ok=True)
    return num_lines


def count_lines(file: str | Path) -> int | None:
    """Count the lines of a file and check that they are UTF-8.

    Return None for a stream, because a stream can be read only once.
    """
    if is_stream(file):
        return None
    with open_lines(file) as lines:
        return sum(1 for _ in lines)


@contextlib.contextmanager
def open_lines(file: str | Path) -> Iterator[Iterator[str]]:
    """Open a UTF-8 file or stdin and yield an iterator over its lines.

    A line may have at most 65,536 bytes.
    """
    if str(file) == STANDARD_STREAM:
        yield decode_lines(sys.stdin.buffer, "stdin", MAX_TEXT_BYTES)
    else:
        with open_text(file) as stream:
            yield decode_lines(stream, str(file), MAX_TEXT_BYTES)
