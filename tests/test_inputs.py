# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Wrong ids, masks, states, labels and caches are refused by name; right ones cost no wait for the device."""

import pytest
import torch
from tiny import make_model
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.modeling_outputs import BaseModelOutput

BACKENDS = ["eager", "sdpa"]
SOURCE = torch.randint(3, 300, (3, 7), generator=torch.Generator().manual_seed(0))
TARGET = SOURCE[:, :6].flip(1)
ONES = torch.ones(3, 9, dtype=torch.long)
STATES = BaseModelOutput(torch.zeros(3, 7, 16))

# For each argument what it must not be, and what the message says it must be.
WRONG_MASKS = {
    "shorter than the source": (
        {"attention_mask": ONES[:, :5]},
        r"`attention_mask` must have shape \(3, 7\).*\(3, 5\)",
    ),
    "longer than the source": ({"attention_mask": ONES}, r"`attention_mask` must have shape \(3, 7\).*\(3, 9\)"),
    "of one sentence": ({"attention_mask": ONES[:1, :7]}, r"`attention_mask` must have shape \(3, 7\).*\(1, 7\)"),
    "of too few sentences": ({"attention_mask": ONES[:2, :7]}, r"`attention_mask` must have shape.*\(2, 7\)"),
    "of one dimension": ({"attention_mask": ONES[0, :7]}, r"`attention_mask` must have shape \(3, 7\).*\(7,\)"),
    "of three dimensions": ({"attention_mask": ONES[:, None, :7]}, r"`attention_mask` must have.*\(3, 1, 7\)"),
    "of four dimensions in whole numbers": (
        {"attention_mask": ONES[:, None, None, :7]},
        "`attention_mask` of four dimensions must be boolean.*torch.int64",
    ),
    "of four dimensions and too short": (
        {"attention_mask": ONES[:, None, None, :5].bool()},
        r"`attention_mask` of four dimensions must have shape \(3, 1, queries, 7\), got \(3, 1, 1, 5\)",
    ),
    "a list": ({"attention_mask": [[1] * 7] * 3}, r"`attention_mask` must have shape \(3, 7\).*got list"),
    "shorter than the target": (
        {"decoder_attention_mask": ONES[:, :4]},
        r"`decoder_attention_mask` must have shape \(3, 6\).*\(3, 4\)",
    ),
    "longer than the target": (
        {"decoder_attention_mask": ONES[:, :8]},
        r"`decoder_attention_mask` must have shape \(3, 6\).*\(3, 8\)",
    ),
    "not of the encoder's output": (
        {"input_ids": None, "encoder_outputs": STATES, "attention_mask": ONES[:, :4]},
        r"`attention_mask` must have shape \(3, 7\).*\(3, 4\)",
    ),
}
WRONG_IDS = {
    "one sentence without a batch": ({"input_ids": SOURCE[0]}, r"`input_ids` must have shape.*\(7,\).*unsqueeze\(0\)"),
    "three dimensions": ({"input_ids": SOURCE[None]}, r"`input_ids` must have shape \(batch, length\).*\(1, 3, 7\)"),
    "no tokens": ({"input_ids": SOURCE[:, :0]}, r"`input_ids` must have shape.*neither of them 0, got \(3, 0\)"),
    "no sentences": ({"input_ids": SOURCE[:0]}, r"`input_ids` must have shape.*neither of them 0, got \(0, 7\)"),
    "a prefix without a batch": ({"decoder_input_ids": TARGET[0]}, r"`decoder_input_ids` must have shape.*\(6,\)"),
    "fewer targets": ({"decoder_input_ids": TARGET[:2]}, "one sentence for each source, 3, got 2"),
    "one target": ({"decoder_input_ids": TARGET[:1]}, "one sentence for each source, 3, got 1"),
    "one source": ({"input_ids": SOURCE[:1], "attention_mask": None}, "one sentence for each source, 1, got 3"),
    "fewer labels than targets": ({"labels": TARGET[:2]}, r"`labels` must have the shape.*\(3, 6\), got \(2, 6\)"),
    "shorter labels": ({"labels": TARGET[:, :4]}, r"`labels` must have the shape.*\(3, 6\), got \(3, 4\)"),
    "labels without a batch": ({"labels": TARGET[0], "decoder_input_ids": None}, r"`labels` must have shape.*\(6,\)"),
}
WRONG_STATES = {
    "embeddings without a batch": (
        "inputs_embeds",
        torch.zeros(7, 16),
        r"`inputs_embeds`.*length, 16\), got \(7, 16\)",
    ),
    "wide embeddings": ("inputs_embeds", torch.zeros(3, 7, 17), r"`inputs_embeds` must have shape.*\(3, 7, 17\)"),
    "ids as embeddings": ("inputs_embeds", SOURCE, r"`inputs_embeds` must have shape.*got \(3, 7\)"),
    "narrow states": (
        "encoder_outputs",
        BaseModelOutput(torch.zeros(3, 7, 8)),
        r"`encoder_hidden_states` must have shape \(batch, length, 16\), got \(3, 7, 8\)",
    ),
    "states that are no tuple": ("encoder_outputs", torch.zeros(3, 7, 16), r"`encoder_hidden_states`.*got \(7, 16\)"),
    "states of fewer sources": (
        "encoder_outputs",
        BaseModelOutput(torch.zeros(2, 7, 16)),
        "one sentence for each source, 2, got 3",
    ),
}


