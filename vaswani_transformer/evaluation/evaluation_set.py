# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Test sets: sentences, references and, for the built-in corpus, the training pairs of a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_ORIGIN = ("source_file", "target_file", "pairs_file", "dataset", "dataset_config", "split")


@dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate and their references.

    Args:
        name: What it is, for the report and the results file.
        sources: Source sentences.
        references: One reference for each of them, or a list of references for each.
        training_pairs: Sources and targets of the corpus' training part, for the baseline that looks them up.
        corpus: Where the sentences come from: the arguments of `load_evaluation_set` that say so.
    """

    name: str
    sources: list[str]
    references: Sequence[str] | Sequence[Sequence[str]]
    training_pairs: tuple[list[str], list[str]] | None = None
    corpus: dict[str, str] = field(default_factory=dict)


def load_evaluation_set(*, split: str = "test", name: str | None = None, **corpus: Any) -> EvaluationSet:
    """The sentences to evaluate on; those of the built-in corpus come with all their references and training pairs.

    Args:
        split: Part of a dataset; files are taken whole.
        name: What reports and cards call it; None is `describe_corpus`.
        **corpus: Arguments of `data.load_corpus`: `source_file` and `target_file`, `pairs_file`, or `dataset`.

    Raises:
        ValueError: Not exactly one corpus is named, or the data is not what `data.load_corpus` takes.
        FileNotFoundError: A file is missing.

    Example:
        >>> load_evaluation_set(dataset="builtin").references[0]
    """
    from ..data.builtin import check_direction
    from ..data.corpora import BUILTIN, find_origin, load_corpus

    files = {key: corpus.get(key) for key in ("source_file", "target_file", "pairs_file")}
    dataset = corpus.get("dataset")
    find_origin(**files, dataset=dataset)
    given = {**corpus, "split": split if dataset else None}
    origin = {key: str(given[key]) for key in _ORIGIN if given.get(key) is not None}
    name = name or describe_corpus(origin)
    if str(dataset) == BUILTIN:
        check_direction(corpus.get("source_language"), corpus.get("target_language"))
        return _builtin(name, split, origin)
    rows = load_corpus(split=split, **corpus)
    return EvaluationSet(name, list(rows["source"]), list(rows["target"]), corpus=origin)


def describe_corpus(corpus: Mapping[str, str]) -> str:
    """Name of a test set without a name of its own: its files, or its data set with configuration and split.

    Args:
        corpus: Of an `EvaluationSet`.
    """
    if "dataset" not in corpus:
        return ", ".join(corpus.values())
    return (
        f"{' '.join(corpus[key] for key in ('dataset', 'dataset_config') if key in corpus)}, split {corpus['split']}"
    )


def _builtin(name: str, split: str, origin: dict[str, str]) -> EvaluationSet:
    """A split of the built-in corpus with all references, and the first translation of each training sentence."""
    from ..data.builtin import read_builtin

    sentences, training = dict(read_builtin(split)), [(source, group[0]) for source, group in read_builtin("train")]
    return EvaluationSet(
        name=name,
        sources=list(sentences),
        references=list(sentences.values()),
        training_pairs=([source for source, _ in training], [target for _, target in training]),
        corpus=origin,
    )
