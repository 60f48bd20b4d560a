# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: recipes, arguments, the trainer, its schedule, and averaging of snapshots.

Nothing is imported here: `recipes` needs no extra, the trainer needs `[train]`.
"""
