# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: arguments, the trainer, its schedule, averaging of snapshots, and a whole run.

This file imports no module: `schedule` needs no extra, the trainer needs `[train]`.

The loop is that of transformers; docs/CONTRIBUTING.md follows a batch and a resume through it.
"""

# What is public, and has a page in the API reference.
__all__ = [
    "arguments",
    "averaging",
    "schedule",
    "train",
    "trainer",
]
