# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The files of results, and what test_results.json holds: written, and in the words in which people read it.

Needs no extra.

Its keys begin with `test_`: those of `metrics.TranslationScores`, those of `decoding.DECODING`, and what
`report.evaluate_model` adds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .outputs import open_output

METRICS = ("sacrebleu", "chrf", "paper_bleu", "tokenized_bleu")  # what `metrics.score_translations` computes


def write_results(path: str | Path, results: Mapping[str, Any]) -> None:
    """Writes results as JSON, atomically.

    Args:
        path: Usually test_results.json in the model's folder; its folder must exist.
        results: From `report.evaluate_model`.
    """
    with open_output(path) as stream:
        stream.write((json.dumps(results, indent=2, ensure_ascii=False) + "\n").encode("utf-8"))


def metric_names(results: Mapping[str, Any]) -> dict[str, str]:
    """Names for people of the metrics in results, by their keys without `test_`, in the order of the report."""
    split = ", compounds split" if "|compounds:split|" in results["test_paper_bleu_signature"] else ""
    return {
        "sacrebleu": "sacreBLEU",
        "chrf": "chrF",
        "paper_bleu": f"paper BLEU (tokenised{split})",
        "tokenized_bleu": "tokenised BLEU (only for corpora that are tokenised already)",
    }


def describe_search(results: Mapping[str, Any]) -> str:
    """How the translations of results were searched, with the formula that divided their log-probabilities."""
    alpha, offset = results["test_length_penalty"], results["test_length_penalty_offset"]
    formula = f"(({offset:g} + length) / {offset + 1:g})^{alpha}" if offset else f"length^{alpha}"
    beams = results["test_num_beams"]
    return f"{beams} beam{'' if beams == 1 else 's'}, length penalty {formula}, {_describe_limit(results)}"


def _describe_limit(results: Mapping[str, Any]) -> str:
    """How long a translation could become."""
    if (over_source := results.get("test_max_new_tokens_over_source")) is not None:
        return f"at most {over_source} tokens over the source"
    if (new_tokens := results.get("test_max_new_tokens")) is not None:
        return f"at most {new_tokens} tokens"
    return f"max_length {results.get('test_max_length')}"


def length_ratio(results: Mapping[str, Any]) -> float:
    """Length of the translations over that of the references, in sacreBLEU's tokens."""
    return int(results["test_hypothesis_length"]) / max(1, int(results["test_reference_length"]))
