# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Recipes: the dataclass `Recipe` holds every setting of a training except the hardware.

Recipes are read from YAML files. Those of the built-in recipes are in
`vaswani_transformer/recipes`. `get_recipe` takes the name of a built-in recipe or the path of your
own file.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml
from transformers.utils import logging

from .beam_search_vaswani_transformer import (
    GNMT_OFFSET,
    PAPER_ALPHA,
    PAPER_BEAMS,
    PAPER_OVER_SOURCE,
)
from .configuration_vaswani_transformer import VaswaniTransformerConfig
from .files import RECIPE_FILE, text_suffix, write_json
from .inference import METRICS
from .training.schedule import paper_peak_learning_rate

logger = logging.get_logger(__name__)

RECIPE_FOLDER = Path(__file__).with_name("recipes")
RECIPE_SUFFIXES = (".yaml", ".yml", ".json")

BUILTIN_LICENSE = "cc-by-2.0"  # license of the corpus `builtin`, as the Hub names it
BUILTIN_ATTRIBUTION = (
    "sentences and translations by the contributors of [tatoeba.org](https://tatoeba.org), "
    "through [www.manythings.org/anki](http://www.manythings.org/anki/), [CC BY 2.0 "
    "FR](https://creativecommons.org/licenses/by/2.0/fr/) as Tatoeba says and [CC BY "
    "2.0](https://creativecommons.org/licenses/by/2.0/) as manythings.org links; shortened and "
    "cleaned"
)

# Maps old names of recipe fields to new names. These fields of 0.1.0 were renamed to match training
# arguments. Recipe files may still use the old names.
OLD_NAMES = {
    "label_smoothing": "label_smoothing_factor",
    "load_best_model": "load_best_model_at_end",
    "eval_num_beams": "generation_num_beams",
}

SPLITS = ("train", "validation", "test")
PARTS = ("source", "target", "pairs")  # the files that a split can have
# INTERVALS: fields that are intervals, measured in updates. FITTED: all fields that `fit_schedule`
# adapts to the number of updates.
INTERVALS = ("eval_steps", "save_steps", "snapshot_steps", "logging_steps")
FITTED = (*INTERVALS, "warmup_steps", "learning_rate")
DECIDING = (*METRICS, "loss", "nll", "perplexity")  # possible values of `metric_for_best_model`

