# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""ONNX: what the graphs compute is what the model computes, at every shape, and what `generate` finds with both."""

import importlib.util
import io
import json
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch
from search_checks import pad
from tiny import SENTENCES, make_model
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DynamicCache, EncoderDecoderCache, pipeline

from vaswani_transformer.evaluation.translate import translate
from vaswani_transformer.export import onnx as module
from vaswani_transformer.export.onnx import DECODER_FILE, ENCODER_FILE, VaswaniTransformerOnnxModel, export_onnx

onnx, *_ = (pytest.importorskip(n, reason="needs the extra [export]") for n in ("onnx", "onnxscript", "onnxruntime"))

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).resolve().parents[2] / "scripts" / "examples" / "translate_onnx.py"
TOLERANCE = {"rtol": 0, "atol": 1e-5}

# The first has fewer stored positions than the tests have tokens, the second as many as they may have.
MODELS = {
    "unequal": {"num_encoder_layers": 2, "num_decoder_layers": 4, "d_k": 6, "d_v": 10, "max_position_embeddings": 8},
    "learned": {"num_encoder_layers": 2, "num_decoder_layers": 1, "position_encoding": "learned"}
    | {"attention_bias": True, "max_position_embeddings": 90, "dtype": torch.bfloat16, "tie_word_embeddings": False},
}
SHAPES = [(1, 1), (5, 70), (3, 7)]  # sources, their tokens
STEPS = [
    (1, 1, 1, 0),
    (5, 70, 1, 0),
    (2, 9, 3, 0),
    (3, 5, 2, 1),
    (4, 12, 1, 33),
]  # with target tokens, and those before
SOURCES = [[5, 40, 41, 42, 43, 2], [9, 2], [7, 7, 100, 200, 250, 299, 3, 2], [60, 61, 62, 2]]


@pytest.fixture(scope="session", params=MODELS)
def exported(request, tmp_path_factory, tiny_tokenizer):
    """Folder of the model, folder of its export, and the warnings that exporting gave."""
    options = dict(MODELS[request.param])
    dtype = options.pop("dtype", torch.float32)
    checkpoint, folder = tmp_path_factory.mktemp("checkpoint"), tmp_path_factory.mktemp("onnx")
    make_model(scale=2.5, source_language="en", target_language="de", **options).to(dtype).save_pretrained(checkpoint)
    tiny_tokenizer.save_pretrained(checkpoint)
    with warnings.catch_warnings(record=True) as caught:
        assert export_onnx(checkpoint, folder) == folder
    return types.SimpleNamespace(name=request.param, checkpoint=checkpoint, folder=folder, warnings=caught)