def good_inputs(**changes):
    return {"input_ids": SOURCE, "attention_mask": ONES[:, :7], "decoder_input_ids": TARGET, **changes}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", WRONG_MASKS)
def test_mask_is_refused_when(case, backend):
    changes, message = WRONG_MASKS[case]
    with pytest.raises(ValueError, match=message):
        make_model(attn_implementation=backend)(**good_inputs(**changes))


@pytest.mark.parametrize("case", WRONG_IDS)
def test_ids_are_refused_when_there_are(case, tiny_model):
    changes, message = WRONG_IDS[case]
    with pytest.raises(ValueError, match=message):
        tiny_model(**good_inputs(**changes))


@pytest.mark.parametrize("case", WRONG_STATES)
def test_states_are_refused_when_there_are(case, tiny_model):
    name, value, message = WRONG_STATES[case]
    with pytest.raises(ValueError, match=message):
        tiny_model(**good_inputs(input_ids=None, attention_mask=None, **{name: value}))


@pytest.mark.parametrize("name", ["input_ids", "decoder_input_ids", "labels"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int16])
def test_ids_of_another_type_are_refused(name, dtype, tiny_model):
    with pytest.raises(TypeError, match=f"`{name}` must be a tensor of int64 token ids, got .* of {dtype}"):
        tiny_model(**good_inputs(**{name: TARGET.to(dtype)}))


def test_list_of_ids_is_refused(tiny_model):
    with pytest.raises(TypeError, match="`input_ids` must be a tensor of int64 token ids, got list"):
        tiny_model(**good_inputs(input_ids=SOURCE.tolist()))


def test_ids_and_labels_of_int32_give_what_int64_gives(tiny_model):
    expected = tiny_model(**good_inputs(labels=TARGET))
    ids = {"input_ids": SOURCE.int(), "decoder_input_ids": TARGET.int(), "labels": TARGET.int()}
    got = tiny_model(**good_inputs(**ids))
    assert torch.equal(got.logits, expected.logits) and torch.equal(got.loss, expected.loss)


@pytest.mark.parametrize("name", ["input_ids", "decoder_input_ids", "labels"])
@pytest.mark.parametrize("bad", [300, -1])
def test_token_ids_outside_the_vocabulary_are_refused(tiny_model, name, bad):
    ids = SOURCE[:, :6].clone()
    ids[0, 0] = bad
    with pytest.raises(ValueError, match=rf"`{name}` must lie in \[0, 300\), got {bad}"):
        tiny_model(**good_inputs(**{"attention_mask": None, "labels": TARGET, name: ids}))


def test_missing_decoder_input_is_explained(tiny_model):
    with pytest.raises(ValueError, match="`decoder_input_ids` must be given"):
        tiny_model(SOURCE)


@pytest.mark.parametrize("got", ["none", "both"])
@pytest.mark.parametrize("prefix", ["", "decoder_"])
def test_ids_and_their_embeddings_are_refused_together_and_apart(tiny_model, prefix, got):
    stack = tiny_model.model.decoder if prefix else tiny_model.model.encoder
    inputs = {"input_ids": TARGET, "inputs_embeds": torch.zeros(3, 6, 16)} if got == "both" else {}
    states = {"encoder_hidden_states": STATES.last_hidden_state} if prefix else {}
    with pytest.raises(
        ValueError, match=f"Exactly one of `{prefix}input_ids` and `{prefix}inputs_embeds` must be given, got {got}"
    ):
        stack(**inputs, **states)


