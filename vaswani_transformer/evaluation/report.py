# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a model on a test set: scores, baselines, and the printout."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..files import TEST_RESULTS_FILE
from ..version import code_version
from .baselines import nearest_training_pair
from .batches import DEFAULT_MAX_TOKENS_PER_BATCH
from .checkpoint import load_for_inference
from .decoding import DECODING, GenerativeModel, decoding_config
from .evaluation_set import EvaluationSet, load_evaluation_set
from .metrics import corpus_sacrebleu, score_translations
from .outputs import check_outputs, write_lines
from .results import describe_search, length_ratio, metric_names, write_results
from .translate import translate


def evaluate_to_files(
    model: str | Path,
    corpus: Mapping[str, Any],
    *,
    results_file: str | Path | None = None,
    translations_file: str | Path | None = None,
    device: str | torch.device | None = None,
    **options: Any,
) -> tuple[dict[str, Any], str | Path | None]:
    """Evaluates a saved model and writes the results, and the translations if they are asked for.

    The files are checked before the model is loaded, so that no time is lost to a wrong path.

    Args:
        model: Folder of a model, or its id on the Hub.
        corpus: Arguments of `load_evaluation_set`; languages that it does not name are the model's.
        results_file: Where the results go; None is test_results.json in the model's folder, unless it holds those of
            another test set, or no file for a model on the Hub.
        translations_file: Where the translations go, one a line; None is no file.
        device: Where the model runs; None means a GPU if there is one.
        **options: Of `evaluate_model`, for example max_tokens_per_batch, progress or num_beams.

    Returns:
        The results as of `evaluate_model`, and the file they are in.

    Raises:
        FileNotFoundError: The model, a file of the corpus or the folder of an output does not exist.
        ValueError: An output cannot be written, is another of the files or would replace the results of another test
            set, or model or corpus are not valid.
    """
    default = Path(model) / TEST_RESULTS_FILE if results_file is None and Path(model).is_dir() else None
    results_file = default or results_file
    inputs = [corpus.get(name) for name in ("source_file", "target_file", "pairs_file")]
    check_outputs({"translations": translations_file, "results": results_file}, inputs)
    loaded, tokenizer = load_for_inference(model, device=device)
    languages = {name: getattr(loaded.config, name) for name in ("source_language", "target_language")}
    test_set = load_evaluation_set(**{**languages, **corpus})
    if default is not None:
        _check_same_test_set(default, test_set.name)
    results, translations = evaluate_model(loaded, tokenizer, test_set, **options)
    if results_file is not None:
        write_results(results_file, results)
    if translations_file is not None:
        write_lines(translations, translations_file)
    return results, results_file


def _check_same_test_set(results_file: Path, name: str) -> None:
    """Raises ValueError where a file holds the results of another test set than the one of this name."""
    try:
        earlier = json.loads(results_file.read_text(encoding="utf-8")).get("test_data", name)
    except (FileNotFoundError, ValueError, AttributeError):
        return  # nothing that could be lost
    if earlier != name:
        raise ValueError(
            f"`results` must be given: {results_file} holds the results of {earlier}, which would be lost. Name "
            "another file, or that one to replace it."
        )


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
        model: In eval mode; decodes as its generation config says.
        tokenizer: Saved with the model.
        test_set: Sentences and references; training pairs add the baselines.
        max_tokens_per_batch: Padded source tokens of one batch.
        progress: Whether to show a progress bar on stderr.
        **generate_kwargs: Passed to `model.generate`, for example num_beams or length_penalty.

    Returns:
        Results with the keys of test_results.json (those of `score_translations` as `test_sacrebleu`,
        `test_sacrebleu_signature`, `test_chrf`, ...; times in seconds; `test_code` is the package's version), and one
        translation for each sentence.

    Example:
        >>> results, translations = evaluate_model(model, tokenizer, load_evaluation_set(dataset="builtin"))
        >>> results["test_sacrebleu"]
    """
    decoding = _decoding(decoding_config(model, **generate_kwargs))
    start = time.perf_counter()
    translations = list(
        translate(
            model,
            tokenizer,
            test_set.sources,
            max_tokens_per_batch=max_tokens_per_batch,
            progress=progress,
            total=len(test_set.sources),
            **generate_kwargs,
        )
    )
    seconds = time.perf_counter() - start
    results = {
        "data": test_set.name,
        "corpus": test_set.corpus,
        "num_sentences": len(test_set.sources),
        **score_translations(translations, test_set.references, getattr(model.config, "target_language", None)),
        **decoding,
        "runtime": round(seconds, 3),
        "code": code_version(),
    }
    if baselines := score_baselines(test_set):
        results["baselines"] = baselines
    return {f"test_{name}": value for name, value in results.items()}, translations


def score_baselines(test_set: EvaluationSet) -> dict[str, float]:
    """BLEU of the translations that need no model, by the name of the baseline; see `baselines`.

    Args:
        test_set: Without training pairs there is nothing to compare with.
    """
    if test_set.training_pairs is None:
        return {}
    baselines = {
        "copy": test_set.sources,
        "nearest_training_pair": nearest_training_pair(test_set.sources, *test_set.training_pairs),
    }
    return {name: corpus_sacrebleu(texts, test_set.references) for name, texts in baselines.items()}


def _decoding(config: GenerationConfig) -> dict[str, Any]:
    """How translations are searched, and where no limit over the source holds, what limits them instead."""
    decoding = {name: getattr(config, name, None) for name in DECODING}
    if decoding["max_new_tokens_over_source"] is None:
        limits = {name: getattr(config, name) for name in ("max_new_tokens", "max_length")}
        decoding |= {name: value for name, value in limits.items() if value is not None}
    return decoding


def format_report(results: dict[str, Any]) -> str:
    """Results as text for people: scores with signatures, then the baselines if there are any.

    Args:
        results: From `evaluate_model`.
    """
    lines = [
        f"test set   {results['test_data']}, {results['test_num_sentences']} sentences",
        f"search     {describe_search(results)}",
        "",
        *_format_scores(results),
        "",
        f"length ratio {length_ratio(results):.3f} (translations to references, in tokens of sacreBLEU), brevity "
        f"penalty {results['test_brevity_penalty']:.3f}",
    ]
    if baselines := results.get("test_baselines"):
        lines += ["", "without a model        sacreBLEU"]
        lines += [f"{name.replace('_', ' '):21}  {score:9.2f}" for name, score in baselines.items()]
    return "\n".join(lines)


def _format_scores(results: dict[str, Any]) -> list[str]:
    """A line for each metric: what it is, its score and its signature."""
    names = metric_names(results)
    width = max(len(name) for name in names.values())
    return [f"{'metric':{width}}   score  signature"] + [
        f"{name:{width}}  {results[f'test_{metric}']:6.2f}  {results[f'test_{metric}_signature']}"
        for metric, name in names.items()
    ]
