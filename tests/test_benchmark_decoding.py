# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0

import benchmark_decoding as benchmark
import pytest
import torch
from tiny import SENTENCES, make_model


def test_both_models_are_one_network_with_the_same_dropout():
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}
    ours = make_model(vocab_size=50, attention_bias=True, num_encoder_layers=3, **rates)
    marian = benchmark.make_marian(ours)
    batch = {
        "input_ids": torch.randint(3, 50, (2, 6)),
        "decoder_input_ids": torch.randint(3, 50, (2, 4)),
    }
    with torch.no_grad():
        torch.testing.assert_close(marian(**batch).logits, ours(**batch).logits)
    assert {name: getattr(marian.config, name) for name in rates} == rates


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
    sources = SENTENCES[::2] * 2
    (tmp_path / "source").write_text("\n".join(sources), encoding="utf-8")
    (tmp_path / "reference").write_text(" No.\n".join([*sources, ""]), encoding="utf-8")
    files = str(tmp_path / "source"), str(tmp_path / "reference")
    task = benchmark.Task("ours", "base-references", 1, *files, None)
    batches = benchmark.make_batches(task, benchmark.Workload("base", 4, 4, 2))
    assert [len(sources) for sources, _ in batches] == [2, 2]
    lengths = [len(row) for sources, _ in batches for row in sources]
    assert lengths == sorted(lengths, reverse=True)
    pairs = [pair for batch in batches for pair in zip(*batch, strict=True)]
    assert all(len(target) > len(source) for source, target in pairs)
