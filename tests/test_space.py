# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The page of scripts/space: what it is told of a text."""

import base64
import json
import re
import tomllib

import numpy as np
import pytest
from answers import answer
from maps import attention_maps
from processes import ROOT
from tiny import SENTENCES, make_model

from vaswani_transformer.inference.translate import translate_n_best

SPACE = ROOT / "scripts" / "space"


def weights_of(packed):
    """(N, H, R, C) from what the page is sent."""
    data = np.frombuffer(base64.b64decode(packed["weights"]), dtype=np.uint8) / 255
    return data.reshape(
        packed["layers"], packed["heads"], len(packed["rows"]), len(packed["columns"])
    )


def test_answer_has_the_translations_and_attention_of_each_sentence(tiny_tokenizer):
    model = make_model(scale=2.5, source_language="en", target_language="de")
    model.generation_config.max_new_tokens_over_source = 2
    sources = [SENTENCES[0], "Кот спит."]
    found = answer(model, tiny_tokenizer, f" - {sources[0]}\n\n{sources[1]} \n", 2)
    json.dumps(found, allow_nan=False)
    assert (found["before"], found["message"]) == (" - ", "")
    assert [each["after"] for each in found["sentences"]] == ["\n\n", " \n"]
    for source, sentence in zip(sources, found["sentences"], strict=True):
        assert sentence["source"] == source
        (expected,) = translate_n_best(model, tiny_tokenizer, [source], 2)
        for translation, best in zip(sentence["translations"], expected, strict=True):
            assert translation["text"] == best.text
            assert translation["score"] == pytest.approx(best.score, abs=1e-4)
            maps = attention_maps(model, tiny_tokenizer, source, best.text)
            shown = {"encoder": sentence["encoder"], **translation["maps"]}
            for kind, packed in shown.items():
                weights, rows, columns = maps[kind]
                assert np.abs(weights_of(packed) - weights).max() <= 0.5 / 255 + 1e-6
                assert (packed["rows"], packed["columns"]) == (rows, columns)


def test_space_installs_what_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (SPACE / "requirements.txt").read_text(encoding="utf-8").split() == project[
        "dependencies"
    ]
    (version,) = re.findall(
        r"^gradio==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert f"sdk_version: {version}\n" in (SPACE / "README.md").read_text(encoding="utf-8")
