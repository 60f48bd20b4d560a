# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Analysis: the cost of a training.

This file does not import the modules of `analysis`, so each module is loaded only when it is used.
"""

# The public modules. Each has a page in the API reference.
__all__ = ["cost"]
