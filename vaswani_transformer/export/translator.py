# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation by an exported model in CTranslate2: called as the pipeline is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from ..evaluation import DECODING
from ..evaluation.loading import load_tokenizer
from ..evaluation.translate import (
    BLANK,
    Hypothesis,
    Row,
    check_num_best,
    compute_in_batches,
    decoding_overrides,
    encode_sentences,
)
from ..extras import requiring
from ..files import read_json
from ..pipeline_vaswani_transformer import put_together, whole_text
from .ctranslate2 import Decoding, Search, read_description, read_generation_config

logger = logging.get_logger(__name__)

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
        ValueError: The folder is not an export of a model of this package, or this machine does not have the device or
            type.

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
        with requiring("export", "for its exports"):
            import ctranslate2
        self._description = read_description(Path(folder))
        self._tokenizer = load_tokenizer(folder)
        self._defaults = read_generation_config(Path(folder), self._tokenizer)
        names = read_json(Path(folder) / "shared_vocabulary.json", list)
        num_threads = torch.get_num_threads() if num_threads is None else num_threads
        is_gpu = device == "cuda" or (device == "auto" and ctranslate2.get_cuda_device_count() > 0)
        self._engine = ctranslate2.Translator(
            str(folder),
            device=device,
            compute_type=compute_type,
            inter_threads=1 if is_gpu else max(1, num_threads // threads_per_batch),
            intra_threads=threads_per_batch,
        )
        ends, num_positions = self._defaults["eos_token_id"], self._description["num_positions"]
        self._search = Search(self._engine, names, ends, num_positions)

    @property
    def device(self) -> str:
        """Device that computes: "cpu" or "cuda"."""
        return str(self._engine.device)

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
        decoding = self._decoding("num_return_sequences", num_return_sequences, options)
        chunk_size = None if isinstance(inputs, Sized) else batch_size or 1
        texts, originals = itertools.tee([inputs] if isinstance(inputs, str) else inputs)
        found = self._translate(texts, decoding, max_tokens_per_batch, chunk_size)
        results = self._results(originals, found, decoding.num_best)
        if isinstance(inputs, str):
            return next(results)
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

        An empty or blank sentence has one hypothesis, empty and unscored. The other arguments are those of the call.

        Args:
            sentences: Source sentences, read in chunks.
            num_best: Translations of each sentence, at most as many as beams.
        """
        decoding = self._decoding("num_best", num_best, options)
        return self._translate(sentences, decoding, max_tokens_per_batch, None)

    def _decoding(self, name: str, num_best: int, options: dict[str, Any]) -> Decoding:
        """Says how to translate: by the options given, or those of the export's generation_config.json."""
        given = {key: value for key, value in options.items() if value is not None}
        if unknown := given.keys() - {*DECODING, "max_new_tokens"}:
            raise TypeError(f"A translator takes no option {', '.join(sorted(unknown))}. See `Translator.__call__`.")
        max_new_tokens = given.pop("max_new_tokens", None)
        values = {**self._defaults, **decoding_overrides(**given)}
        if max_new_tokens is not None:
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

    @staticmethod
    def _results(
        texts: Iterator[str], found: Iterator[list[Hypothesis]], num_best: int
    ) -> Iterator[list[dict[str, str]]]:
        """Make a dictionary for each returned sequence of each text, with the white space around that text."""
        for text, hypotheses in zip(texts, found, strict=False):
            translations = [each.text for each in hypotheses] + [""] * (num_best - len(hypotheses))
            yield [{"translation_text": put_together(whole_text(text), [each])} for each in translations]

    def _translate(
        self, texts: Iterable[str], decoding: Decoding, max_tokens: int | None, chunk_size: int | None
    ) -> Iterator[list[Hypothesis]]:
        """Finds the best hypotheses of each text, as many batches at a time as the engine can compute."""

        def compute(batches: list[list[Row]]) -> Iterator[list[list[Hypothesis]]]:
            with ThreadPoolExecutor(self._engine.num_translators) as threads:
                yield from threads.map(lambda rows: self._compute(rows, decoding), batches)

        return compute_in_batches(
            texts,
            partial(self._encode, decoding),
            compute,
            empty=lambda: [BLANK],
            max_tokens_per_batch=_MAX_TOKENS_PER_BATCH[self.device] if max_tokens is None else max_tokens,
            chunk_size=chunk_size,
        )

    def _encode(self, decoding: Decoding, texts: list[str]) -> list[Row]:
        """Encodes texts; blank ones have no ids. Refuses those that the export has not the positions for."""
        rows = encode_sentences(self._tokenizer, texts)
        num_positions = self._description["num_positions"]
        is_learned = self._description["position_encoding"] == "learned"  # the output then ends with the positions
        longest_trained = self._defaults.get("longest_training_source")
        for (source,) in filter(None, rows):
            if max(len(source), 0 if is_learned else decoding.limit(source)) > num_positions:
                raise ValueError(
                    f"Sequence length must be at most {num_positions}, the positions of this export, got a text of "
                    f"{len(source)} tokens, its translation up to {decoding.limit(source)}. Split it into sentences"
                    + ("." if is_learned else ", or use the model itself, which has no limit.")
                )
            if longest_trained is not None and len(source) > longest_trained:
                logger.warning_once(
                    f"A text is longer than the longest training sentence ({longest_trained} tokens). Expect a poor "
                    "translation: split it into sentences."
                )
        return rows

    def _compute(self, rows: list[Row], decoding: Decoding) -> list[list[Hypothesis]]:
        """Finds the best hypotheses of each source of a batch, in text."""
        found = self._search([ids for (ids,) in rows], decoding)
        tokens = [each.tokens for hypotheses in found for each in hypotheses]
        texts = iter(self._tokenizer.batch_decode(tokens, skip_special_tokens=True))
        return [
            [Hypothesis(next(texts), each.score, each.log_prob, len(each.tokens)) for each in hypotheses]
            for hypotheses in found
        ]
