# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of the original Transformer ("Attention Is All You Need", 2017)."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from huggingface_hub.dataclasses import strict
from transformers import GenerationConfig, PreTrainedConfig
from transformers.utils import logging

logger = logging.get_logger(__name__)

_BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}

# The paper's models as fields of the configuration; what is not named is as in `base`. Rows D3 and D4 of Table 3 are
# the base model, trained with another label smoothing.
PRESETS: dict[str, dict[str, Any]] = {
    "base": {},
    "big": _BIG,
    "table3-base": {},
    "table3-A1": {"num_heads": 1},
    "table3-A2": {"num_heads": 4},
    "table3-A3": {"num_heads": 16},
    "table3-A4": {"num_heads": 32},
    "table3-B1": {"d_k": 16},
    "table3-B2": {"d_k": 32},
    "table3-C1": {"num_encoder_layers": 2, "num_decoder_layers": 2},
    "table3-C2": {"num_encoder_layers": 4, "num_decoder_layers": 4},
    "table3-C3": {"num_encoder_layers": 8, "num_decoder_layers": 8},
    "table3-C4": {"d_model": 256},
    "table3-C5": {"d_model": 1024},
    "table3-C6": {"d_ff": 1024},
    "table3-C7": {"d_ff": 4096},
    "table3-D1": {"dropout": 0.0},
    "table3-D2": {"dropout": 0.2},
    "table3-D3": {},
    "table3-D4": {},
    "table3-E": {"position_encoding": "learned"},
    "table3-big": _BIG,
}

_SIZES = (
    *("vocab_size", "d_model", "d_ff", "num_heads", "d_k", "d_v", "num_encoder_layers", "num_decoder_layers"),
    "max_position_embeddings",
)
# What a config.json from elsewhere may ask for before its weights are looked at: layers are Python objects, and the
# table of sinusoids is in no file of weights.
_MOST_LAYERS = 1000
_LARGEST_TABLE = 2**28  # numbers, 1 GiB
_LARGEST_SIZE = 2**31 - 1
_MOST_LABELS = 10_000  # the library names each, though no translation has any

_POSITION_ENCODINGS = ("sinusoidal", "learned")

# What a checkpoint folder tells a reader without this package: which class of which of its files to load.
_AUTO_MAP = {
    "AutoConfig": "configuration_vaswani_transformer.VaswaniTransformerConfig",
    "AutoModel": "modeling_vaswani_transformer.VaswaniTransformerModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani_transformer.VaswaniTransformerForConditionalGeneration",
}
_PIPELINE = {
    "impl": "pipeline_vaswani_transformer.VaswaniTransformerTranslationPipeline",
    "pt": ["AutoModelForSeq2SeqLM"],
    "type": "text",
}

# What a config.json may hold besides the fields: written by the library, or by this class.
_LIBRARY_KEYS = {
    *("attn_implementation", "auto_map", "custom_pipelines", "dtype", "experts_implementation", "model_type"),
    *("name_or_path", "num_labels", "output_attentions", "quantization_config", "torch_dtype"),
}


