# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A recipe: everything a training run depends on, from data and model to decoding, as one flat dataclass."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..evaluation.checkpoint import read_json
from ..evaluation.results import METRICS
from .atomic import write_json

RECIPE_FILE = "recipe.json"
_DECIDING = (*METRICS, "loss", "nll", "perplexity")  # figures by which a model can be chosen
SPLITS = ("train", "validation", "test")

_MODEL_FIELDS = (
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "num_encoder_layers",
    "num_decoder_layers",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "attention_bias",
    "position_encoding",
)


# What a field's value must do, in the words of the error message, and whether it does.
_Range = tuple[str, Callable[[Any], bool]]


def _whole(minimum: int) -> _Range:
    """Integers from `minimum` up."""
    text = f"be a whole number of at least {minimum} and below 2^31"
    return text, lambda value: type(value) is int and minimum <= value < 2**31


def _number(text: str, holds: Callable[[float], bool]) -> _Range:
    """Finite numbers that satisfy `holds`."""
    return text, lambda value: type(value) in (int, float) and math.isfinite(value) and holds(value)


_COUNT, _COUNT_OR_ZERO, _LENGTH = _whole(1), _whole(0), _whole(2)  # a sentence has a token and </s>
_RATE = _number("lie in [0, 1)", lambda value: 0 <= value < 1)
_POSITIVE = _number("be a finite number above 0", lambda value: value > 0)
_NOT_NEGATIVE = _number("be a finite number of at least 0", lambda value: value >= 0)
_RATIO = _number("be a finite number of at least 1", lambda value: value >= 1)
_PENALTY = _number("be a finite number in [-10, 10]", lambda value: abs(value) <= 10)
_SEED = ("be a whole number in [0, 2^32)", lambda value: type(value) is int and 0 <= value < 2**32)
_METRIC = (f"be one of {', '.join(_DECIDING)}", lambda value: value in _DECIDING)
_OF_TYPE: dict[type, _Range] = {
    bool: ("be true or false", lambda value: type(value) is bool),
    str: ("be text", lambda value: type(value) is str),
}


