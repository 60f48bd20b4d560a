# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The package's version, readable without importing torch."""

__version__ = "0.3.0"
