# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import re

import benchmark_decoding as benchmark
import pytest
import torch
from tiny import SENTENCES, make_model
from torch import nn

from vaswani_transformer.cpu_kernels_vaswani_transformer import Dropout


def drop_predictably(monkeypatch):
    """Dropout whose zeros depend on its place in the forward pass alone; that of attention scales
    by its rate.
    """
    attend, places = nn.functional.scaled_dot_product_attention, []

    def dropout(states, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return states
        places.append(p)
        zeros = torch.Generator().manual_seed(len(places))
        return states * (torch.rand(states.shape, generator=zeros) >= p) / (1 - p)

    def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
        return attend(q, k, v, attn_mask, 0.0, is_causal, scale=scale) * (1 + dropout_p)

    monkeypatch.setattr(nn.functional, "dropout", dropout)

    def without_our_masks(self, states, residual=0.0):
        return nn.Dropout.forward(self, states) + residual

    monkeypatch.setattr(Dropout, "forward", without_our_masks)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", attention)
    return places


def test_both_models_are_one_network_that_drops_at_the_same_places(monkeypatch):
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}
    ours = make_model(vocab_size=50, attention_bias=True, num_encoder_layers=3, **rates)
    marian = benchmark.make_marian(ours)
    batch = {
        "input_ids": torch.randint(3, 50, (2, 6)),
        "decoder_input_ids": torch.randint(3, 50, (2, 4)),
    }
    with torch.no_grad():
        torch.testing.assert_close(marian(**batch).logits, ours(**batch).logits)
    places = drop_predictably(monkeypatch)
    expected = ours.train()(**batch).logits
    places.clear()
    torch.testing.assert_close(marian.train()(**batch).logits, expected, rtol=0, atol=1e-5)
    assert {*places} == {0.1, 0.3}


@pytest.mark.parametrize("num_beams", [1, 4])
def test_both_models_make_the_references_and_nothing_else(num_beams):
    ours, references = make_model(vocab_size=50), [[5, 6, 2], [7, 8, 9, 10, 2]]
    batches = [([[5, 6, 7, 2], [8, 2]], references)]
    for model in (ours, benchmark.make_marian(ours)):
        assert benchmark.translate(model, batches, {"num_beams": num_beams}) == 8
        out = model.generate(
            torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]),
            num_beams=num_beams,
            max_new_tokens=5,
            do_sample=False,
            logits_processor=benchmark.forced(references, num_beams),
        )
        assert [
            row[1 : 1 + len(own)] for row, own in zip(out.tolist(), references, strict=True)
        ] == references


def test_batches_are_of_like_length_and_keep_pairs_together(tmp_path):
    for name, texts in (
        ("source", SENTENCES[::2] * 2),
        ("reference", [f"{text} No." for text in SENTENCES[::2] * 2]),
    ):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    files = str(tmp_path / "source"), str(tmp_path / "reference")
    task = benchmark.Task("ours", "base-references", 1, *files, None)
    batches = benchmark.make_batches(task, benchmark.Workload("base", 4, 4, 2))
    assert [len(sources) for sources, _ in batches] == [2, 2]
    lengths = [len(row) for sources, _ in batches for row in sources]
    assert lengths == sorted(lengths, reverse=True)
    pairs = [pair for batch in batches for pair in zip(*batch, strict=True)]
    assert all(len(target) > len(source) for source, target in pairs)


def test_ratios_are_medians_over_rounds_of_the_same_round(capsys):
    def turn(ours, marian):
        common = {"tokens": 960, "peak_mib": 10}
        return {"ours": {"seconds": ours, **common}, "marian": {"seconds": marian, **common}}

    benchmark.report("tiny-32", ["ours", "marian"], [turn(1, 2), turn(1, 3), turn(2, 8)])
    ours = capsys.readouterr().out.splitlines()[0]
    assert re.split(r"\s{2,}", ours)[2:5] == ["1.000 s", "960", "3.00 [2.00..4.00]"]
