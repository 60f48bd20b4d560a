# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation by a CTranslate2 export, with the calls of the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..evaluation import DECODING
from ..evaluation.loading import load_tokenizer
from ..evaluation.translate import BLANK, SENTENCES_PER_CHUNK, check_num_best, decoding_overrides
from ..extras import requiring
from ..files import read_json
from ..pipeline_vaswani_transformer import (
    Batching,
    Document,
    Hypothesis,
    TextReader,
    results_like,
    tokenize,
    translate_texts,
    warn_of_long_texts,
)
from .ctranslate2 import Decoding, Search, read_description

_MAX_TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 4096}


class Translator:
    """Translates texts with an export of a trained model, by the paper's decoding, computed by CTranslate2.

    A text gives a list of `{"translation_text": ...}`, one dictionary per returned sequence. A list of texts gives a
    list of dictionaries, or a list of such lists if several sequences are returned. A generator or a data set gives
    an iterable over lists. Results keep the order of the inputs. A blank text gives an empty translation. Nothing is
    truncated. Each text is translated as one sentence.

    Beam search ranks hypotheses by GNMT's length penalty, as `generate` does.

    Args:
        folder: Folder that `export_ctranslate2` wrote.
        device: "cpu", "cuda" or "auto": a GPU if there is one.
        compute_type: Number format of the computation, by CTranslate2's names; "default" is the format of the export,
            or the nearest one that the device supports.
        num_threads: CPU threads; None for PyTorch's number of threads.
        threads_per_batch: CPU threads for one batch; several batches then run in parallel. 1 is fastest for lists, and
            always in int8. For single texts in float32, use all threads.

    Raises:
        ValueError: The folder is not an export of a model of this package, or this machine does not support the device
            or format.

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
        names = read_json(Path(folder) / "shared_vocabulary.json", list)
        num_threads = torch.get_num_threads() if num_threads is None else num_threads
        is_gpu = device == "cuda" or (device == "auto" and ctranslate2.get_cuda_device_count() > 0)
        self._ctranslate2 = ctranslate2.Translator(
            str(folder),
            device=device,
            compute_type=compute_type,
            inter_threads=1 if is_gpu else max(1, num_threads // threads_per_batch),
            intra_threads=threads_per_batch,
        )
        self._search = Search(self._ctranslate2, names, self._description["ends"], self._description["num_positions"])

    def __call__(
        self,
        inputs: Any,
        *,
        num_return_sequences: int = 1,
        batch_size: int | None = None,
        max_tokens_per_batch: int | None = None,
        **options: Any,
    ) -> Any:
        """Translate a text, a list of texts, a generator or a data set of texts; see the class.

        Args:
            inputs: Texts to translate.
            num_return_sequences: Translations of each text, at most the number of beams.
            batch_size: Number of texts of a generator to translate together; None for one. Lists and data sets are
                batched by tokens.
            max_tokens_per_batch: Padded source tokens of a batch; None for 4,096 on a GPU and 1,024 on a CPU, as CPUs
                gain nothing from larger batches. It changes speed and memory, not the translations.
            **options: num_beams, length_penalty, length_penalty_offset, max_new_tokens_over_source, max_new_tokens.
        """
        engine = self._make_engine("num_return_sequences", num_return_sequences, options)
        pool_size = SENTENCES_PER_CHUNK if isinstance(inputs, Sized) else batch_size or 1

        def find(texts: Iterable[str]) -> Iterator[list[dict[str, str]]]:
            for document in self._documents(texts, engine, max_tokens_per_batch, pool_size):
                yield [{"translation_text": document.translation(rank)} for rank in range(num_return_sequences)]

        return results_like(inputs, find)

    def n_best(
        self,
        sentences: Iterable[str],
        num_best: int,
        *,
        max_tokens_per_batch: int | None = None,
        **options: Any,
    ) -> Iterator[list[Hypothesis]]:
        """Translate sentences and yield the n best hypotheses of each, best first, with scores.

        An empty or blank sentence has one hypothesis, empty and without a score. The other arguments are those of
        `__call__`.

        Args:
            sentences: Source sentences, read in chunks.
            num_best: Hypotheses per sentence, at most the number of beams.
        """
        engine = self._make_engine("num_best", num_best, options)
        for document in self._documents(sentences, engine, max_tokens_per_batch, SENTENCES_PER_CHUNK):
            (sentence,) = document.sentences
            yield sentence.found if sentence.source else [BLANK]

    def _documents(
        self, texts: Iterable[str], engine: Engine, max_tokens: int | None, pool_size: int
    ) -> Iterator[Document]:
        reader = TextReader(self._tokenizer, None, None, splits=False)
        if max_tokens is None:
            max_tokens = _MAX_TOKENS_PER_BATCH[self._ctranslate2.device]
        return translate_texts(texts, reader, engine, Batching(max_tokens, pool_size=pool_size))

    def _make_engine(self, name: str, num_best: int, options: dict[str, Any]) -> Engine:
        """Make an engine for these options; the model's settings are the defaults. Errors call `num_best` `name`."""
        given = {key: value for key, value in options.items() if value is not None}
        if unknown := given.keys() - {*DECODING, "max_new_tokens"}:
            raise TypeError(f"A translator takes no option {', '.join(sorted(unknown))}. See `Translator.__call__`.")
        max_new_tokens = given.pop("max_new_tokens", None)
        values = {**self._description, **decoding_overrides(**given)}
        if max_new_tokens is not None:
            values |= {"max_new_tokens": max_new_tokens, "max_new_tokens_over_source": None}
        over_source = values["max_new_tokens_over_source"]
        check_num_best(num_best, values["num_beams"], name)
        decoding = Decoding(
            num_beams=values["num_beams"],
            num_best=num_best,
            length_penalty=values["length_penalty"],
            length_penalty_offset=values["length_penalty_offset"],
            max_new_tokens=values["max_new_tokens"] if over_source is None else over_source,
            is_over_source=over_source is not None,
        )
        return Engine(self._search, self._tokenizer, decoding, self._description)


