# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A Marian export computes what the model computes, and needs transformers alone."""

import json
import sys

import pytest
import torch
from huggingface_hub import ModelCard
from torch import nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig, MarianMTModel

from vaswani_transformer import (
    PRESETS,
    VaswaniTransformerConfig,
    VaswaniTransformerForConditionalGeneration,
)
from vaswani_transformer.export import export_marian
from vaswani_transformer.export.marian import to_marian


def is_qualified(config):
    """Whether its heads are of d_model / num_heads and its positions sinusoids."""
    d_k = config.d_model // config.num_heads
    return config.d_k == config.d_v == d_k and config.position_encoding == "sinusoidal"


# Every preset that qualifies, once for each form that is left at a sixteenth of its width.
QUALIFIED = {
    (config.num_heads, config.num_encoder_layers): name
    for name in reversed(PRESETS)
    if is_qualified(config := VaswaniTransformerConfig.from_preset(name))
}.values()


IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def small(name, **overrides):
    """A random model of a preset's form in float64, in which no bias or norm is trivial."""
    torch.manual_seed(0)
    heads = VaswaniTransformerConfig.from_preset(name).num_heads
    sizes = {
        "vocab_size": 50,
        "d_model": 2 * heads,
        "d_ff": 24,
        "d_k": None,
        "d_v": None,
        **overrides,
    }
    model = VaswaniTransformerForConditionalGeneration(
        VaswaniTransformerConfig.from_preset(name, **sizes)
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def logits(model):
    source = torch.tensor([[5, 6, 7, 8, 9, 2], [11, 12, 13, 2, 0, 0]])
    target = torch.tensor([[1, 20, 21, 22], [1, 30, 31, 32]])
    with torch.no_grad():
        return model(
            input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=target
        ).logits


def with_epsilon(model, epsilon):
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = epsilon
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bias"), [*((name, False) for name in QUALIFIED), ("base", True)])
def test_logits_are_the_models_but_for_the_epsilon(name, bias):
    model = small(name, attention_bias=bias)
    stock = to_marian(model)
    assert (logits(stock) - logits(model)).abs().max() < 1e-3
    # Marian's table of sinusoids is rounded to fp32
    assert (logits(with_epsilon(stock, 1e-6)) - logits(model)).abs().max() < 1e-6


def test_the_papers_base_and_big_qualify():
    assert {"base", "big"} <= set(QUALIFIED)


@pytest.mark.parametrize(
    "overrides",
    [{"d_k": 4}, {"d_v": 8}, {"position_encoding": "learned"}, {"tie_word_embeddings": False}],
)
def test_what_marian_does_not_have_is_refused(overrides):
    with pytest.raises(
        ValueError,
        match=rf"must have heads of d_model / num_heads.* got .*'{next(iter(overrides))}'",
    ):
        to_marian(small("base", **overrides))


def test_export_translates_as_the_model_does_without_the_package(
    save_model, texts, tmp_path, monkeypatch
):
    """tests/test_hub.py loads one in a process without the package."""
    model, folder = save_model(max_position_embeddings=64)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    stock = export_marian(folder, tmp_path / "stock")
    for name in [name for name in sys.modules if name.split(".")[0] == "vaswani_transformer"]:
        monkeypatch.setitem(sys.modules, name, None)  # importing it would raise
    stock_tokenizer = AutoTokenizer.from_pretrained(stock)
    stock_model = AutoModelForSeq2SeqLM.from_pretrained(stock)
    assert type(stock_model) is MarianMTModel
    assert stock_tokenizer.model_max_length == 2048
    batch = stock_tokenizer(texts, padding=True, return_tensors="pt")
    assert sorted(batch) == ["attention_mask", "input_ids"]
    assert batch.input_ids.tolist() == tokenizer(texts, padding=True)["input_ids"]
    limits = {"length_penalty": 0.0, "max_new_tokens": 12}
    found = stock_model.generate(**batch, num_beams=4, early_stopping="never", **limits)
    expected = model.generate(**batch, num_beams=4, **limits)
    assert stock_tokenizer.batch_decode(found, skip_special_tokens=True) == tokenizer.batch_decode(
        expected, skip_special_tokens=True
    )
    assert not list(stock.glob("*.py"))


def test_search_is_near_the_papers(save_model, tmp_path):
    model, folder = save_model()
    stock = AutoModelForSeq2SeqLM.from_pretrained(export_marian(folder, tmp_path / "stock"))
    search = stock.generation_config
    assert (search.num_beams, search.early_stopping) == (4, "never")
    assert (search.max_length, search.max_new_tokens) == (257, None)  # with `<s>`
    # at twelve tokens both penalties grow alike: d/dn of log((5 + n) / 6)^0.6 and of log n^penalty
    assert search.length_penalty / 12 == pytest.approx(
        model.generation_config.length_penalty / (5 + 12), rel=0.01
    )


@pytest.mark.parametrize("num_beams", [1, None])
def test_greedy_model_stays_one_and_its_card_says_so(save_model, tmp_path, num_beams):
    folder = save_model()[1]
    chosen = {
        "num_beams": num_beams,
        "length_penalty": 0.6,
        "early_stopping": "never",
        "max_length": 33,
    }
    (folder / "generation_config.json").write_text(json.dumps(chosen | IDS), encoding="utf-8")
    stock = export_marian(folder, tmp_path / "stock")
    search = GenerationConfig.from_pretrained(stock)
    assert (search.num_beams, search.max_length, search.max_new_tokens) == (1, 33, None)
    assert search.length_penalty is search.early_stopping is None
    assert "searches greedily" in (stock / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "chosen",
    [
        {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2, "bad_words_ids": [[5]]},
        {"num_beams": 2, "length_penalty": 0.9},
    ],
)
def test_options_of_the_search_that_transformers_has_are_kept(save_model, tmp_path, chosen):
    folder = save_model(search={**chosen, "length_penalty_offset": 0})[1]
    search = GenerationConfig.from_pretrained(export_marian(folder, tmp_path / "stock"))
    assert {name: getattr(search, name) for name in chosen} == chosen
    assert search.early_stopping == "never"
    assert not hasattr(search, "length_penalty_offset") and not hasattr(
        search, "max_new_tokens_over_source"
    )


def test_limit_of_the_call_wins_and_that_of_the_model_holds_without(save_model, tmp_path):
    # it never ends by itself
    folder = save_model(search={"suppress_tokens": [2], "max_new_tokens": 17})[1]
    stock = AutoModelForSeq2SeqLM.from_pretrained(export_marian(folder, tmp_path / "stock"))
    source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    for limit, length in (({}, 18), ({"max_length": 6}, 6), ({"max_new_tokens": 6}, 7)):
        assert stock.generate(source, **limit).shape == (2, length)


@pytest.mark.parametrize("base", ["/home/me/runs/first", "runs/first", "first"])
def test_card_leaves_out_a_base_model_that_is_a_folder(save_model, tmp_path, monkeypatch, base):
    folder = save_model()[1]
    (tmp_path / "runs" / "first").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (folder / "README.md").write_text(
        f"---\nbase_model: {base}\nlanguage: en\nlicense: mit\n---\n", encoding="utf-8"
    )
    made = ModelCard.load(export_marian(folder, tmp_path / "stock") / "README.md").data.to_dict()
    assert (made["language"], made["license"], made.get("base_model")) == ("en", "mit", None)