def test_decoder_without_the_encoders_output_is_refused(tiny_model):
    with pytest.raises(ValueError, match="`encoder_hidden_states` must be given, got None"):
        tiny_model.model.decoder(TARGET)


# --------------------------------------------------------------------------------------------------------- caches


def filled_cache(model, batch):
    cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    model(SOURCE[:batch], decoder_input_ids=TARGET[:batch, :3], past_key_values=cache, use_cache=True)
    return cache


@pytest.mark.parametrize("batch", [1, 2])
def test_cache_of_another_batch_is_refused(batch, tiny_model):
    inputs = good_inputs(decoder_input_ids=TARGET[:, 3:4], past_key_values=filled_cache(tiny_model, batch))
    with pytest.raises(ValueError, match=f"as many sentences as `decoder_input_ids`, 3, got {batch}"):
        tiny_model(**inputs)


@pytest.mark.parametrize("kind", ["DynamicCache", "tuple"])
def test_cache_that_self_and_cross_attention_would_share_is_refused(kind, tiny_model):
    cache = DynamicCache(config=tiny_model.config) if kind == "DynamicCache" else ((SOURCE,),)
    with pytest.raises(TypeError, match=f"`past_key_values` must be an EncoderDecoderCache, got {kind}"):
        tiny_model(**good_inputs(past_key_values=cache))


def test_mask_that_leaves_out_cached_tokens_is_refused(tiny_model):
    inputs = good_inputs(decoder_input_ids=TARGET[:, 3:4], past_key_values=filled_cache(tiny_model, 3))
    with pytest.raises(ValueError, match=r"`decoder_attention_mask` must have shape \(3, 4\).*\(3, 1\)"):
        tiny_model(**inputs, decoder_attention_mask=ONES[:, :1])


def test_mask_over_cached_tokens_is_taken(tiny_model):
    inputs = good_inputs(decoder_input_ids=TARGET[:, 3:4], past_key_values=filled_cache(tiny_model, 3))
    expected = tiny_model(**good_inputs(decoder_input_ids=TARGET[:, :4])).logits[:, 3:]
    got = tiny_model(**inputs, decoder_attention_mask=ONES[:, :4]).logits
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


# ------------------------------------------------------------------------------------------------------- generate


@pytest.mark.parametrize("num_beams", [1, 2])
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"inputs": SOURCE[0]}, r"`input_ids` must have shape \(batch, length\)"),
        ({"inputs": SOURCE, "attention_mask": ONES}, r"`attention_mask` must have shape \(3, 7\)"),
        ({"inputs": SOURCE, "decoder_input_ids": TARGET[0]}, r"`decoder_input_ids` must have shape \(batch, length\)"),
        ({"inputs": SOURCE, "decoder_input_ids": TARGET[:2]}, "one sentence for each source, 3, got 2"),
    ],
    ids=["ids", "mask", "prefix without a batch", "fewer prefixes"],
)
def test_generate_refuses_wrong_shapes(inputs, message, num_beams, tiny_model):
    with pytest.raises(ValueError, match=message):
        tiny_model.generate(**inputs, num_beams=num_beams, max_new_tokens=3)


# ----------------------------------------------------------------------------------------------------------- cost


class ForbidReading(TorchDispatchMode):
    """Fails where the value of a tensor is asked for, which would wait for a device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@torch.no_grad()
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_decoding_step_does_not_wait_for_the_device(tiny_model, monkeypatch, static):
    cache = filled_cache(tiny_model, 3)
    if static:
        cache = EncoderDecoderCache(*(StaticCache(tiny_model.config, max_cache_len=length) for length in (6, 7)))
        tiny_model(**good_inputs(decoder_input_ids=TARGET[:, :3], past_key_values=cache))
    inputs = good_inputs(decoder_input_ids=TARGET[:, 3:4], past_key_values=cache)
    del inputs["attention_mask"]  # the library reads masks to see whether anything is padded
    inputs["encoder_outputs"] = tiny_model.get_encoder()(inputs.pop("input_ids"))
    monkeypatch.setattr(torch.Tensor, "tolist", None)
    with ForbidReading():
        tiny_model(**inputs)


def test_smoothing_by_its_other_name_is_refused_by_forward(tiny_model):
    ids = torch.tensor([[5, 6, 2]])
    with pytest.raises(TypeError, match=r"`label_smoothing` must be passed as `smoothing`, got 0\.1"):
        tiny_model(input_ids=ids, labels=ids, label_smoothing=0.1)
