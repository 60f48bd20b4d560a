# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Use of a trained model, and how good it is.

- `loading` loads a model with its tokenizer.
- `translate` translates sentences and files; `scoring` scores and aligns given translations.
- `report` evaluates on a test set by `metrics`, beside baselines, and reads and describes the results.

No module is imported here, because they need different extras: `metrics` needs `[eval]`, the others only what the
model itself needs.
"""

METRICS = ("sacrebleu", "chrf", "paper_bleu", "tokenized_bleu")  # keys of `metrics.score_translations`
# What describes a search: keys of results without `test_`, of recipes and of the generation config.
DECODING = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")

# What is public, and has a page in the API reference.
__all__ = ["loading", "metrics", "report", "scoring", "translate"]
