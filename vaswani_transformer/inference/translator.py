# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Translation by CTranslate2: `Translator` is called like the translation pipeline."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from ..extras import requiring
from ..files import EXPORT_FILE, read_json
from ..pipeline_vaswani_transformer import (
    Batching,
    Hypothesis,
    check_positions,
    results_like,
    tokenize,
    translate_texts,
    warn_of_long_texts,
)
from . import DECODING
from .ctranslate2 import (
    CTranslate2Search,
    Decoding,
    ends_of,
    num_positions,
    read_configs,
    write_export,
)
from .loading import check_device, load_for_inference, load_tokenizer, settings_of_pair
from .translate import (
    SENTENCES_PER_CHUNK,
    check_num_best,
    decoding_overrides,
    reader_of,
)

_OPTIONS = {*DECODING, "max_new_tokens", "num_return_sequences"}
_MAX_TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 4096}


class Translator:
    """Runs a trained model in CTranslate2, and translates texts with the paper's beam search.

    One text gives a list of dictionaries `{"translation_text": ...}`, one for each translation. A
    list of texts gives a list of dictionaries, or a list of such lists if there are several
    translations per text. A generator or a dataset gives an iterable over lists.

    Results keep the order of the inputs. A blank text is returned as it is. Nothing is
    truncated. As in the pipeline, a text of several sentences is translated sentence by sentence.

    Beam search ranks hypotheses by GNMT's length penalty, as `generate` does. Texts and
    translations are limited to the export's positions, at least 2,048 with sinusoids. A longer text
    is refused.

    `translate`, `translate_n_best`, `translate_file` and `evaluate_model` also accept a translator
    as their `model`.

    Args:
        model: Folder of a model, its id on the Hub, or a folder that `export_ctranslate2` wrote. A
            model that is not exported yet is first converted in a temporary folder. For a base
            model this takes less than a second.
        device: "cpu", "cuda", "cuda:1", or "auto" for a GPU if there is one.
        compute_type: CTranslate2's name for the number format in which it computes, for example
            "int8". "default" is the format of the weights, or the nearest one that the device
            supports.
        num_threads: CPU threads in total. None uses PyTorch's number of threads.
        threads_per_batch: CPU threads for one batch. The number of batches that run in parallel is
            `num_threads` divided by `threads_per_batch`. A value of 1 is fastest for lists of texts
            in any number format, and for single texts in int8. For single texts in float32, use all
            threads.

    Raises:
        ImportError: CTranslate2 is not installed.
        ValueError: The model or export is not of this package, its generation config has settings
            that CTranslate2 cannot follow, or this machine does not support the device or format.

    Example:
        >>> translate = Translator("runs/quickstart", compute_type="int8")
        >>> translate("A dog runs.")
        [{'translation_text': 'Ein Hund rennt.'}]

    Paper: section 6.1.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str = "cpu",
        compute_type: str = "default",
        num_threads: int | None = None,
        threads_per_batch: int = 1,
    ) -> None:
        with requiring("export", "for its exports"):
            import ctranslate2
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() > 0 else "cpu"
        kind, _, index = device.partition(":")
        if num_threads is None:
            num_threads = torch.get_num_threads()
        num_parallel_batches = 1
        if kind != "cuda":
            num_parallel_batches = max(1, num_threads // threads_per_batch)
        options = {
            "device": kind,
            "device_index": int(index or 0),
            "compute_type": compute_type,
            "inter_threads": num_parallel_batches,
            "intra_threads": threads_per_batch,
        }
        if (Path(model) / EXPORT_FILE).is_file():
            self._open(Path(model), options)
        else:
            loaded, tokenizer = load_for_inference(model, device="cpu")
            with tempfile.TemporaryDirectory() as folder:
                write_export(loaded, tokenizer, Path(folder))
                self._open(Path(folder), options)
        self.config.name_or_path = str(model)

    def _open(self, folder: Path, options: dict[str, Any]) -> None:
        """Read an export into memory."""
        import ctranslate2

        self.config, self.generation_config = read_configs(folder)
        self.tokenizer = load_tokenizer(folder)
        translator = ctranslate2.Translator(str(folder), **options)
        names = read_json(folder / "shared_vocabulary.json", list)
        ends = ends_of(self.generation_config)
        self._search = CTranslate2Search(translator, names, ends, num_positions(self.config))

    @property
    def compute_type(self) -> str:
        """CTranslate2's name for the number format in which it computes."""
        name: str = self._search.translator.compute_type
        return name

    def __call__(
        self,
        inputs: Any,
        *,
        num_return_sequences: int = 1,
        split_sentences: bool = True,
        batch_size: int | None = None,
        max_tokens_per_batch: int | None = None,
        **options: Any,
    ) -> Any:
        """Translate a text, a list of texts, or a generator or dataset of texts.

        The docstring of the class describes the result.

        Args:
            inputs: Texts to translate.
            num_return_sequences: Number of translations per text, at most the number of beams.
            split_sentences: Whether to translate texts sentence by sentence. If False, each text is
                one sentence.
            batch_size: Number of texts to read from a generator and translate together. None means
                one. `batch_size` is ignored for lists and datasets, because their length is known.
            max_tokens_per_batch: Padded source tokens per batch. None means 4,096 on a GPU and
                1,024 on a CPU, because larger batches are no faster on a CPU. The value changes
                speed and memory, not the translations, except for a few in int8.
            **options: Search settings: num_beams, length_penalty, length_penalty_offset,
                max_new_tokens_over_source, max_new_tokens. None means the model's default, also for
                max_new_tokens_over_source. (In `generate`, None switches this limit off.)
        """
        num_beams = self.decoding_config(**options).num_beams
        check_num_best(num_return_sequences, num_beams, "num_return_sequences")
        engine = self.make_engine(**options, num_return_sequences=num_return_sequences)
        reader = reader_of(self, self.tokenizer, split_sentences)
        if isinstance(inputs, Sized):
            pool_size = SENTENCES_PER_CHUNK
        else:
            pool_size = batch_size or 1
        if max_tokens_per_batch is None:
            max_tokens_per_batch = engine.max_tokens
        batching = Batching(max_tokens_per_batch, pool_size=pool_size)

        def find(texts: Iterable[str]) -> Iterator[list[dict[str, str]]]:
            for document in translate_texts(texts, reader, engine, batching):
                translations = [document.translation(rank) for rank in range(engine.num_best)]
                yield [{"translation_text": translation} for translation in translations]

        return results_like(inputs, find)

    def decoding_config(self, **options: Any) -> GenerationConfig:
        """Return the generation config of a call with these options.

        Raises:
            TypeError: CTranslate2 does not support an option.
            ValueError: The value of an option is invalid.
        """
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(
                f"CTranslate2 takes no option `{'`, `'.join(sorted(unknown))}`. Drop it, or use "
                "the `engine` torch."
            )
        given = decoding_overrides(**options)
        if "max_new_tokens" in given:
            given["max_new_tokens_over_source"] = None
        config: GenerationConfig = copy.copy(self.generation_config)
        config.update(**given)
        return config

    def make_engine(self, **options: Any) -> CTranslate2Engine:
        """Return an engine for `translate_texts`. The options are those of `decoding_config`."""
        return CTranslate2Engine(self._search, self.tokenizer, self.decoding_config(**options))


