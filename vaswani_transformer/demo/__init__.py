# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Demo: a page to translate on, with what the model attends to; gradio is the extra [demo]."""

from .page import check_address, check_gradio, create_demo, launch

__all__ = ["check_address", "check_gradio", "create_demo", "launch"]