# MODEL_FIELDS: recipe fields that are also fields of the model config. TRAINER_FIELDS: recipe
# fields that are also training arguments.
MODEL_FIELDS = (
    "source_language",
    "target_language",
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
TRAINER_FIELDS = (
    "max_source_tokens_per_batch",
    "max_target_tokens_per_batch",
    "max_padded_tokens_per_device",
    "dataloader_num_workers",
    "bpe_dropout",
    "bpe_dropout_side",
    "max_steps",
    "warmup_steps",
    "learning_rate",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "label_smoothing_factor",
    "seed",
    "snapshot_steps",
    "num_averaged_snapshots",
    "load_best_model_at_end",
    "metric_for_best_model",
    "eval_steps",
    "generation_num_beams",
    "save_steps",
    "save_total_limit",
    "logging_steps",
)

# Country codes that are often taken for language codes are excluded. `kr` and `se` are languages,
# too: Kanuri and Northern Sami.
_LANGUAGE_CODE = "(?!(cn|cz|dk|gb|gr|jp|ua|us|vn)(?![a-z]))[a-z]{2,3}([-_][A-Za-z0-9]+)*"

# Ranges of numbers: lowest value, exclusive upper bound, and words for the error message.
_Range = tuple[float, float, str]
_COUNT: _Range = (1, 2**31, "a whole number of at least 1 and below 2^31")
_COUNT_OR_ZERO: _Range = (0, 2**31, "a whole number of at least 0 and below 2^31")
# A sentence has at least one token and `</s>`.
_LENGTH: _Range = (2, 2**31, "a whole number of at least 2 and below 2^31")
_SEED: _Range = (0, 2**32, "a whole number in [0, 2^32)")
_RATE: _Range = (0, 1, "a number in [0, 1)")
_POSITIVE: _Range = (math.ulp(0.0), math.inf, "a finite number above 0")
_NOT_NEGATIVE: _Range = (0, math.inf, "a finite number of at least 0")
_RATIO: _Range = (1, math.inf, "a finite number of at least 1")
_PENALTY: _Range = (-10, math.nextafter(10, 11), "a number in [-10, 10]")


def _field(
    default: Any,
    text: str,
    allowed: _Range | None = None,
    *,
    choices: tuple[str, ...] = (),
    free: bool = False,
) -> Any:
    """Return a dataclass field with help and validation. A resume may change `free` fields."""
    metadata = {"help": text, "range": allowed, "choices": choices, "free": free}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training: data, vocabulary, model, batches, optimizer, validation, decoding.

    The defaults are the paper's base model. Each field has its help text, with units, in
    `metadata["help"]`. Only two fields depend on the hardware: `max_padded_tokens_per_device` and
    `dataloader_num_workers`.

    Raises:
        ValueError: If a value has the wrong type or is out of range.
    """

    name: str = _field("custom", "name of the recipe", free=True)
    description: str = _field(
        "", "what the recipe trains and how it differs from its source", free=True
    )

    # Data: a dataset or files. The files of a split are two text files or one file of pairs.
    source_language: str | None = _field(None, "language code of the source side, for example en")
    target_language: str | None = _field(None, "language code of the target side, for example de")
    dataset: str | None = _field(
        None,
        "Hub name or folder of a `datasets` dataset, or `builtin`; training files replace it for "
        "all splits, other files only for their own split",
    )
    dataset_config: str | None = _field(None, "configuration of the dataset, for example de-en")
    streaming: bool = _field(
        False,
        "read and tokenize the training data in every epoch instead of storing token ids on "
        "disk; needs a tokenizer",
    )
    validation_split: str | None = _field(
        "validation", "split of the dataset for validation; none: no validation"
    )
    test_split: str = _field("test", "split of the dataset for tests", free=True)
    train_source: str | Sequence[str] | None = _field(
        None, "training text, source side, one sentence per line; one file, or one file per corpus"
    )
    train_target: str | Sequence[str] | None = _field(
        None, "training text, target side, aligned with train_source"
    )
    train_pairs: str | Sequence[str] | None = _field(
        None,
        "training pairs in a .jsonl, .json, .csv, .tsv or .parquet file, or one file per corpus",
    )
    train_weights: int | Sequence[int] | None = _field(
        None, "how many times an epoch repeats each corpus; none: once", _COUNT
    )
    validation_source: str | None = _field(None, "validation text, source side")
    validation_target: str | None = _field(None, "validation text, target side")
    validation_pairs: str | None = _field(None, "validation pairs in one file")
    test_source: str | None = _field(None, "test text, source side", free=True)
    test_target: str | None = _field(None, "test text, target side", free=True)
    test_pairs: str | None = _field(None, "test pairs in one file", free=True)
    vocab_size: int = _field(
        37000, "entries of the joint vocabulary, including 3 special tokens and 256 bytes", _COUNT
    )
    tokenizer: str | None = _field(
        None, "folder or Hub id of a trained tokenizer; none: train one on the training text"
    )
    added_tokens: str | Sequence[str] | None = _field(
        None, "text to keep as one token, such as <bt>; counts in addition to vocab_size"
    )
    max_tokens_per_sentence: int | None = _field(
        256,
        "most tokens of a training sentence, with </s>; pairs with a longer one are dropped; none: "
        "no limit",
        _LENGTH,
    )
    max_length_ratio: float | None = _field(
        None,
        "largest ratio of the two sides' tokens; training pairs beyond it are dropped; none: no "
        "limit",
        _RATIO,
    )

    bpe_dropout: float = _field(  # free, because it helps most if a run turns it on late
        0.0,
        "probability of skipping a byte-pair merge in training, drawn again in each epoch, in "
        "[0, 1)",
        _RATE,
        free=True,
    )
    bpe_dropout_side: str = _field(
        "both",
        "side that bpe_dropout changes: source, target or both",
        choices=("source", "target", "both"),
        free=True,
    )

    # Model: a field that is None takes its value from `preset`.
    preset: str = _field(
        "base", "named configuration of the model: base, big, or a row of Table 3 such as table3-A1"
    )
    d_model: int | None = _field(
        None, "width of the model; none: the preset's value, as for the fields below", _COUNT
    )
    d_ff: int | None = _field(None, "width of the feed-forward layers", _COUNT)
    num_heads: int | None = _field(None, "attention heads", _COUNT)
    d_k: int | None = _field(None, "width of a head's queries and keys", _COUNT)
    d_v: int | None = _field(None, "width of a head's values", _COUNT)
    num_encoder_layers: int | None = _field(None, "encoder layers", _COUNT)
    num_decoder_layers: int | None = _field(None, "decoder layers", _COUNT)
    dropout: float | None = _field(
        None, "dropout on sub-layer outputs and embeddings, in [0, 1)", _RATE
    )
    attention_dropout: float | None = _field(None, "dropout on attention weights, in [0, 1)", _RATE)
    activation_dropout: float | None = _field(None, "dropout after the ReLU, in [0, 1)", _RATE)
    attention_bias: bool | None = _field(None, "biases in the attention projections")
    position_encoding: str | None = _field(None, "sinusoidal or learned")

    # Batches and optimizer.
    max_source_tokens_per_batch: int = _field(
        25000, "most source tokens of one update, without padding", _LENGTH
    )
    max_target_tokens_per_batch: int = _field(
        25000, "most target tokens of one update, without padding", _LENGTH
    )
    max_padded_tokens_per_device: int | None = _field(
        None,
        "most tokens on a device at once, both sides, with padding; larger updates accumulate "
        "gradients; none: as many as fit into a GPU, 4096 on a CPU",
        _LENGTH,
        free=True,
    )
    dataloader_num_workers: int | None = _field(
        None,
        "processes that load batches for each device; 0: the training process loads them; none: "
        "up to 4 on a GPU, as cores allow, 0 on a CPU; a resumed stream keeps its number",
        _COUNT_OR_ZERO,
        free=True,
    )
    max_steps: int = _field(100000, "updates of the whole training", _COUNT, free=True)
    warmup_steps: int = _field(4000, "updates of the linear warm-up", _COUNT)
    learning_rate: float | None = _field(
        None, "peak learning rate; none: (d_model * warmup_steps)^-0.5, the paper's", _POSITIVE
    )
    adam_beta1: float = _field(0.9, "Adam's decay of the first moment", _RATE)
    adam_beta2: float = _field(0.98, "Adam's decay of the second moment", _RATE)
    adam_epsilon: float = _field(1e-9, "Adam's epsilon", _POSITIVE)
    max_grad_norm: float = _field(0.0, "gradient norm to clip at; 0: no clipping", _NOT_NEGATIVE)
    label_smoothing_factor: float = _field(0.1, "label smoothing epsilon, in [0, 1)", _RATE)
    seed: int = _field(0, "seed of initial weights, dropout and batch order", _SEED)

    # Snapshots and the model that is kept.
    snapshot_steps: int = _field(1500, "updates between two weights-only snapshots", _COUNT)
    num_averaged_snapshots: int = _field(
        5,
        "number of newest snapshots to keep, and to average for the final model (the command and "
        "the function `train` average them, a trainer does not); 0: use the last update's weights",
        _COUNT_OR_ZERO,
    )
    load_best_model_at_end: bool = _field(
        False,
        "use the best checkpoint by metric_for_best_model as the final model, not the average",
    )
    metric_for_best_model: str = _field(
        "sacrebleu",
        f"validation figure that decides which model is best: {', '.join(DECIDING)}; without "
        "target_language, chrf replaces sacrebleu",
    )
    early_stopping_patience: int | None = _field(
        None,
        "validations without a better metric_for_best_model before training stops; none: never",
        _COUNT,
        free=True,
    )

    # Validation, checkpoints, log.
    eval_steps: int = _field(5000, "updates between two validations", _COUNT, free=True)
    generation_num_beams: int = _field(
        1,
        "beams for translating at validations; 1: greedy; 0: no translations, only losses",
        _COUNT_OR_ZERO,
        free=True,
    )
    save_steps: int = _field(
        5000,
        "updates between two resumable checkpoints; with load_best_model_at_end, there is one at "
        "each validation instead",
        _COUNT,
        free=True,
    )
    save_total_limit: int = _field(2, "number of resumable checkpoints to keep", _COUNT, free=True)
    logging_steps: int = _field(100, "updates between two lines of the log", _COUNT, free=True)

    # Decoding, written into the model's generation config.
    num_beams: int = _field(PAPER_BEAMS, "beams of the final model's search", _COUNT, free=True)
    length_penalty: float = _field(
        PAPER_ALPHA,
        "alpha of the length penalty ((c + length) / (c + 1))^alpha; not saved if num_beams is 1",
        _PENALTY,
        free=True,
    )
    length_penalty_offset: float = _field(
        GNMT_OFFSET,
        "c of the length penalty; 5 is the paper's, 0 gives length^alpha",
        _NOT_NEGATIVE,
        free=True,
    )
    max_new_tokens_over_source: int = _field(
        PAPER_OVER_SOURCE,
        "output limit in tokens: input length + this number",
        _COUNT_OR_ZERO,
        free=True,
    )

    def __post_init__(self) -> None:
        """Check the type and range of every value.

        If a field has the type float, a whole number is converted to it. If a field can hold a
        list, a list with one value is replaced by this value. An empty text becomes None if the
        field is optional.
        """
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            kind, is_optional, may_be_list = field_types()[name]
            if may_be_list and isinstance(value, list) and len(value) == 1:
                value = value[0]
            if value == "" and is_optional:
                value = None
            check_value(name, value)
            if type(value) is int and kind is float:
                value = float(value)
            object.__setattr__(self, name, value)

    @property
    def decides_by_validation(self) -> bool:
        """True if validation figures decide which weights to keep or when to end the training."""
        return self.load_best_model_at_end or self.early_stopping_patience is not None

    @property
    def validation_search(self) -> str:
        """Search method of validations, "greedy" or "beam N".

        The final model may use another search method.
        """
        return "greedy" if self.generation_num_beams == 1 else f"beam {self.generation_num_beams}"

    @property
    def peak_learning_rate(self) -> float:
        """Peak learning rate: `learning_rate`, or the paper's for this width and warm-up."""
        return self.learning_rate or paper_peak_learning_rate(
            self.model_config().d_model, self.warmup_steps
        )

    @property
    def attribution(self) -> str | None:
        """Credit that a model card must give for the built-in corpus; None for other data."""
        data = self.data_arguments("train") or {}
        return BUILTIN_ATTRIBUTION if data.get("dataset") == "builtin" else None

    def model_config(self, vocab_size: int | None = None) -> VaswaniTransformerConfig:
        """Return the model config of the recipe.

        Args:
            vocab_size: Number of entries in the tokenizer; None means the recipe's `vocab_size`.

        Raises:
            ValueError: If the recipe names an unknown preset, or its values make no valid config.
        """
        values = {name: getattr(self, name) for name in MODEL_FIELDS}
        given = {name: value for name, value in values.items() if value is not None}
        return VaswaniTransformerConfig.from_preset(
            self.preset, vocab_size=vocab_size or self.vocab_size, **given
        )

    def trainer_values(self) -> dict[str, Any]:
        """Return the values of the fields that `VaswaniTransformerTrainingArguments` also has."""
        return {name: getattr(self, name) for name in TRAINER_FIELDS}

    def data_arguments(self, split: str) -> dict[str, Any] | None:
        """Return the arguments of `data.load_corpus` for a split, or None if the split has no data.

        If the recipe has training files, no split uses `dataset`, so that no model is validated on
        another corpus by mistake. Validation or test files replace only their own split.

        Args:
            split: "train", "validation" or "test". In a dataset, "train" is the split `train`. The
                recipe's fields `validation_split` and `test_split` name the other two splits of the
                dataset. `split` may also be the name of any other split of the dataset.
        """
        languages = {
            "source_language": self.source_language,
            "target_language": self.target_language,
        }
        files = self._files(split) if split in SPLITS else {}
        if files:
            return {**files, **languages}
        own_names = {"validation": self.validation_split, "test": self.test_split}
        dataset_split = own_names.get(split, split)
        if self.dataset is None or self._files("train") or dataset_split is None:
            return None
        return {
            "dataset": self.dataset,
            "dataset_config": self.dataset_config,
            "split": dataset_split,
            **languages,
        }

    def _files(self, split: str) -> dict[str, Any]:
        """Return the files of a split as arguments of `data.load_corpus`."""
        files = {f"{part}_file": getattr(self, f"{split}_{part}") for part in PARTS}
        return {name: file for name, file in files.items() if file is not None}

    def train_corpora(self) -> list[tuple[dict[str, Any], int]]:
        """Return, for each training corpus, the arguments for `data.load_corpus`, and its weight.

        Raises:
            ValueError: If the lists of files and weights have different lengths.
        """
        arguments = self.data_arguments("train")
        if arguments is None:
            return []
        files = {name: as_list(file) for name, file in self._files("train").items()}
        num_corpora = max(map(len, files.values()), default=1)
        weights = as_list(self.train_weights) or [1] * num_corpora
        counts = [len(each) for each in (*files.values(), weights)]
        if set(counts) != {num_corpora}:
            raise ValueError(
                "Each training corpus must have an entry in every list of files and in "
                f"`train_weights`, got lists of {' and '.join(map(str, counts))}. Complete them."
            )
        corpora = []
        for number, weight in enumerate(weights):
            own_files = {name: paths[number] for name, paths in files.items()}
            corpora.append(({**arguments, **own_files}, weight))
        return corpora

    def save(self, folder: str | Path) -> Path:
        """Write the recipe atomically as `recipe.json` into a folder, and return its path."""
        return write_json(Path(folder) / RECIPE_FILE, dataclasses.asdict(self))

    @classmethod
    def load(cls, folder: str | Path) -> Recipe:
        """Read `recipe.json` in the folder of a run.

        Raises:
            FileNotFoundError: If the folder has no `recipe.json`.
            ValueError: If the file is not a recipe.
        """
        return cls(**read_recipe(Path(folder) / RECIPE_FILE))


# ---- values ----


@cache
def field_types() -> dict[str, tuple[type, bool, bool]]:
    """Return, for each field: its type, whether it can be None, and whether it can be a list."""
    hints = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(Recipe).items()}
    return {name: (types[0], type(None) in types, len(types) == 3) for name, types in hints.items()}


