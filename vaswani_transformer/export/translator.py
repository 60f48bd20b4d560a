# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation by an exported model in CTranslate2: called as the pipeline is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..evaluation.batches import Row, check_count, compute_in_batches
from ..evaluation.checkpoint import load_tokenizer
from ..evaluation.decoding import check_num_best, decoding_overrides
from ..evaluation.translate import BLANK, Hypothesis, encode_sentences
from .ctranslate2_files import OPTIONS, read_description, read_generation_config, read_names
from .ctranslate2_model import check_ctranslate2
from .ctranslate2_search import Decoding, Search

logger = logging.getLogger(__name__)

_DEVICES = ("cpu", "cuda", "auto")
_MAX_TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 4096}


class Translator:
    """Translates texts with an export of a trained model, by the paper's decoding, without PyTorch's computation.

    Called with a text it returns a list of `{"translation_text": ...}`, one for each returned sequence; with a list,
    a list of those dictionaries (of lists of them when several sequences are returned); with a generator or a data
    set, an iterator over lists. Order out is order in. Empty and blank texts become empty texts. Nothing is truncated.

    Hypotheses are scored by GNMT's length penalty, as those of `generate` are.

    Args:
        folder: Of `export_ctranslate2`.
        device: "cpu", "cuda", or "auto", which is a GPU if there is one.
        compute_type: What is computed in, one of CTranslate2's; "default" is what the export was made for, or the
            nearest that the device can.
        num_threads: Of a CPU; None is PyTorch's number of them.
        threads_per_batch: How many of them compute one batch; the others compute other batches meanwhile. 1 is fastest
            for lists, and always in int8; for texts that come one by one in float32, take all.

    Raises:
        ImportError: CTranslate2 is missing; the message names the extra.
        FileNotFoundError: There is no such folder, or it lacks a file.
        ValueError: The folder is no export of a model of this package, its files are broken or not of one export, or
            a value is none that this machine has.

    Example:
        >>> translate = Translator("runs/quickstart-int8")
        >>> translate("A dog runs.")
        [{'translation_text': 'Ein Hund rennt.'}]

    Paper: section 6.1.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        device: str = "cpu",
        compute_type: str = "default",
        num_threads: int | None = None,
        threads_per_batch: int = 1,
    ) -> None:
        ctranslate2 = check_ctranslate2()
        self._description = read_description(Path(folder))
        num_threads = torch.get_num_threads() if num_threads is None else num_threads
        device = _checked_device(ctranslate2, device, compute_type)
        _check_threads(num_threads, threads_per_batch)
        vocab_size = self._description["vocab_size"]
        self._tokenizer = load_tokenizer(folder)
        self._defaults = read_generation_config(Path(folder), vocab_size, self._tokenizer)
        names = read_names(Path(folder), vocab_size, self._tokenizer)
        try:
            self._engine = ctranslate2.Translator(
                str(folder),
                device=device,
                compute_type=compute_type,
                inter_threads=1 if device == "cuda" else num_threads // threads_per_batch,
                intra_threads=threads_per_batch,
            )
        except RuntimeError as error:
            raise ValueError(
                f"`folder` must be a whole export, got a broken {folder} ({error}). Copy it again."
            ) from error
        num_positions = self._description["num_positions"]
        self._search = Search(self._engine, names, self._defaults["eos_token_id"], num_positions)
        self._has_warned = False

    @property
    def device(self) -> str:
        """The device that computes: "cpu" or "cuda"."""
        return str(self._engine.device)

    @property
    def compute_type(self) -> str:
        """What is really computed in."""
        return str(self._engine.compute_type)

    def __call__(
        self,
        inputs: Any,
        *,
        num_return_sequences: int = 1,
        batch_size: int | None = None,
        max_tokens_per_batch: int | None = None,
        **options: Any,
    ) -> Any:
        """Translates a text, a list of texts, a generator or a data set of texts; see the class.

        Args:
            inputs: What to translate.
            num_return_sequences: Translations of each text, at most as many as beams.
            batch_size: Texts of a generator that are translated together; None is one. Lists and data sets are
                batched by their tokens.
            max_tokens_per_batch: Padded source tokens of one batch; None is 4,096 on a GPU and 1,024 on a CPU, which
                is as fast with small ones. It changes speed and memory, not what is translated.
            **options: num_beams, length_penalty, length_penalty_offset, max_new_tokens_over_source, max_new_tokens.
        """
        if batch_size is not None:
            check_count("batch_size", batch_size, "Leave it out for batches by length.")
        decoding = self._decoding("num_return_sequences", num_return_sequences, options)
        if isinstance(inputs, str) or (not hasattr(inputs, "__iter__") and not hasattr(inputs, "__getitem__")):
            return next(self._results([inputs], decoding, max_tokens_per_batch, None))
        chunk_size = None if isinstance(inputs, Sized) else batch_size or 1
        results = self._results(inputs, decoding, max_tokens_per_batch, chunk_size)
        if not isinstance(inputs, (list, tuple)):
            return results
        return [result[0] for result in results] if num_return_sequences == 1 else list(results)

    def n_best(
        self,
        sentences: Iterable[str],
        num_best: int,
        *,
        max_tokens_per_batch: int | None = None,
        **options: Any,
    ) -> Iterator[list[Hypothesis]]:
        """The best translations of each sentence, best first, with their scores.

        An empty or blank sentence has one hypothesis, empty and unscored.

        Args:
            sentences: Source sentences, read in chunks.
            num_best: Translations of each sentence, at most as many as beams.
            max_tokens_per_batch: Padded source tokens of one batch; None is 4,096 on a GPU and 1,024 on a CPU, which
                is as fast with small ones. It changes speed and memory, not what is translated.
            **options: As in the call.
        """
        if isinstance(sentences, str):
            raise TypeError("`sentences` must be a list of texts or another iterable, got a str. Pass [text].")
        decoding = self._decoding("num_best", num_best, options)
        return self._translate(sentences, decoding, max_tokens_per_batch, None)

    def _decoding(self, name: str, num_best: int, options: dict[str, Any]) -> Decoding:
        """How to translate: the options given, or those of the export's generation_config.json."""
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise TypeError(
                f"`options` must be among {', '.join(OPTIONS)}, got {', '.join(unknown)}. Use the pipeline for what "
                "else `generate` can."
            )
        given = {key: value for key, value in options.items() if value is not None}
        max_new_tokens = given.pop("max_new_tokens", None)
        values = {**self._defaults, **decoding_overrides(**given)}
        if max_new_tokens is not None:
            check_count("max_new_tokens", max_new_tokens, "Leave it out for the model's own limit.")
            values |= {"max_new_tokens": max_new_tokens, "max_new_tokens_over_source": None}
        over_source = values["max_new_tokens_over_source"]
        check_num_best(num_best, values["num_beams"], name)
        return Decoding(
            num_beams=values["num_beams"],
            num_best=num_best,
            length_penalty=values["length_penalty"],
            length_penalty_offset=values["length_penalty_offset"],
            max_new_tokens=values["max_new_tokens"] if over_source is None else over_source,
            is_over_source=over_source is not None,
        )

    def _results(
        self, texts: Iterable[str], decoding: Decoding, max_tokens: int | None, chunk_size: int | None
    ) -> Iterator[list[dict[str, str]]]:
        """One dictionary for each returned sequence of each text."""
        for hypotheses in self._translate(texts, decoding, max_tokens, chunk_size):
            found = [{"translation_text": each.text} for each in hypotheses]
            yield found + [{"translation_text": ""}] * (decoding.num_best - len(found))

    def _translate(
        self, texts: Iterable[str], decoding: Decoding, max_tokens: int | None, chunk_size: int | None
    ) -> Iterator[list[Hypothesis]]:
        """The best hypotheses of each text; as many batches are computed at a time as the engine can."""

        def compute(batches: list[list[Row]]) -> Iterator[list[list[Hypothesis]]]:
            with ThreadPoolExecutor(self._engine.num_translators) as threads:
                yield from threads.map(lambda rows: self._compute(rows, decoding), batches)

        return compute_in_batches(
            texts,
            lambda chunk, first: self._encode(chunk, first, decoding),
            compute,
            empty=lambda: [BLANK],
            max_tokens_per_batch=_MAX_TOKENS_PER_BATCH[self.device] if max_tokens is None else max_tokens,
            chunk_size=chunk_size,
        )

    def _encode(self, texts: list[str], first: int, decoding: Decoding) -> list[Row]:
        """Token ids of each text, none of a blank one; refuses what is no text, or too long for the export.

        Args:
            texts: A chunk of all texts.
            first: How many were before it.
            decoding: What limits them.
        """
        for index, text in enumerate(texts, first):
            _check_text(index, text)
        rows = encode_sentences(self._tokenizer, texts, first)
        for index, row in enumerate(rows, first):
            if row:
                self._check_length(index, row[0], decoding)
        return rows

    def _check_length(self, index: int, source: list[int], decoding: Decoding) -> None:
        num_positions = self._description["num_positions"]
        is_learned = self._description["position_encoding"] == "learned"
        needed = len(source) if is_learned else max(len(source), decoding.limit(source))
        if needed > num_positions:
            raise ValueError(
                f"Sequence length must be at most {num_positions}, for which this export has positions, got text "
                f"{index}, counted from 0, of {len(source)} tokens, whose translation may have "
                f"{decoding.limit(source)}. Split it into sentences"
                + ("." if is_learned else ", or use the model itself, which has no limit.")
            )
        longest = self._defaults.get("longest_training_source")
        if longest is not None and len(source) > longest and not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"A text of {len(source)} tokens is longer than the longest training sentence ({longest} tokens). It "
                "is translated whole, but expect a poor translation: split it into sentences."
            )

    def _compute(self, rows: list[Row], decoding: Decoding) -> list[list[Hypothesis]]:
        """The best hypotheses of each source of a batch, in text."""
        found = self._search([ids for (ids,) in rows], decoding)
        tokens = [each.tokens for hypotheses in found for each in hypotheses]
        texts = iter(self._tokenizer.batch_decode(tokens, skip_special_tokens=True))
        return [
            [Hypothesis(next(texts), each.score, each.log_prob, len(each.tokens)) for each in hypotheses]
            for hypotheses in found
        ]


