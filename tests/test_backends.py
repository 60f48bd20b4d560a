# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Attention backends, compiled graphs, half precision and device maps: all give what eager
fp32 gives.
"""

import copy

import pytest
import torch
import transformers.modeling_flash_attention_utils as flash_utils
from tiny import make_model
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.attention.bias import causal_lower_right
from transformers import AutoModelForSeq2SeqLM, EncoderDecoderCache, StaticCache

from vaswani_transformer import cpu_kernels_vaswani_transformer as cpu_kernels
from vaswani_transformer import loss_vaswani_transformer as loss

SHAPES = [{}, {"num_decoder_layers": 4, "d_k": 12, "d_v": 4}]
each_padding = pytest.mark.parametrize("is_padded", [True, False], ids=["padded", "unpadded"])
each_backend = pytest.mark.parametrize("backend", ["sdpa", "flex_attention"])
STACK_PARTS = ("embed_tokens", "embed_positions", "dropout", "layers.0", "layers.1")
KINDS = ("encoder_attentions", "decoder_attentions", "cross_attentions")


@pytest.fixture
def unfused():
    """Runs what asks to be compiled as it is written: flex_attention's own definition instead of
    its C++ kernel.
    """
    with torch.compiler.set_stance("force_eager"), torch.no_grad():
        yield


def logits(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits


def with_backend(model, backend):
    other = copy.deepcopy(model)
    other.set_attn_implementation(backend)
    return other


# ---- sdpa and flex_attention ----


@each_backend
@each_padding
@pytest.mark.parametrize("shape", [*SHAPES, {"d_k": 4, "d_v": 12}], ids=str)
def test_backend_gives_the_logits_and_weights_of_eager(backend, shape, is_padded, inputs, unfused):
    eager = make_model(attn_implementation="eager", **shape)
    other = with_backend(eager, backend)
    if not is_padded:
        del inputs["attention_mask"]
    expected, got = (model(**inputs, output_attentions=True) for model in (eager, other))
    torch.testing.assert_close(logits(other, inputs), expected.logits, rtol=0, atol=1e-5)
    for kind in KINDS:
        torch.testing.assert_close(got[kind], expected[kind], rtol=0, atol=1e-6)


@each_backend
@pytest.mark.parametrize("num_beams", [1, 3])
def test_backend_generates_the_tokens_and_weights_of_eager(num_beams, backend, inputs, unfused):
    eager = make_model(attn_implementation="eager", scale=3.0)
    other = with_backend(eager, backend)
    inputs.pop("decoder_input_ids")
    inputs |= {"num_beams": num_beams, "max_new_tokens": 3}
    expected, got = (
        model.generate(**inputs, return_dict_in_generate=True, output_attentions=True)
        for model in (eager, other)
    )
    assert torch.equal(got.sequences, expected.sequences)
    assert torch.equal(other.generate(**inputs), expected.sequences)
    assert len(got.cross_attentions) == 3
    for kind in KINDS:
        torch.testing.assert_close(got[kind], expected[kind], rtol=0, atol=1e-6)


@pytest.mark.heavy  # compiles C++ for every kind of mask
@pytest.mark.parametrize(
    "sizes", [{}, {"d_k": 12, "d_v": 4}, {"d_model": 64}], ids=["8", "12 and 4", "32"]
)
def test_flex_attention_equals_eager_when_compiled(sizes, inputs):
    torch._dynamo.reset()
    eager = make_model(
        attn_implementation="eager", num_encoder_layers=1, num_decoder_layers=1, **sizes
    )
    got = logits(with_backend(eager, "flex_attention"), inputs)
    torch.testing.assert_close(got, logits(eager, inputs), rtol=0, atol=1e-5)


# -------------------------------------------------------------------------------- flash_attention_2


def flash_attention(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):
    """What the kernel of that name computes, (B, L, H, K), heads of one size; a causal mask ends at
    the last key.
    """
    assert q.shape[-1] == k.shape[-1] == v.shape[-1]
    mask = causal_lower_right(q.shape[1], k.shape[1]) if causal else None
    heads_first = (states.transpose(1, 2) for states in (q, k, v))
    attended = torch.nn.functional.scaled_dot_product_attention(
        *heads_first, attn_mask=mask, scale=softmax_scale
    )
    return attended.transpose(1, 2)


def flash_attention_unpadded(
    q, k, v, cu_seqlens_q, cu_seqlens_k, *, max_seqlen_q, max_seqlen_k, **options
):
    """The same for sentences one behind the other, (all tokens, H, K); `cu_seqlens` holds where
    each begins.
    """
    bounds = zip(
        cu_seqlens_q[:-1], cu_seqlens_q[1:], cu_seqlens_k[:-1], cu_seqlens_k[1:], strict=True
    )
    parts = [(q[None, a:b], k[None, c:d], v[None, c:d]) for a, b, c, d in bounds]
    return torch.cat([flash_attention(*part, **options)[0] for part in parts])


@pytest.fixture
def flash_kernels(monkeypatch):
    """The library's flash attention around kernels that run anywhere."""
    kernels = (
        flash_attention,
        flash_attention_unpadded,
        None,
        flash_utils._pad_input,
        flash_utils._unpad_input,
    )
    monkeypatch.setattr(flash_utils, "_loaded_implementation", None)
    monkeypatch.setattr(flash_utils, "_lazy_imports", lambda *args, **kwargs: kernels)


