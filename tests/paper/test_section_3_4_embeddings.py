# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 3.4: one matrix for both inputs and the output, times the square root of d_model at the
inputs.
"""

import math

import pytest
import torch
from tiny import make_model
from transformers import AutoModelForSeq2SeqLM

from vaswani_transformer.modeling_vaswani_transformer import sinusoids

STACKS = ["encoder", "decoder"]


@pytest.fixture
def model():
    return make_model().double()


@pytest.mark.parametrize("stack", STACKS)
def test_first_layer_sees_embeddings_times_root_d_model_plus_positions(model, stack):
    """sqrt(16) E[token] + PE, and no LayerNorm in between."""
    seen, ids = [], torch.randint(3, 300, (2, 5))
    getattr(model.model, stack).layers[0].register_forward_pre_hook(
        lambda module, args: seen.append(args[0])
    )
    model(ids, decoder_input_ids=ids)
    expected = 4 * model.model.shared.weight[ids] + sinusoids(torch.arange(5), 16)
    torch.testing.assert_close(seen[0], expected, rtol=0, atol=1e-12)


def test_logits_are_dot_products_with_the_embeddings(model):
    """The pre-softmax linear transformation is the shared matrix, neither scaled nor biased."""
    ids = torch.randint(3, 300, (2, 5))
    states = model.model(ids, decoder_input_ids=ids).last_hidden_state
    got = model(ids, decoder_input_ids=ids).logits
    torch.testing.assert_close(got, states @ model.model.shared.weight.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("to_keep", "kept"),
    [(0, [0, 1, 2, 3]), (3, [1, 2, 3]), (torch.tensor([2, 0]), [2, 0])],
)
def test_logits_can_be_had_for_some_positions_alone(model, to_keep, kept):
    ids = torch.randint(3, 300, (2, 4))
    got = model(ids, decoder_input_ids=ids, logits_to_keep=to_keep).logits
    torch.testing.assert_close(
        got, model(ids, decoder_input_ids=ids).logits[:, kept], rtol=0, atol=1e-12
    )


def test_one_parameter_serves_source_target_and_output(model):
    """A token's row changed once changes what the encoder reads, what the decoder reads and the
    token's logit.
    """
    source, target = torch.tensor([[7, 8]]), torch.tensor([[1, 9]])

    def run():
        out = model(source, decoder_input_ids=target)
        return out.encoder_last_hidden_state, out.logits[..., 20], out.logits[..., 10]

    before = run()
    assert sum(parameter.shape == (300, 16) for parameter in model.parameters()) == 1
    changes = {}
    for token in (7, 9, 10):  # in the source alone, in the target alone, in neither
        with torch.no_grad():
            model.model.shared.weight[token] += 0.5
        changes[token] = [not torch.equal(a, b) for a, b in zip(run(), before, strict=True)]
        before = run()
    # Changed: the encoder's output, another token's logit, token 10's logit.
    assert changes == {7: [True, True, True], 9: [False, True, True], 10: [False, False, True]}


def test_logits_have_unit_variance_at_initialisation():
    """Embeddings are normal(0, d_model^-0.5) and states normalised: sums of d_model products of
    variance 1 / d_model.

    Each position's variance is over 4,000 independent rows of the matrix.
    """
    model, ids = make_model(vocab_size=4000), torch.randint(3, 4000, (2, 5))
    variances = model(ids, decoder_input_ids=ids).logits.var(-1)
    torch.testing.assert_close(variances, torch.ones(2, 5), rtol=0, atol=5 * math.sqrt(2 / 4000))


# ---- untied, which the paper does not do ----


@pytest.fixture
def untied():
    return make_model(tie_word_embeddings=False)


def test_an_untied_model_has_three_matrices_and_no_unused_one(untied):
    names = [name for name, parameter in untied.named_parameters() if parameter.shape == (300, 16)]
    assert names == [
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    ]


def test_the_input_embedding_of_an_untied_model_is_the_encoder_s(untied):
    assert untied.get_input_embeddings() is untied.model.encoder.embed_tokens


def test_an_untied_model_is_resized_in_all_three_matrices_and_keeps_their_rows(untied):
    before = [
        matrix.detach().clone() for matrix in untied.parameters() if matrix.shape == (300, 16)
    ]
    untied.resize_token_embeddings(310)
    after = [matrix for matrix in untied.parameters() if matrix.shape == (310, 16)]
    assert [torch.equal(old, new[:300]) for old, new in zip(before, after, strict=True)] == [
        True,
        True,
        True,
    ]


def test_a_frozen_decoder_embedding_of_an_untied_model_stays_frozen_when_resized(untied):
    untied.model.decoder.embed_tokens.requires_grad_(False)
    untied.resize_token_embeddings(310)
    assert not untied.model.decoder.embed_tokens.weight.requires_grad


def test_an_untied_model_is_saved_and_loaded(untied, tmp_path):
    untied.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    loaded.check_loaded_weights()
    ids = torch.randint(3, 300, (2, 5))
    assert torch.equal(loaded(ids, labels=ids).loss, untied(ids, labels=ids).loss)
