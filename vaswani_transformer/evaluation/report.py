# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a model: test sets, results, the file that keeps them and the text for people.

The keys of results begin with `test_`: those of `metrics.score_translations` and `DECODING`, and what `evaluate_model`
adds. Reading results needs no extra; computing them needs `[eval]`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from ..files import TEST_RESULTS_FILE, check_outputs, read_json, write_json, write_lines
from ..version import __version__
from . import DECODING, METRICS
from .loading import load_for_inference, precision_of
from .translate import DEFAULT_MAX_TOKENS_PER_BATCH, GenerativeModel, decoding_config, translate

# ---- test sets ----


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate and their references.

    Args:
        name: What it is, for the report and the results file.
        sources: Source sentences.
        references: One reference for each of them, or a list of references for each.
        corpus: Where the sentences come from: the arguments of `load_evaluation_set` that say so.
    """

    name: str
    sources: list[str]
    references: Sequence[str] | Sequence[Sequence[str]]
    corpus: dict[str, Any] = field(default_factory=dict)


def load_evaluation_set(*, split: str = "test", name: str | None = None, **corpus: Any) -> EvaluationSet:
    """The sentences to evaluate on; those of the built-in corpus come with all their references.

    Args:
        split: Part of a dataset; files are taken whole.
        name: What reports and cards call it; None is `describe_corpus`.
        **corpus: Arguments of `data.load_corpus`: `source_file` and `target_file`, which may be a list of files for
            several references of each sentence, `pairs_file`, or `dataset`.

    Raises:
        ValueError: Not exactly one corpus is named, or the data is not what `data.load_corpus` takes.
        FileNotFoundError: A file is missing.

    Example:
        >>> load_evaluation_set(dataset="builtin").references[0]
    """
    from ..data.builtin import read_builtin
    from ..data.corpora import BUILTIN, load_corpus

    targets = _several(corpus.get("target_file"))
    rows = [load_corpus(**{**corpus, "target_file": file}, split=split) for file in targets]
    sources = list(rows[0]["source"])
    references: list[Sequence[str]] = list(zip(*(each["target"] for each in rows), strict=True))
    if str(corpus.get("dataset")) == BUILTIN:
        sentences = dict(read_builtin(split))
        sources, references = list(sentences), list(sentences.values())
    origin: dict[str, Any] = {}
    corpus["target_file"] = targets[0]
    for key in ("source_file", "target_file", "pairs_file", "dataset", "dataset_config"):
        if corpus.get(key) is not None:
            origin[key] = str(corpus[key])
    if len(targets) > 1:
        origin["target_file"] = [str(file) for file in targets]
    if "dataset" in origin:
        origin["split"] = split
    return EvaluationSet(name or describe_corpus(origin), sources, references, corpus=origin)


def describe_corpus(corpus: Mapping[str, Any]) -> str:
    """Name of a test set without a name of its own: its files, or its data set with configuration and split."""
    if "dataset" not in corpus:
        return ", ".join(file for value in corpus.values() for file in _several(value))
    return f"{corpus['dataset']} {corpus.get('dataset_config', '')}".rstrip() + f", split {corpus['split']}"


# ---- results ----


def evaluate_to_files(
    model: str | Path,
    corpus: Mapping[str, Any],
    *,
    translations_file: str | Path | None = None,
    device: str | torch.device | None = None,
    int8: bool = False,
    bf16: bool = False,
    **options: Any,
) -> tuple[dict[str, Any], Path | None]:
    """Evaluate a saved model and write the results, and the translations if they are asked for.

    The results go into test_results.json in the model's folder, or into test_results_NAME.json if that file holds
    another test set. A model on the Hub gets no file.

    Args:
        model: Folder of a model, or its id on the Hub.
        corpus: Arguments of `load_evaluation_set`; languages that it does not name are the model's.
        translations_file: Where the translations go, one a line; None is no file.
        device: Where the model runs; None means a GPU if there is one.
        int8: Whether to round the weights to int8; results say so as `test_precision`.
        bf16: Whether to compute in bfloat16, on a GPU; results say so likewise.
        **options: Of `evaluate_model`, for example max_tokens_per_batch, progress or num_beams.

    Returns:
        The results as of `evaluate_model`, and the file they are in.

    Raises:
        ValueError: An output cannot be written, or would replace another file or the results of another test set.
    """
    inputs = [corpus.get(name) for name in ("source_file", "pairs_file")] + _several(corpus.get("target_file"))
    check_outputs({"translations": translations_file}, inputs)
    loaded, tokenizer = load_for_inference(model, device=device, int8=int8, bf16=bf16)
    languages = {name: getattr(loaded.config, name) for name in ("source_language", "target_language")}
    test_set = load_evaluation_set(**{**languages, **corpus})
    results_file = None
    if Path(model).is_dir():
        results_file = _results_file(Path(model), test_set.name)
        check_outputs({"translations": translations_file, "results": results_file}, inputs)
    results, translations = evaluate_model(loaded, tokenizer, test_set, **options)
    if results_file is not None:
        write_json(results_file, results)
    if translations_file is not None:
        write_lines(translations, translations_file)
    return results, results_file


def _results_file(folder: Path, name: str) -> Path:
    """Return the results file of this test set in a model's folder. No two test sets share a file."""
    short = re.sub(r"[^\w.-]+", "-", "-".join(part.rpartition("/")[2] for part in name.split(", ")))
    for file in (TEST_RESULTS_FILE, f"test_results_{short}.json"):
        path = folder / file
        earlier = read_json(path).get("test_data", name) if path.is_file() else name
        if earlier == name:
            return path
    raise ValueError(
        f"`name` must be given: {path} holds the results of {earlier}, which would be lost. Name this test "
        "set, or delete that file."
    )


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def evaluate_model(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    test_set: EvaluationSet,
    *,
    max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    progress: bool = False,
    **generate_kwargs: Any,
) -> tuple[dict[str, Any], list[str]]:
    """Scores of a model's translations of a test set, and the translations.

    Args:
        test_set: Sentences and references. The others are those of `translate`.

    Returns:
        Results with the keys of test_results.json (those of `score_translations` as `test_sacrebleu`,
        `test_sacrebleu_signature`, `test_chrf`, ...; times in seconds; `test_code` is the package's version), and one
        translation for each sentence.

    Example:
        >>> results, translations = evaluate_model(model, tokenizer, load_evaluation_set(dataset="builtin"))
        >>> results["test_sacrebleu"]
    """
    from .metrics import make_sacrebleu, score_translations

    language = getattr(model.config, "target_language", None)
    make_sacrebleu(language)  # a missing tokeniser is named before anything is translated
    start = time.perf_counter()
    options: Any = {"max_tokens_per_batch": max_tokens_per_batch, "progress": progress, "total": len(test_set.sources)}
    translations = list(translate(model, tokenizer, test_set.sources, **options, **generate_kwargs))
    seconds = time.perf_counter() - start
    config = decoding_config(model, **generate_kwargs)
    decoding = {name: getattr(config, name, None) for name in DECODING}
    if decoding["max_new_tokens_over_source"] is None:  # what limits translations instead
        limits = {name: getattr(config, name) for name in ("max_new_tokens", "max_length")}
        decoding |= {name: value for name, value in limits.items() if value is not None}
    decoding |= precision_of(model)
    results = {
        "data": test_set.name,
        "corpus": test_set.corpus,
        "num_sentences": len(test_set.sources),
        **score_translations(translations, test_set.references, language),
        **decoding,
        "runtime": round(seconds, 3),
        "code": __version__,
    }
    return {f"test_{name}": value for name, value in results.items()}, translations