# fewer than, as many as, and more than the source has
@pytest.mark.parametrize("target_length", [1, 5, 7, 9])
@each_padding
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_flash_attention_equals_eager(shape, is_padded, target_length, inputs, flash_kernels):
    model = make_model(attn_implementation="eager", **shape)
    inputs["decoder_input_ids"] = torch.randint(3, 300, (3, target_length))
    if not is_padded:
        del inputs["attention_mask"]
    expected = logits(model, inputs)
    model.config._attn_implementation = "flash_attention_2"
    torch.testing.assert_close(logits(model, inputs), expected, rtol=0, atol=1e-5)


def test_flash_attention_generates_what_eager_generates(inputs, flash_kernels):
    model = make_model(attn_implementation="eager", scale=3.0)
    inputs.pop("decoder_input_ids")
    expected = model.generate(**inputs, max_new_tokens=4)
    model.config._attn_implementation = "flash_attention_2"
    assert torch.equal(model.generate(**inputs, max_new_tokens=4), expected)


# ---------------------------------------------------------------------------------- compiled graphs


each_compiler = pytest.mark.parametrize(
    "compiler",
    [
        pytest.param("aot_eager", marks=pytest.mark.slow),
        pytest.param("inductor", marks=pytest.mark.heavy),
    ],
)


def loss_and_gradients(call, model, batch):
    """Loss, its unsmoothed form and the gradients of all parameters."""
    model.zero_grad()
    out = call(**batch)
    out.loss.backward()
    return [out.loss.detach(), out.nll, *(each.grad.clone() for each in model.parameters())]


@pytest.mark.parametrize(
    ("return_logits", "is_bf16", "atol"),
    [
        pytest.param(True, False, 1e-5, marks=pytest.mark.heavy),
        pytest.param(False, False, 1e-5, marks=pytest.mark.heavy),
        (False, True, 2e-3),
    ],
    ids=["logits", "fused", "fused under autocast"],
)
@each_compiler
def test_forward_and_loss_compile_into_one_graph_with_eager_gradients(
    compiler, return_logits, is_bf16, atol, batch
):
    torch._dynamo.reset()
    model = make_model(num_encoder_layers=1, num_decoder_layers=1)
    batch |= {"label_smoothing_factor": 0.1, "return_logits": return_logits}
    compiled = torch.compile(model, fullgraph=True, backend=compiler)
    with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
        got, expected = (loss_and_gradients(call, model, batch) for call in (compiled, model))
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def make_pairs(num_sentences, source_length, target_length):
    """A padded batch with labels, as the trainer passes it to the model."""
    ids, labels = (
        torch.randint(3, 300, (num_sentences, length)) for length in (source_length, target_length)
    )
    labels[-1, target_length // 2 + 1 :] = -100
    mask = torch.ones_like(ids)
    mask[-1, source_length // 2 + 1 :] = 0
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": labels,
        "return_logits": False,
        "label_smoothing_factor": 0.1,
        "num_items_in_batch": labels.ne(-100).sum(),
    }


@pytest.mark.heavy
def test_shapes_of_batches_are_compiled_at_most_three_times(monkeypatch):
    """The first batch, all others, and batches of one sentence: dynamo gives dimensions of 1 a
    graph of their own.
    """
    monkeypatch.setattr(loss, "_CHUNK_TOKENS_ON_CPU", 16)  # the loop over chunks has 1 to 50 rounds
    monkeypatch.setattr(cpu_kernels, "_FEWEST_PRODUCTS", 2**17)  # that of 256 tokens
    torch._dynamo.reset()
    model = make_model(num_encoder_layers=1, num_decoder_layers=1).train()
    counts = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=counts)
    shapes = [
        (26, 13, 4),
        (7, 9, 9),
        (1, 12, 30),
        (40, 20, 20),
        (3, 3, 3),
        (1, 5, 7),
        (9, 9, 11),
        (2, 40, 300),
    ]
    for shape in shapes + [(size, 60 - size, 30) for size in range(2, 24)]:
        compiled(**make_pairs(*shape)).loss.backward()
    assert 2 <= counts.frame_count <= 3


