# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Use and evaluation of a trained model.

- `loading` loads a model with its tokenizer.
- `translate` translates sentences and files; `score` scores given translations.
- `evaluate` evaluates a model on a test set by `metrics`, and reads and describes the results.

This file imports no module, because they need different extras. `metrics` needs `[eval]`. The
others can be imported with what the model itself needs.
"""

# Display names of the metrics, by their keys in the results of `metrics.score_translations`, in the
# order of reports.
METRICS = {
    "sacrebleu": "sacreBLEU",
    "chrf": "chrF",
    "paper_bleu": "paper BLEU (tokenized)",
    "tokenized_bleu": "tokenized BLEU (lowercase)",
}
# Settings of the search. Recipes and generation configs use these keys; results use them with the
# prefix `test_`.
DECODING = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")

# The public modules. Each has a page in the API reference.
__all__ = ["evaluate", "loading", "metrics", "score", "translate"]
