# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""An export to ONNX is opened whole and as its config describes it, and what is broken is named."""

import json
import shutil

import pytest
from tiny import make_model

from vaswani_transformer.export.onnx_inference import VaswaniTransformerOnnxModel
from vaswani_transformer.export.onnx_model import DECODER_FILE, ENCODER_FILE, export_onnx

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason="needs the extra [export]")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def make_export(tmp_path_factory, tiny_tokenizer):
    """Exports a model of some shape."""

    def make(**shape):
        folder = tmp_path_factory.mktemp("model")
        make_model(**shape).save_pretrained(folder)
        tiny_tokenizer.save_pretrained(folder)
        return export_onnx(folder, folder / "out")

    return make


@pytest.fixture(scope="module")
def exported(make_export):
    """An export that stays whole."""
    return make_export()


@pytest.fixture
def out(exported, tmp_path):
    """An export, to break."""
    return shutil.copytree(exported, tmp_path / "out")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("content", ['{"a": [1', "[1]", ""], ids=["cut off", "list", "empty"])
def test_a_broken_text_file_is_refused_by_name(out, name, content):
    (out / name).write_text(content)
    with pytest.raises(ValueError, match=rf"/{name}` must (be a JSON file|hold a JSON object).* Copy it again"):
        VaswaniTransformerOnnxModel.from_pretrained(out)


@pytest.mark.parametrize("name", [ENCODER_FILE, DECODER_FILE])
@pytest.mark.parametrize("content", [b"", b"no graph"], ids=["empty", "text"])
def test_a_file_that_is_no_graph_is_refused_by_name(out, name, content):
    (out / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"must hold whole ONNX files, got a broken {name}"):
        VaswaniTransformerOnnxModel.from_pretrained(out)


def test_swapped_graphs_are_refused(out):
    (out / ENCODER_FILE).rename(out / "other")
    (out / DECODER_FILE).rename(out / ENCODER_FILE)
    (out / "other").rename(out / DECODER_FILE)
    with pytest.raises(ValueError, match=rf"/{ENCODER_FILE}` must be .* attention_mask \(any, any\), got enc"):
        VaswaniTransformerOnnxModel.from_pretrained(out)


@pytest.mark.parametrize(
    ("name", "value", "file", "got"),
    [
        ("num_heads", 4, ENCODER_FILE, r"present.0.encoder.key \(any, 4, any, 8\), got .* \(any, 2, any, 8\)"),
        ("num_decoder_layers", 1, ENCODER_FILE, r"nothing more, got present.1.encoder.key"),
        ("num_decoder_layers", 3, ENCODER_FILE, r"present.2.encoder.key .* got nothing more"),
        ("d_model", 32, ENCODER_FILE, r"last_hidden_state \(any, any, 32\), got .* \(any, any, 16\)"),
        ("vocab_size", 99999, DECODER_FILE, r"logits \(any, any, 99999\), got logits \(any, any, 300\)"),
    ],
)
def test_a_config_of_another_model_is_refused(out, name, value, file, got):
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {name: value}))
    with pytest.raises(ValueError, match=f"/{file}` must be the graph of the model .* describes, .*{got}"):
        VaswaniTransformerOnnxModel.from_pretrained(out)


@pytest.mark.parametrize("name", [ENCODER_FILE, DECODER_FILE])
def test_a_graph_of_another_model_is_refused(out, make_export, name):
    shutil.copy(make_export(d_k=6) / name, out)
    with pytest.raises(ValueError, match=f"/{name}` must be the graph of the model that config.json describes"):
        VaswaniTransformerOnnxModel.from_pretrained(out)


def test_a_config_of_values_that_no_model_has_is_refused(out):
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {"num_heads": "many"}))
    with pytest.raises(ValueError, match=r"`model` must have a config\.json of valid values, got others in"):
        VaswaniTransformerOnnxModel.from_pretrained(out)


@pytest.mark.parametrize("provider", ["Foo", ("Foo", {"device_id": 0})], ids=str)
def test_an_unknown_provider_is_refused_with_those_there_are(exported, provider):
    with pytest.raises(ValueError, match="`providers` must be among .*CPUExecutionProvider.*, got Foo"):
        VaswaniTransformerOnnxModel.from_pretrained(exported, providers=[provider, "CPUExecutionProvider"])
