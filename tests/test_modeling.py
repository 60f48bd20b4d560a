# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The model against an independent implementation, and the invariances it must have."""

import copy
import inspect
import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import make_config, make_model
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForSeq2SeqLM,
    DynamicCache,
    EncoderDecoderCache,
    StaticCache,
)

from vaswani_transformer import (
    VaswaniTransformerDecoder,
    VaswaniTransformerEncoder,
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerModel,
)

SHAPES = {
    "equal": {},
    "4+2, d_k 4, d_v 12": {"num_encoder_layers": 4, "d_k": 4, "d_v": 12},
    "2+4, d_k 12, d_v 4": {"num_decoder_layers": 4, "d_k": 12, "d_v": 4},
    "beyond the table": {"max_position_embeddings": 4},
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


class IndependentTransformer(nn.Module):
    """torch's own post-norm layers under hand-made embeddings and positions, holding another
    model's weights.
    """

    def __init__(self, model: VaswaniTransformerForConditionalGeneration) -> None:
        super().__init__()
        config = model.config
        self.width = config.d_model
        self.embedding = nn.Parameter(model.model.shared.weight.detach().clone())
        self.layers = nn.Transformer(
            d_model=config.d_model,
            nhead=config.num_heads,
            num_encoder_layers=config.num_encoder_layers,
            num_decoder_layers=config.num_decoder_layers,
            dim_feedforward=config.d_ff,
            dropout=0.0,
            layer_norm_eps=config.layer_norm_eps,
            batch_first=True,
        ).double()
        self.layers.encoder.norm = self.layers.decoder.norm = None
        for theirs, ours in zip(
            self.layers.encoder.layers, model.model.encoder.layers, strict=True
        ):
            self.copy_layer(theirs, ours, norm2="final_layer_norm")
        for theirs, ours in zip(
            self.layers.decoder.layers, model.model.decoder.layers, strict=True
        ):
            self.copy_attention(theirs.multihead_attn, ours.encoder_attn)
            self.copy_layer(theirs, ours, norm2="encoder_attn_layer_norm", norm3="final_layer_norm")

    def copy_layer(self, theirs, ours, **norms):
        self.copy_attention(theirs.self_attn, ours.self_attn)
        names = {"linear1": "fc1", "linear2": "fc2", "norm1": "self_attn_layer_norm", **norms}
        for their_name, our_name in names.items():
            getattr(theirs, their_name).load_state_dict(getattr(ours, our_name).state_dict())

    @staticmethod
    @torch.no_grad()
    def copy_attention(theirs, ours):
        projections = ours.q_proj, ours.k_proj, ours.v_proj
        theirs.in_proj_weight.copy_(torch.cat([each.weight for each in projections]))
        theirs.out_proj.weight.copy_(ours.out_proj.weight)
        if ours.q_proj.bias is not None:
            theirs.in_proj_bias.copy_(torch.cat([each.bias for each in projections]))
            theirs.out_proj.bias.copy_(ours.out_proj.bias)

    def embed(self, ids):
        positions, evens = torch.arange(ids.shape[1]).double(), torch.arange(0, self.width, 2)
        angles = torch.outer(positions, 10_000.0 ** (-evens.double() / self.width))
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()
        return self.embedding[ids] * math.sqrt(self.width) + table.double()

    def forward(self, source, source_mask, target):
        causal = nn.Transformer.generate_square_subsequent_mask(
            target.shape[1], dtype=torch.float64
        )
        padding = {
            "src_key_padding_mask": source_mask == 0,
            "memory_key_padding_mask": source_mask == 0,
        }
        hidden = self.layers(self.embed(source), self.embed(target), tgt_mask=causal, **padding)
        return hidden @ self.embedding.T


@pytest.fixture(
    params=[{}, {"num_decoder_layers": 3, "attention_bias": True}],
    ids=["paper", "3 layers, biases"],
)
def pair(request):
    """Our model in float64 and the independent one with the same weights."""
    model = make_model(attn_implementation="eager", **request.param).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model, IndependentTransformer(model).eval()


def independent_loss(theirs, batch, smoothing):
    labels = batch["labels"]
    target = torch.cat([torch.ones(3, 1, dtype=torch.long), labels[:, :-1].clamp(min=0)], dim=1)
    logits = theirs(batch["input_ids"], batch["attention_mask"], target)
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing
    )


def test_logits_equal_an_independent_implementation(pair, inputs):
    ours, theirs = pair
    torch.testing.assert_close(ours(**inputs).logits, theirs(*inputs.values()), rtol=0, atol=1e-9)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_equal_an_independent_implementation(pair, batch, smoothing):
    ours, theirs = pair
    out = ours(**batch, label_smoothing_factor=smoothing)
    expected = independent_loss(theirs, batch, smoothing)
    torch.testing.assert_close(out.loss, expected, rtol=0, atol=1e-9)
    if smoothing:
        torch.testing.assert_close(out.nll, independent_loss(theirs, batch, 0.0), rtol=0, atol=1e-9)
    else:
        assert out.nll is None
    out.loss.backward()
    expected.backward()
    attention, their_attention = (
        ours.model.decoder.layers[0].encoder_attn,
        theirs.layers.decoder.layers[0],
    )
    projections = attention.q_proj, attention.k_proj, attention.v_proj
    gradients = [
        ours.model.shared.weight.grad,
        torch.cat([projection.weight.grad for projection in projections]),
        ours.model.encoder.layers[0].fc1.weight.grad,
    ]
    expected = [
        theirs.embedding.grad,
        their_attention.multihead_attn.in_proj_weight.grad,
        theirs.layers.encoder.layers[0].linear1.weight.grad,
    ]
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-9)


