# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a model: test sets, results, the results file and the printed report.

All keys of results begin with `test_`. The rest of the key comes from the results of
`metrics.score_translations`, from `DECODING`, or from `evaluate_model` itself. Computing results
needs the `eval` extra; reading them needs no extra.
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

from ..files import TEST_RESULTS_FILE, check_outputs, read_json_if_any, write_json, write_lines
from ..version import __version__
from . import DECODING, METRICS
from .loading import precision_of
from .translate import GenerativeModel, decoding_config, translate
from .translator import load_engine

# ---- test sets ----


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate and their references.

    Args:
        name: Name of the test set, for the report and the results file.
        sources: Source sentences.
        references: One reference or a list of references for each source sentence.
        corpus: Origin of the sentences, as arguments of `load_evaluation_set`.
    """

    name: str
    sources: list[str]
    references: Sequence[str] | Sequence[Sequence[str]]
    corpus: dict[str, Any] = field(default_factory=dict)


def load_evaluation_set(
    *, split: str = "test", name: str | None = None, **corpus: Any
) -> EvaluationSet:
    """Load a test set.

    If the corpus is the built-in one, each source sentence gets all references that the corpus has
    for the sentence.

    Args:
        split: Split of a dataset. It is ignored if the corpus is read from files.
        name: Name of the test set in reports and cards. None uses the result of `describe_corpus`.
        **corpus: Arguments of `data.load_corpus`: `source_file` and `target_file`, or `pairs_file`,
            or `dataset`. If `target_file` is a list of files, each source sentence gets one
            reference from each file.

    Raises:
        ValueError: No corpus or more than one corpus is named, or `data.load_corpus` refuses the
            data.
        FileNotFoundError: A file is missing.

    Example:
        >>> load_evaluation_set(dataset="builtin").references[0]
    """
    from ..data.builtin import read_builtin
    from ..data.corpora import BUILTIN, load_corpus

    targets = _several(corpus.get("target_file") or None)
    rows = [load_corpus(**{**corpus, "target_file": file}, split=split) for file in targets]
    sources = list(rows[0]["source"])
    references: list[Sequence[str]] = list(zip(*(each["target"] for each in rows), strict=True))
    if str(corpus.get("dataset")) == BUILTIN:
        sentences = dict(read_builtin(split))
        sources = list(sentences)
        references = list(sentences.values())
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
    """Return the default name of a test set.

    The name lists the files, or the dataset with its configuration and split.
    """
    if "dataset" not in corpus:
        return ", ".join(file for value in corpus.values() for file in _several(value))
    return (
        f"{corpus['dataset']} {corpus.get('dataset_config', '')}".rstrip()
        + f", split {corpus['split']}"
    )


# ---- results ----


def evaluate_to_files(
    model: str | Path,
    corpus: Mapping[str, Any],
    *,
    translations_file: str | Path | None = None,
    device: str | torch.device | None = None,
    int8: bool = False,
    bf16: bool = False,
    engine: str = "torch",
    **options: Any,
) -> tuple[dict[str, Any], Path | None]:
    """Evaluate a saved model, and write the results and optionally the translations.

    The results are written to test_results.json in the model's folder. If that file already holds
    the results of another test set, the new results are written to test_results_NAME.json instead.
    Earlier results of the same test set are replaced, whichever of the two files holds them. No
    results are written for a model on the Hub.

    Args:
        model: Folder of a model, or its id on the Hub.
        corpus: Arguments of `load_evaluation_set`. The languages default to those of the model.
        translations_file: File for the translations, one per line; None for no file.
        device: Device of the model. None uses the CPU if the engine is torch and `int8` is set, and
            otherwise a GPU if there is one.
        int8: Whether to round the weights to int8. The results record the precision as
            `test_precision`.
        bf16: Whether to compute in bfloat16. This needs a GPU. The results record the precision as
            `test_precision`.
        engine: "torch" or "ctranslate2". The results record "ctranslate2" as `test_engine`.
        **options: Arguments of `evaluate_model`, for example max_tokens_per_batch, progress or
            num_beams.

    Returns:
        The results of `evaluate_model`, and the path of the results file. The path is None if no
        file is written.

    Raises:
        ValueError: An output cannot be written, or would replace another file or the results of
            another test set.
    """
    inputs = [corpus.get(name) for name in ("source_file", "pairs_file")] + _several(
        corpus.get("target_file")
    )
    check_outputs({"translations": translations_file}, inputs)
    loaded, tokenizer = load_engine(model, engine, device=device, int8=int8, bf16=bf16)
    languages = {
        name: getattr(loaded.config, name) for name in ("source_language", "target_language")
    }
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
    """Return the path of the results file of a test set in a model's folder.

    Each test set has a file of its own.
    """
    short = re.sub(r"[^\w.-]+", "-", "-".join(Path(part).name for part in name.split(", ")))
    paths = [folder / TEST_RESULTS_FILE, folder / f"test_results_{short}.json"]
    names = [read_json_if_any(path).get("test_data") for path in paths]
    for wanted in (name, None):
        if wanted in names:
            return paths[names.index(wanted)]
    raise ValueError(
        f"`name` must be given: {paths[1]} holds the results of {names[1]} and would be "
        "overwritten. Name this test set, or delete that file."
    )


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def evaluate_model(
    model: GenerativeModel,
    tokenizer: PreTrainedTokenizerBase,
    test_set: EvaluationSet,
    *,
    tokenized: bool = False,
    max_tokens_per_batch: int | None = None,
    progress: bool = False,
    **generate_kwargs: Any,
) -> tuple[dict[str, Any], list[str]]:
    """Translate a test set, score the translations, and return the results and the translations.

    `model`, `tokenizer`, `max_tokens_per_batch`, `progress` and `generate_kwargs` are arguments of
    `translate`.

    Args:
        test_set: Source sentences and their references.
        tokenized: Whether the test set is tokenized already. If it is, the results also include
            tokenized BLEU.

    Returns:
        Results and one translation for each sentence. The results have the keys of
        test_results.json: the scores of `score_translations` (`test_sacrebleu`,
        `test_sacrebleu_signature`, `test_chrf`, ...), the settings of the search, `test_runtime` in
        seconds, `test_code` for the version of the package, and others.

    Example:
        >>> test_set = load_evaluation_set(dataset="builtin")
        >>> results, translations = evaluate_model(model, tokenizer, test_set)
        >>> results["test_sacrebleu"]
    """
    from .metrics import make_sacrebleu, score_translations

    language = getattr(model.config, "target_language", None)
    # If sacreBLEU's tokenizer is missing, this call raises an error now. Without this call, the
    # error would come only after the whole test set has been translated.
    make_sacrebleu(language)
    config = decoding_config(model, **generate_kwargs)
    start = time.perf_counter()
    translated = translate(
        model,
        tokenizer,
        test_set.sources,
        max_tokens_per_batch=max_tokens_per_batch,
        progress=progress,
        total=len(test_set.sources),
        **generate_kwargs,
    )
    translations = list(translated)
    seconds = time.perf_counter() - start
    decoding = {name: getattr(config, name, None) for name in DECODING}
    if decoding["max_new_tokens_over_source"] is None:  # max_new_tokens or max_length applies
        limits = {name: getattr(config, name) for name in ("max_new_tokens", "max_length")}
        decoding |= {name: value for name, value in limits.items() if value is not None}
    decoding |= precision_of(model)
    results = {
        "data": test_set.name,
        "corpus": test_set.corpus,
        "num_sentences": len(test_set.sources),
        **score_translations(translations, test_set.references, language, tokenized),
        **decoding,
        "runtime": round(seconds, 3),
        "code": __version__,
    }
    return {f"test_{name}": value for name, value in results.items()}, translations


# ---- printed report ----


def format_report(results: dict[str, Any]) -> str:
    """Return the results of `evaluate_model` as a report: search, scores and signatures."""
    names = metric_names(results)
    width = max(map(len, names.values()))
    lines = [
        f"test set   {results['test_data']}, {results['test_num_sentences']} sentences",
        f"search     {describe_search(results)}",
        "",
        f"{'metric':{width}}   score  signature",
        *(
            f"{name:{width}}  {results[f'test_{metric}']:6.2f}  "
            f"{results[f'test_{metric}_signature']}"
            for metric, name in names.items()
        ),
        "",
        f"length ratio {length_ratio(results):.3f} (translations to references, in tokens of "
        f"sacreBLEU), brevity penalty {results['test_brevity_penalty']:.3f}",
    ]
    return "\n".join(lines)


def metric_names(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the metrics in `results`: a dictionary from key (without `test_`) to display name."""
    return {name: label for name, label in METRICS.items() if f"test_{name}" in results}


def describe_search(results: Mapping[str, Any]) -> str:
    """Describe the search that gave these results, with the formula of its length penalty."""
    alpha = results["test_length_penalty"]
    offset = results["test_length_penalty_offset"]
    formula = f"(({offset:g} + length) / {offset + 1:g})^{alpha}" if offset else f"length^{alpha}"
    limit = f"max_length {results.get('test_max_length')}"
    for name, end in (
        ("max_new_tokens", "tokens"),
        ("max_new_tokens_over_source", "tokens over the source"),
    ):
        number = results.get(f"test_{name}")
        if number is not None:
            limit = f"at most {number} {end}"
    beams = results["test_num_beams"]
    computing = "".join(
        f"{results[name]}, " for name in ("test_engine", "test_precision") if name in results
    )
    return f"{computing}{beams} beam{'' if beams == 1 else 's'}, length penalty {formula}, {limit}"


def length_ratio(results: Mapping[str, Any]) -> float:
    """Return the number of tokens in the translations divided by the number in the references.

    sacreBLEU has counted both numbers.
    """
    return int(results["test_hypothesis_length"]) / max(1, int(results["test_reference_length"]))
