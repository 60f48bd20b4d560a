# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The model against an independent implementation, and the invariances it must have."""

import copy
import inspect
import json
import math

import pytest
import torch
from tiny import make_config, make_model
from torch import nn
from transformers import AutoModel, AutoModelForSeq2SeqLM, DynamicCache, EncoderDecoderCache, StaticCache

from vaswani_transformer import (
    VaswaniTransformerDecoder,
    VaswaniTransformerEncoder,
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerModel,
)

SHAPES = {
    "equal": {},
    "2+4": {"num_encoder_layers": 2, "num_decoder_layers": 4},
    "4+2": {"num_encoder_layers": 4, "num_decoder_layers": 2},
    "d_k 4, d_v 12": {"d_k": 4, "d_v": 12},
    "2+4, d_k 12, d_v 4": {"num_decoder_layers": 4, "d_k": 12, "d_v": 4},
}


class IndependentTransformer(nn.Module):
    """torch's own post-norm layers under hand-made embeddings and positions, holding another model's weights."""

    def __init__(self, model: VaswaniTransformerForConditionalGeneration) -> None:
        super().__init__()
        config = model.config
        args = {
            "nhead": config.num_heads,
            "dim_feedforward": config.d_ff,
            "dropout": 0.0,
            "layer_norm_eps": config.layer_norm_eps,
            "batch_first": True,
            "norm_first": False,
        }
        self.width = config.d_model
        self.embedding = nn.Parameter(model.model.shared.weight.detach().clone())
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(config.d_model, **args) for _ in range(config.num_encoder_layers)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(config.d_model, **args) for _ in range(config.num_decoder_layers)
        )
        self.double()
        for theirs, ours in zip(self.encoder, model.model.encoder.layers, strict=True):
            self.copy_attention(theirs.self_attn, ours.self_attn)
            self.copy_rest(theirs, ours, {"norm1": "self_attn_layer_norm", "norm2": "final_layer_norm"})
        norms = {"norm1": "self_attn_layer_norm", "norm2": "encoder_attn_layer_norm", "norm3": "final_layer_norm"}
        for theirs, ours in zip(self.decoder, model.model.decoder.layers, strict=True):
            self.copy_attention(theirs.self_attn, ours.self_attn)
            self.copy_attention(theirs.multihead_attn, ours.encoder_attn)
            self.copy_rest(theirs, ours, norms)

    @staticmethod
    @torch.no_grad()
    def copy_attention(theirs, ours):
        theirs.in_proj_weight.copy_(torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight]))
        theirs.out_proj.weight.copy_(ours.out_proj.weight)
        theirs.in_proj_bias.zero_()
        theirs.out_proj.bias.zero_()
        if ours.q_proj.bias is not None:
            theirs.in_proj_bias.copy_(torch.cat([ours.q_proj.bias, ours.k_proj.bias, ours.v_proj.bias]))
            theirs.out_proj.bias.copy_(ours.out_proj.bias)

    @staticmethod
    @torch.no_grad()
    def copy_rest(theirs, ours, norms):
        pairs = {"linear1": "fc1", "linear2": "fc2", **norms}
        for their_name, our_name in pairs.items():
            getattr(theirs, their_name).load_state_dict(getattr(ours, our_name).state_dict())

    def embed(self, ids):
        length = ids.shape[1]
        table = torch.zeros(length, self.width)
        for position in range(length):
            for i in range(self.width // 2):
                angle = position / 10_000 ** (2 * i / self.width)
                table[position, 2 * i], table[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
        return self.embedding[ids] * math.sqrt(self.width) + table.double()

    def forward(self, source, source_mask, target):
        hidden_source = self.embed(source)
        for layer in self.encoder:
            hidden_source = layer(hidden_source, src_key_padding_mask=source_mask == 0)
        hidden = self.embed(target)
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.float64)
        for layer in self.decoder:
            hidden = layer(hidden, hidden_source, tgt_mask=causal, memory_key_padding_mask=source_mask == 0)
        return hidden @ self.embedding.T


@pytest.fixture(params=[{}, {"num_decoder_layers": 3, "attention_bias": True}], ids=["paper", "3 layers, biases"])
def pair(request):
    """Our model in float64 and the independent one with the same weights."""
    model = make_model(attn_implementation="eager", **request.param).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model, IndependentTransformer(model).eval()


@pytest.fixture
def batch():
    torch.manual_seed(1)
    source = torch.randint(3, 300, (3, 7))
    mask = torch.ones_like(source)
    mask[1, 5:] = mask[2, 3:] = 0
    labels = torch.randint(3, 300, (3, 6))
    labels[0, 4:] = -100
    target = torch.cat([torch.ones(3, 1, dtype=torch.long), labels[:, :-1].clamp(min=0)], dim=1)
    return {"source": source * mask, "mask": mask, "labels": labels, "target": target}


def independent_loss(theirs, batch, smoothing):
    log_probs = torch.log_softmax(theirs(batch["source"], batch["mask"], batch["target"]), dim=-1)
    total, count = 0.0, 0
    for row in range(3):
        for step in range(6):
            label = int(batch["labels"][row, step])
            if label != -100:
                right, everything = log_probs[row, step, label], log_probs[row, step].mean()
                total, count = total - (1 - smoothing) * right - smoothing * everything, count + 1
    return total / count


def test_logits_equal_an_independent_implementation(pair, batch):
    ours, theirs = pair
    got = ours(batch["source"], batch["mask"], decoder_input_ids=batch["target"]).logits
    torch.testing.assert_close(got, theirs(batch["source"], batch["mask"], batch["target"]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_equal_an_independent_implementation(pair, batch, smoothing):
    ours, theirs = pair
    loss = ours(batch["source"], batch["mask"], labels=batch["labels"], smoothing=smoothing).loss
    expected = independent_loss(theirs, batch, smoothing)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(ours.model.shared.weight.grad, theirs.embedding.grad, rtol=0, atol=1e-9)
    ours_attention = ours.model.decoder.layers[0].encoder_attn
    their_grad = theirs.decoder[0].multihead_attn.in_proj_weight.grad
    grads = [ours_attention.q_proj, ours_attention.k_proj, ours_attention.v_proj]
    torch.testing.assert_close(torch.cat([m.weight.grad for m in grads]), their_grad, rtol=0, atol=1e-9)
    torch.testing.assert_close(
        ours.model.encoder.layers[0].fc1.weight.grad, theirs.encoder[0].linear1.weight.grad, rtol=0, atol=1e-9
    )


def test_greedy_ids_equal_an_independent_implementation(pair, batch):
    ours, theirs = pair
    got = ours.generate(batch["source"], attention_mask=batch["mask"], num_beams=1, max_new_tokens=8, min_new_tokens=8)
    prefix = torch.ones(3, 1, dtype=torch.long)
    for _ in range(8):
        logits = theirs(batch["source"], batch["mask"], prefix)[:, -1]
        logits[:, 2] = -torch.inf  # min_new_tokens suppresses </s>
        prefix = torch.cat([prefix, logits.argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(got, prefix)


def test_nll_is_the_unsmoothed_loss(tiny_model, batch):
    smoothed = tiny_model(batch["source"], batch["mask"], labels=batch["labels"], smoothing=0.3)
    plain = tiny_model(batch["source"], batch["mask"], labels=batch["labels"])
    torch.testing.assert_close(smoothed.nll, plain.loss)
    assert plain.nll is None


def test_loss_divides_by_num_items_in_batch_when_given(tiny_model, batch):
    plain = tiny_model(batch["source"], batch["mask"], labels=batch["labels"]).loss
    real_tokens = int((batch["labels"] != -100).sum())
    scaled = tiny_model(
        batch["source"], batch["mask"], labels=batch["labels"], num_items_in_batch=10 * real_tokens
    ).loss
    torch.testing.assert_close(scaled, plain / 10)


def test_a_loss_can_be_had_from_embeddings_of_the_target(tiny_model, batch):
    shifted = tiny_model.prepare_decoder_input_ids_from_labels(batch["labels"])
    expected = tiny_model(batch["source"], batch["mask"], labels=batch["labels"]).loss
    embedded = tiny_model.get_input_embeddings()(shifted)
    out = tiny_model(batch["source"], batch["mask"], decoder_inputs_embeds=embedded, labels=batch["labels"])
    torch.testing.assert_close(out.loss, expected)


def test_logits_are_kept_whole_beside_labels(tiny_model, batch):
    out = tiny_model(batch["source"], batch["mask"], labels=batch["labels"], logits_to_keep=1)
    assert out.logits.shape[:2] == batch["labels"].shape


@pytest.mark.parametrize("use_cache", [None, False, True])
def test_a_loss_comes_with_a_cache_only_when_asked_for(tiny_model, batch, use_cache):
    out = tiny_model(batch["source"], batch["mask"], labels=batch["labels"], use_cache=use_cache)
    assert (out.past_key_values is not None) == bool(use_cache)


@pytest.mark.parametrize("training", [False, True])
def test_forward_leaves_the_configurations_as_they_were(batch, training):
    model = VaswaniTransformerForConditionalGeneration(make_config()).train(training)
    before = model.config.to_dict(), model.generation_config.to_dict()
    model(batch["source"], batch["mask"], labels=batch["labels"])
    assert (model.config.to_dict(), model.generation_config.to_dict()) == before


def test_loss_is_zero_with_gradient_zero_when_every_label_is_ignored(tiny_model, batch):
    loss = tiny_model(batch["source"], batch["mask"], labels=torch.full_like(batch["labels"], -100)).loss
    loss.backward()
    assert loss == 0
    assert all(not p.grad.any() for p in tiny_model.parameters() if p.grad is not None)


@pytest.mark.parametrize("shape", SHAPES, ids=SHAPES.keys())
def test_sdpa_equals_eager(shape, batch):
    eager = make_model(attn_implementation="eager", **SHAPES[shape])
    other = copy.deepcopy(eager)
    other.set_attn_implementation("sdpa")
    with torch.no_grad():
        expected = eager(batch["source"], batch["mask"], labels=batch["labels"]).logits
        got = other(batch["source"], batch["mask"], labels=batch["labels"]).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "static"), [("past_key_values", False), ("cache", False), ("cache", True)])
@pytest.mark.parametrize("shape", SHAPES, ids=SHAPES.keys())
def test_cache_equals_no_cache(shape, name, static, batch):
    model = make_model(**SHAPES[shape]).double()
    encoder_outputs = model.model.encoder(batch["source"], batch["mask"])
    expected = model(batch["source"], batch["mask"], decoder_input_ids=batch["target"], use_cache=False).logits
    if static:
        sizes = [StaticCache(model.config, max_cache_len=length) for length in (6, 7)]
        cache = EncoderDecoderCache(*sizes)
    else:
        cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    steps = []
    for piece in (batch["target"][:, :2], batch["target"][:, 2:3], batch["target"][:, 3:]):
        step = model(
            attention_mask=batch["mask"],
            encoder_outputs=encoder_outputs,
            decoder_input_ids=piece,
            use_cache=True,
            **{name: cache},
        )
        steps.append(step.logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES, ids=SHAPES.keys())
@pytest.mark.parametrize("num_beams", [1, 4])
def test_generate_is_the_same_with_every_cache(shape, num_beams, batch):
    model = make_model(scale=3.0, **SHAPES[shape]).double()
    ids = {
        name: model.generate(
            batch["source"], attention_mask=batch["mask"], num_beams=num_beams, max_new_tokens=9, **kw
        )
        for name, kw in {
            "none": {"use_cache": False},
            "dynamic": {},
            "static": {"cache_implementation": "static"},
        }.items()
    }
    assert torch.equal(ids["dynamic"], ids["none"])
    assert torch.equal(ids["static"], ids["none"])


def test_padding_changes_nothing(batch):
    model = make_model().double()
    wide = {
        "source": nn.functional.pad(batch["source"], (0, 5)),
        "mask": nn.functional.pad(batch["mask"], (0, 5)),
        "target": nn.functional.pad(batch["target"], (0, 3)),
    }
    expected = model(batch["source"], batch["mask"], decoder_input_ids=batch["target"]).logits
    got = model(wide["source"], wide["mask"], decoder_input_ids=wide["target"]).logits[:, :6]
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_decoder_is_causal(batch):
    model = make_model().double()
    changed = batch["target"].clone()
    changed[:, 3:] = (changed[:, 3:] + 7) % 300
    before = model(batch["source"], batch["mask"], decoder_input_ids=batch["target"]).logits
    after = model(batch["source"], batch["mask"], decoder_input_ids=changed).logits
    torch.testing.assert_close(after[:, :3], before[:, :3], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 3:], before[:, 3:])


def test_input_embeddings_are_the_module_that_forward_calls(batch):
    """NEFTune's hook is put there."""
    model, calls = make_model(), []
    model.get_input_embeddings().register_forward_hook(lambda *call: calls.append(call[1][0].shape))
    model(batch["source"], batch["mask"], decoder_input_ids=batch["target"])
    assert calls == [batch["source"].shape]


def test_inputs_embeds_equal_input_ids(tiny_model, batch):
    embeddings = tiny_model.get_input_embeddings()
    expected = tiny_model(batch["source"], batch["mask"], decoder_input_ids=batch["target"]).logits
    got = tiny_model(
        attention_mask=batch["mask"],
        inputs_embeds=embeddings(batch["source"]),
        decoder_inputs_embeds=embeddings(batch["target"]),
    ).logits
    assert torch.equal(got, expected)


def test_attentions_and_hidden_states_are_recorded(batch):
    model = make_model(attn_implementation="eager", num_encoder_layers=3)
    out = model(
        batch["source"], batch["mask"], labels=batch["labels"], output_attentions=True, output_hidden_states=True
    )
    assert [tuple(a.shape) for a in out.encoder_attentions] == [(3, 2, 7, 7)] * 3
    assert [tuple(a.shape) for a in out.decoder_attentions] == [(3, 2, 6, 6)] * 2
    assert [tuple(a.shape) for a in out.cross_attentions] == [(3, 2, 6, 7)] * 2
    assert len(out.encoder_hidden_states) == 4
    assert len(out.decoder_hidden_states) == 3


@pytest.mark.parametrize("length", [6, 7])  # padded or not, sdpa gets another kind of mask
def test_sdpa_returns_the_weights_of_eager_when_asked(batch, length):
    eager, sdpa = make_model(attn_implementation="eager"), make_model(attn_implementation="sdpa")
    source = batch["source"][:, :length]
    mask = batch["mask"][:, :length] if length == 7 else None
    inputs = {"input_ids": source, "attention_mask": mask, "labels": batch["labels"], "output_attentions": True}
    expected, got = eager(**inputs), sdpa(**inputs)
    for kind in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        assert len(got[kind]) == 2
        for own, other in zip(got[kind], expected[kind], strict=True):
            assert torch.allclose(own, other, atol=1e-6)
    assert torch.allclose(got.loss, sdpa(source, mask, labels=batch["labels"]).loss, atol=1e-5)


def test_gradient_checkpointing_gives_the_same_gradients(batch):
    model = make_model().train()
    expected = torch.autograd.grad(
        model(batch["source"], batch["mask"], labels=batch["labels"]).loss, list(model.parameters())
    )
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    got = torch.autograd.grad(
        model(batch["source"], batch["mask"], labels=batch["labels"]).loss, list(model.parameters())
    )
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


def naive_sinusoids(num_positions, width):
    return torch.tensor(
        [
            [(math.cos if i % 2 else math.sin)(position / 10_000 ** ((i - i % 2) / width)) for i in range(width)]
            for position in range(num_positions)
        ]
    )


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradient_checkpointing_alone_goes_without_a_cache(checkpointing, tiny_model):
    if checkpointing:
        tiny_model.gradient_checkpointing_enable()
    ids = torch.randint(3, 300, (2, 5))
    out = tiny_model.train()(ids, decoder_input_ids=ids, use_cache=True)
    assert (out.past_key_values is None) == checkpointing


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_sinusoids_stay_exact_fp32_when_the_model_changes_dtype(dtype):
    model = make_model(max_position_embeddings=50).to(dtype)
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.table
        assert table.dtype == torch.float32
        torch.testing.assert_close(table, naive_sinusoids(50, 16), rtol=0, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_sinusoids_stay_exact_fp32_through_loading_on_meta(tmp_path, dtype):
    make_model(max_position_embeddings=50).save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, dtype=dtype)
    assert model.dtype == dtype
    assert torch.equal(
        model.model.encoder.embed_positions.table,
        make_model(max_position_embeddings=50).model.encoder.embed_positions.table,
    )


def test_generation_runs_past_the_table_with_every_cache():
    model = make_model(max_position_embeddings=4, scale=3.0).double()
    ids = torch.randint(3, 300, (2, 9))
    runs = [model.generate(ids, **kw) for kw in ({}, {"use_cache": False}, {"cache_implementation": "static"})]
    assert runs[0].shape[1] > 20
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


def test_learned_positions_refuse_what_was_not_learned():
    model = make_model(position_encoding="learned", max_position_embeddings=6)
    ids = torch.randint(3, 300, (1, 7))
    with pytest.raises(ValueError, match="at most `max_position_embeddings` = 6 .* got 7"):
        model(ids, decoder_input_ids=ids[:, :2])


def test_learned_positions_end_generation_at_the_last_learned_one():
    model = make_model(position_encoding="learned", max_position_embeddings=6)
    out = model.generate(torch.randint(3, 300, (2, 4)), min_new_tokens=6)
    assert out.shape[1] == 7  # six decoder inputs, and the token that the last of them gives


@pytest.mark.parametrize("length", [1, 3])
def test_a_cached_step_beyond_the_table_continues_the_formula(length):
    model, ids = make_model(max_position_embeddings=4).double(), torch.randint(3, 300, (2, 9))
    encoded = model.get_encoder()(ids)
    expected = model(encoder_outputs=encoded, decoder_input_ids=ids).logits[:, -length:]
    cache = model(encoder_outputs=encoded, decoder_input_ids=ids[:, :-length]).past_key_values
    step = model(encoder_outputs=encoded, decoder_input_ids=ids[:, -length:], past_key_values=cache)
    torch.testing.assert_close(step.logits, expected, rtol=0, atol=1e-12)


def test_a_cached_step_projects_the_source_no_more():
    model, ids, calls = make_model(), torch.randint(3, 300, (2, 5)), []
    encoded = model.get_encoder()(ids)
    cache = model(encoder_outputs=encoded, decoder_input_ids=ids[:, :4]).past_key_values
    for layer in model.model.decoder.layers:
        layer.encoder_attn.k_proj.register_forward_hook(lambda *args: calls.append(args))
    model(encoder_outputs=encoded, decoder_input_ids=ids[:, 4:], past_key_values=cache)
    assert not calls


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("part", [VaswaniTransformerEncoder, VaswaniTransformerDecoder, VaswaniTransformerModel])
def test_parts_of_the_model_are_initialised_alone(part, tied):
    model = part(make_config(vocab_size=4000, tie_word_embeddings=tied))
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    assert [module.weight.std().item() for module in embeddings] == pytest.approx([16**-0.5] * len(embeddings), 0.05)


def test_an_untied_head_is_initialised_as_an_embedding():
    head = make_model(vocab_size=4000, tie_word_embeddings=False).lm_head
    assert head.weight.std().item() == pytest.approx(16**-0.5, rel=0.05)


def test_layers_are_kept_whole_on_one_device():
    stacks = make_model().model.encoder, make_model().model.decoder
    assert {type(stack.layers[0]).__name__ for stack in stacks} == set(stacks[0]._no_split_modules)


def test_initialisation_has_the_documented_scales():
    torch.manual_seed(0)
    model = VaswaniTransformerForConditionalGeneration(make_config(vocab_size=4000, d_model=64, d_ff=256))
    assert model.model.shared.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    fc1 = model.model.encoder.layers[0].fc1
    assert fc1.weight.abs().max().item() == pytest.approx(math.sqrt(6 / (64 + 256)), rel=0.01)
    assert not fc1.bias.any()


@pytest.mark.parametrize(("attention", "together"), [("self_attn", "qkv"), ("encoder_attn", "kv")])
def test_projections_of_the_same_states_are_initialised_as_one_matrix(attention, together):
    """Side by side they are d_model x the sum of their widths, 2 heads x (d_k 48 or d_v 80); alone, that of one."""
    torch.manual_seed(0)
    model = VaswaniTransformerForConditionalGeneration(make_config(d_model=64, d_k=48, d_v=80))
    widths = {"q": 96, "k": 96, "v": 160}
    for name, width in widths.items():
        fan_out = sum(widths[other] for other in together) if name in together else width
        weight = getattr(getattr(model.model.decoder.layers[1], attention), f"{name}_proj").weight
        assert weight.abs().max().item() == pytest.approx(math.sqrt(6 / (64 + fan_out)), rel=0.01)


def test_decoder_inputs_are_labels_shifted_right_behind_the_start_token(tiny_model):
    labels = torch.tensor([[7, 8, 2], [9, 2, -100]])
    assert tiny_model.prepare_decoder_input_ids_from_labels(labels).tolist() == [[1, 7, 8], [1, 9, 2]]


@pytest.mark.parametrize("cls", [VaswaniTransformerModel, VaswaniTransformerForConditionalGeneration])
def test_forwards_name_the_librarys_arguments(cls):
    """The library's common tests find out here whether a model gives attention weights, and skip themselves if not."""
    named = inspect.signature(cls.forward).parameters["kwargs"].annotation.__args__[0].__annotations__
    assert {"output_attentions", "output_hidden_states"} <= named.keys()


def all_tied(model):
    base = getattr(model, "model", model)
    weights = [base.shared.weight, base.encoder.embed_tokens.weight, base.decoder.embed_tokens.weight]
    if hasattr(model, "lm_head"):
        weights.append(model.lm_head.weight)
    return all(w is weights[0] for w in weights)


def test_weights_are_tied_after_every_route(tmp_path):
    model = make_model()
    assert all_tied(model)
    model.save_pretrained(tmp_path / "head")
    model.model.save_pretrained(tmp_path / "base")
    assert all_tied(AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "head"))
    assert all_tied(AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base"))
    assert all_tied(AutoModel.from_pretrained(tmp_path / "head"))
    assert all_tied(VaswaniTransformerModel.from_pretrained(tmp_path / "base"))
    assert all_tied(AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "head", device_map="cpu"))
    assert all_tied(copy.deepcopy(model))
    assert all_tied(model.to(torch.bfloat16))


@pytest.mark.parametrize(
    ("part", "auto", "own"),
    [
        (lambda model: model, "AutoModelForSeq2SeqLM", "VaswaniTransformerForConditionalGeneration"),
        (lambda model: model.model, "AutoModel", "VaswaniTransformerModel"),
    ],
    ids=["with the head", "without"],
)
def test_saved_model_travels_with_the_class_that_reads_it_without_the_package(tmp_path, tiny_model, part, auto, own):
    part(tiny_model).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["auto_map"][auto] == f"modeling_vaswani_transformer.{own}"
    assert f"class {own}(" in (tmp_path / "modeling_vaswani_transformer.py").read_text(encoding="utf-8")


def test_saved_file_holds_the_shared_matrix_once(tmp_path):
    from safetensors import safe_open

    make_model().save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = [n for n in file.keys() if "shared" in n or "embed_tokens" in n or "lm_head" in n]
    assert names == ["model.shared.weight"]


def test_reloaded_model_gives_the_same_logits(tmp_path, batch):
    model = make_model(num_decoder_layers=3, d_k=4)
    model.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    inputs = {"input_ids": batch["source"], "attention_mask": batch["mask"], "labels": batch["labels"]}
    assert torch.equal(again(**inputs).logits, model(**inputs).logits)


def test_a_new_input_embedding_is_that_of_both_stacks(tiny_model):
    new = nn.Embedding(300, 16)
    tiny_model.set_input_embeddings(new)
    stacks = tiny_model.model.encoder, tiny_model.model.decoder
    assert tiny_model.get_input_embeddings() is stacks[0].embed_tokens is stacks[1].embed_tokens is new


@pytest.mark.parametrize("tied", [False, True])
def test_encoder_alone_is_resized(tied):
    encoder = VaswaniTransformerEncoder(make_config(tie_word_embeddings=tied))
    encoder.resize_token_embeddings(311)
    assert encoder.embed_tokens.num_embeddings == encoder.config.vocab_size == 311


def test_checkpoint_with_a_missing_tensor_is_named_by_the_check(tmp_path):
    from safetensors.torch import load_file, save_file

    make_model().save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.encoder.layers.9.fc1.weight"] = tensors.pop("model.encoder.layers.0.fc1.weight")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    with pytest.raises(
        ValueError, match=r"missing model\.encoder\.layers\.0\.fc1.*unexpected model\.encoder\.layers\.9"
    ):
        model.check_loaded_weights()


def test_tensors_missing_from_a_checkpoint_are_initialised_as_those_of_a_new_model(tmp_path):
    from safetensors.torch import load_file, save_file

    make_model(attention_bias=True).save_pretrained(tmp_path)
    tensors, layer = load_file(tmp_path / "model.safetensors"), "model.encoder.layers.0."
    for name in ("final_layer_norm.weight", "final_layer_norm.bias", "self_attn.q_proj.bias", "fc1.weight"):
        del tensors[layer + name]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    layer = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).model.encoder.layers[0]
    assert layer.final_layer_norm.weight.eq(1).all()
    assert not layer.final_layer_norm.bias.any() and not layer.self_attn.q_proj.bias.any()
    assert 0.9 < layer.fc1.weight.abs().max() / math.sqrt(6 / (16 + 32)) <= 1


def test_pickled_weights_are_refused(tmp_path):
    model = make_model()
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