def check_value(name: str, value: Any) -> None:
    """Raise ValueError if `value` is not allowed for the recipe field `name`."""
    kind, is_optional, may_be_list = field_types()[name]
    metadata = Recipe.__dataclass_fields__[name].metadata
    if value is None and is_optional:
        return
    values = value if may_be_list and isinstance(value, list) and value else [value]
    kinds = (int, float) if kind is float else (kind,)
    fits = all(type(each) in kinds for each in values)
    wanted = "true or false" if kind is bool else "text"
    if metadata["range"] is not None:
        low, high, wanted = metadata["range"]
        fits = fits and all(low <= each < high for each in values)
    elif metadata["choices"]:
        wanted = f"one of {', '.join(metadata['choices'])}"
        fits = value in metadata["choices"]
    if not fits:
        raise ValueError(
            f"`{name}` must be {wanted}, got {value!r}. Pass another value ({metadata['help']})."
        )


def parse_value(name: str, value: Any) -> Any:
    """Convert text, or a list of texts, to the type of a field.

    For optional fields, the text `none` becomes None. Text that cannot be converted is returned
    unchanged, so that `check_value` refuses it.
    """
    if isinstance(value, list):
        return [parse_value(name, each) for each in value]
    kind, is_optional, _ = field_types()[name]
    text = str(value).lower()
    if is_optional and text in ("none", "null", "~", ""):
        return None
    if kind is bool:
        return {"true": True, "false": False}.get(text, value)
    try:
        return value if kind is str else kind(text)
    except ValueError:
        return value


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, None as an empty list, and any other value as a list of one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


