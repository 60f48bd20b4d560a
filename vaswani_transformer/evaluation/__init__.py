# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Use of a trained model, and how good it is.

- `loading` loads a model with its tokenizer.
- `translate` translates sentences and files; `scoring` scores given translations.
- `report` evaluates on a test set by `metrics`, and reads and describes the results.

No module is imported here, because they need different extras: `metrics` needs `[eval]`, the others only what the
model itself needs.
"""

# Names for people by the keys in the results of `metrics.score_translations`, in the order of every report.
METRICS = {
    "sacrebleu": "sacreBLEU",
    "chrf": "chrF",
    "paper_bleu": "paper BLEU (tokenised)",
    "tokenized_bleu": "tokenised BLEU (only for corpora that are tokenised already)",
}
# What describes a search: keys of results without `test_`, of recipes and of the generation config.
DECODING = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")

# What is public, and has a page in the API reference.
__all__ = ["loading", "metrics", "report", "scoring", "translate"]
