# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Errors for names that 0.2.0 had and 0.3.0 removed, with advice on what to use instead."""

from ..extras import gone

__getattr__ = gone(
    __name__,
    "AttentionMaps attention_maps draw_attention readable_tokens",
    "Use scripts/paper/draw_attention.py of the repository, or call the model with "
    "`output_attentions=True`.",
)