def _field(default: Any, text: str, allowed: _Range | None = None) -> Any:
    """Dataclass field with a default, the help text shown by the command line and the range of its values."""
    return dataclasses.field(default=default, metadata={"help": text, "range": allowed})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run: data, vocabulary, model, batches, optimiser, snapshots, validation and decoding.

    The defaults are the paper's base model. Each field carries its help text, with units, in `metadata["help"]`.
    Nothing here depends on the hardware except `max_padded_tokens_per_device`, which bounds memory and does not
    change the training.

    Raises:
        ValueError: If a value is of another type, or out of its range.
    """

    name: str = _field("custom", "name of the recipe")
    description: str = _field("", "what the recipe trains and where it leaves its source")

    # Data: either dataset, or for each split two files or one file of pairs.
    source_language: str | None = _field(None, "language code of the source side, for example en")
    target_language: str | None = _field(None, "language code of the target side, for example de")
    dataset: str | None = _field(
        None,
        "Hub name or local folder of a `datasets` dataset, or `builtin`; files given for any split replace it for all",
    )
    dataset_config: str | None = _field(None, "configuration of the dataset, for example de-en")
    streaming: bool = _field(
        False,
        "read the training data anew in every epoch instead of keeping them on disk as token ids; needs a tokenizer",
    )
    test_split: str = _field("test", "split of the dataset that is the test set")
    train_source: str | None = _field(None, "training text, source side, one sentence a line")
    train_target: str | None = _field(None, "training text, target side, aligned with train_source")
    train_pairs: str | None = _field(None, "training pairs in one .jsonl, .json, .csv, .tsv or .parquet file")
    validation_source: str | None = _field(None, "validation text, source side")
    validation_target: str | None = _field(None, "validation text, target side")
    validation_pairs: str | None = _field(None, "validation pairs in one file")
    test_source: str | None = _field(None, "test text, source side")
    test_target: str | None = _field(None, "test text, target side")
    test_pairs: str | None = _field(None, "test pairs in one file")
    vocab_size: int = _field(37000, "entries of the joint vocabulary, with the 3 special tokens and 256 bytes", _COUNT)
    tokenizer: str | None = _field(
        None, "folder of a trained tokenizer, or its Hub id; none: one is trained on the training text"
    )
    max_tokens_per_sentence: int | None = _field(
        256, "tokens, with </s>, beyond which a training sentence is dropped; none: no limit", _LENGTH
    )
    max_length_ratio: float | None = _field(
        None, "ratio of the two sides' tokens beyond which a training pair is dropped; none: no limit", _RATIO
    )

    # Model: None is the preset's value.
    preset: str = _field("base", "named configuration of the model: base, big, or a row of Table 3 such as table3-A1")
    d_model: int | None = _field(None, "width of the model; none: the preset's, as for the following fields", _COUNT)
    d_ff: int | None = _field(None, "width of the feed-forward layers", _COUNT)
    num_heads: int | None = _field(None, "attention heads", _COUNT)
    d_k: int | None = _field(None, "width of a head's queries and keys", _COUNT)
    d_v: int | None = _field(None, "width of a head's values", _COUNT)
    num_encoder_layers: int | None = _field(None, "encoder layers", _COUNT)
    num_decoder_layers: int | None = _field(None, "decoder layers", _COUNT)
    dropout: float | None = _field(None, "dropout on sub-layer outputs and embeddings, in [0, 1)", _RATE)
    attention_dropout: float | None = _field(None, "dropout on attention weights, in [0, 1)", _RATE)
    activation_dropout: float | None = _field(None, "dropout after the ReLU, in [0, 1)", _RATE)
    attention_bias: bool | None = _field(None, "biases in the attention projections")
    position_encoding: str | None = _field(None, "sinusoidal or learned")

    # Batches and optimiser.
    max_source_tokens_per_batch: int = _field(25000, "real source tokens of one update, over all devices", _LENGTH)
    max_target_tokens_per_batch: int = _field(25000, "real target tokens of one update, over all devices", _LENGTH)
    max_padded_tokens_per_device: int | None = _field(
        None,
        "padded tokens, both sides together, one device holds at a time; more are accumulated; none: 4,096 on CPUs",
        _LENGTH,
    )
    max_steps: int = _field(100000, "updates of the whole training", _COUNT)
    warmup_steps: int = _field(4000, "updates of the linear warm-up", _COUNT)
    learning_rate: float | None = _field(
        None, "peak learning rate; none: (d_model * warmup_steps)^-0.5, the paper's", _POSITIVE
    )
    adam_beta1: float = _field(0.9, "Adam's decay of the first moment", _RATE)
    adam_beta2: float = _field(0.98, "Adam's decay of the second moment", _RATE)
    adam_epsilon: float = _field(1e-9, "Adam's epsilon", _POSITIVE)
    max_grad_norm: float = _field(0.0, "gradient norm to clip at; 0: no clipping", _NOT_NEGATIVE)
    label_smoothing: float = _field(0.1, "label smoothing epsilon, in [0, 1)", _RATE)
    seed: int = _field(0, "seed of initial weights, dropout and batch order", _SEED)

    # Snapshots and the model that is kept.
    snapshot_steps: int = _field(1500, "updates between two weights-only snapshots", _COUNT)
    num_averaged_snapshots: int = _field(
        5, "newest snapshots whose average is the final model; 0: the last update's weights", _COUNT_OR_ZERO
    )
    load_best_model: bool = _field(
        False, "the final model is the best checkpoint by metric_for_best_model, instead of the average"
    )
    metric_for_best_model: str = _field(
        "sacrebleu", f"validation figure that decides: {', '.join(_DECIDING)}", _METRIC
    )
    early_stopping_patience: int | None = _field(
        None, "validations without a better metric_for_best_model before training stops; none: never", _COUNT
    )

    # Validation, checkpoints, log.
    eval_steps: int = _field(5000, "updates between two validations", _COUNT)
    eval_num_beams: int = _field(
        1, "beams of the translations scored at validations; 1: greedy; 0: none, losses alone", _COUNT_OR_ZERO
    )
    save_steps: int = _field(5000, "updates between two resumable checkpoints", _COUNT)
    save_total_limit: int = _field(2, "resumable checkpoints kept", _COUNT)
    logging_steps: int = _field(100, "updates between two lines of the log", _COUNT)

    # Decoding, written into the model's generation config.
    num_beams: int = _field(4, "beams of the published model's search", _COUNT)
    length_penalty: float = _field(0.6, "alpha of the length penalty ((c + length) / (c + 1))^alpha", _PENALTY)
    length_penalty_offset: float = _field(
        5, "c of the length penalty; 5 is the paper's, 0 gives length^alpha", _NOT_NEGATIVE
    )
    max_new_tokens_over_source: int = _field(50, "output limit in tokens: input length + this number", _COUNT_OR_ZERO)

    def __post_init__(self) -> None:
        """Checks every value, so that no bad one is noticed after an old run is deleted or a new one trained."""
        types = field_types()
        for field in dataclasses.fields(self):
            value, (kind, is_optional) = getattr(self, field.name), types[field.name]
            if value is None and is_optional:
                continue
            text, holds = field.metadata["range"] or _OF_TYPE[kind]
            if not holds(value):
                meaning = field.metadata["help"]
                raise ValueError(f"`{field.name}` must {text}, got {value!r}. Pass another value ({meaning}).")

    def model_overrides(self) -> dict[str, Any]:
        """Model fields this recipe sets itself, by config name; the preset decides the others."""
        return {name: value for name in _MODEL_FIELDS if (value := getattr(self, name)) is not None}

    def model_config(self, vocab_size: int | None = None) -> VaswaniTransformerConfig:
        """Configuration of the recipe's model.

        Args:
            vocab_size: Entries of the tokenizer; None is the recipe's `vocab_size`.

        Raises:
            ValueError: If there is no such preset, or its values and the recipe's do not fit.
        """
        return VaswaniTransformerConfig.from_preset(
            self.preset,
            vocab_size=self.vocab_size if vocab_size is None else vocab_size,
            source_language=self.source_language,
            target_language=self.target_language,
            **self.model_overrides(),
        )

    def data_arguments(self, split: str) -> dict[str, Any] | None:
        """Keyword arguments of `data.load_corpus` for one split.

        Files given for any split replace `dataset` for all of them: a model is not validated on another corpus than
        it was trained on by mistake.

        Args:
            split: "train", "validation" or "test"; of a dataset, any split it has ("test" is its `test_split`).

        Returns:
            The arguments, or None if the recipe names no data for this split.

        Raises:
            ValueError: If the recipe has files and `split` is none of the three.
        """
        languages = {"source_language": self.source_language, "target_language": self.target_language}
        if self.dataset is not None and not any(self._files(known) for known in SPLITS):
            own = self.test_split if split == "test" else split
            return {"dataset": self.dataset, "dataset_config": self.dataset_config, "split": own, **languages}
        if split not in SPLITS:
            raise ValueError(f"`split` must be one of {', '.join(SPLITS)}, got {split!r}. Pass a part of the recipe.")
        files = self._files(split)
        return {**files, **languages} if files else None

    def _files(self, split: str) -> dict[str, str]:
        """The files the recipe names for a split, as arguments of `data.load_corpus`."""
        names = {"source_file": f"{split}_source", "target_file": f"{split}_target", "pairs_file": f"{split}_pairs"}
        return {argument: file for argument, name in names.items() if (file := getattr(self, name)) is not None}

    def save(self, folder: str | Path) -> Path:
        """Writes the recipe as `recipe.json` into a folder, atomically, and returns the file's path."""
        return write_json(Path(folder) / RECIPE_FILE, dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: str | Path) -> Recipe:
        """Reads `recipe.json` of a run's folder.

        Raises:
            FileNotFoundError: If the folder has no `recipe.json`.
            ValueError: If the file is not a recipe.
        """
        path = Path(folder) / RECIPE_FILE
        if not path.is_file():
            raise FileNotFoundError(f"`folder` must hold {RECIPE_FILE}, got {folder}. Pass the folder of a run.")
        values = read_json(path)
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{path}` must be a recipe, got a file that is none ({error}).") from error


@cache
def field_types() -> dict[str, tuple[type, bool]]:
    """The type of each field of a recipe, by its name, and whether it may be None instead."""
    hints = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(Recipe).items()}
    return {name: (types[0], type(None) in types) for name, types in hints.items()}
