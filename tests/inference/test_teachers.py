# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`translate` with models of other architectures equals their own `generate`, called by hand."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import sentencepiece
import torch
from cli_runs import check_resumed, refused
from tiny import SENTENCES
from transformers import (
    AutoModelForSeq2SeqLM,
    BartConfig,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    NllbTokenizer,
    T5Config,
    T5ForConditionalGeneration,
)

from vaswani_transformer.cli import main
from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.pipeline_vaswani_transformer import TorchEngine

PREFIX = "translate English to German: "
SEARCH = {"num_beams": 3, "max_length": 9}
EN_DE = "--source-language en --target-language de"
LANGUAGES = {
    "nllb": "--source-language eng_Latn --target-language deu_Latn",
    "m2m100": EN_DE,
    "t5": EN_DE,
    "marian": "",
}
LINES = [SENTENCES[0], "", SENTENCES[2], "park", "A dog reads.", "in the park", "Two"]
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
LAYERS |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "init_std": 1.0}


def make_nllb_tokenizer():
    letters = ["<s>", "<pad>", "</s>", "<unk>", "▁", *sorted(set("".join(SENTENCES)) - {" "})]
    return NllbTokenizer(vocab={letter: index for index, letter in enumerate(letters)}, merges=[])


def make_m2m100_tokenizer():
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_prefix="letters",
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor("letters.model")
    ids = {pieces.id_to_piece(index): index for index in range(len(pieces))}
    Path("vocab.json").write_text(json.dumps(ids | {"<pad>": len(ids)}))
    return M2M100Tokenizer("vocab.json", "letters.model")


def make_model(kind, **options):
    """A random model that generates by `SEARCH`."""
    torch.manual_seed(0)
    if kind == "t5":
        config = T5Config(**options, d_kv=8, d_ff=16, num_heads=2, num_layers=1)
        config.initializer_factor = 20.0
        config.task_specific_params = {"translation_en_to_de": {"prefix": PREFIX, **SEARCH}}
        return T5ForConditionalGeneration(config)
    if kind == "marian":
        model = MarianMTModel(MarianConfig(**options, **LAYERS))
    else:
        model = M2M100ForConditionalGeneration(M2M100Config(**options, **LAYERS))
        with torch.no_grad():
            model.lm_head.weight[5:38] *= 3  # letters, not language codes
    model.generation_config.update(**SEARCH)
    return model


@pytest.fixture
def make(tiny_tokenizer, tmp_path, monkeypatch):
    """Function that saves a model, and returns it, its tokenizer and the words of a command."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("\n".join(LINES), encoding="utf-8")

    def make(kind, languages=None):
        makers = {"nllb": make_nllb_tokenizer, "m2m100": make_m2m100_tokenizer}
        tokenizer = makers.get(kind, lambda: tiny_tokenizer)()
        model = make_model(
            kind,
            d_model=16,
            vocab_size=len(tokenizer) + 120,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
        model.save_pretrained("teacher")
        tokenizer.save_pretrained("teacher")
        languages = LANGUAGES[kind] if languages is None else languages
        command = f"translate --model teacher --device cpu --input in --output out {languages}"
        return model.eval(), tokenizer, command.split()

    return make


def by_hand(kind, model, tokenizer, line):
    """The translation of a line as the model's documentation has it."""
    options = {}
    if kind == "t5":
        line, options = PREFIX + line, SEARCH
    if kind == "nllb":
        tokenizer.src_lang = "eng_Latn"
        options = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids("deu_Latn")}
    if kind == "m2m100":
        tokenizer.src_lang = "en"
        options = {"forced_bos_token_id": tokenizer.get_lang_id("de")}
    found = model.generate(**tokenizer(line, return_tensors="pt"), **options)
    return tokenizer.decode(found[0], skip_special_tokens=True)


@pytest.mark.parametrize("kind", LANGUAGES)
def test_translations_are_those_of_the_models_own_generate(kind, make):
    model, tokenizer, command = make(kind)
    expected = [by_hand(kind, model, tokenizer, line) if line else "" for line in LINES]
    assert main(command) == 0
    assert Path("out").read_text(encoding="utf-8").split("\n") == [*expected, ""]
    assert len(set(expected)) > 3


def test_resumed_translation_equals_the_uninterrupted_one(make, monkeypatch):
    check_resumed(make("nllb")[2], TorchEngine, monkeypatch)


@pytest.mark.parametrize("kind", [MarianConfig, BartConfig, M2M100Config])
def test_texts_have_at_most_as_many_tokens_as_the_model_has_positions(kind, tiny_tokenizer):
    sizes = {"d_model": 16, "vocab_size": 300, "max_position_embeddings": 8, "pad_token_id": 0}
    config = kind(**sizes, **LAYERS)
    engine = TorchEngine(AutoModelForSeq2SeqLM.from_config(config), tiny_tokenizer, {})
    assert len(engine.encode(["x" * 7])[0]) == 8
    computes_positions = kind is M2M100Config
    says = pytest.raises(ValueError, match="at most 8 tokens.* got 9 in 'xxxxxxxx'")
    with nullcontext() if computes_positions else says:
        engine.encode(["A", "x" * 8])


def test_n_best_scores_are_those_of_transformers_search(make):
    command = make("nllb")[2]
    assert main([*command, "--n-best", "3"]) == 0
    row = json.loads(Path("out").read_text(encoding="utf-8").split("\n")[0])
    assert len(row["translations"]) == 3
    best = row["translations"][0]
    assert best["score"] == pytest.approx(best["log_prob"] / best["length"])


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        ("", "`--source-language` must be a code of the model's tokenizer, got None."),
        ("--source-language enkish_Latn", "got enkish_Latn. Pass a code such as eng_Latn."),
        ("--source-language eng_Latn --target-language de", "got de. Pass a code such as deu_Latn"),
        ("--source-language XXX_Latn", "_Latn"),
    ],
)
def test_unknown_code_is_refused_with_the_nearest(languages, expected, make, capsys):
    assert expected in refused(capsys, make("nllb", languages)[2])


@pytest.mark.parametrize(("kind", "named"), [("marian", "no pair"), ("t5", "en and de")])
def test_languages_that_a_model_does_not_name_are_refused(kind, named, make, capsys):
    command = make(kind, "--target-language de")[2]
    assert f"got None and de. Leave both out. It names: {named}." in refused(capsys, command)


def test_languages_of_our_own_model_must_be_its_pair(tiny_model, make, capsys):
    command = make("marian", EN_DE)[2]
    tiny_model.config.source_language, tiny_model.config.target_language = "en", "de"
    tiny_model.save_pretrained("teacher")
    error = refused(capsys, [*command, "--target-language", "it"])
    assert "It names: en and de." in error
    assert main(command) == 0


def test_options_of_our_models_alone_are_refused(make, capsys):
    command = make("marian")[2]
    assert "without `--int8`" in refused(capsys, [*command, "--int8"])
    command += ["--max-new-tokens-over-source", "5"]
    assert "max_new_tokens_over_source" in refused(capsys, command)


def test_incomplete_model_is_refused(make):
    model = make("marian")[0]
    weights = model.state_dict()
    del weights["model.encoder.layers.0.fc1.weight"]
    model.save_pretrained("teacher", state_dict=weights)
    with pytest.raises(ValueError, match=r"got none for .*fc1\.weight"):
        load_for_inference("teacher", languages=(None, None))


def test_hub_that_cannot_be_reached_is_one_line(make, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    command = [*make("marian")[2], "--model", "facebook/nllb-200-distilled-600M"]
    assert "couldn't connect" in refused(capsys, command)
