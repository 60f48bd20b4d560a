# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Analysis: the paper's Tables 1 and 3 with our figures, what a training costs, as in its Table 2, and pictures of
attention and positions.

Nothing is imported here: what needs the model loads it when it is used.
"""

# What is public, and has a page in the API reference.
__all__ = [
    "attention_drawing",
    "attention_maps",
    "complexity",
    "cost",
    "layer_costs",
    "layer_costs_report",
    "positions",
    "table_3",
]