def test_embeddings_equal_the_ids_that_they_are_of(tiny_model, batch):
    expected = tiny_model(**batch)
    embed = tiny_model.get_input_embeddings()
    shifted = tiny_model.prepare_decoder_input_ids_from_labels(batch["labels"])
    batch |= {
        "inputs_embeds": embed(batch.pop("input_ids")),
        "decoder_inputs_embeds": embed(shifted),
    }
    got = tiny_model(**batch)
    assert torch.equal(got.logits, expected.logits) and torch.equal(got.loss, expected.loss)


def test_logits_are_kept_whole_beside_labels(tiny_model, batch):
    assert tiny_model(**batch, logits_to_keep=1).logits.shape[:2] == batch["labels"].shape


@pytest.mark.parametrize("use_cache", [None, False, True])
def test_a_loss_comes_with_a_cache_only_when_asked_for(tiny_model, batch, use_cache):
    assert (tiny_model(**batch, use_cache=use_cache).past_key_values is not None) == bool(use_cache)


@pytest.mark.parametrize("training", [False, True])
def test_forward_leaves_the_configurations_as_they_were(batch, training):
    model = VaswaniTransformerForConditionalGeneration(make_config()).train(training)
    before = model.config.to_dict(), model.generation_config.to_dict()
    model(**batch)
    assert (model.config.to_dict(), model.generation_config.to_dict()) == before


@pytest.mark.parametrize(
    ("name", "static"), [("past_key_values", False), ("cache", False), ("cache", True)]
)
@each_shape
def test_cache_equals_no_cache(shape, name, static, inputs):
    model = make_model(**shape).double()
    expected = model(**inputs, use_cache=False).logits
    target, mask = inputs["decoder_input_ids"], inputs["attention_mask"]
    encoded = model.model.encoder(inputs["input_ids"], mask)
    if static:
        cache = EncoderDecoderCache(
            *(StaticCache(model.config, max_cache_len=length) for length in (6, 7))
        )
    else:
        cache = EncoderDecoderCache(
            DynamicCache(config=model.config), DynamicCache(config=model.config)
        )
    options = {"attention_mask": mask, "encoder_outputs": encoded, "use_cache": True, name: cache}
    pieces = target[:, :2], target[:, 2:3], target[:, 3:]
    steps = [model(decoder_input_ids=piece, **options).logits for piece in pieces]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=1e-9)


def test_input_embeddings_are_the_module_that_forward_calls(inputs):
    """NEFTune's hook is put there."""
    model, calls = make_model(), []
    model.get_input_embeddings().register_forward_hook(lambda *call: calls.append(call[1][0].shape))
    model(**inputs)
    assert calls == [inputs["input_ids"].shape]


def test_gradient_checkpointing_gives_the_same_gradients(batch):
    model = make_model().train()
    parameters = list(model.parameters())
    expected = torch.autograd.grad(model(**batch).loss, parameters)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    torch.testing.assert_close(torch.autograd.grad(model(**batch).loss, parameters), expected)


def test_learned_positions_refuse_what_was_not_learned():
    model = make_model(position_encoding="learned", max_position_embeddings=6)
    ids = torch.randint(3, 300, (1, 7))
    with pytest.raises(ValueError, match="`max_position_embeddings` = 6 .* got 7"):
        model(ids, decoder_input_ids=ids[:, :2])


def test_learned_positions_end_generation_at_the_last_learned_one():
    model = make_model(position_encoding="learned", max_position_embeddings=6)
    out = model.generate(torch.randint(3, 300, (2, 4)), min_new_tokens=6)
    assert out.shape[1] == 7  # six decoder inputs, and the token that the last of them gives


def test_a_cached_step_projects_the_source_no_more():
    model, ids, calls = make_model(), torch.randint(3, 300, (2, 5)), []
    encoded = model.get_encoder()(ids)
    cache = model(encoder_outputs=encoded, decoder_input_ids=ids[:, :4]).past_key_values
    for layer in model.model.decoder.layers:
        layer.encoder_attn.k_proj.register_forward_hook(lambda *args: calls.append(args))
    model(encoder_outputs=encoded, decoder_input_ids=ids[:, 4:], past_key_values=cache)
    assert not calls


# ---- initialisation ----


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "part",
    [
        VaswaniTransformerEncoder,
        VaswaniTransformerDecoder,
        VaswaniTransformerModel,
        VaswaniTransformerForConditionalGeneration,
    ],
)
def test_embeddings_and_heads_are_initialised_alone_and_in_the_model(part, tied):
    model = part(make_config(vocab_size=4000, tie_word_embeddings=tied))
    deviations = [weight.std().item() for weight in model.parameters() if len(weight) == 4000]
    assert deviations == pytest.approx([16**-0.5] * len(deviations), 0.02) and deviations


