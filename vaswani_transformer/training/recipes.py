# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Recipes: everything that a training depends on but the hardware, as one flat dataclass, and the table of them."""

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

from transformers.utils import logging

from ..analysis.cost import VARIATIONS
from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..evaluation import METRICS
from ..files import RECIPE_FILE, read_json, text_suffix, write_json
from ..search_vaswani_transformer import GNMT_OFFSET, PAPER_ALPHA, PAPER_BEAMS, PAPER_OVER_SOURCE
from .schedule import paper_peak_learning_rate

logger = logging.get_logger(__name__)

# Fields of 0.1.0 that have the name of the training argument now. recipe.json, `get_recipe` and the command line take
# the old name, too.
OLD_NAMES = {
    "label_smoothing": "label_smoothing_factor",
    "load_best_model": "load_best_model_at_end",
    "eval_num_beams": "generation_num_beams",
}

SPLITS = ("train", "validation", "test")
PARTS = ("source", "target", "pairs")  # the files of a split
# What follows from the number of updates.
LAID_OUT = ("eval_steps", "save_steps", "snapshot_steps", "logging_steps", "warmup_steps", "learning_rate")
DECIDING = (*METRICS, "loss", "nll", "perplexity")  # figures by which a model can be chosen

# Ranges of numbers: the least value, the first that is too large, and the words for both.
_Range = tuple[float, float, str]
_COUNT: _Range = (1, 2**31, "a whole number of at least 1 and below 2^31")
_COUNT_OR_ZERO: _Range = (0, 2**31, "a whole number of at least 0 and below 2^31")
_LENGTH: _Range = (2, 2**31, "a whole number of at least 2 and below 2^31")  # a token and </s>
_SEED: _Range = (0, 2**32, "a whole number in [0, 2^32)")
_RATE: _Range = (0, 1, "a number in [0, 1)")
_POSITIVE: _Range = (math.ulp(0.0), math.inf, "a finite number above 0")
_NOT_NEGATIVE: _Range = (0, math.inf, "a finite number of at least 0")
_RATIO: _Range = (1, math.inf, "a finite number of at least 1")
_PENALTY: _Range = (-10, math.nextafter(10, 11), "a number in [-10, 10]")


