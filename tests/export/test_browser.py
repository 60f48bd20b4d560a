# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""ONNX files of the Marian export translate in a browser as in Python."""

import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from processes import ROOT
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_transformer.export import export_marian

# These make an environment of optimum's own and fetch transformers.js; the first run takes minutes.
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node and npm"),
]


@pytest.fixture
def site(save_model, tmp_path):
    """The page's folder with transformers.js and a model, and the model's stock form."""
    _, folder = save_model()
    stock = export_marian(folder, tmp_path / "stock")
    site = shutil.copytree(ROOT / "scripts" / "browser", tmp_path / "site")
    shutil.rmtree(site / "model", ignore_errors=True)
    subprocess.run(
        ["bash", str(ROOT / "scripts" / "export_onnx.sh"), str(stock), str(site / "model")],
        check=True,
    )
    subprocess.run(
        ["npm", "install", "--ignore-scripts", "--silent", "--prefix", str(site)], check=True
    )
    return site, stock


def test_browser_translates_as_python_does(site, texts, browser):
    site, stock = site
    tokenizer, model = (
        AutoTokenizer.from_pretrained(stock),
        AutoModelForSeq2SeqLM.from_pretrained(stock),
    )
    ids = model.generate(**tokenizer(texts, padding=True, return_tensors="pt"), num_beams=1)
    expected = [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]

    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=site)
    )
    Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/?dtype=fp32")
    page.locator("button:enabled").wait_for(timeout=60_000)
    page.get_by_label("Text").fill("\n".join(texts))
    page.get_by_role("button").click()
    page.locator("button:enabled").wait_for(timeout=60_000)
    assert [text.strip() for text in page.locator("output").inner_text().split("\n")] == expected
    server.shutdown()
