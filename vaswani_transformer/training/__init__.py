# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: arguments, the trainer, its schedule, averaging of snapshots, and a whole run.

This file imports none of these modules, because `train` and `trainer` need the extra `[train]`, and
`schedule` must work without this extra.

The loop over the updates is that of transformers. docs/CONTRIBUTING.md lists the functions that are
called in a training and on a resume, in the order of the calls. The docstring of resuming.py lists
the methods that the loop calls.
"""

# The public modules. Each has a page in the API reference.
__all__ = [
    "arguments",
    "averaging",
    "schedule",
    "train",
    "trainer",
]
