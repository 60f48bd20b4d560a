# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The export for CTranslate2: the same numbers as the model, and folders that are whole or not there."""

import json
import subprocess
import sys

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from vaswani_transformer.evaluation.loading import load_for_inference
from vaswani_transformer.evaluation.translate import translate_n_best

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra export is not installed")

from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES  # noqa: E402

from vaswani_transformer.export import Translator, export_ctranslate2  # noqa: E402

SHAPES = {
    "tiny": {},
    "2+4 layers": {"num_decoder_layers": 4},
    "4+1 layers": {"num_encoder_layers": 4, "num_decoder_layers": 1},
    "narrow keys": {"d_k": 4, "d_v": 12},
    "narrow values": {"d_k": 12, "d_v": 4, "attention_bias": True},
    "wide heads": {"d_k": 16, "d_v": 16},
    "biases": {"attention_bias": True},
    "learned positions": {"position_encoding": "learned", "max_position_embeddings": 64},
    "few stored positions": {"max_position_embeddings": 4},
    "untied": {"tie_word_embeddings": False},
    "more rows than tokens": {"vocab_size": 311},
    "large epsilon": {"layer_norm_eps": 0.1},
}


def log_probs_of(model, source, target):
    """Log-probability of each target token under teacher forcing in float64."""
    with torch.no_grad():
        logits = model.double()(torch.tensor([source]), labels=torch.tensor([target])).logits[0]
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(target).unsqueeze(1)).flatten().tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_export_gives_every_target_token_the_probability_that_the_model_gives(save_model, tmp_path, shape):
    model, folder = save_model(**SHAPES[shape])
    out = export_ctranslate2(folder, tmp_path / "out")
    names = json.loads((out / "shared_vocabulary.json").read_text())
    source, target = [20, 30, 299, 2], [40, 299, 5, 77, 2]
    engine = ctranslate2.Translator(str(out))
    found = engine.score_batch([[names[index] for index in source]], [[names[index] for index in target[:-1]]])[0]
    torch.testing.assert_close(found.log_probs, log_probs_of(model, source, target), rtol=0, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exports_n_best_lists_are_those_of_generate(save_model, tmp_path, texts, tiny_tokenizer, shape):
    model, folder = save_model(**SHAPES[shape])
    found = Translator(export_ctranslate2(folder, tmp_path / "out")).n_best(texts, 4)
    for ours, theirs in zip(translate_n_best(model, tiny_tokenizer, texts, 4), found, strict=True):
        assert [each.text for each in theirs] == [each.text for each in ours]
        assert [each.length for each in theirs] == [each.length for each in ours]
        for field in ("score", "log_prob"):
            values = [[getattr(each, field) for each in side] for side in (theirs, ours)]
            torch.testing.assert_close(*values, rtol=0, atol=1e-4)


@pytest.mark.parametrize("quantization", ACCEPTED_MODEL_TYPES)
def test_every_quantization_can_be_loaded(save_model, tmp_path, quantization):
    _, folder = save_model(attention_bias=True, d_k=4, d_v=12)
    translator = Translator(export_ctranslate2(folder, tmp_path / "out", quantization=quantization))
    assert isinstance(translator("A dog.")[0]["translation_text"], str)


def test_int8_is_stored_in_less_than_a_third(save_model, tmp_path):
    _, folder = save_model(vocab_size=3000, d_model=64, d_ff=128)
    sizes = [
        (export_ctranslate2(folder, tmp_path / name, quantization=name) / "model.bin").stat().st_size
        - 2048 * 64 * 4  # of positions, which stay as they are
        for name in ("int8", "float32")
    ]
    assert sizes[0] < sizes[1] / 3


def test_the_export_loads_for_ctranslate2_users_without_the_package(save_model, tmp_path, tiny_tokenizer):
    _, folder = save_model()
    out = export_ctranslate2(folder, tmp_path / "out")
    program = (
        "import sys, ctranslate2\nengine = ctranslate2.Translator(sys.argv[1])\n"
        "print(engine.translate_batch([sys.argv[2:]])[0].hypotheses[0] != [])"
    )
    tokens = tiny_tokenizer.convert_ids_to_tokens(tiny_tokenizer("A dog.")["input_ids"])
    command = [sys.executable, "-c", program, str(out), *tokens]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "True\n"


# ---- places ----


def test_an_export_leaves_nothing_else_behind(save_model, tmp_path):
    _, folder = save_model()
    out = export_ctranslate2(folder, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]
    assert sorted(path.name for path in out.iterdir()) == [
        *("config.json", "generation_config.json", "model.bin", "shared_vocabulary.json"),
        *("tokenizer.json", "tokenizer_config.json"),
    ]


def test_a_failure_leaves_nothing(save_model, tmp_path, monkeypatch):
    _, folder = save_model()

    def fail(*args, **kwargs):
        raise OSError("the disk is full")

    monkeypatch.setattr("transformers.GenerationConfig.save_pretrained", fail)
    with pytest.raises(OSError, match="the disk is full"):
        export_ctranslate2(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_of_other_files_is_refused_and_kept(save_model, tmp_path):
    _, folder = save_model()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"`output_dir` must be a new or empty folder, got .*/out\."):
        export_ctranslate2(folder, tmp_path / "out")
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_the_models_own_folder_is_refused_and_kept(save_model):
    _, folder = save_model()
    with pytest.raises(ValueError, match="`output_dir` must be a new or empty folder"):
        export_ctranslate2(folder, folder)
    load_for_inference(folder, device="cpu")


# ---- faults ----


def test_another_architecture_is_named(tmp_path, tiny_tokenizer):
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 300}
    BartForConditionalGeneration(BartConfig(**sizes)).save_pretrained(tmp_path / "bart")
    tiny_tokenizer.save_pretrained(tmp_path / "bart")
    with pytest.raises(ValueError, match="`model_type` must be vaswani_transformer, got 'bart'"):
        export_ctranslate2(tmp_path / "bart", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_ctranslate2_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for use in (lambda: export_ctranslate2("model", tmp_path / "out"), lambda: Translator("out")):
        with pytest.raises(ImportError, match=r"`ctranslate2` must be installed .*vaswani-transformer\[export\]"):
            use()
