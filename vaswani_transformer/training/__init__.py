# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Training: recipes, arguments, the trainer, its schedule, averaging of snapshots, and what a run costs.

Nothing is imported here: `recipes` needs no extra, the trainer needs `[train]`.
"""
