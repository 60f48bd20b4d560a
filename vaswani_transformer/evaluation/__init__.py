# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Use of a trained model, and how good it is.

- `checkpoint` loads a model and refuses one that is not whole.
- `translate`, `scoring` and `alignment` compute something for each sentence or pair: in `batches` by length, by the
  choices of `decoding`, in one or several `processes`.
- `files` does so line by line; `outputs` appear when they are complete, and `resuming` goes on after a stop.
- `report` evaluates on an `evaluation_set` by `metrics`, `paper_bleu` among them, beside `baselines`; `results` is
  what it leaves in a file, and the words in which people read it.

Nothing is imported here, because the parts need different extras: `metrics` and `report` need `[eval]`, the others
only what the model itself needs.
"""

# What is public, and has a page in the API reference.
__all__ = [
    "alignment",
    "baselines",
    "checkpoint",
    "evaluation_set",
    "files",
    "metrics",
    "paper_bleu",
    "report",
    "scoring",
    "translate",
]