# ---- text for people ----


def format_report(results: dict[str, Any]) -> str:
    """Return the results of `evaluate_model` as text: scores with their signatures."""
    names = metric_names(results)
    width = max(map(len, names.values()))
    lines = [
        f"test set   {results['test_data']}, {results['test_num_sentences']} sentences",
        f"search     {describe_search(results)}",
        "",
        f"{'metric':{width}}   score  signature",
        *(
            f"{name:{width}}  {results[f'test_{metric}']:6.2f}  {results[f'test_{metric}_signature']}"
            for metric, name in names.items()
        ),
        "",
        f"length ratio {length_ratio(results):.3f} (translations to references, in tokens of sacreBLEU), brevity "
        f"penalty {results['test_brevity_penalty']:.3f}",
    ]
    return "\n".join(lines)


def metric_names(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the names for people of the metrics in results, by their keys without `test_`."""
    return {name: label for name, label in METRICS.items() if f"test_{name}" in results}


def describe_search(results: Mapping[str, Any]) -> str:
    """Describes the search behind results, with the formula that divided log-probabilities."""
    alpha, offset = results["test_length_penalty"], results["test_length_penalty_offset"]
    formula = f"(({offset:g} + length) / {offset + 1:g})^{alpha}" if offset else f"length^{alpha}"
    limit = f"max_length {results.get('test_max_length')}"
    for name, end in (("max_new_tokens", "tokens"), ("max_new_tokens_over_source", "tokens over the source")):
        number = results.get(f"test_{name}")
        if number is not None:
            limit = f"at most {number} {end}"
    beams = results["test_num_beams"]
    precision = f"{results['test_precision']}, " if "test_precision" in results else ""
    return f"{precision}{beams} beam{'' if beams == 1 else 's'}, length penalty {formula}, {limit}"


def length_ratio(results: Mapping[str, Any]) -> float:
    """Length of the translations over that of the references, in sacreBLEU's tokens."""
    return int(results["test_hypothesis_length"]) / max(1, int(results["test_reference_length"]))