def test_layers_are_kept_whole_on_one_device():
    stacks = make_model().model.encoder, make_model().model.decoder
    assert {type(stack.layers[0]).__name__ for stack in stacks} == set(stacks[0]._no_split_modules)


def test_initialisation_has_the_documented_scales():
    fc1 = make_model(d_model=64, d_ff=256).model.encoder.layers[0].fc1
    assert fc1.weight.abs().max().item() == pytest.approx(math.sqrt(6 / (64 + 256)), rel=0.01)
    assert not fc1.bias.any()


@pytest.mark.parametrize(("attention", "together"), [("self_attn", "qkv"), ("encoder_attn", "kv")])
def test_projections_of_the_same_states_are_initialised_as_one_matrix(attention, together):
    """Side by side they are d_model x the sum of their widths, 2 heads x (d_k 48 or d_v 80); alone,
    that of one.
    """
    layer, widths = (
        make_model(d_model=64, d_k=48, d_v=80).model.decoder.layers[1],
        {"q": 96, "k": 96, "v": 160},
    )
    for name, width in widths.items():
        fan_out = sum(widths[other] for other in together) if name in together else width
        weight = layer.get_parameter(f"{attention}.{name}_proj.weight")
        assert weight.abs().max().item() == pytest.approx(math.sqrt(6 / (64 + fan_out)), rel=0.01)


@pytest.mark.parametrize(
    "cls", [VaswaniTransformerModel, VaswaniTransformerForConditionalGeneration]
)
def test_forwards_name_the_librarys_arguments(cls):
    """The library's common tests find out here whether a model gives attention weights, and skip
    themselves if not.
    """
    named = (
        inspect.signature(cls.forward).parameters["kwargs"].annotation.__args__[0].__annotations__
    )
    assert {"output_attentions", "output_hidden_states"} <= named.keys()


# ---- saving and loading ----


def test_weights_are_tied_after_every_route(tmp_path):
    model = make_model()
    model.save_pretrained(tmp_path / "head")
    model.model.save_pretrained(tmp_path / "base")
    routes = [
        model,
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "head"),
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base"),
        AutoModel.from_pretrained(tmp_path / "head"),
        VaswaniTransformerModel.from_pretrained(tmp_path / "base"),
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "head", device_map="cpu"),
        copy.deepcopy(model),
        make_model().to(torch.bfloat16),
    ]
    for route in routes:
        base = getattr(route, "model", route)
        modules = [
            base.encoder.embed_tokens,
            base.decoder.embed_tokens,
            getattr(route, "lm_head", base.shared),
        ]
        assert all(module.weight is base.shared.weight for module in modules)


def test_a_model_without_head_travels_with_the_class_that_reads_it_without_the_package(
    tmp_path, tiny_model
):
    tiny_model.model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["auto_map"]["AutoModel"] == "modeling_vaswani_transformer.VaswaniTransformerModel"
    assert "class VaswaniTransformerModel(" in (
        tmp_path / "modeling_vaswani_transformer.py"
    ).read_text(encoding="utf-8")


def test_saved_file_holds_the_shared_matrix_once(tmp_path):
    make_model().save_pretrained(tmp_path)
    large = [
        name
        for name, tensor in load_file(tmp_path / "model.safetensors").items()
        if len(tensor) == 300
    ]
    assert large == ["model.shared.weight"]


def test_a_new_input_embedding_is_that_of_both_stacks(tiny_model):
    new = nn.Embedding(300, 16)
    tiny_model.set_input_embeddings(new)
    stacks = tiny_model.model.encoder, tiny_model.model.decoder
    assert (
        tiny_model.get_input_embeddings() is stacks[0].embed_tokens is stacks[1].embed_tokens is new
    )


@pytest.mark.parametrize("tied", [False, True])
def test_encoder_alone_is_resized(tied):
    encoder = VaswaniTransformerEncoder(make_config(tie_word_embeddings=tied))
    encoder.resize_token_embeddings(311)
    assert encoder.embed_tokens.num_embeddings == encoder.config.vocab_size == 311


def test_tensors_missing_from_a_checkpoint_are_initialised_as_those_of_a_new_model(tmp_path):
    make_model(attention_bias=True).save_pretrained(tmp_path)
    tensors, layer = load_file(tmp_path / "model.safetensors"), "model.encoder.layers.0."
    for name in (
        "final_layer_norm.weight",
        "final_layer_norm.bias",
        "self_attn.q_proj.bias",
        "fc1.weight",
    ):
        del tensors[layer + name]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    layer = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).model.encoder.layers[0]
    assert layer.final_layer_norm.weight.eq(1).all()
    assert not layer.final_layer_norm.bias.any() and not layer.self_attn.q_proj.bias.any()
    assert 0.9 < layer.fc1.weight.abs().max() / math.sqrt(6 / (16 + 32)) <= 1
