# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Models in int8: their layers beside a naive computation, their search beside the library's, and
what they refuse.
"""

import copy
import gc
import json
import warnings
from pathlib import Path

import pytest
import torch
from search_checks import pad, random_model, random_sentences
from test_beam_search import both, searches  # noqa: F401  (a fixture)
from transformers import AutoModelForSeq2SeqLM, pipeline, pipelines

from vaswani_transformer.cli import main
from vaswani_transformer.cpu_kernels_vaswani_transformer import Int8Embedding, Int8Linear, to_int8
from vaswani_transformer.incremental_decoder_vaswani_transformer import Projection
from vaswani_transformer.inference.loading import load_for_inference


def rounded(weight):
    """(O, I) integers and (O, 1) scales, which make the largest of each row 127."""
    scales = weight.abs().amax(dim=1, keepdim=True) / 127
    return (weight / scales).round(), scales


def naive(states, weight, bias):
    """The product in integers: 255 steps between the least and the largest activation, 0 being one
    of them.
    """
    least, most = min(0.0, states.min().item()), max(0.0, states.max().item())
    step = (most - least) / 255
    zero = round(-least / step)
    integers, scales = rounded(weight.double())
    steps = (states.double() / step + zero).round().clamp(0, 255) - zero
    return ((steps @ integers.T) * step * scales.T + bias).float()


@pytest.mark.skipif(
    not torch.cpu._is_vnni_supported(), reason="without VNNI activations have 7 bits"
)
@pytest.mark.parametrize("activation", ["none", "relu"])
def test_product_is_that_of_the_rounded_numbers(activation):
    torch.manual_seed(0)
    states, weight, bias = torch.randn(3, 5, 64) - 0.3, torch.randn(48, 64), torch.randn(48)
    expected = naive(states, weight, bias)
    expected = expected.relu() if activation == "relu" else expected
    torch.testing.assert_close(
        Int8Linear(weight, bias)(states, activation), expected, rtol=0, atol=1e-4
    )


def test_weight_is_rounded_by_row_and_rounding_it_again_changes_nothing():
    torch.manual_seed(0)
    weight = torch.randn(6, 8) * torch.tensor([1e-3, 1.0, 30.0, 0.0, 1.0, 1.0]).unsqueeze(1)
    weight[3] = 0
    layer = Int8Linear(weight, None)
    integers, scales = rounded(weight)
    torch.testing.assert_close(layer.weight, integers.nan_to_num() * scales)
    assert torch.equal(Int8Linear(layer.weight, None).weight, layer.weight)


def test_embedding_is_within_half_a_step():
    torch.manual_seed(0)
    weight, ids = (
        torch.randn(10, 8) * torch.logspace(-3, 1, 10).unsqueeze(1),
        torch.tensor([[3, 9], [0, 3]]),
    )
    error = (Int8Embedding(weight)(ids) - weight[ids]).abs()
    assert (error <= weight.abs().amax(dim=1)[ids].unsqueeze(-1) / 254 * 1.001).all()


def test_projections_of_several_layers_in_one_product_are_those_of_each():
    torch.manual_seed(0)
    layers = [Int8Linear(torch.randn(8, 16), torch.randn(8)) for _ in range(3)]
    states = torch.randn(5, 16)
    together = Projection(*layers, heads=2)(states).view(5, 2, 3, 4)
    for number, layer in enumerate(layers):
        torch.testing.assert_close(together[:, :, number].flatten(1), layer(states))


@pytest.mark.parametrize("seed", range(5))
def test_own_search_finds_what_the_librarys_loop_finds(searches, seed):  # noqa: F811
    model = random_model(seed, torch.float32)
    to_int8(model)
    ours, theirs = both(searches, model, pad(random_sentences(seed, 1)), num_beams=4)
    torch.testing.assert_close(ours.sequences_scores, theirs.sequences_scores, rtol=0, atol=0.05)


def test_a_model_loads_in_int8_with_every_large_weight_in_a_byte(folder, tiny_batch):
    exact = AutoModelForSeq2SeqLM.from_pretrained(folder)
    model = load_for_inference(folder, int8=True)[0]
    assert {type(each).__name__ for each in model.modules() if hasattr(each, "weight")} == {
        "Int8Linear",
        "LayerNorm",
    }
    assert (
        model.model.shared is model.model.encoder.embed_tokens is model.model.decoder.embed_tokens
    )
    assert not any(parameter.ndim > 1 for parameter in model.parameters())
    with torch.no_grad():
        exact_logits, logits = exact(**tiny_batch).logits, model(**tiny_batch).logits
    assert 0 < (logits - exact_logits).abs().mean() < 0.05 * exact_logits.abs().mean()


@pytest.mark.skipif(
    not Path("/proc/self/maps").is_file(), reason="only Linux lists the files that memory maps"
)
def test_the_file_of_fp32_weights_does_not_stay_in_memory(folder):
    model = load_for_inference(folder, int8=True)[0]
    gc.collect()
    assert model.dtype == torch.float32
    assert str(folder) not in Path("/proc/self/maps").read_text()


def test_pipeline_of_a_model_in_int8_stays_on_the_cpu_beside_a_gpu(folder, monkeypatch):
    # it would move the model there
    monkeypatch.setattr(pipelines.base, "is_torch_cuda_available", lambda: True)
    model, tokenizer = load_for_inference(folder, device="cpu", int8=True)
    translate = pipeline("translation", model=model, tokenizer=tokenizer)
    assert translate.device.type == translate.model.device.type == "cpu"
    assert isinstance(translate("a b")[0]["translation_text"], str)


def test_a_model_in_int8_is_not_saved(folder, tmp_path):
    model, _ = load_for_inference(folder, int8=True)
    with pytest.raises(ValueError, match="in int8 cannot be saved"):
        model.save_pretrained(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_rounding_a_model_a_second_time_changes_nothing(tiny_model, tiny_batch):
    model = copy.deepcopy(tiny_model)
    to_int8(model)
    layers, logits = list(model.modules()), model(**tiny_batch).logits
    to_int8(model)
    assert all(before is after for before, after in zip(layers, model.modules(), strict=True))
    assert torch.equal(model(**tiny_batch).logits, logits)


@pytest.mark.parametrize("name", ["qint8", "quantize_per_channel"])
def test_a_torch_without_quantized_tensors_is_named(name, folder, monkeypatch, capsys):
    monkeypatch.delattr(torch, name)
    files = ["--input", str(folder / "config.json"), "--output", str(folder / "out")]
    assert main(["translate", "--model", str(folder), "--int8", *files]) == 2
    assert f"torch {torch.__version__} has no quantized tensors" in capsys.readouterr().err


def test_the_warning_that_torch_will_drop_quantized_tensors_is_the_only_hidden_one(monkeypatch):
    def quantize(*args):
        warnings.warn("something else", stacklevel=2)
        return quantize_per_channel(*args)

    quantize_per_channel = torch.quantize_per_channel
    monkeypatch.setattr(torch, "quantize_per_channel", quantize)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # torch would warn once per process
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            Int8Linear(torch.ones(2, 3), None)
    finally:
        torch.set_warn_always(before)
    assert [str(each.message) for each in told] == ["something else"]


def test_int8_is_refused_on_another_device(folder):
    with pytest.raises(ValueError, match="`device` must be cpu for `int8`, got meta"):
        load_for_inference(folder, device="meta", int8=True)


def test_the_config_of_0_2_0_names_the_option(folder):
    with pytest.raises(ValueError, match=r"load_for_inference\(..., int8=True\)"):
        AutoModelForSeq2SeqLM.from_pretrained(
            folder, quantization_config={"quant_method": "vaswani_int8"}
        )


def test_commands_name_what_they_did_in_int8(folder, tmp_path):
    (tmp_path / "text").write_text("a b\nc\n")
    options = ["--model", str(folder), "--num-beams", "2", "--int8"]
    files = ["--input", str(tmp_path / "text"), "--output", str(tmp_path / "found")]
    assert main(["translate", *options, *files, "--n-best", "2"]) == 0
    assert [
        json.loads(line)["precision"] for line in (tmp_path / "found").read_text().splitlines()
    ] == ["int8"] * 2
    (tmp_path / "reference").write_text("a b\nc\n")
    test_set = ["--source", str(tmp_path / "text"), "--reference", str(tmp_path / "reference")]
    assert main(["evaluate", *options, *test_set]) == 0
    assert json.loads((folder / "test_results.json").read_text())["test_precision"] == "int8"
