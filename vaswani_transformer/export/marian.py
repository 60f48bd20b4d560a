# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Marian export: a trained model as a `MarianMTModel`.

A Marian export needs transformers, but not this package.

Marian computes the paper's model, but orders the d_model entries of a state differently. Marian's
position encodings consist of all sines followed by all cosines, while the paper's sines and cosines
alternate. So the export reorders each axis of size d_model, and changes nothing else.

Deviation: Marian's LayerNorm has a fixed epsilon of 1e-5, and the LayerNorm of this package has
1e-6. This difference changes logits by about 1e-4. Adjusting the weights cannot compensate for the
difference: it would mean scaling the residual stream, and therefore also the sinusoids, but Marian
computes the sinusoids itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelCardData
from transformers import GenerationConfig, MarianConfig, MarianMTModel
from transformers.utils.hub import cached_file

from ..files import CARD_FILE, RECIPE_FILE, write_json, write_text, writing_folder
from ..hub.card import load_card
from ..inference.ctranslate2 import Decoding, num_positions
from ..inference.loading import is_hub_id, load_for_inference
from ..inference.translate import decoding_config
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..recipe import Recipe, read_recipe

MAX_NEW_TOKENS = 256  # a constant, because transformers has no limit that grows with the source

_READS_D_MODEL = ("q_proj", "k_proj", "v_proj", "fc1", "shared")
_WRITES_D_MODEL = ("out_proj", "fc2", "layer_norm")
_CARD = """\
---
{data}
---

# {name}

A translation model as `MarianMTModel`: it needs only transformers, and no `trust_remote_code`.

```python
# The Hub's own snippet asks you to downgrade transformers. You need not:
# these classes are in transformers 5, which removed only the pipeline.
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

name = "USER/NAME"  # the id of this repository on the Hub, or a folder that holds its files
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForSeq2SeqLM.from_pretrained(name)
texts = ["The man reads a book."]  # one sentence per text
batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

`vaswani-transformer export --to marian` made it from a model of the package vaswani_transformer,
the Transformer of "Attention Is All You Need" (2017). The card of that model gives its data,
scores, limits and citation.{attribution} This export differs from that model:

- {search}, and the output has at most {new_tokens} tokens.
- It does not split texts into sentences: each text must be one sentence.
- A text has at most {positions:,} tokens. A longer one raises IndexError, or loses its end with
  `truncation=True`. The translation of an empty text is not empty.
- LayerNorm's epsilon is 1e-5 instead of 1e-6, which changes logits by about 1e-4.
"""
_GREEDY = "It searches greedily, as that model does"
_BEAMS = """\
It searches with {num_beams} beams and scores a hypothesis by log-probability /
  length^{length_penalty:.2g} instead of the paper's ((5 + length) / 6)^alpha (section 6.1)"""


def export_marian(model: str | Path, output_dir: str | Path) -> Path:
    """Export a trained model as a `MarianMTModel` with tokenizer and card, and return the folder.

    Args:
        model: Folder of a model, or its id on the Hub.
        output_dir: Folder to create; it may exist if it is empty.

    Raises:
        FileNotFoundError: There is no such model.
        OSError: The model lacks a file.
        ValueError: The model is incomplete or not of this package, Marian cannot compute it (see
            `to_marian`), or `output_dir` is not empty.

    Example:
        >>> export_marian("runs/quickstart", "runs/quickstart-marian")
    """
    with writing_folder(output_dir) as folder:
        loaded, tokenizer = load_for_inference(model, device="cpu")
        marian = to_marian(loaded.float())
        marian.save_pretrained(folder)
        tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
        write_json(
            folder / "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": marian.config.max_position_embeddings,
                "model_input_names": tokenizer.model_input_names,
                "clean_up_tokenization_spaces": False,
                "split_special_tokens": tokenizer.split_special_tokens,
                **tokenizer.special_tokens_map,
            },
        )
        write_text(folder / CARD_FILE, _card(str(model), Path(output_dir).name, marian))
    return Path(output_dir)