# ---- files ----


def read_recipe(path: str | Path) -> dict[str, Any]:
    """Read the values of a recipe file: YAML, or the recipe.json of a run.

    If a file has the line `extends: small`, the built-in recipe `small` supplies all values that
    the file does not set. Each value is converted to the type of its field, because YAML itself
    would read `1e-4` as text and `no` as false.

    Raises:
        ValueError: If the file is not a recipe. The message names the file, the line and the field.
    """
    path = Path(path)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except (RecursionError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(
            f"{path} must be a YAML file of UTF-8 text, got a broken one: {error}"
        ) from error
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(
            f"{path} must have lines such as `max_steps: 1000`, got no such line. See "
            "`vaswani-transformer recipes small`."
        )
    base: dict[str, Any] = {}
    own: dict[str, Any] = {}
    seen: set[str] = set()
    for key, node in root.value:
        try:
            name = _new_name(_text_of("The name of a field", key))
            if name in seen:
                raise ValueError(
                    f"{name} must appear once in a file, got it again. Delete one of the two."
                )
            seen.add(name)
            if name == "extends":
                base = {**read_recipe(_known_file(_text_of(name, node), name)), "description": ""}
                continue
            _check_field(name)
            is_list = isinstance(node, yaml.SequenceNode)
            value = (
                [_text_of(name, each) for each in node.value] if is_list else _text_of(name, node)
            )
            own[name] = parse_value(name, value)
            check_value(name, own[name])
        except ValueError as error:
            # Remove the backticks. The command line replaces a name in backticks by its option
            # (`--name`), but here the names are those of the recipe file.
            message = str(error).replace("`", "")
            raise ValueError(f"{path}, line {key.start_mark.line + 1}: {message}") from error
    return {**base, "name": path.stem, **own}


def _text_of(name: str, node: yaml.Node) -> str:
    """Return the text of a field's value.

    Raises:
        ValueError: If the value is nested. Nested values are not expanded, because YAML aliases
            can make them huge.
    """
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(
            f"{name} must be one value or a list of values, got a nested {node.id}. Write it flat."
        )
    text: str = node.value
    return text


def _check_field(name: str) -> None:
    """Raise ValueError if a recipe has no field of this name."""
    if name in field_types():
        return
    close = difflib.get_close_matches(name, [*field_types(), "extends"], n=1)
    advice = (
        f"Did you mean {close[0]}?"
        if close
        else "`train --help-all` lists all fields. There are no sections, and options such as "
        "--bf16 are no fields."
    )
    raise ValueError(f"A recipe has no field {name}. {advice}")


def _known_file(name: Any, field: str = "recipe") -> Path:
    """Return the path of a built-in recipe.

    If no recipe has this name, raise a ValueError that names `field`.
    """
    known = {path.stem: path for path in RECIPE_FOLDER.glob("*.yaml")}
    if name not in known:
        close = difflib.get_close_matches(str(name), known)
        advice = (
            " or ".join(close)
            or "a name that `vaswani-transformer recipes` lists; only `recipe` takes a file"
        )
        raise ValueError(
            f"`{field}` must be the name of a built-in recipe, got {name!r}. Pass {advice}."
        )
    return known[name]


def recipe_text(name: str) -> str:
    """Return the YAML text of a built-in recipe, as a start for a recipe of your own."""
    return _known_file(name).read_text(encoding="utf-8")


def get_recipe(recipe: str | Path | None = None, /, **overrides: Any) -> Recipe:
    """Return a recipe with some fields replaced.

    If the `max_steps` in `overrides` is below that of the recipe, the intervals and the warm-up are
    also shortened: see `fit_schedule`. If training files replace the recipe's data, the recipe's
    languages are not used. Pass both languages, or let the file names end in the language
    (train.en).

    Args:
        recipe: Name of a built-in recipe, a file (.yaml, or the .json of a run), or None for the
            paper's base model.
        overrides: Fields of `Recipe` and their values.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If no recipe has this name, the file is not a recipe, or a language is missing
            or is not an ISO 639 code.
        TypeError: If an override is not a field of `Recipe`.
    """
    inherited: dict[str, Any] = {}
    if recipe is not None:
        is_file = Path(recipe).suffix in RECIPE_SUFFIXES
        inherited = read_recipe(recipe if is_file else _known_file(recipe))
    has_other_data = not overrides.keys().isdisjoint(("train_source", "train_pairs"))
    overrides |= _languages_by_suffix(overrides if has_other_data else inherited | overrides)
    if has_other_data:
        inherited = _for_other_data(inherited, overrides)
    original = Recipe(**inherited)
    steps = overrides.get("max_steps")
    if isinstance(steps, int) and 0 < steps < original.max_steps:
        del overrides["max_steps"]
        # Replace the other fields first, because the warm-up's peak rate depends on d_model.
        longer = dataclasses.replace(original, **overrides)
        return fit_schedule(longer, steps, keep=overrides, is_timed=False)
    return dataclasses.replace(original, **overrides)


def fit_schedule(
    recipe: Recipe, max_steps: int, *, keep: Collection[str] = (), is_timed: bool = True
) -> Recipe:
    """Return a recipe for another number of updates, with intervals and warm-up that fit it.

    If `is_timed` is true, the training gets four validations and four checkpoints, otherwise at
    least four of each. The intervals of snapshots and log lines remain the same fractions of the
    training. The warm-up takes at most a fifth of the updates. A shortened warm-up keeps its peak
    learning rate, although the paper's formula would raise it. Fields in `keep` do not change.
    """
    values: dict[str, Any] = {"max_steps": max_steps}
    quarter = math.ceil(max_steps / 4)
    for name in set(INTERVALS).difference(keep):
        interval = getattr(recipe, name)
        if name in ("snapshot_steps", "logging_steps"):
            values[name] = max(1, interval * max_steps // recipe.max_steps)
        else:
            values[name] = quarter if is_timed else min(interval, quarter)
    is_warmup_free = not {"warmup_steps", "learning_rate"}.intersection(keep)
    if is_warmup_free and recipe.warmup_steps * 5 > max_steps:
        values["warmup_steps"] = max(1, max_steps // 5)
        values["learning_rate"] = recipe.peak_learning_rate
    return dataclasses.replace(recipe, **values)


def _languages_by_suffix(values: Mapping[str, Any]) -> dict[str, str]:
    """Detect languages by file names such as train.en, and return those that `values` lacks.

    Raises:
        ValueError: If a language is not an ISO 639 code.
    """
    found = {}
    for side in ("source", "target"):
        name = f"{side}_language"
        files = as_list(values.get(f"train_{side}"))
        suffix = text_suffix(files[0])[1:] if files else ""
        if name not in values and re.fullmatch("[a-z]{2}", suffix):
            logger.info(f"The {side} language is {suffix}, by the suffix of its file.")
            found[name] = suffix
        code = found.get(name, values.get(name))
        if code is not None and not re.fullmatch(_LANGUAGE_CODE, str(code)):
            raise ValueError(
                f"`{name}` must be the ISO 639 code of a language in lower case, got {code}. Pass "
                "one such as de, deu_Latn or pt-BR, and rename the columns of a data set likewise: "
                "Chinese is zh, Czech cs, Danish da, Greek el, Japanese ja, Ukrainian uk, and "
                "Vietnamese vi."
            )
    return found


def _for_other_data(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's values, minus its languages, for use with other training data.

    A recipe without languages keeps its name and description. In other recipes, the name and the
    description are replaced if the recipe has a dataset, or if its languages differ from those in
    `given`.

    Raises:
        ValueError: If the recipe has languages, and `given` lacks one or both languages.
    """
    languages = ("source_language", "target_language")
    others = {name: value for name, value in values.items() if name not in languages}
    own = [values.get(name) for name in languages]
    new = [given.get(name) for name in languages]
    if own == [None, None]:
        return others
    if None in new:
        raise ValueError(
            "`source_language` and `target_language` must be given with data of your own, got "
            f"none: the recipe's are {own[0]} and {own[1]}. Pass both, for example en and fr."
        )
    if values.get("dataset") or new != own:
        others |= {"name": "custom", "description": ""}
    return others


def _new_name(name: str) -> str:
    """Return the current name of a field. Warn once about an old name."""
    if name not in OLD_NAMES:
        return name
    logger.warning_once(f"`{name}` of a recipe is now called `{OLD_NAMES[name]}`.")
    return OLD_NAMES[name]


@cache
def _all_recipes() -> dict[str, Recipe]:
    return {path.stem: get_recipe(path.stem) for path in sorted(RECIPE_FOLDER.glob("*.yaml"))}


def __getattr__(name: str) -> Any:
    """Load `RECIPES`, the built-in recipes by name, when it is first used."""
    if name == "RECIPES":
        return _all_recipes()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
