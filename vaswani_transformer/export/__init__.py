# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Models for other engines: CTranslate2 and ONNX, the extra `[export]`.

Where CTranslate2 is installed, importing this lets its `TransformersConverter` convert models of this package. Engines
are imported when they are used, as each works without the others.
"""

from .ctranslate2 import export_ctranslate2
from .onnx import VaswaniTransformerOnnxModel, export_onnx
from .translator import Translator

__all__ = ["Translator", "VaswaniTransformerOnnxModel", "export_ctranslate2", "export_onnx"]
