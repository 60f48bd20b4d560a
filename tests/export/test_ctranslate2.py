# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The export for CTranslate2: the same numbers as the model, and folders that are whole or not
there.
"""

import json
import sys

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra export is not installed")

from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES  # noqa: E402
from search_checks import log_probs_of  # noqa: E402
from test_translator import check_n_best  # noqa: E402

from vaswani_transformer.export import Translator, export_ctranslate2  # noqa: E402

SHAPES = {
    "tiny": {},
    "2+4 layers": {"num_decoder_layers": 4},
    "4+1 layers": {"num_encoder_layers": 4, "num_decoder_layers": 1},
    "wide heads": {"d_k": 16, "d_v": 16},
    "biases": {"attention_bias": True},
    "learned positions": {"position_encoding": "learned", "max_position_embeddings": 64},
    "few stored positions": {"max_position_embeddings": 4},
    "untied": {"tie_word_embeddings": False},
    "more rows than tokens": {"vocab_size": 311},
    "large epsilon": {"layer_norm_eps": 0.1},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_export_gives_the_probabilities_and_n_best_lists_of_the_model(
    save_model, tmp_path, texts, tiny_tokenizer, shape
):
    model, folder = save_model(**SHAPES[shape])
    out = export_ctranslate2(folder, tmp_path / "out")
    check_n_best(Translator(out), model, tiny_tokenizer, texts, 4)
    names = json.loads((out / "shared_vocabulary.json").read_text())
    source, target = [20, 30, 299, 2], [40, 299, 5, 77, 2]
    engine = ctranslate2.Translator(str(out))
    found = engine.score_batch(
        [[names[index] for index in source]], [[names[index] for index in target[:-1]]]
    )[0]
    torch.testing.assert_close(
        found.log_probs, log_probs_of(model.double(), source, target).tolist(), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("quantization", ACCEPTED_MODEL_TYPES)
def test_every_quantization_can_be_loaded(save_model, tmp_path, quantization):
    _, folder = save_model(attention_bias=True)
    export = export_ctranslate2(folder, tmp_path / "out", quantization=quantization)
    translate = Translator(export)
    translate("A dog.")
    assert translate.config.name_or_path == str(export)


def test_int8_is_stored_in_less_than_a_third(save_model, tmp_path):
    _, folder = save_model(vocab_size=3000, d_model=64, d_ff=128)
    sizes = [
        (export_ctranslate2(folder, tmp_path / name, quantization=name) / "model.bin")
        .stat()
        .st_size
        - 2048 * 64 * 4  # of positions, which stay as they are
        for name in ("int8", "float32")
    ]
    assert sizes[0] < sizes[1] / 3


# ---- places ----


def test_an_export_leaves_nothing_else_behind(save_model, tmp_path):
    _, folder = save_model()
    out = export_ctranslate2(folder, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]
    assert sorted(path.name for path in out.iterdir()) == [
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_failure_leaves_nothing(save_model, tmp_path, monkeypatch):
    _, folder = save_model()
    monkeypatch.setattr(
        "transformers.PreTrainedTokenizerBase.save_pretrained", lambda *args, **kwargs: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        export_ctranslate2(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_of_other_files_is_refused_and_kept(save_model):
    _, folder = save_model()
    before = sorted(folder.iterdir())
    with pytest.raises(ValueError, match="`output_dir`"):
        export_ctranslate2(folder, folder)
    assert sorted(folder.iterdir()) == before


# ---- faults ----


def test_heads_of_two_widths_are_refused(save_model, tmp_path):
    _, folder = save_model(d_k=4, d_v=12)
    with pytest.raises(
        ValueError, match="heads of one width for CTranslate2, got `d_k` 4 and `d_v` 12"
    ):
        export_ctranslate2(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_architecture_is_named(tmp_path, tiny_tokenizer):
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 300}
    BartForConditionalGeneration(BartConfig(**sizes)).save_pretrained(tmp_path / "bart")
    tiny_tokenizer.save_pretrained(tmp_path / "bart")
    with pytest.raises(ValueError, match="must be a model of this package, .* of type 'bart'"):
        export_ctranslate2(tmp_path / "bart", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_ctranslate2_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for use in (lambda: export_ctranslate2("model", tmp_path / "out"), lambda: Translator("out")):
        with pytest.raises(
            ImportError, match=r"`ctranslate2` must be installed .*pip install .*\[export\]"
        ):
            use()


# ---- opening an export ----


def test_an_export_of_another_version_says_how_to_make_a_new_one(save_model, tmp_path):
    out = export_ctranslate2(save_model()[1], tmp_path / "out")
    (out / "config.json").write_text('{"vaswani_transformer": {"num_beams": 4}}')
    with pytest.raises(ValueError, match="`model` must be a model or an export by this version"):
        Translator(out)


def test_settings_that_cannot_be_followed_are_refused(save_model, tmp_path):
    defaults = GenerationConfig._get_default_generation_params()  # as `Seq2SeqTrainer` writes them
    chosen = {"num_beams": 4, "repetition_penalty": 1.2, "early_stopping": True}
    _, folder = save_model(search={**defaults, **chosen})
    with pytest.raises(
        ValueError,
        match=r"got early_stopping=True, repetition_penalty=1\.2 in its generation config",
    ):
        export_ctranslate2(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
