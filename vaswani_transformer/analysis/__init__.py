# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Analysis: the cost of a training.

Nothing is imported here: what needs the model loads it when it is used.
"""

# What is public, and has a page in the API reference.
__all__ = ["cost"]
