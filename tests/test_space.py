# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The page of scripts/space: what it is told of a text, and what a visitor sees of it."""

import base64
import json
import re
import signal
import tomllib
from pathlib import Path

import numpy as np
import pytest
from answers import answer
from maps import attention_maps
from processes import Fork
from tiny import SENTENCES, make_model

from vaswani_transformer.inference.translate import translate_n_best

ROOT = Path(__file__).resolve().parents[1]
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


@pytest.mark.slow
def test_visitor_sees_translation_and_attention_and_markup_stays_text(
    browser, tiny_tokenizer, tmp_path, free_port
):
    pytest.importorskip("gradio", reason="needs gradio")
    markup = "<img src=x onerror=alert(1)>"
    text = "A dog <img/src=x/onerror=alert(1)> runs."  # one word
    model = make_model(scale=2.5, source_language="en", target_language=markup)
    folder = tmp_path / markup
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    ((best,),) = translate_n_best(model, tiny_tokenizer, [text], 1)
    maps = attention_maps(model, tiny_tokenizer, text, best.text)
    process = Fork([SPACE / "app.py", "--port", free_port], tmp_path, {"MODEL_ID": str(folder)})
    try:
        address = re.search("http://[^ ]+", process.first_line())[0]
        requests, faults = [], []
        page = browser.new_page()
        page.set_default_timeout(20_000)  # milliseconds, for a machine under load
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
        page.goto(address)
        box = page.get_by_label("Text in English")
        box.fill(text)
        box.press("Enter")
        page.locator(".map td[title]").first.wait_for()
        assert page.get_by_role("heading", level=1).inner_text() == f"English to {markup}"
        assert page.locator(".translation").inner_text() == best.text
        assert page.locator(".pairs td").first.inner_text() == text
        cells = page.locator(".map td[title]").evaluate_all("all => all.map(cell => cell.title)")
        weights = np.array([float(title.rsplit(": ", 1)[1]) for title in cells])
        assert (
            np.abs(weights - maps["cross"][0][-1].mean(axis=0).ravel()).max()
            <= 0.5 / 255 + 0.005 + 1e-6
        )
        box.fill("dog " * 600)
        box.press("Enter")
        page.locator(".message", has_text="tokens; the page takes up to 512").wait_for()
        assert page.locator("img").count() == 0
        page.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert process.exitcode == 0, process.errors()
    assert faults == []
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []


def test_space_installs_what_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (SPACE / "requirements.txt").read_text(encoding="utf-8").split() == project[
        "dependencies"
    ]
    (version,) = re.findall(
        r"^gradio==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert f"sdk_version: {version}\n" in (SPACE / "README.md").read_text(encoding="utf-8")