def to_marian(model: VaswaniTransformerForConditionalGeneration) -> MarianMTModel:
    """Return a `MarianMTModel` with the weights of `model`.

    The logits are the same, apart from the different epsilon of LayerNorm. The search settings come
    as close to the search of `model` as transformers' own search allows.

    Raises:
        ValueError: `d_k` or `d_v` differs from d_model / num_heads, positions are learned, or
            embeddings are not tied.
    """
    config: Any = model.config
    width = config.d_model / config.num_heads
    needed = {
        "d_k": width,
        "d_v": width,
        "position_encoding": "sinusoidal",
        "tie_word_embeddings": True,
    }
    given = {name: getattr(config, name) for name in needed}
    if given != needed:
        raise ValueError(
            "`model` must have heads of d_model / num_heads, sinusoidal positions and tied "
            f"embeddings to become a Marian model, got {given}. Share the folder as it is, with "
            "trust_remote_code."
        )
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.num_encoder_layers,
            decoder_layers=config.num_decoder_layers,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=num_positions(config),
            pad_token_id=config.pad_token_id,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
            forced_eos_token_id=None,
        )
    )
    marian.to(model.dtype)  # type: ignore[arg-type]
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    weights = dict(model.named_parameters())
    with torch.no_grad():
        # `named_parameters` leaves out final_logits_bias, which is a buffer of zeros.
        for name, parameter in marian.named_parameters():
            layer = name.split(".")[-2]
            if layer == "embed_positions":
                continue
            # Biases of Marian's attention are zeros, because the paper's attention has none.
            weight = weights.get(name, torch.zeros_like(parameter))
            if layer.endswith(_WRITES_D_MODEL):
                weight = weight[order]
            elif layer.endswith(_READS_D_MODEL) and weight.dim() == 2:
                weight = weight[:, order]
            parameter.copy_(weight)
    marian.generation_config = _search(model)
    marian.eval()
    return marian


def _search(model: VaswaniTransformerForConditionalGeneration) -> GenerationConfig:
    """Return the generation config for transformers that comes closest to section 6.1's search.

    This function sets the maximum length, the number of beams, the length penalty and early
    stopping. It copies all other settings of transformers from the model's generation config.
    """
    own: Any = decoding_config(model)
    chosen = model.generation_config.to_diff_dict()
    for name in (
        "max_new_tokens_over_source",
        "longest_training_source",
        "length_penalty_offset",
        "max_new_tokens",
    ):
        chosen.pop(name, None)
    limits = Decoding.of(own)
    limit = MAX_NEW_TOKENS if limits.is_over_source else limits.max_new_tokens
    # max_length counts `<s>`, max_new_tokens does not. The export sets max_length, because a
    # max_new_tokens in the generation config would override a max_length in the call.
    chosen |= {
        "max_length": 1 + limit,
        "num_beams": own.num_beams,
        "length_penalty": None,
        "early_stopping": None,
    }
    if own.num_beams > 1:
        # transformers' penalty is length^alpha. It approximates the paper's penalty if the paper's
        # alpha is multiplied by a factor below 1. This factor is the slope of log((5 + n) / 6) as a
        # function of log(n). The slope is n / (5 + n), about 0.7 for sentences of 12 tokens.
        penalty = own.length_penalty * (1.0 if own.length_penalty_offset == 0 else 0.7)
        chosen |= {"length_penalty": penalty, "early_stopping": "never"}
    return GenerationConfig(**chosen)


def _card(model: str, name: str, marian: MarianMTModel) -> str:
    """Return the card, with the language, license, dataset and attribution of the exported model.

    If `model` is on the Hub, the card names it as the base model. Otherwise, if the card of `model`
    names a base model on the Hub, the new card names the same base model.
    """
    card_file = cached_file(model, CARD_FILE, _raise_exceptions_for_missing_entries=False)
    recipe_file = cached_file(model, RECIPE_FILE, _raise_exceptions_for_missing_entries=False)
    values = load_card(card_file).data.to_dict() if card_file else {}
    attribution = Recipe(**read_recipe(recipe_file)).attribution if recipe_file else None
    names = ("language", "license", "license_name", "license_link", "datasets")
    kept: Any = {name: values.get(name) for name in names}
    on_hub = [name for name in (model, str(values.get("base_model"))) if is_hub_id(name)]
    base_model = on_hub[0] if on_hub else None
    data = ModelCardData(
        library_name="transformers", pipeline_tag="translation", base_model=base_model, **kept
    )
    search = marian.generation_config
    return _CARD.format(
        data=data.to_yaml(),
        name=name,
        attribution=f" Its data: {attribution}." if attribution else "",
        search=(_BEAMS if search.num_beams > 1 else _GREEDY).format(**search.to_dict()),
        new_tokens=search.max_length - 1,
        positions=marian.config.max_position_embeddings,
    )
