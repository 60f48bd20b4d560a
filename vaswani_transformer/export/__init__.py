# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trained models in the formats of other runtimes.

Nothing is imported here: the runtimes are the extra [export].
"""
