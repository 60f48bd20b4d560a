# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: arguments, the trainer, its schedule, averaging of snapshots, and a whole run.

This file imports no module, because the other modules need the extra `[train]`, and `schedule` must
work without it.

The loop over the updates is that of transformers. docs/CONTRIBUTING.md follows a batch and a resume
through the loop. The docstring of resuming.py lists the methods that the loop calls.
"""

# The public modules. Each has a page in the API reference.
__all__ = [
    "arguments",
    "averaging",
    "schedule",
    "train",
    "trainer",
]
