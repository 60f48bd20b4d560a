# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the figures of test_results.json are called where people read them; needs no extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What describes a search: keys of results without `test_`, of recipes and of the generation config.
DECODING = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")


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
