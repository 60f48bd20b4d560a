# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The Hub: the model card of a run, and the push of a model.

This file does not import its submodules, so each submodule is loaded only when it is used.
"""

# The public modules. Each has a page in the API reference.
__all__ = ["card", "push"]
