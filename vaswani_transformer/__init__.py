# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The original Transformer of "Attention Is All You Need" (2017) for the Hugging Face stack.

Importing this package registers the model, its configuration and its tokenizer with the Auto
classes, and brings back `pipeline("translation")`, which transformers 5 removed.
"""

from importlib import import_module
from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from .configuration_vaswani_transformer import PRESETS, VaswaniTransformerConfig
from .modeling_vaswani_transformer import (
    VaswaniTransformerDecoder,
    VaswaniTransformerEncoder,
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerModel,
    VaswaniTransformerPreTrainedModel,
)
from .pipeline_vaswani_transformer import (
    VaswaniTransformerTranslationPipeline,
    register_translation_pipeline,
)
from .tokenization_vaswani_transformer import VaswaniTransformerTokenizer
from .version import __version__

# Names from modules that need an extra: they are imported on first use, and not by `import *`.
_LAZY = {
    "RECIPES": "recipe",
    "Recipe": "recipe",
    "TranslationMetric": "inference.metrics",
    "VaswaniTransformerTrainer": "training.trainer",
    "VaswaniTransformerTrainingArguments": "training.arguments",
    "average_checkpoints": "training.averaging",
    "score_translations": "inference.metrics",
}

__all__ = [
    "PRESETS",
    "VaswaniTransformerConfig",
    "VaswaniTransformerDecoder",
    "VaswaniTransformerEncoder",
    "VaswaniTransformerForConditionalGeneration",
    "VaswaniTransformerModel",
    "VaswaniTransformerPreTrainedModel",
    "VaswaniTransformerTokenizer",
    "VaswaniTransformerTranslationPipeline",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


AutoConfig.register(VaswaniTransformerConfig.model_type, VaswaniTransformerConfig, exist_ok=True)
AutoModel.register(VaswaniTransformerConfig, VaswaniTransformerModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(
    VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration, exist_ok=True
)
AutoTokenizer.register(
    VaswaniTransformerConfig, tokenizer_class=VaswaniTransformerTokenizer, exist_ok=True
)
register_translation_pipeline()
