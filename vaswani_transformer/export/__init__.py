# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Models for other engines: CTranslate2 and ONNX, the extra `[export]`.

Where CTranslate2 is installed, importing this lets its `TransformersConverter` convert models of this package. Nothing
else is imported until it is used, because each engine works without the other.
"""

import contextlib
from importlib import import_module
from typing import Any

with contextlib.suppress(ImportError):
    from . import ctranslate2_loader  # noqa: F401

_LAZY = {
    "Translator": "translator",
    "VaswaniTransformerOnnxModel": "onnx_inference",
    "export_ctranslate2": "ctranslate2_model",
    "export_onnx": "onnx_model",
}

__all__ = ["Translator", "VaswaniTransformerOnnxModel", "export_ctranslate2", "export_onnx"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
