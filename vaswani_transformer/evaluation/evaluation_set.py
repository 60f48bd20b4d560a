# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a model is evaluated on: sentences, references and, for the built-in corpus, what each sentence shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate and their references.

    Args:
        name: What it is, for the report and the results file.
        sources: Source sentences.
        references: One reference for each of them.
        phenomena: Names of the phenomena each sentence shows, if they are known.
        training_pairs: Sources and targets of the corpus' training part, for the baseline that looks them up.
        dictionary: Source words with one target word each, for the baseline that translates word for word.
    """

    name: str
    sources: list[str]
    references: list[str]
    phenomena: list[tuple[str, ...]] | None = None
    training_pairs: tuple[list[str], list[str]] | None = None
    dictionary: dict[str, str] | None = None


def load_evaluation_set(*, split: str = "test", **corpus: Any) -> EvaluationSet:
    """The sentences to evaluate on; those of the built-in corpus come with phenomena and what baselines need.

    Args:
        split: Part of a dataset; files are taken whole.
        **corpus: Arguments of `data.load_corpus`: `source_file` and `target_file`, `pairs_file`, or `dataset`.

    Raises:
        ValueError: Not exactly one corpus is named, or the data is not what `data.load_corpus` takes.
        FileNotFoundError: A file is missing.

    Example:
        >>> load_evaluation_set(dataset="builtin").phenomena[0]
    """
    from ..data.corpora import BUILTIN, check_origin, load_corpus

    files = {key: corpus.get(key) for key in ("source_file", "target_file", "pairs_file")}
    dataset = corpus.get("dataset")
    check_origin(**files, dataset=dataset)
    name = ", ".join(str(file) for file in files.values() if file) or f"{dataset}, split {split}"
    if str(dataset) == BUILTIN:
        return _builtin(name, split)
    rows = load_corpus(split=split, **corpus)
    return EvaluationSet(name, list(rows["source"]), list(rows["target"]))


def _builtin(name: str, split: str) -> EvaluationSet:
    """A part of the built-in corpus, with its phenomena, training pairs and dictionary."""
    from ..data.builtin import load_builtin_corpus, word_dictionary

    pairs, training = load_builtin_corpus(split), load_builtin_corpus("train")
    return EvaluationSet(
        name=name,
        sources=[pair.source for pair in pairs],
        references=[pair.target for pair in pairs],
        phenomena=[pair.phenomena for pair in pairs],
        training_pairs=([pair.source for pair in training], [pair.target for pair in training]),
        dictionary=word_dictionary(),
    )
