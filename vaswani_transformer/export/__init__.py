# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Exports of a trained model: to Marian (for use with plain transformers) and to CTranslate2.

Only the export to CTranslate2 needs the `export` extra.
"""

from ..inference.ctranslate2 import export_ctranslate2
from ..inference.translator import Translator
from .marian import export_marian

__all__ = ["Translator", "export_ctranslate2", "export_marian"]