def load_engine(
    model: str | Path,
    engine: str = "torch",
    *,
    device: str | torch.device | None = None,
    int8: bool = False,
    bf16: bool = False,
    languages: tuple[str | None, str | None] | None = None,
) -> tuple[Any, Any]:
    """Load a model or a `Translator` for an engine, and return it with its tokenizer.

    Args:
        model: Folder of a model, or its id on the Hub.
        engine: "torch" returns a model of transformers, "ctranslate2" a `Translator`.
        device: For example "cpu" or "cuda:1". None uses the CPU if the engine is torch and
            `int8` is set, and otherwise a GPU if there is one.
        int8: Whether to compute in int8. With torch this needs a CPU.
        bf16: Whether to compute in bfloat16. This needs a GPU.
        languages: Source and target language, as in `load_for_inference`. If the model is one of
            this package, this function checks that the model knows these languages. None skips this
            check.

    Raises:
        ImportError: The engine is "ctranslate2", and CTranslate2 is not installed.
        ValueError: The engine is unknown, the device does not exist or does not support `int8` or
            `bf16`, the model does not know the languages, or `load_for_inference` or `Translator`
            refuses the model.
    """
    loaded: Any
    if engine == "torch":
        loaded, tokenizer = load_for_inference(
            model, device=device, int8=int8, bf16=bf16, languages=languages
        )
    elif engine == "ctranslate2":
        device = check_device(device, bf16)
        if int8 and bf16:
            raise ValueError("`int8` and `bf16` must not both be set. Drop one of them.")
        compute_type = "default"
        if int8:
            compute_type = "int8"
        elif bf16:
            compute_type = "bfloat16"
        loaded = Translator(model, device=str(device), compute_type=compute_type)
        tokenizer = loaded.tokenizer
    else:
        raise ValueError(f"`engine` must be torch or ctranslate2, got {engine!r}.")
    if languages is not None:
        settings_of_pair(loaded.config, tokenizer, *languages)  # raises if the model lacks them
    return loaded, tokenizer


class CTranslate2Engine:
    """Translates batches of token ids with CTranslate2.

    Args:
        search: Beam search over the exported model.
        tokenizer: Tokenizer of the model.
        generation_config: Settings of the search.
    """

    def __init__(self, search: CTranslate2Search, tokenizer: Any, generation_config: Any) -> None:
        self.num_best: int = generation_config.num_return_sequences or 1
        self.max_tokens = _MAX_TOKENS_PER_BATCH[search.translator.device]
        self._search = search
        self._tokenizer = tokenizer
        self._decoding = Decoding.of(generation_config)
        self._longest_training_source = getattr(generation_config, "longest_training_source", None)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of each text.

        Raises:
            ValueError: A text has more than 65,536 bytes, or more tokens than the export has
                positions.
        """
        rows: list[list[int]] = tokenize(self._tokenizer, texts)["input_ids"]
        check_positions(texts, rows, self._search.num_positions)
        warn_of_long_texts(rows, self._longest_training_source)
        return rows

    def compute(self, batches: list[list[list[int]]]) -> Iterator[list[list[Hypothesis]]]:
        """Yield, for each batch, a list of hypotheses for each row.

        CTranslate2 computes several batches in parallel.
        """
        if len(batches) == 1:
            yield self.translate_batch(batches[0])
            return
        with ThreadPoolExecutor(self._search.translator.num_translators) as threads:
            yield from threads.map(self.translate_batch, batches)

    def translate_batch(self, rows: list[list[int]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row of token ids, best first."""
        results = []
        for found in self._search(rows, self._decoding):
            tokens = [each.tokens for each in found]
            texts = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
            hypotheses = []
            for text, each in zip(texts, found, strict=True):
                hypotheses.append(Hypothesis(text, each.score, each.log_prob, len(each.tokens)))
            results.append(hypotheses)
        return results
