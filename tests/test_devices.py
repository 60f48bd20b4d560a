# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What works on a model works on one that lies on a device: the same numbers, and no copy in a
loop.
"""

import contextlib
import copy
import dataclasses

import pytest
import torch
from accelerator import waits
from maps import attention_maps
from tiny import SENTENCES, SMALLEST, make_model
from transformers import pipeline

from vaswani_transformer import beam_search_vaswani_transformer as fast_search
from vaswani_transformer.generation_vaswani_transformer import without_cudnn_attention
from vaswani_transformer.inference.loading import load_for_inference, precision_of
from vaswani_transformer.inference.score import score_pairs
from vaswani_transformer.inference.translate import translate, translate_n_best

SOURCES, TARGETS = [*SENTENCES[::2], "A dog."], [*SENTENCES[1::2], "Ein Hund."]


@pytest.fixture
def models(accel):
    """A model on the host and its copy on the device; their translations are as long as the source
    at most.
    """
    on_host = make_model(scale=3.0, **SMALLEST)
    on_host.generation_config.max_new_tokens_over_source = 0
    return on_host, copy.deepcopy(on_host).to(accel)


def both(models, use):
    """What `use` makes of either model."""
    made = []
    for model in models:
        torch.manual_seed(0)
        made.append(use(model))
    return made


def generate(model, tokenizer, **options):
    batch = tokenizer(SOURCES, padding=True, return_tensors="pt").to(model.device)
    made = model.generate(**batch, return_dict_in_generate=True, output_scores=True, **options)
    assert made.sequences.device == model.device
    return made


SEARCHES = {
    "greedy": {"num_beams": 1},
    "beam": {"num_beams": 3},
    "sampled": {"num_beams": 1, "do_sample": True, "top_k": 5},
    "sampled beams": {"num_beams": 3, "do_sample": True},
    "constrained": {
        "num_beams": 3,
        "no_repeat_ngram_size": 2,
        "bad_words_ids": [[7], [8, 9]],
        "min_new_tokens": 3,
    },
    "prefix": {"num_beams": 3, "prefix_allowed_tokens_fn": lambda batch, sequence: [5, 6, 7, 2]},
    "static cache": {"num_beams": 3, "cache_implementation": "static"},
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_generate_finds_what_it_finds_on_the_cpu(models, tiny_tokenizer, search):
    if models[1].device.type == "cuda" and "do_sample" in search:
        pytest.skip("a GPU draws other random numbers")
    expected, got = both(
        models, lambda model: generate(model, tiny_tokenizer, max_new_tokens=6, **search)
    )
    assert torch.equal(got.sequences.cpu(), expected.sequences)
    if getattr(expected, "sequences_scores", None) is not None:
        torch.testing.assert_close(
            got.sequences_scores.cpu(), expected.sequences_scores, rtol=1e-5, atol=1e-6
        )


USES = {
    "translate": lambda model, tokenizer: list(translate(model, tokenizer, SOURCES)),
    "best": lambda model, tokenizer: list(translate_n_best(model, tokenizer, SOURCES, num_best=2)),
    "score": lambda model, tokenizer: list(score_pairs(model, tokenizer, SOURCES, TARGETS)),
    "maps": lambda model, tokenizer: attention_maps(model, tokenizer, SOURCES[0], TARGETS[0])[
        "cross"
    ][0].tolist(),
    "pipeline": lambda model, tokenizer: pipeline(
        "translation", model=model, tokenizer=tokenizer, device=model.device
    )(SOURCES, batch_size=2),
}


def plain(value):
    """The values of objects, numbers rounded."""
    if isinstance(value, float):
        return round(value, 3)
    values = dataclasses.astuple(value) if dataclasses.is_dataclass(value) else value
    values = list(values.values()) if isinstance(values, dict) else values
    return [plain(each) for each in values] if isinstance(values, list | tuple) else values


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_fast",
    [True, pytest.param(False, marks=pytest.mark.heavy)],
    ids=["our search", "transformers' search"],
)
@pytest.mark.parametrize("name", USES)
def test_translating_and_scoring_give_what_they_give_on_the_cpu(
    models, tiny_tokenizer, name, is_fast, monkeypatch
):
    if is_fast:  # a GPU's weights are plain, those of the Python device are of a class of their own
        monkeypatch.setattr(fast_search, "is_plain", lambda model: True)
    expected, got = both(models, lambda model: plain(USES[name](model, tiny_tokenizer)))
    assert got == expected


def test_scoring_waits_a_few_times_a_batch_whatever_it_holds(models, tiny_tokenizer):
    counts = []
    for copies in (1, 8):
        pairs = SOURCES * copies, TARGETS * copies
        with waits() as found:
            list(score_pairs(models[1], tiny_tokenizer, *pairs, max_tokens_per_batch=10**6))
        counts.append(len(found))
    assert counts[0] == counts[1] <= 7


@pytest.fixture
def cudnn_attention():
    """Function that switches cuDNN's attention on or off, as it was afterwards."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    yield torch.backends.cuda.enable_cudnn_sdp
    torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize("use", ["translate", "best", "score", "pipeline"])
def test_decoding_on_a_device_leaves_out_cudnns_attention(
    models, tiny_tokenizer, use, cudnn_attention
):
    model = models[1]
    found = []
    cudnn_attention(True)
    for module in (model, model.model.encoder):
        module.register_forward_pre_hook(
            lambda *_: found.append(torch.backends.cuda.cudnn_sdp_enabled())
        )
    USES[use](model, tiny_tokenizer)
    assert found and not any(found)
    assert torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("was_enabled", [True, False])
def test_cudnns_attention_is_as_it_was_when_two_threads_have_left_one_by_a_failure(
    was_enabled, cudnn_attention
):
    cudnn_attention(was_enabled)
    of_another_thread = without_cudnn_attention(torch.device("cuda"))
    with contextlib.suppress(KeyError), without_cudnn_attention(torch.device("cuda")):
        of_another_thread.__enter__()
        raise KeyError
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    of_another_thread.__exit__(None, None, None)
    assert torch.backends.cuda.cudnn_sdp_enabled() == was_enabled


def test_a_model_on_a_device_computes_in_bfloat16_where_that_is_asked_for(accel, checkpoint):
    model, _ = load_for_inference(checkpoint, device=accel, bf16=True)
    assert (model.dtype, model.device) == (torch.bfloat16, torch.device(accel))
    assert precision_of(model) == {"precision": "bf16"}
    assert precision_of(load_for_inference(checkpoint, device=accel)[0]) == {}
    with pytest.raises(ValueError, match="`device` must be a GPU"):
        load_for_inference(checkpoint, device="cpu", bf16=True)


def test_batches_of_the_pipeline_on_a_device_are_bounded_by_tokens_alone(
    models, tiny_tokenizer, monkeypatch
):
    model = models[1]
    rows = []
    pipe = pipeline(
        "translation", model=model, tokenizer=tiny_tokenizer, device=model.device, max_new_tokens=1
    )
    generate = model.generate
    monkeypatch.setattr(
        model, "generate", lambda **given: rows.append(len(given["input_ids"])) or generate(**given)
    )
    assert len(pipe(["a"] * 300)) == 300
    assert rows == [300]