def _field(
    default: Any, text: str, allowed: _Range | None = None, *, choices: tuple[str, ...] = (), free: bool = False
) -> Any:
    """A field: default, help of the command line, range of its numbers or known values; a resumed run may change it.

    The latter if it is `free`.
    """
    metadata = {"help": text, "range": allowed, "choices": choices, "free": free}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run: data, vocabulary, model, batches, optimiser, snapshots, validation and decoding.

    The defaults are the paper's base model. Each field carries its help text, with units, in `metadata["help"]`.
    A field that is named as one of the config or of the training arguments is passed on: see `model_config` and
    `run.training_arguments`. Nothing here depends on the hardware except `max_padded_tokens_per_device`, which bounds
    memory, and `dataloader_num_workers`.

    Raises:
        ValueError: If a value is of another type, or out of its range.
    """

    name: str = _field("custom", "name of the recipe", free=True)
    description: str = _field("", "what the recipe trains and where it leaves its source", free=True)

    # Data: either dataset, or for each split two files or one file of pairs.
    source_language: str | None = _field(None, "language code of the source side, for example en")
    target_language: str | None = _field(None, "language code of the target side, for example de")
    dataset: str | None = _field(
        None,
        "Hub name or folder of a `datasets` dataset, or `builtin`; training files replace it, other files their split",
    )
    dataset_config: str | None = _field(None, "configuration of the dataset, for example de-en")
    streaming: bool = _field(
        False,
        "read the training data anew in every epoch instead of keeping them on disk as token ids; needs a tokenizer",
    )
    validation_split: str | None = _field("validation", "split of the dataset for validation; none: no validation")
    test_split: str = _field("test", "split of the dataset that is the test set", free=True)
    train_source: str | Sequence[str] | None = _field(
        None, "training text, source side, one sentence a line; one file, or one of each corpus"
    )
    train_target: str | Sequence[str] | None = _field(None, "training text, target side, aligned with train_source")
    train_pairs: str | Sequence[str] | None = _field(
        None, "training pairs in .jsonl, .json, .csv, .tsv or .parquet files, one of each corpus"
    )
    train_weights: int | Sequence[int] | None = _field(
        None, "how many times an epoch has the pairs of each corpus; none: once", _COUNT
    )
    validation_source: str | None = _field(None, "validation text, source side")
    validation_target: str | None = _field(None, "validation text, target side")
    validation_pairs: str | None = _field(None, "validation pairs in one file")
    test_source: str | None = _field(None, "test text, source side", free=True)
    test_target: str | None = _field(None, "test text, target side", free=True)
    test_pairs: str | None = _field(None, "test pairs in one file", free=True)
    vocab_size: int = _field(37000, "entries of the joint vocabulary, with the 3 special tokens and 256 bytes", _COUNT)
    tokenizer: str | None = _field(
        None, "folder of a trained tokenizer, or its Hub id; none: one is trained on the training text"
    )
    added_tokens: str | Sequence[str] | None = _field(
        None, "text that is one token wherever it stands, such as <bt>, in addition to vocab_size"
    )
    max_tokens_per_sentence: int | None = _field(
        256, "tokens, with </s>, beyond which a training sentence is dropped; none: no limit", _LENGTH
    )
    max_length_ratio: float | None = _field(
        None, "ratio of the two sides' tokens beyond which a training pair is dropped; none: no limit", _RATIO
    )

    bpe_dropout: float = _field(  # may change: it helps most where it begins late
        0.0,
        "rate at which merges of byte pairs are left out in training, anew in each epoch, in [0, 1)",
        _RATE,
        free=True,
    )
    bpe_dropout_side: str = _field(
        "both", "side of bpe_dropout: source, target or both", choices=("source", "target", "both"), free=True
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
        "padded tokens of both sides one device holds at a time; more are accumulated; none: by a GPU's memory",
        _LENGTH,
        free=True,
    )
    dataloader_num_workers: int | None = _field(
        None,
        "processes that load batches for each device, 0: its own process; a resumed stream keeps its number; none: on "
        "a GPU as many as cores allow, at most 4, on a CPU 0",
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
        5, "newest snapshots whose average is the final model; 0: the last update's weights", _COUNT_OR_ZERO
    )
    load_best_model_at_end: bool = _field(
        False, "the final model is the best checkpoint by metric_for_best_model, instead of the average"
    )
    metric_for_best_model: str = _field(
        "sacrebleu",
        f"validation figure that decides: {', '.join(DECIDING)}; without target_language sacrebleu means chrf",
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
        "beams of the translations scored at validations; 1: greedy; 0: none, losses alone",
        _COUNT_OR_ZERO,
        free=True,
    )
    save_steps: int = _field(5000, "updates between two resumable checkpoints", _COUNT, free=True)
    save_total_limit: int = _field(2, "resumable checkpoints kept", _COUNT, free=True)
    logging_steps: int = _field(100, "updates between two lines of the log", _COUNT, free=True)

    # Decoding, written into the model's generation config.
    num_beams: int = _field(PAPER_BEAMS, "beams of the published model's search", _COUNT, free=True)
    length_penalty: float = _field(
        PAPER_ALPHA, "alpha of the length penalty ((c + length) / (c + 1))^alpha", _PENALTY, free=True
    )
    length_penalty_offset: float = _field(
        GNMT_OFFSET, "c of the length penalty; 5 is the paper's, 0 gives length^alpha", _NOT_NEGATIVE, free=True
    )
    max_new_tokens_over_source: int = _field(
        PAPER_OVER_SOURCE, "output limit in tokens: input length + this number", _COUNT_OR_ZERO, free=True
    )

    def __post_init__(self) -> None:
        """Checks every value before an old run is deleted or a new one trained."""
        for name, (kind, is_optional, may_be_several) in field_types().items():
            value, field = getattr(self, name), self.__dataclass_fields__[name]
            if value is None and is_optional:
                continue
            values = value if may_be_several and isinstance(value, list) and value else [value]
            is_of_type = all(type(each) in ((int, float) if kind is float else (kind,)) for each in values)
            if (allowed := field.metadata["range"]) is not None:
                low, high, wanted = allowed
                fits = is_of_type and all(low <= each < high for each in values)
            elif choices := field.metadata["choices"]:
                fits, wanted = value in choices, f"one of {', '.join(choices)}"
            else:
                fits, wanted = is_of_type, "true or false" if kind is bool else "text"
            if not fits:
                meaning = field.metadata["help"]
                raise ValueError(f"`{name}` must be {wanted}, got {value!r}. Pass another value ({meaning}).")

    @property
    def decides_by_validation(self) -> bool:
        """True if a validation figure decides which weights are kept, or when the training ends."""
        return self.load_best_model_at_end or self.early_stopping_patience is not None

    @property
    def validation_search(self) -> str:
        """How validations translate: greedy or beam N, which the published model's search need not be."""
        return "greedy" if self.generation_num_beams == 1 else f"beam {self.generation_num_beams}"

    @property
    def peak_learning_rate(self) -> float:
        """`learning_rate`, or the paper's for this width and warm-up."""
        return self.learning_rate or paper_peak_learning_rate(self.model_config().d_model, self.warmup_steps)

    def model_config(self, vocab_size: int | None = None) -> VaswaniTransformerConfig:
        """Configuration of the recipe's model, with the tokenizer's entries or the recipe's `vocab_size`.

        Raises:
            ValueError: If there is no such preset, or its values and the recipe's do not fit.
        """
        names = self.__dataclass_fields__.keys() & VaswaniTransformerConfig.__annotations__.keys()  # its own
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        return VaswaniTransformerConfig.from_preset(
            self.preset, **values | {"vocab_size": vocab_size or self.vocab_size}
        )

    def data_arguments(self, split: str) -> dict[str, Any] | None:
        """Keyword arguments of `data.load_corpus` for one split.

        Training files replace `dataset` for all splits, so that a model is not validated on another corpus than it was
        trained on by mistake; other files replace their split.

        Args:
            split: "train", "validation" or "test", which are a dataset's train, `validation_split` and `test_split`,
                or any other split that it has.

        Returns:
            The arguments, or None if the recipe names no data for this split.
        """
        languages = {"source_language": self.source_language, "target_language": self.target_language}
        files = {
            known: {f"{part}_file": file for part in PARTS if (file := getattr(self, f"{known}_{part}")) is not None}
            for known in SPLITS
        }
        if self.dataset is not None and not (files["train"] or files.get(split)):
            own = {"validation": self.validation_split, "test": self.test_split}.get(split, split)
            of_dataset = {"dataset": self.dataset, "dataset_config": self.dataset_config, "split": own, **languages}
            return None if own is None else of_dataset
        return {**files[split], **languages} if files.get(split) else None

    def train_corpora(self) -> list[tuple[dict[str, Any], int]]:
        """Keyword arguments of `data.load_corpus` for each training corpus, and how often an epoch has its pairs.

        Raises:
            ValueError: If the files, or the weights, are not one of each corpus.
        """
        if (arguments := self.data_arguments("train")) is None:
            return []
        names = ("train_weights", *(f"train_{part}" for part in PARTS if f"{part}_file" in arguments))
        fields = {name: getattr(self, name) for name in names}
        several = {name: value if isinstance(value, list) else [value] for name, value in fields.items()}
        if self.train_weights is None:
            several["train_weights"] = [1] * max(map(len, several.values()))
        if len({len(values) for values in several.values()}) > 1:
            counts = ", ".join(f"{len(values)} of `{name}`" for name, values in several.items())
            raise ValueError(f"Each training corpus must have an entry in every list, got {counts}. Complete them.")
        weights = several.pop("train_weights")
        if not several and len(weights) > 1:
            raise ValueError(f"`train_weights` must be one number without training files, got {len(weights)}.")
        files = [
            dict(zip([f"{name.removeprefix('train_')}_file" for name in several], each, strict=True))
            for each in zip(*several.values(), strict=True)
        ]
        return [({**arguments, **each}, weight) for each, weight in zip(files or [{}], weights, strict=True)]

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
            return cls(**with_new_names(values))
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{path}` must be a recipe, got a file that is none ({error}).") from error


@cache
def field_types() -> dict[str, tuple[type, bool, bool]]:
    """The type of each field of a recipe, by its name, whether it may be None instead, and a list of several."""
    hints = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(Recipe).items()}
    return {name: (types[0], type(None) in types, len(types) == 3) for name, types in hints.items()}


# ---- the table ----

# What the paper changes with the model. It writes a checkpoint every 10 minutes: about 1,500 updates of the base model
# at 0.4 s, 600 of the big one at 1.0 s.
_MODELS: dict[str, dict[str, Any]] = {
    "base": {"preset": "base", "max_steps": 100_000, "snapshot_steps": 1500, "num_averaged_snapshots": 5},
    "big": {"preset": "big", "max_steps": 300_000, "snapshot_steps": 600, "num_averaged_snapshots": 20},
}
_WMT14: dict[str, dict[str, Any]] = {
    language: {
        "source_language": "en",
        "target_language": language,
        "dataset": "wmt/wmt14",
        "dataset_config": f"{language}-en",
        "vocab_size": vocab_size,
    }
    for language, vocab_size in (("de", 37_000), ("fr", 32_000))
}
_SIZES = {"de": "English-German, 4.5M pairs", "fr": "English-French, 36M pairs"}


def paper_recipes() -> list[Recipe]:
    """Recipes of the four published models and of every row of Table 3; other values are the defaults.

    The models of Table 3 are not averaged, and measured on the development set.

    Paper: sections 5 and 6.1, Table 3.
    """
    published = [
        Recipe(
            name=f"paper-{model}-en-{language}",
            description=(
                f"The paper's {model} model on WMT14 {_SIZES[language]} (newstest2013 validates, newstest2014 tests). "
                f"The paper writes a checkpoint every 10 minutes, about {values['snapshot_steps']:,} updates, and "
                f"averages {values['num_averaged_snapshots']}."
            ),
            dropout=0.1 if (model, language) == ("big", "fr") else None,
            **corpus,
            **values,
        )
        for model, values in _MODELS.items()
        for language, corpus in _WMT14.items()
    ]
    rows = [
        Recipe(
            name=f"table3-{row.name}",
            description=(
                f"Row {row.name} of Table 3: WMT14 English-German, the last update's weights (no averaging), "
                f"validated and tested on newstest2013, where the paper has perplexity {row.perplexity:.2f} and "
                f"BLEU {row.bleu}."
            ),
            test_split="validation",
            preset=row.preset,
            max_steps=row.max_steps,
            label_smoothing_factor=row.label_smoothing,
            num_averaged_snapshots=0,
            **_WMT14["de"],
        )
        for row in VARIATIONS
    ]
    return [*published, *rows]


_SMALL: dict[str, Any] = {
    "vocab_size": 6000,
    "max_tokens_per_sentence": 128,
    "d_model": 128,
    "d_ff": 512,
    "num_heads": 4,
}
_SMALL |= {"num_encoder_layers": 2, "num_decoder_layers": 2, "warmup_steps": 1000, "num_averaged_snapshots": 10}

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="quickstart",
            description=(
                "A small model on the built-in short English-German sentences of Tatoeba, for 2 CPU cores in minutes. "
                "It sees each pair about three times, hence no dropout."
            ),
            source_language="en",
            target_language="de",
            dataset="builtin",
            **_SMALL,
            dropout=0.0,
            max_source_tokens_per_batch=700,
            max_target_tokens_per_batch=700,
            max_steps=5400,
            snapshot_steps=150,
            eval_steps=2700,
            save_steps=2700,
            logging_steps=50,
        ),
        Recipe(
            name="small",
            description=(
                "A small model for your own text on a CPU: ten minutes to an hour for 10,000 to 200,000 pairs. "
                "--minutes says how long."
            ),
            **_SMALL,
            max_source_tokens_per_batch=1000,
            max_target_tokens_per_batch=1000,
            max_steps=10_000,
            snapshot_steps=100,
            eval_steps=1000,
            save_steps=1000,
        ),
        Recipe(
            name="medium",
            description=(
                "A model for your own text on one GPU, some 100,000 to a few million pairs: the size and dropout that "
                "are usual for IWSLT's 160,000 pairs, with batches of 8,000 tokens a side."
            ),
            vocab_size=10_000,
            d_ff=1024,
            num_heads=4,
            dropout=0.3,
            max_source_tokens_per_batch=8000,
            max_target_tokens_per_batch=8000,
            max_steps=30_000,
            eval_steps=1000,
            save_steps=1000,
        ),
        Recipe(
            name="multi30k-tiny",
            description=(
                "Multi30k en-de with the Transformer-Tiny of Wu et al. 2021 (LividWo/Revisit-MMT, text only), for the "
                "corpus' own lower-cased, tokenised files, passed as train_source, train_target and so on. Batches "
                "count real tokens of each side, chosen to give their 65 updates an epoch. Other differences: "
                "byte-level BPE, interleaved sinusoids, and output limit input + 50 instead of 200."
            ),
            source_language="en",
            target_language="de",
            vocab_size=9700,
            d_model=128,
            d_ff=256,
            num_heads=4,
            num_encoder_layers=4,
            num_decoder_layers=4,
            dropout=0.3,
            attention_bias=True,
            max_source_tokens_per_batch=6850,
            max_target_tokens_per_batch=6850,
            max_steps=8000,
            warmup_steps=2000,
            learning_rate=0.005,
            adam_epsilon=1e-8,
            max_grad_norm=25.0,
            snapshot_steps=65,
            num_averaged_snapshots=10,
            metric_for_best_model="loss",
            early_stopping_patience=10,
            eval_steps=65,
            generation_num_beams=0,
            save_steps=650,
            num_beams=5,
            length_penalty=1.0,
            length_penalty_offset=0,
        ),
        Recipe(
            name="tatoeba-small",
            description=(
                "Tatoeba en-de, 165,000 pairs of short sentences of every day, with half of the base model's width "
                "and layers: hours on a CPU, minutes on a GPU. Files are passed as train_source, train_target and so "
                "on."
            ),
            source_language="en",
            target_language="de",
            vocab_size=8000,
            max_tokens_per_sentence=128,
            d_model=256,
            d_ff=1024,
            num_heads=4,
            num_encoder_layers=3,
            num_decoder_layers=3,
            max_source_tokens_per_batch=3000,
            max_target_tokens_per_batch=3000,
            max_steps=12_000,
            warmup_steps=2000,
            snapshot_steps=100,
            num_averaged_snapshots=10,
            eval_steps=500,
            save_steps=500,
            logging_steps=100,
        ),
        *paper_recipes(),
    )
}


def get_recipe(name: str | None, /, **overrides: Any) -> Recipe:
    """Recipe of the table, or the paper's base model (None), with fields replaced, and others that follow from them.

    With fewer `max_steps`, there are at least four validations and checkpoints, snapshots and log lines come at the
    same parts of the training, and the warm-up takes a fifth of it at most; see `laid_out`.
    Other files do not inherit the languages: these are what is given, or the suffixes of the files' names.

    Raises:
        ValueError: If no recipe has this name, or languages are missing.
        TypeError: If an override is not a field of `Recipe`.
    """
    if name is not None and name not in RECIPES:
        close = " or ".join(difflib.get_close_matches(name, RECIPES)) or "one that `vaswani-transformer recipes` lists"
        raise ValueError(f"`recipe` must be a known name, got {name!r}. Pass {close}.")
    recipe, given = RECIPES.get(name or "", Recipe()), with_new_names(overrides)
    steps = given.get("max_steps")
    if isinstance(steps, int) and 0 < steps < recipe.max_steps:
        own = {name: value for name, value in given.items() if name != "max_steps"}  # the peak rate follows the sizes
        short = laid_out(dataclasses.replace(recipe, **own), steps, keep=own, is_timed=False)
        given = {name: getattr(short, name) for name in LAID_OUT} | given
    if {"train_source", "train_pairs"} & given.keys():  # a data set would not be found under other languages
        given = _of_own_data(recipe, given) | given
    return _with_equal_intervals(dataclasses.replace(recipe, **given), overrides)


def laid_out(recipe: Recipe, max_steps: int, *, keep: Collection[str] = (), is_timed: bool = True) -> Recipe:
    """The recipe for so many updates: four validations, the peak rate after a fifth of the updates at most.

    Values that `keep` names stay. The peak stays where the warm-up gets shorter: the paper's formula would raise it. A
    training that is not to fit into a time keeps more frequent validations and checkpoints.
    """
    values: dict[str, Any] = {"max_steps": max_steps}
    for each in set(LAID_OUT[:4]).difference(keep):
        scaled, quarter = max(1, getattr(recipe, each) * max_steps // recipe.max_steps), -(-max_steps // 4)
        is_dear = each in ("eval_steps", "save_steps")
        values[each] = scaled if not is_dear else quarter if is_timed else min(getattr(recipe, each), quarter)
    if recipe.warmup_steps * 5 > max_steps and not set(LAID_OUT[4:]).intersection(keep):
        values |= {"warmup_steps": max(1, max_steps // 5), "learning_rate": recipe.peak_learning_rate}
    return _with_equal_intervals(dataclasses.replace(recipe, **values), keep)


def _with_equal_intervals(recipe: Recipe, given: Collection[str]) -> Recipe:
    """Make save_steps and eval_steps equal if the best model is loaded; the one that was given wins."""
    if not recipe.load_best_model_at_end:
        return recipe
    if "save_steps" not in given:
        return dataclasses.replace(recipe, save_steps=recipe.eval_steps)
    if "eval_steps" not in given:
        return dataclasses.replace(recipe, eval_steps=recipe.save_steps)
    return recipe


def _of_own_data(recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """Languages, name and description of a recipe with other data than its own."""
    values: dict[str, Any] = {}
    for side in ("source", "target"):
        value = given.get(f"{side}_language")
        files = given.get(f"train_{side}")
        suffix = text_suffix(files if isinstance(files, (str, Path)) else files[0])[1:] if files else ""
        if f"{side}_language" not in given and re.fullmatch("[a-z]{2}", suffix):
            value = suffix
            logger.info(f"The {side} language is {suffix}, by the name of its file.")
        values[f"{side}_language"] = value
    if recipe.source_language and None in values.values():
        raise ValueError(
            "`source_language` and `target_language` must be given with data of your own, got none: the recipe's are "
            f"{recipe.source_language} and {recipe.target_language}. Pass both, for example en and fr."
        )
    is_other = recipe.dataset or (recipe.source_language, recipe.target_language) != tuple(values.values())
    return values | ({"name": "custom", "description": ""} if recipe.source_language and is_other else {})


def with_new_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a recipe by the names that its fields have now; an old name is warned of once."""
    for name in OLD_NAMES.keys() & values.keys():
        logger.warning_once(f"`{name}` of a recipe is now called `{OLD_NAMES[name]}`.")
    return {OLD_NAMES.get(name, name): value for name, value in values.items()}
