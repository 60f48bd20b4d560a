# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: recipes, arguments, the trainer, its schedule, averaging of snapshots, and what a run
costs.

Nothing is imported here: `recipes` needs no extra, the trainer needs `[train]`.

The loop is that of transformers; docs/CONTRIBUTING.md follows a batch and a resume through it.
"""

# What is public, and has a page in the API reference.
__all__ = [
    "arguments",
    "averaging",
    "card",
    "hub",
    "recipes",
    "run",
    "schedule",
    "trainer",
]