class Engine:
    """Translates batches of token ids by CTranslate2.

    Args:
        search: Beam search over the export.
        tokenizer: Tokenizer that was saved with the export.
        decoding: Settings of the search.
        description: Description of the model, from `read_description`.
    """

    def __init__(self, search: Search, tokenizer: Any, decoding: Decoding, description: dict[str, Any]) -> None:
        self.num_best = decoding.num_best
        self._search = search
        self._tokenizer = tokenizer
        self._decoding = decoding
        self._description = description

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of each text.

        Raises:
            ValueError: The export has too few positions for a text or its translation.
        """
        rows: list[list[int]] = tokenize(self._tokenizer, texts)["input_ids"]
        num_positions = self._description["num_positions"]
        # With learned positions, the search ends an output at the last position. Then only the source must fit.
        is_learned = self._description["position_encoding"] == "learned"
        for source in rows:
            limit = self._decoding.limit(source)
            if max(len(source), 0 if is_learned else limit) > num_positions:
                raise ValueError(
                    f"Sequence length must be at most {num_positions}, the positions of this export, got a text of "
                    f"{len(source)} tokens and a translation of up to {limit}. Split it into sentences"
                    + ("." if is_learned else ", or use the model itself, which has no limit.")
                )
        warn_of_long_texts(rows, self._description["longest_training_source"])
        return rows

    def compute(self, batches: list[list[list[int]]]) -> Iterator[list[list[Hypothesis]]]:
        """Yield, for each batch, the hypotheses of each row. CTranslate2 computes several batches in parallel."""
        with ThreadPoolExecutor(self._search.engine.num_translators) as threads:
            yield from threads.map(self._translate_batch, batches)

    def _translate_batch(self, rows: list[list[int]]) -> list[list[Hypothesis]]:
        results = []
        for found in self._search(rows, self._decoding):
            texts = self._tokenizer.batch_decode([each.tokens for each in found], skip_special_tokens=True)
            hypotheses = []
            for text, each in zip(texts, found, strict=True):
                hypotheses.append(Hypothesis(text, each.score, each.log_prob, len(each.tokens)))
            results.append(hypotheses)
        return results
