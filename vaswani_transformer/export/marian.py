# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The stock form: a trained model as `MarianMTModel` of transformers, which loads everywhere without this package.

Marian computes what the paper's model computes, with the entries of d_model in another order: its sinusoids are first
all sines, then all cosines, where the paper's take turns. So every axis of d_model is reordered, and nothing else.

Deviation: Marian's LayerNorm has a fixed epsilon of 1e-5, ours 1e-6, which moves logits by about 1e-4. It cannot be
folded into the weights: the residual stream would have to be scaled, and with it Marian's sinusoids, which are not
stored.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelCard,
    ModelCardData,
)
from transformers import GenerationConfig, MarianConfig, MarianMTModel
from transformers.utils.hub import cached_file

from ..evaluation.loading import is_hub_id, load_for_inference
from ..evaluation.translate import decoding_config
from ..files import (
    CARD_FILE,
    CONFIG_FILE,
    TOKENIZER_FILES,
    check_private,
    read_json,
    write_json,
    write_text,
    writing_folder,
)
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..version import __version__

MAX_POSITIONS = 2048  # Marian's table ends; a longer text is an IndexError there
MAX_NEW_TOKENS = 256  # transformers has no limit that grows with the source

_READS_D_MODEL = ("q_proj", "k_proj", "v_proj", "fc1", "shared")
_WRITES_D_MODEL = ("out_proj", "fc2", "layer_norm")
_CARD = """\
---
{data}
---

# {name}, the stock form

A translation model as `MarianMTModel`: it needs transformers alone, and no `trust_remote_code`.

{usage}

`vaswani-transformer export --to marian` made it from a model of that package, the Transformer of "Attention Is All You
Need" (2017). Data, scores and limits are on {origin}.{attribution} What differs:

- {search}, and the output has at most {new_tokens} tokens.
- A text has at most {positions:,} tokens; a longer one is an error (IndexError) without `truncation=True`. An empty
  text gives some sentence instead of none.
- LayerNorm's epsilon is 1e-5 instead of 1e-6, which changes logits by about 1e-4.
"""
_ORIGIN = "that model's card"  # until it is pushed
_GREEDY = "It searches greedily, as that model does"
_BEAMS = """\
Of {num_beams} beams a hypothesis is scored by its log-probability / length^{length_penalty:.2g} instead of the paper's
  ((5 + length) / 6)^alpha (section 6.1)"""
_FILES = (CARD_FILE, CONFIG_FILE, "generation_config.json", "model*.safetensors*", *TOKENIZER_FILES)


def export_marian(model: str | Path, output_dir: str | Path) -> Path:
    """Writes a trained model as a folder of a plain `MarianMTModel`, with tokenizer and card, and returns the folder.

    Args:
        model: Folder of a model, or its id on the Hub.
        output_dir: Folder to make; it may exist if it is empty.

    Raises:
        FileNotFoundError: There is no such model, or its folder lacks a file.
        ValueError: Marian has no such model (`to_marian`), or `output_dir` holds something.

    Example:
        >>> export_marian("runs/quickstart", "runs/quickstart-marian")
    """
    with writing_folder(output_dir) as folder:
        loaded, tokenizer = load_for_inference(model, device="cpu")
        stock = to_marian(loaded.float())
        stock.save_pretrained(folder)
        tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
        write_json(
            folder / "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": stock.config.max_position_embeddings,
                "model_input_names": tokenizer.model_input_names,
                "clean_up_tokenization_spaces": False,
                "split_special_tokens": tokenizer.split_special_tokens,
                **{name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)},
            },
        )
        write_text(folder / CARD_FILE, _card(str(model), Path(output_dir).name, stock))
    return Path(output_dir)


def push_marian(
    folder: str | Path,
    repo_id: str,
    *,
    revision: str | None = None,
    private: bool | None = None,
    token: str | None = None,
    origin: str | None = None,
) -> CommitInfo:
    """Uploads a folder of `export_marian` to the Hub in one commit, in place of the stock form that the branch had.

    The other arguments are those of `training.hub.push_model`.

    Args:
        folder: The folder.
        revision: Branch, made if there is none; None is main, which hosted inference and transformers.js serve.
        origin: Repo of the model that this is the stock form of, which the card then names.

    Raises:
        ValueError: The folder is no stock form, the branch holds another model, or the repo is public though `private`
            is asked for.
        OSError: The Hub cannot be reached or refuses the push.
    """
    folder = Path(folder)
    if (kind := read_json(folder / CONFIG_FILE).get("model_type")) != "marian":
        raise ValueError(
            f"`folder` must be one of export_marian, got {folder} with a model of type {kind!r}. Export it first; "
            "push_model uploads the model itself."
        )
    api = HfApi(token=token, library_name="vaswani_transformer", library_version=__version__)
    check_private(api, repo_id, private)
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    is_new = revision is not None and revision not in [each.name for each in api.list_repo_refs(repo_id).branches]
    if is_new:
        api.create_branch(repo_id, branch=str(revision))  # with all that main has
    names = api.list_repo_files(repo_id, revision=revision)
    if CONFIG_FILE in names and not is_new:
        kind = read_json(Path(api.hf_hub_download(repo_id, CONFIG_FILE, revision=revision))).get("model_type")
        if kind != "marian":
            raise ValueError(
                f"`repo_id` must hold no other model, got {repo_id}, {revision or 'main'}, with one of type {kind!r}, "
                "which would be lost. Name another repo."
            )
    files = {path.name: path for pattern in _FILES for path in folder.glob(pattern)}
    card = _as_pushed(files.pop(CARD_FILE).read_text(encoding="utf-8"), repo_id, revision, origin)
    added = [CommitOperationAdd(CARD_FILE, card.encode()), *(CommitOperationAdd(*each) for each in files.items())]
    deleted = [
        CommitOperationDelete(name)
        for name in names
        if name not in {*files, CARD_FILE, ".gitattributes"}
        and (is_new or any(fnmatch(name, each) for each in _FILES))
    ]
    return api.create_commit(repo_id, added + deleted, commit_message="Upload the stock form", revision=revision)


