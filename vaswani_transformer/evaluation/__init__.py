# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Evaluation: metrics, translation of files, and the report on a test set.

Nothing is imported here, because the parts need different extras: `metrics` and `report` need `[eval]`, while
`checkpoint` and `translate` need only what the model itself needs.
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