@strict
class VaswaniTransformerConfig(PreTrainedConfig):
    """Sizes and switches of the original Transformer; the defaults are the paper's base model.

    Args:
        vocab_size: Number of entries of the vocabulary shared by source and target.
        d_model: Width of the model.
        d_ff: Inner width of the feed-forward layers.
        num_heads: Number of attention heads.
        d_k: Width of each head's queries and keys; None means `d_model / num_heads`.
        d_v: Width of each head's values; None means `d_model / num_heads`.
        num_encoder_layers: Number of encoder layers.
        num_decoder_layers: Number of decoder layers.
        dropout: Rate on each sub-layer's output and on the sums of embeddings and positions.
        attention_dropout: Rate on the attention weights.
        activation_dropout: Rate after the ReLU of the feed-forward layers.
        attention_bias: Whether the attention's projections have biases.
        position_encoding: "sinusoidal" (no length limit) or "learned" (Table 3, row E).
        max_position_embeddings: Tokens for which positions are stored: the limit of learned positions;
            sinusoids beyond it are computed on the fly.
        layer_norm_eps: Epsilon of every LayerNorm.
        source_language: Language code of the source ("en"), or None.
        target_language: Language code of the target ("de"), or None.

    Raises:
        ValueError: A size, rate or choice is out of range.

    Example:
        >>> config = VaswaniTransformerConfig.from_preset("big", vocab_size=32_000)

    Paper: section 3, section 5.4, Table 3.
    """

    model_type = "vaswani_transformer"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_decoder_layers",
        "head_dim": "d_k",
    }

    vocab_size: int = 37_000
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    if TYPE_CHECKING:  # None is replaced when the configuration is made: whoever reads them finds numbers
        d_k: int = 0
        d_v: int = 0
    else:
        d_k: int | None = None
        d_v: int | None = None
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    attention_bias: bool = False
    position_encoding: str = "sinusoidal"
    max_position_embeddings: int = 1024
    layer_norm_eps: float = 1e-6
    source_language: str | None = None
    target_language: str | None = None
    use_cache: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        self._check_sizes()
        self._check_rates()
        self._check_library_fields(**kwargs)
        self._resolve_head_sizes()
        self._check_positions()
        super().__post_init__(**kwargs)

    def _check_sizes(self) -> None:
        for name in _SIZES:
            size, largest = getattr(self, name), _MOST_LAYERS if name.endswith("_layers") else _LARGEST_SIZE
            if size is None:  # of d_k and d_v, which are then derived
                continue
            if size < 1:
                raise ValueError(f"`{name}` must be at least 1, got {size}. Pass a larger number.")
            if size > largest:
                raise ValueError(f"`{name}` must be at most {largest}, got {size}. Pass a smaller number.")
        if self.max_position_embeddings * self.d_model > _LARGEST_TABLE:
            raise ValueError(
                f"`max_position_embeddings` times `d_model` must be at most {_LARGEST_TABLE}, got "
                f"{self.max_position_embeddings} times {self.d_model}. Pass smaller numbers: sinusoids of further "
                "positions are computed when they are needed."
            )

    def _check_rates(self) -> None:
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"`{name}` must lie in [0, 1), got {getattr(self, name)}. The paper uses 0.1.")
        if not (math.isfinite(self.layer_norm_eps) and self.layer_norm_eps > 0.0):
            raise ValueError(f"`layer_norm_eps` must be a positive number, got {self.layer_norm_eps}. Pass 1e-6.")

    def _check_library_fields(self, torch_dtype: Any = None, num_labels: Any = None, **_: Any) -> None:
        dtype = torch_dtype if self.dtype is None else self.dtype
        if isinstance(num_labels, int) and num_labels > _MOST_LABELS:
            raise ValueError(
                f"`num_labels` must be at most {_MOST_LABELS}, got {num_labels}. Leave it out: no translation has any."
            )
        if not self.is_encoder_decoder:
            raise ValueError("`is_encoder_decoder` must be True, got False. The model has both stacks; leave it out.")
        if dtype is not None and not isinstance(getattr(torch, str(dtype).removeprefix("torch."), None), torch.dtype):
            raise ValueError(
                f"`dtype` must be a type of torch, for example float32 or bfloat16, got {dtype!r}. Leave it out "
                "for float32."
            )

    def _resolve_head_sizes(self) -> None:
        for name in ("d_k", "d_v"):
            if getattr(self, name) is None:
                if self.d_model % self.num_heads:
                    raise ValueError(
                        f"`d_model` must be divisible by `num_heads` while `{name}` is unset, got d_model "
                        f"{self.d_model} and num_heads {self.num_heads}. Change one of them or set `d_k` and `d_v`."
                    )
                setattr(self, name, self.d_model // self.num_heads)
            if self.num_heads * getattr(self, name) > _LARGEST_SIZE:
                raise ValueError(
                    f"`num_heads` times `{name}` must be at most {_LARGEST_SIZE}, got {self.num_heads} times "
                    f"{getattr(self, name)}. Pass smaller numbers."
                )

    def _check_positions(self) -> None:
        if self.position_encoding not in _POSITION_ENCODINGS:
            raise ValueError(
                f"`position_encoding` must be one of {', '.join(_POSITION_ENCODINGS)}, got "
                f"{self.position_encoding!r}. The paper's is sinusoidal."
            )
        if self.position_encoding == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"`d_model` must be even with sinusoidal positions (pairs of sine and cosine), got {self.d_model}. "
                'Choose an even width or position_encoding="learned".'
            )

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """The configuration of one of the paper's models.

        Args:
            name: A key of `PRESETS`.
            **overrides: Fields that differ from the preset.

        Raises:
            ValueError: There is no such preset; the message lists those that exist.
            TypeError: An override is not a field.

        Paper: Table 3.
        """
        if name not in PRESETS:
            raise ValueError(f"`preset` must be one of {', '.join(PRESETS)}, got {name!r}. Choose one of them.")
        known = {field.name for field in dataclasses.fields(cls)} | set(cls.attribute_map) | {"attn_implementation"}
        if unknown := set(overrides) - known:
            raise TypeError(
                f"`overrides` must be fields of {cls.__name__}, got {', '.join(sorted(unknown))}. Check the spelling."
            )
        return cls(**{**PRESETS[name], **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As the library's, which keeps fields that it does not know; says once that they have no effect.

        Raises:
            ValueError: It asks for a kernel of the Hub, which is code: only a caller may. Or it names other files of
                weights, or other layers.
        """
        for name in ("transformers_weights", "fusion_config"):
            if config_dict.get(name) is not None:
                raise ValueError(
                    f"`{name}` must not be in a config.json, got {config_dict[name]!r}. Delete it there: the weights "
                    "are in model.safetensors, the layers are the paper's."
                )
        for name in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal"):
            if "/" in str(config_dict.get(name)):
                raise ValueError(
                    f"`{name}` must not name a kernel of the Hub in a config.json, got {config_dict[name]!r}. Delete "
                    "it there, or pass it to from_pretrained if you trust that code."
                )
        known = {field.name for field in dataclasses.fields(cls)} | set(cls.attribute_map) | _LIBRARY_KEYS
        known |= set(GenerationConfig().to_dict())
        if unknown := sorted(name for name in set(config_dict) - known if not name.startswith("_")):
            logger.warning_once(
                f"The configuration holds {', '.join(unknown)}, which this version of vaswani_transformer does not "
                "know: kept, but without effect. A newer version may have saved it; update the package."
            )
        return super().from_dict(config_dict, **kwargs)

    @property
    def language_pair(self) -> tuple[str, str] | None:
        """Source and target language codes, or None unless both are set."""
        if self.source_language and self.target_language:
            return self.source_language, self.target_language
        return None

    def _hub_pipelines(self) -> dict[str, dict[str, Any]]:
        names = ["translation"]
        if self.language_pair:
            names.append("translation_{}_to_{}".format(*self.language_pair))
        return {name: dict(_PIPELINE) for name in names}

    @property
    def custom_pipelines(self) -> dict[str, dict[str, Any]]:
        """Pipelines that the library must take from the checkpoint's own files: none where the package is installed.

        Derived, never stored: an installed package registers its pipeline, and the library would otherwise ask for
        `trust_remote_code` although no remote code is needed.
        """
        return self._hub_pipelines() if type(self).__module__.startswith("transformers_modules") else {}

    @custom_pipelines.setter
    def custom_pipelines(self, value: dict[str, Any]) -> None:
        """Ignores the value found in a config.json: it is derived from the languages."""

    def to_dict(self) -> dict[str, Any]:
        """All fields, with the maps that let a folder without this package be loaded from its own files."""
        return {**super().to_dict(), "auto_map": dict(_AUTO_MAP), "custom_pipelines": self._hub_pipelines()}


VaswaniTransformerConfig.register_for_auto_class()

__all__ = ["PRESETS", "VaswaniTransformerConfig"]