def _checked_device(ctranslate2: Any, device: str, compute_type: str) -> str:
    """The device that "auto" stands for; refuses a device or a type that this machine does not have."""
    if device not in _DEVICES:
        raise ValueError(f"`device` must be one of {', '.join(_DEVICES)}, got {device!r}. Choose one of them.")
    has_gpu = ctranslate2.get_cuda_device_count() > 0
    if device == "cuda" and not has_gpu:
        raise ValueError("`device` must be a device of this machine, got 'cuda' and no GPU. Pass cpu or auto.")
    chosen = ("cuda" if has_gpu else "cpu") if device == "auto" else device
    supported = sorted(ctranslate2.get_supported_compute_types(chosen))
    if compute_type not in ("default", "auto", *supported):
        raise ValueError(
            f"`compute_type` must be one of default, auto, {', '.join(supported)} on this machine's {chosen}, got "
            f"{compute_type!r}. Choose one of them."
        )
    return chosen


def _check_threads(num_threads: int, threads_per_batch: int) -> None:
    check_count("num_threads", num_threads, "Leave it out for PyTorch's number.")
    check_count("threads_per_batch", threads_per_batch, "Leave it out for 1.")
    if threads_per_batch > num_threads:
        raise ValueError(
            f"`threads_per_batch` must be at most `num_threads`, which is {num_threads}, got {threads_per_batch}. "
            "Leave it out for 1."
        )


def _check_text(index: int, text: Any) -> None:
    if not isinstance(text, str):
        raise TypeError(
            f"Every input must be a text (str), got {type(text).__name__} as text {index}, counted from 0. Pass a str "
            "or a list of str."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Every input must be a text of whole characters, got half of one, a lone surrogate, in text {index}, "
            f"counted from 0 ({error}). Take it out, or decode the text anew."
        ) from error
