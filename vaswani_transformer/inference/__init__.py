# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Use and evaluate a trained model.

- `loading` loads a model with its tokenizer.
- `translate` translates sentences and files; `score` scores given translations.
- `metrics` scores translations against references.
- `evaluate` evaluates a model on a test set with these metrics, and reads and describes results.

This file imports none of these modules, because `metrics` needs the `eval` extra. The other modules
can be imported with only the packages that the model itself needs.
"""

# Key of each metric in the results of `metrics.score_translations`, and its display name. Reports
# use this order.
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
