# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Any texts through `pipeline("translation")` and the functions for files: one output each, in
order.
"""

import io
import json

import pytest
from hypothesis import strategies as st
from nasty import blanks, fuzz, good_files, json_values, lines, texts
from transformers import pipeline

import vaswani_transformer  # noqa: F401 registers the task
from vaswani_transformer.files import decode_lines
from vaswani_transformer.inference.score import score_files
from vaswani_transformer.inference.translate import translate, translate_file

pytestmark = pytest.mark.slow

TEXTS = st.lists(st.one_of(texts, blanks).map(lambda text: text[:60]), max_size=6)


@pytest.fixture(scope="module")
def translator(folder):
    """The pipeline in float64, in which a text's neighbours in a batch change nothing."""
    translator = pipeline("translation", model=str(folder), device="cpu", split_sentences=False)
    translator.model.double()
    return translator


@fuzz(500, short=8, some=TEXTS, batch_size=st.sampled_from([None, 1, 2, 5]))
def test_each_text_has_one_translation_in_its_place_whatever_the_batch(
    translator, some, batch_size
):
    found = [result["translation_text"] for result in translator(some, batch_size=batch_size)]
    alone = [translator(text)[0]["translation_text"] for text in some]
    assert found == alone == list(translate(translator.model, translator.tokenizer, some))
    assert all(
        text.strip() or translation == text for text, translation in zip(some, found, strict=True)
    )
    split = translator(some, batch_size=batch_size, split_sentences=True)
    assert split == [translator(text, split_sentences=True)[0] for text in some]


@fuzz(300, short=10, some=TEXTS, bad=json_values.filter(lambda v: not isinstance(v, str)))
def test_what_is_no_text_is_refused_wherever_it_stands(translator, some, bad):
    with pytest.raises(TypeError, match="must be a text"):
        translator([*some, bad])


@fuzz(500, short=8, content=good_files, n_best=st.sampled_from([None, 2]))
def test_a_file_has_as_many_lines_after_translation_as_before(
    translator, tmp_path_factory, content, n_best
):
    folder = tmp_path_factory.getbasetemp()
    sentences = list(decode_lines(io.BytesIO(content), "in", 2**16))
    (folder / "in").write_bytes(content)
    files = translator.model, translator.tokenizer, folder / "in", folder / "out"
    number = translate_file(*files, num_best=n_best)
    found = (folder / "out").read_bytes().split(b"\n")
    assert found.pop() == b""
    assert number == len(found) == len(sentences)
    if n_best is not None:
        assert [json.loads(line)["source"] for line in found] == sentences
    assert not (folder / "out.part").exists()


@fuzz(300, short=10, pairs=st.lists(st.tuples(lines, lines), min_size=1, max_size=4))
def test_every_pair_of_lines_has_a_finite_score(translator, tmp_path_factory, pairs):
    folder = tmp_path_factory.getbasetemp()
    for name, side in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / name).write_bytes("".join(f"{line}\n" for line in side).encode())
    files = [folder / name for name in ("source", "target", "scores")]
    assert score_files(translator.model, translator.tokenizer, *files) == len(pairs)
    for line in (folder / "scores").read_text().splitlines():
        score = json.loads(line)
        assert -float("inf") < score["log_prob"] < 0
        assert score["length"] >= 1