@each_compiler
@torch.no_grad()
def test_decoding_step_over_static_caches_compiles_into_one_graph(compiler, inputs):
    model = make_model(num_encoder_layers=1, num_decoder_layers=1)
    expected = logits(model, inputs)
    target = inputs.pop("decoder_input_ids")
    inputs["encoder_outputs"] = model.get_encoder()(
        inputs.pop("input_ids"), inputs["attention_mask"]
    )
    inputs["past_key_values"] = EncoderDecoderCache(
        *(StaticCache(model.config, max_cache_len=n) for n in (6, 7))
    )
    steps = [model(**inputs, decoder_input_ids=target[:, :1]).logits]
    torch._dynamo.reset()
    counts = CompileCounterWithBackend(compiler)
    step = torch.compile(model, fullgraph=True, backend=counts)
    steps += [step(**inputs, decoder_input_ids=target[:, i : i + 1]).logits for i in range(1, 6)]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=1e-5)
    assert counts.frame_count == 1


@pytest.mark.slow
def test_exported_graph_takes_other_batches_and_lengths(inputs):
    model = make_model(num_encoder_layers=1, num_decoder_layers=1)
    batch, source, target = (
        torch.export.Dim(name, min=2, max=64) for name in ("batch", "source", "target")
    )
    sizes = {"input_ids": {0: batch, 1: source}, "attention_mask": {0: batch, 1: source}}
    sizes |= {"decoder_input_ids": {0: batch, 1: target}, "use_cache": None}
    inputs["use_cache"] = False
    exported = torch.export.export(model, (), inputs, dynamic_shapes=sizes, strict=False).module()
    other = {name: ids[:2, :4] for name, ids in inputs.items() if name != "use_cache"}
    with torch.no_grad():
        torch.testing.assert_close(
            exported(**other, use_cache=False).logits, model(**other).logits, rtol=0, atol=1e-5
        )


# ---- half precision, devices ----


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_near_fp32_and_generates(dtype, tmp_path, inputs):
    model = make_model(scale=3.0)
    model.save_pretrained(tmp_path)
    half = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=dtype)
    expected = logits(model, inputs)
    assert half.dtype == dtype
    assert (logits(half, inputs) - expected).abs().max() < 0.02 * expected.abs().max()
    inputs.pop("decoder_input_ids")
    out = half.generate(**inputs, return_dict_in_generate=True)
    assert out.sequences.shape[0] == 3 and out.sequences_scores.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dtype_auto_keeps_that_of_the_checkpoint(dtype, tmp_path):
    make_model(max_position_embeddings=50).to(dtype).save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype="auto")
    assert model.dtype == dtype
    expected = make_model(max_position_embeddings=50).model.encoder.embed_positions.table
    assert torch.equal(model.model.decoder.embed_positions.table, expected)


LAYERS_ON_DISK = {
    **dict.fromkeys(["model.shared", "lm_head"], "cpu"),
    **{f"model.{stack}.{part}": "cpu" for stack in ("encoder", "decoder") for part in STACK_PARTS},
    "model.encoder.layers.1": "disk",
    "model.decoder.layers.0": "disk",
}


def test_layers_on_disk_change_nothing(tmp_path, inputs):
    pytest.importorskip("accelerate")
    model = make_model(scale=3.0)
    model.save_pretrained(tmp_path)
    placed = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path, device_map=LAYERS_ON_DISK, offload_folder=tmp_path / "offload"
    )
    assert torch.equal(logits(placed, inputs), logits(model, inputs))