def _as_pushed(text: str, repo_id: str, revision: str | None, origin: str | None) -> str:
    """The card as it stands on the Hub: where it loads from, and which model it was made from."""
    card: Any = ModelCard(re.sub(r'"path/to/[^"]+"', place_of(repo_id, revision), text))
    if origin is not None:
        card.text = card.text.replace(_ORIGIN, f"[{_ORIGIN}](https://huggingface.co/{origin})", 1)
        if origin != repo_id:
            card.data.base_model = origin
    return str(card)


def place_of(repo_id: str, revision: str | None) -> str:
    """Arguments of from_pretrained, as code."""
    return f'"{repo_id}"' + (f', revision="{revision}"' if revision else "")


def usage(place: str) -> str:
    """Code that loads and uses a stock form; `place` is the arguments of from_pretrained, as code."""
    return f"""\
```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({place})
model = AutoModelForSeq2SeqLM.from_pretrained({place})
batch = tokenizer(["A first sentence.", "Another one."], padding=True, truncation=True, return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```"""


def to_marian(model: VaswaniTransformerForConditionalGeneration) -> MarianMTModel:
    """Makes the `MarianMTModel` that computes the same logits, with a search as near as its options allow.

    Raises:
        ValueError: `d_k` or `d_v` is not d_model / num_heads, positions are learned, or embeddings untied.
    """
    config: Any = model.config
    width = config.d_model / config.num_heads
    needed = {"d_k": width, "d_v": width, "position_encoding": "sinusoidal", "tie_word_embeddings": True}
    if others := {name: getattr(config, name) for name in needed if getattr(config, name) != needed[name]}:
        raise ValueError(
            "`model` must have heads of d_model / num_heads, sinusoidal positions and tied embeddings to become a "
            f"Marian model, got {others}. Share the folder as it is, with trust_remote_code."
        )
    stock: Any = MarianMTModel(
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
            max_position_embeddings=max(MAX_POSITIONS, config.max_position_embeddings),
            pad_token_id=config.pad_token_id,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
            forced_eos_token_id=None,
        )
    )
    stock.to(model.dtype)
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in stock.named_parameters():  # without final_logits_bias, which is a buffer of zeros
            layer = name.split(".")[-2]
            if layer == "embed_positions":
                continue
            weight = weights.get(name, torch.zeros_like(parameter))  # the paper's attention has no biases
            if layer.endswith(_WRITES_D_MODEL):
                weight = weight[order]
            elif layer.endswith(_READS_D_MODEL) and weight.dim() == 2:
                weight = weight[:, order]
            parameter.copy_(weight)
    stock.generation_config = _search(model)
    stock.eval()
    return cast("MarianMTModel", stock)


def _search(model: VaswaniTransformerForConditionalGeneration) -> GenerationConfig:
    """The options of transformers' own search that come nearest to section 6.1's, and the model's others."""
    own: Any = decoding_config(model)
    chosen = model.generation_config.to_diff_dict()
    for name in "max_new_tokens_over_source longest_training_source length_penalty_offset max_length".split():
        chosen.pop(name, None)
    # `<s>` counts in max_length. A max_new_tokens here would win over a max_length in the call.
    max_length = 1 + chosen.pop("max_new_tokens", MAX_NEW_TOKENS)
    values = {**chosen, "max_length": max_length, "num_beams": own.num_beams}
    if own.num_beams > 1:
        # log((5 + n) / 6) grows with log(n) as n / (5 + n) says: 0.7 for the sentences of 12 tokens
        penalty = own.length_penalty * (1.0 if own.length_penalty_offset == 0 else 0.7)
        values |= {"length_penalty": penalty, "early_stopping": "never"}
    else:
        values |= {"length_penalty": None, "early_stopping": None}
    return GenerationConfig(**values)


def _card(model: str, name: str, stock: MarianMTModel) -> str:
    """The card, with language, licence and data set of the model's own."""
    path = cached_file(model, CARD_FILE, _raise_exceptions_for_missing_entries=False)
    own = ModelCard.load(path) if path else ModelCard("---\n---\n")
    values, search = own.data.to_dict(), stock.generation_config
    kept = {key: values[key] for key in ("language", "license", "datasets", "base_model") if values.get(key)}
    if not is_hub_id(str(kept.get("base_model"))):
        kept.pop("base_model", None)
    data = ModelCardData(library_name="transformers", pipeline_tag="translation", **kept)
    attribution = re.search(r"^\| attribution of the data \| (.*) \|$", own.text, re.MULTILINE)
    return _CARD.format(
        data=data.to_yaml(),
        name=name,
        usage=usage(f'"path/to/{name}"'),
        origin=_ORIGIN,
        attribution=f" Its data: {attribution[1]}." if attribution else "",
        search=(_BEAMS if search.num_beams > 1 else _GREEDY).format(**search.to_dict()),
        new_tokens=search.max_length - 1,
        positions=stock.config.max_position_embeddings,
    )
