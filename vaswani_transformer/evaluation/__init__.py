# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Use of a trained model, and how good it is.

- `loading` loads a model with its tokenizer.
- `translate` translates sentences and files; `scoring` scores given translations.
- `report` evaluates on a test set by `metrics`, and reads and describes the results.

No module is imported here, because they need different extras: `metrics` needs `[eval]`, the others only what the
model itself needs.
"""

from typing import NamedTuple


class Metric(NamedTuple):
    """A score of translations: its name for people, and whether a lower one is better."""

    label: str
    lower_is_better: bool = False


METRICS = {  # by their keys in the results of `metrics.score_translations`, in the order of every report
    "sacrebleu": Metric("sacreBLEU"),
    "chrf": Metric("chrF"),
    "paper_bleu": Metric("paper BLEU (tokenised{split})"),
    "tokenized_bleu": Metric("tokenised BLEU (only for corpora that are tokenised already)"),
}
# What describes a search: keys of results without `test_`, of recipes and of the generation config.
DECODING = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")

# What is public, and has a page in the API reference.
__all__ = ["loading", "metrics", "report", "scoring", "translate"]