@pytest.fixture(scope="session")
def model(exported):
    """The model whose export is tested, in fp32."""
    return AutoModelForSeq2SeqLM.from_pretrained(exported.checkpoint, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def onnx_run(exported):
    """The export, as a model."""
    return VaswaniTransformerOnnxModel.from_pretrained(exported.folder)


@pytest.fixture(scope="session")
def graphs(exported):
    """The two graphs, as files."""
    return [onnx.load(exported.folder / name).graph for name in (ENCODER_FILE, DECODER_FILE)]


def random_ids(batch, length, seed=0):
    return torch.randint(3, 300, (batch, length), generator=torch.Generator().manual_seed(seed))


def sources(batch, length):
    """Ids and mask; of several sentences the last is padded."""
    ids, mask = random_ids(batch, length), torch.ones(batch, length, dtype=torch.long)
    if batch > 1:
        ids[-1, length // 2 + 1 :] = mask[-1, length // 2 + 1 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


# ---- the graphs ----


@pytest.mark.parametrize(("batch", "length"), SHAPES)
def test_encoder_graph_gives_the_encoders_states(model, onnx_run, batch, length):
    inputs = sources(batch, length)
    with torch.no_grad():
        expected = model.get_encoder()(**inputs).last_hidden_state
    torch.testing.assert_close(onnx_run.get_encoder()(**inputs).last_hidden_state, expected, **TOLERANCE)


@pytest.mark.parametrize(("batch", "source_length", "length", "past_length"), STEPS)
def test_decoder_graph_gives_the_logits_of_a_whole_pass(model, onnx_run, batch, source_length, length, past_length):
    inputs, target = sources(batch, source_length), random_ids(batch, past_length + length, seed=1)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    if past_length:
        onnx_run(**inputs, decoder_input_ids=target[:, :past_length], past_key_values=cache)
    found = onnx_run(**inputs, decoder_input_ids=target[:, past_length:], past_key_values=cache).logits
    with torch.no_grad():
        expected = model(**inputs, decoder_input_ids=target, use_cache=False).logits
    torch.testing.assert_close(found, expected[:, past_length:], **TOLERANCE)


def test_every_size_of_the_graphs_inputs_that_a_batch_decides_is_free(graphs):
    encoder, decoder = ({each.name: each.type.tensor_type.shape.dim for each in graph.input} for graph in graphs)
    free = {name: [size.dim_param for size in sizes if size.dim_param] for name, sizes in (encoder | decoder).items()}
    caches = {name: sizes.pop() for name, sizes in free.items() if name.startswith("past_key_values")}
    assert free.pop("input_ids") == ["batch", "target_length"]
    assert free.pop("attention_mask") == free.pop("encoder_attention_mask") == ["batch", "source_length"]
    assert set(map(tuple, free.values())) == {("batch",)}
    assert all(size == ("past_length" if ".decoder." in name else "source_length") for name, size in caches.items())


def test_embedding_is_stored_once_in_each_graph_that_reads_it_once(exported, model, graphs):
    num_stored = [sum(weight.dims[:1] == [300] and len(weight.dims) == 2 for weight in g.initializer) for g in graphs]
    assert num_stored == [1, 1 if model.config.tie_word_embeddings else 2]


def test_graphs_hold_nothing_of_where_they_were_made(exported):
    for name in (ENCODER_FILE, DECODER_FILE):
        content = (exported.folder / name).read_bytes()
        assert str(Path(torch.__file__).parent).encode() not in content
        assert b".py" not in content


def test_exporting_gives_no_warnings(exported):
    assert not exported.warnings


def test_export_is_in_fp32_whatever_the_checkpoint_is_in(exported, graphs):
    kinds = {onnx.TensorProto.DataType.Name(w.data_type) for g in graphs for w in g.initializer if len(w.dims) == 2}
    assert kinds == {"FLOAT"}
    assert json.loads((exported.folder / "config.json").read_text())["dtype"] == "float32"


def test_folder_decodes_and_tokenises_as_the_checkpoint(exported, onnx_run):
    before, after = (
        json.loads((folder / "generation_config.json").read_text())
        for folder in (exported.checkpoint, exported.folder)
    )
    tokenizers = [AutoTokenizer.from_pretrained(folder) for folder in (exported.checkpoint, exported.folder)]
    assert before == after
    assert tokenizers[0](SENTENCES)["input_ids"] == tokenizers[1](SENTENCES)["input_ids"]


# ---- generate ----

OPTIONS = {
    "greedy": {"num_beams": 1},
    "paper": {},
    "n-best": {"num_beams": 4, "num_return_sequences": 3},
    "no cache": {"num_beams": 2, "use_cache": False},
    "processors": {"num_beams": 3, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
    "prefix": {"num_beams": 4, "decoder_input_ids": torch.tensor([[1, 50, 51]] * len(SOURCES))},
    "own limit": {"max_new_tokens_over_source": 3, "length_penalty": 1.4},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_generate_finds_what_the_model_finds(model, onnx_run, options):
    expected, found = (each.generate(**pad(SOURCES), **options) for each in (model, onnx_run))
    assert found.tolist() == expected.tolist()


def test_generate_scores_as_the_model_does(model, onnx_run):
    expected, found = (
        each.generate(**pad(SOURCES), return_dict_in_generate=True).sequences_scores for each in (model, onnx_run)
    )
    torch.testing.assert_close(found, expected, **TOLERANCE)


def test_sampling_draws_what_the_model_draws(model, onnx_run):
    drawn = []
    for each in (model, onnx_run):
        torch.manual_seed(3)
        drawn.append(each.generate(**pad(SOURCES), num_beams=1, do_sample=True).tolist())
    assert drawn[0] == drawn[1]


def test_pipeline_translates_as_with_the_model(exported, onnx_run):
    texts = [*SENTENCES, ""]
    with_model = pipeline("translation_en_to_de", model=str(exported.checkpoint), device="cpu", dtype=torch.float32)
    with_onnx = pipeline("translation_en_to_de", model=onnx_run, tokenizer=str(exported.folder), device="cpu")
    assert with_onnx(texts) == with_model(texts)


def load_example():
    spec = importlib.util.spec_from_file_location("translate_onnx", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_translates_as_greedy_search(exported, model, monkeypatch, capsys):
    lines = [*SENTENCES, "", "A </s> dog.", *SENTENCES * 10]
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{lines[0]}\r\n" + "\n".join(lines[1:]) + "\n"))
    load_example().main([str(exported.folder)])
    expected = list(translate(model, AutoTokenizer.from_pretrained(exported.folder), lines, num_beams=1))
    assert capsys.readouterr().out == "\n".join(expected) + "\n"


def test_example_needs_no_torch(exported):
    block = "import runpy, sys\nfor name in ('torch', 'transformers'): sys.modules[name] = None\n"
    program = (
        f"{block}sys.argv = ['', {str(exported.folder)!r}]\nrunpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    )
    run = subprocess.run([sys.executable, "-c", program], input="A dog.\n", capture_output=True, text=True, check=True)
    assert run.stdout.count("\n") >= 1


# ---- what is refused ----


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, tiny_tokenizer):
    """Folder of a model that no test exports."""
    folder = tmp_path_factory.mktemp("checkpoint")
    make_model().save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_export_names_the_extra_of_a_missing_package(monkeypatch, package, checkpoint, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"`{package}` .*pip install 'vaswani-transformer\[export\]'"):
        export_onnx(checkpoint, tmp_path / "out")


def test_opening_an_export_names_the_extra_of_a_missing_onnxruntime(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"`onnxruntime` .*pip install 'vaswani-transformer\[export\]'"):
        VaswaniTransformerOnnxModel.from_pretrained(tmp_path)


def test_export_refuses_a_folder_that_holds_something(checkpoint):
    with pytest.raises(ValueError, match="`output_dir` must be a new or empty folder"):
        export_onnx(checkpoint, checkpoint)


def test_failed_export_leaves_nothing(checkpoint, tmp_path, monkeypatch):
    def fail(model):
        raise RuntimeError("no")

    monkeypatch.setattr(module, "_export_encoder", fail)
    with pytest.raises(RuntimeError, match="no"):
        export_onnx(checkpoint, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_opening_a_checkpoint_that_was_not_exported_is_refused(checkpoint):
    with pytest.raises(ValueError, match="`folder` must be one that export_onnx wrote"):
        VaswaniTransformerOnnxModel.from_pretrained(checkpoint)


@pytest.mark.parametrize(
    "options", [{"labels": torch.ones(4, 2)}, {"output_attentions": True}], ids=lambda options: next(iter(options))
)
def test_what_the_graphs_do_not_have_is_refused_by_name(onnx_run, options):
    with pytest.raises(ValueError, match=f"token ids, masks and a cache alone, got {next(iter(options))}"):
        onnx_run(**pad(SOURCES), decoder_input_ids=random_ids(4, 2), **options)


def test_cache_of_fixed_size_is_refused(onnx_run):
    with pytest.raises(ValueError, match="token ids, masks and a cache alone"):
        onnx_run.generate(**pad(SOURCES), cache_implementation="static")


def test_another_device_is_refused(onnx_run):
    with pytest.raises(ValueError, match="`device` and `dtype` must be cpu and torch.float32"):
        onnx_run.to("meta")


def test_saving_anew_is_refused(onnx_run, tmp_path):
    with pytest.raises(TypeError, match="Copy its folder"):
        onnx_run.save_pretrained(tmp_path)
