# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Configuration of the original Transformer ("Attention Is All You Need", 2017)."""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Self

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

_BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}

# For each of the paper's models, the fields in which it differs from the base model. Rows D3 and D4
# of Table 3 are the base model, trained with another label smoothing.
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
    "vocab_size",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "num_encoder_layers",
    "num_decoder_layers",
    "max_position_embeddings",
)
_POSITION_ENCODINGS = ("sinusoidal", "learned")

# If this package is not installed, transformers loads these classes from the Python files in the
# checkpoint.
_AUTO_MAP = {
    "AutoConfig": "configuration_vaswani_transformer.VaswaniTransformerConfig",
    "AutoModel": "modeling_vaswani_transformer.VaswaniTransformerModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani_transformer.VaswaniTransformerForConditionalGeneration",  # noqa: E501
}
_PIPELINE = {
    "impl": "pipeline_vaswani_transformer.VaswaniTransformerTranslationPipeline",
    "pt": ["AutoModelForSeq2SeqLM"],
    "type": "text",
}


@strict
class VaswaniTransformerConfig(PreTrainedConfig):
    """Configuration of the original Transformer; the defaults are the paper's base model.

    Args:
        vocab_size: Number of entries of the vocabulary shared by source and target.
        d_model: Width of the model.
        d_ff: Inner width of the feed-forward layers.
        num_heads: Number of attention heads.
        d_k: Width of each head's queries and keys; None means `d_model / num_heads`. It is computed
            when the config is made. If you assign another `d_model` or `num_heads` to a finished
            config, assign `d_k` and `d_v` as well, or make a new config.
        d_v: Width of each head's values; None means `d_model / num_heads`, computed like `d_k`.
        num_encoder_layers: Number of encoder layers.
        num_decoder_layers: Number of decoder layers.
        dropout: Dropout rate of each sub-layer's output and of the sums of embeddings and
            positions.
        attention_dropout: Dropout rate of the attention weights.
        activation_dropout: Dropout rate after the ReLU of the feed-forward layers.
        attention_bias: Whether the projections of attention have biases.
        position_encoding: "sinusoidal" (no length limit) or "learned" (Table 3, row E).
        max_position_embeddings: Number of positions in the table of encodings. With learned
            positions, this is the length limit. Sinusoids of later positions are computed in each
            call.
        layer_norm_eps: Epsilon of LayerNorm.
        source_language: Language code of the source ("en"), or None.
        target_language: Language code of the target ("de"), or None.
        use_cache: Whether decoding keeps keys and values in a cache.
        tie_word_embeddings: Whether encoder, decoder and output projection share one matrix.

    Raises:
        ValueError: A size, rate or choice is out of range.

    Example:
        >>> config = VaswaniTransformerConfig.from_preset("big", vocab_size=32_000)

    Paper: section 3, section 5.4, Table 3.
    """

    model_type = "vaswani_transformer"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values", "cache"]
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
    if TYPE_CHECKING:  # for type checkers they are numbers, because __post_init__ replaces None
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
        # First set the fields that were passed under transformers' names, because `d_k` and `d_v`
        # may be derived from them.
        for alias in kwargs.keys() & self.attribute_map.keys():
            setattr(self, alias, kwargs.pop(alias))
        self._check_fields()
        super().__post_init__(**kwargs)

    def _check_fields(self) -> None:
        """Raise ValueError for values that no model can have, and set `d_k` and `d_v` if unset."""
        for name in _SIZES:
            size = getattr(self, name)
            if size is not None and size < 1:
                raise ValueError(f"`{name}` must be at least 1, got {size}. Pass a larger number.")

        for name in ("dropout", "attention_dropout", "activation_dropout"):
            rate = getattr(self, name)
            if not 0.0 <= rate < 1.0:
                raise ValueError(f"`{name}` must lie in [0, 1), got {rate}. Pass another rate.")

        for name in ("d_k", "d_v"):
            if getattr(self, name) is None:
                if self.d_model % self.num_heads:
                    raise ValueError(
                        f"`d_model` must be divisible by `num_heads` while `{name}` is unset, got "
                        f"d_model {self.d_model} and num_heads {self.num_heads}. Change one of "
                        "them or set `d_k` and `d_v`."
                    )
                setattr(self, name, self.d_model // self.num_heads)

        if self.position_encoding not in _POSITION_ENCODINGS:
            raise ValueError(
                f"`position_encoding` must be one of {', '.join(_POSITION_ENCODINGS)}, got "
                f"{self.position_encoding!r}. The paper's is sinusoidal."
            )
        if self.position_encoding == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                "`d_model` must be even with sinusoidal positions (pairs of sine and cosine), got "
                f'{self.d_model}. Choose an even width or position_encoding="learned".'
            )

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """Return the configuration of one of the paper's models.

        A configuration holds no settings of the training. So "table3-D3" and "table3-D4", whose
        label smoothing differs, have the configuration of the base model. The recipes of the same
        names hold these settings.

        Args:
            name: A key of `PRESETS`.
            **overrides: Fields that differ from the preset.

        Raises:
            ValueError: There is no such preset.
            TypeError: An override is not a field.

        Paper: Table 3.
        """
        if name not in PRESETS:
            raise ValueError(
                f"`preset` must be one of {', '.join(PRESETS)}, got {name!r}. Choose one of them."
            )
        fields = {field.name for field in dataclasses.fields(cls)}
        unknown = set(overrides) - fields - set(cls.attribute_map) - {"attn_implementation"}
        if unknown:
            raise TypeError(
                f"`overrides` must be fields of {cls.__name__}, got {', '.join(sorted(unknown))}. "
                "Check the spelling."
            )
        return cls(**{**PRESETS[name], **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Make a config from the fields of a config.json.

        If `d_k` and `d_v` were derived from the saved sizes, and a keyword argument changes these
        sizes, `d_k` and `d_v` are derived again.

        Args:
            config_dict: The fields of the config.json.
            **kwargs: Fields that replace those of `config_dict`, and options of transformers.

        Raises:
            ValueError: A field names an attention kernel on the Hub, or a file of weights that
                would replace the default one. The kernel would be code that the checkpoint's author
                chose.
        """
        for name, value in config_dict.items():
            rule = None
            names_kernel = "attn_implementation" in name and "/" in str(value)  # "owner/name"
            names_weights = name == "transformers_weights" and value
            if names_kernel:
                rule = "must not name a kernel of the Hub in a config.json"
            elif names_weights:
                rule = "must not be in a config.json"
            if rule:
                raise ValueError(
                    f"`{name}` {rule}, got {value!r}. Delete it there, or pass it to "
                    "from_pretrained if you trust that code."
                )

        # transformers sets the fields of `kwargs` only after it has made the config. By then, `d_k`
        # and `d_v` have been derived from the old sizes. So pass the new sizes in `config_dict`
        # instead.
        sizes = kwargs.keys() & {"d_model", "hidden_size", "num_heads", "num_attention_heads"}
        if sizes and not kwargs.keys() & {"d_k", "d_v", "head_dim"}:
            saved: Any = super().from_dict(config_dict)
            were_derived = saved.d_k == saved.d_v == saved.d_model // saved.num_heads
            if were_derived:
                config_dict = {**config_dict, "d_k": None, "d_v": None}
                for name in sizes:
                    config_dict[name] = kwargs.pop(name)
        return super().from_dict(config_dict, **kwargs)

    @property
    def language_pair(self) -> tuple[str, str] | None:
        """Return the language codes of source and target, or None if one of them is unset."""
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
        """Return the pipelines that transformers loads from the Python files in a checkpoint.

        The result is empty if this config class comes from the installed package, because the
        installed package registers its pipelines itself.
        """
        is_checkpoint_code = type(self).__module__.startswith("transformers_modules")
        if is_checkpoint_code:
            return self._hub_pipelines()
        return {}

    @custom_pipelines.setter
    def custom_pipelines(self, value: dict[str, Any]) -> None:
        """Ignore `custom_pipelines` of a config.json: the languages determine the pipelines."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, and the tables that tell transformers which class is in which file."""
        return {
            **super().to_dict(),
            "auto_map": dict(_AUTO_MAP),
            "custom_pipelines": self._hub_pipelines(),
        }


VaswaniTransformerConfig.register_for_auto_class()

__all__ = ["PRESETS", "VaswaniTransformerConfig"]
