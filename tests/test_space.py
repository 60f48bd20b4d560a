# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The demo without a browser: what the page is told, how it is served, and the Space."""

import base64
import json
import re
import shutil
import signal
import socket
import sys
import time
import tomllib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from processes import Fork
from tiny import SENTENCES, make_model

from vaswani_transformer import demo as module
from vaswani_transformer.analysis.attention import attention_maps
from vaswani_transformer.demo import answer, create_demo, launch
from vaswani_transformer.evaluation.scoring import align_pairs
from vaswani_transformer.evaluation.translate import Hypothesis, translate_n_best

SENTENCE, N_BEST = SENTENCES[0], 4
ROOT = Path(__file__).resolve().parents[2]
SPACE = ROOT / "scripts" / "space"


def weights_of(packed):
    """(N, H, R, C) from what the page is sent."""
    data = np.frombuffer(base64.b64decode(packed["weights"]), dtype=np.uint8) / 255
    return data.reshape(packed["layers"], packed["heads"], len(packed["rows"]), len(packed["columns"]))


def texts_of(found):
    return [[each["text"] for each in sentence["translations"]] for sentence in found["sentences"]]


# ---- answers ----


@pytest.fixture(scope="module")
def answered(model, tiny_tokenizer):
    """The only sentence of an answer."""
    found = answer(model, tiny_tokenizer, SENTENCE, N_BEST)
    assert (found["before"], found["message"], len(found["sentences"])) == ("", "", 1)
    return found["sentences"][0]


def test_translations_are_those_of_translate_n_best(answered, model, tiny_tokenizer):
    (expected,) = translate_n_best(model, tiny_tokenizer, [SENTENCE], N_BEST)
    found = answered["translations"]
    assert [(each["text"], each["length"]) for each in found] == [(each.text, each.length) for each in expected]
    for name in ("score", "log_prob"):
        assert [each[name] for each in found] == pytest.approx([getattr(each, name) for each in expected], abs=1e-4)
    assert [[word["word"] for word in each["words"]] for each in found] == [each.text.split() for each in expected]
    assert answered["alignment"] == next(align_pairs(model, tiny_tokenizer, [SENTENCE], [found[0]["text"]]))


def test_sentences_of_a_text_are_translated_and_its_white_space_stays(model, tiny_tokenizer):
    found = answer(model, tiny_tokenizer, f" - {SENTENCE}\n\nA book. A dog. \n", 2)
    assert found["before"] == " - "
    assert [(each["source"], each["after"]) for each in found["sentences"]] == [
        (SENTENCE, "\n\n"),
        ("A book.", " "),
        ("A dog.", " \n"),
    ]
    alone = [answer(model, tiny_tokenizer, text, 2) for text in (SENTENCE, "A book.", "A dog.")]
    assert texts_of(found) == [texts_of(each)[0] for each in alone]


def test_what_the_translations_lost_stays_and_their_words_have_no_scores(model, tiny_tokenizer):
    (sentence,) = answer(model, tiny_tokenizer, "A dog runs to {name}.", 2)["sentences"]
    assert all("{name}" in each["text"] and not each["words"] for each in sentence["translations"])


def test_long_text_has_maps_as_long_as_the_answer_is_small(model, tiny_tokenizer, monkeypatch):
    monkeypatch.setattr(module, "_MAX_MAP_CHARACTERS", 1)
    first, second = answer(model, tiny_tokenizer, "A book.\nA dog.", 1)["sentences"]
    assert "maps" in first["translations"][0]
    assert second["translations"][0]["note"].endswith("translate this sentence alone to see its attention.")


@pytest.mark.parametrize("text", ["12:30", "\U0001f600", "?!\n--"])
def test_text_without_words_is_answered_with_a_reason(text, model, tiny_tokenizer):
    assert answer(model, tiny_tokenizer, text, 1) == {"message": "This text has no words to translate."}


def test_text_of_too_many_sentences_is_refused_with_their_number(model, tiny_tokenizer):
    message = answer(model, tiny_tokenizer, "A dog.\n" * 41, 1)["message"]
    assert message == "This text has 41 sentences; the page takes up to 40."


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_maps_are_those_of_attention_maps_to_the_byte(kind, answered, model, tiny_tokenizer):
    for translation in answered["translations"]:
        maps = attention_maps(model, tiny_tokenizer, SENTENCE, translation["text"])
        packed = answered["encoder"] if kind == "encoder" else translation["maps"][kind]
        assert np.abs(weights_of(packed) - getattr(maps, kind)).max() <= 0.5 / 255 + 1e-9


def test_maps_name_the_tokens_of_their_rows_and_columns(answered, model, tiny_tokenizer):
    best = answered["translations"][0]
    maps = attention_maps(model, tiny_tokenizer, SENTENCE, best["text"])
    found = [(each["rows"], each["columns"]) for each in (best["maps"]["cross"], best["maps"]["decoder"])]
    assert found == [(maps.predicted_tokens, maps.source_tokens), (maps.fed_tokens, maps.fed_tokens)]


@pytest.mark.parametrize("text", ["", "  ", "\n\t\n"])
def test_blank_text_is_answered_with_a_hint(text, model, tiny_tokenizer):
    assert answer(model, tiny_tokenizer, text, N_BEST) == {"message": "Type a sentence to translate."}


def test_text_over_the_limit_is_refused_with_its_length(model, tiny_tokenizer):
    assert "tokens; the page takes up to 512" in answer(model, tiny_tokenizer, "dog " * 600, N_BEST)["message"]


def test_text_beyond_the_models_positions_is_refused_with_its_length(tiny_tokenizer):
    model = make_model(position_encoding="learned", max_position_embeddings=16)
    text = "dog" + " dog" * 29
    reason = f"has {len(tiny_tokenizer(text)['input_ids'])} tokens; the page takes up to 16"
    assert reason in answer(model, tiny_tokenizer, text, 1)["message"]


def test_text_too_long_for_a_map_is_translated_without(model, tiny_tokenizer):
    best = answer(model, tiny_tokenizer, "dog " * 70, 1)["sentences"][0]["translations"][0]
    assert "maps" not in best
    assert re.fullmatch(
        r"This sentence has 1\d\d tokens; attention is shown for up to 100 on each side.", best["note"]
    )


@pytest.mark.parametrize(
    "text",
    [
        "🐕‍🦺 runs 👩🏽‍🔬",
        "كلب يركض",
        "A dog.\nA book.\r\n\nTwo women.",
        "a\x00b",
        "half \ud83d a character",
        "<s> </s> ##a",
        "\u202eabc",
    ],
    ids=["emoji", "right-to-left", "lines", "NUL", "surrogate", "special", "override"],
)
def test_odd_text_is_translated_into_valid_json(text, model, tiny_tokenizer):
    found = answer(model, tiny_tokenizer, text, 2)
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert all(len(each["translations"]) == 2 for each in found["sentences"])


def test_empty_translation_says_why_it_has_no_map(model, tiny_tokenizer, monkeypatch):
    empty = [Hypothesis("", -1.0, -1.0, 1)]
    monkeypatch.setattr(module, "translate_n_best", lambda *args: ([*empty] for _ in args[2]))
    (found,) = answer(model, tiny_tokenizer, SENTENCE, 1)["sentences"]
    assert found["translations"][0]["note"] == "This translation is empty, so there is no attention to show."


def test_failure_of_the_model_becomes_a_message(model, tiny_tokenizer, monkeypatch):
    def fail(*args):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(module, "translate_n_best", fail)
    assert "The server failed on this text" in answer(model, tiny_tokenizer, SENTENCE, 1)["message"]


# ---- the page and its server ----


def test_page_names_languages_and_model_but_not_its_folder(model, tiny_tokenizer, tmp_path):
    pytest.importorskip("gradio")
    folder = tmp_path / "my-model"
    model.save_pretrained(folder)
    loaded = type(model).from_pretrained(folder)
    config = json.dumps(create_demo(loaded, tiny_tokenizer).config)
    assert "English to German" in config
    assert "my-model" in config
    assert str(tmp_path) not in config


def test_page_of_a_model_of_one_known_language_names_none(model, tiny_tokenizer, monkeypatch):
    pytest.importorskip("gradio")
    monkeypatch.setattr(model.config, "target_language", None)
    assert create_demo(model, tiny_tokenizer, name="mine").title == "Translation, mine"


def test_create_demo_refuses_more_translations_than_beams(model, tiny_tokenizer):
    pytest.importorskip("gradio")
    with pytest.raises(ValueError, match="`num_best` must be .*at most `num_beams`, which is 4, got 5"):
        create_demo(model, tiny_tokenizer, num_best=5)


def test_missing_gradio_is_named_with_its_extra(model, tiny_tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ImportError, match=r"pip install 'vaswani-transformer\[demo\]'"):
        create_demo(model, tiny_tokenizer)


def test_port_in_use_is_refused_by_its_number(model, tiny_tokenizer, port_in_use):
    pytest.importorskip("gradio")
    with pytest.raises(OSError, match=f"`port` must be free .* got {port_in_use} at 127.0.0.1"):
        launch(create_demo(model, tiny_tokenizer), host="127.0.0.1", port=port_in_use)


@pytest.fixture
def connections(monkeypatch):
    """Addresses that this process connects to."""
    seen, connect = [], socket.socket.connect

    def record(self, address):
        seen.append(address)
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", record)
    return seen


@pytest.fixture
def address(model, tiny_tokenizer, connections, free_port):
    """Of a page that is served."""
    pytest.importorskip("gradio")
    demo = create_demo(model, tiny_tokenizer)
    yield launch(demo, host="127.0.0.1", port=free_port)
    demo.close(verbose=False)


@pytest.fixture
def client(address):
    from gradio_client import Client

    return Client(address, verbose=False, analytics_enabled=False)


@pytest.mark.slow
def test_two_visitors_at_once_get_their_own_answers(client, model, tiny_tokenizer):
    sentences = SENTENCES[::2] * 4
    with ThreadPoolExecutor(len(sentences)) as visitors:
        found = list(visitors.map(lambda text: client.predict(text, api_name="/translate"), sentences))
    expected = {text: texts_of(answer(model, tiny_tokenizer, text, N_BEST)) for text in sentences}
    assert [texts_of(each) for each in found] == [expected[text] for text in sentences]


@pytest.mark.slow
def test_sentences_are_translated_one_at_a_time_on_every_way(address, monkeypatch):
    running, most = 0, 0

    def count(*args):
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.05)
        running -= 1
        return {"message": "x"}

    def ask(number):
        request = urllib.request.Request(
            f"{address}/gradio_api/run/translate", b'{"data": ["a"]}', {"content-type": "application/json"}
        )
        return urllib.request.urlopen(request).status

    monkeypatch.setattr(module, "answer", count)
    with ThreadPoolExecutor(6) as visitors:
        assert list(visitors.map(ask, range(6))) == [200] * 6
    assert most == 1


@pytest.mark.slow
def test_server_connects_to_nothing_but_itself(client, connections):
    client.predict(SENTENCE, api_name="/translate")
    assert connections and {host for host, *_ in connections} <= {"127.0.0.1", "::1", "localhost"}


@pytest.mark.slow
def test_visitors_leave_and_read_no_files(address, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nabc\r\n--x--\r\n'
    upload = {"content-type": "multipart/form-data; boundary=x"}
    for request in (
        urllib.request.Request(f"{address}/gradio_api/upload", body, upload),
        urllib.request.Request(f"{address}/gradio_api/file={secret}"),
    ):
        with pytest.raises(urllib.error.HTTPError, match="40[034]|413"):
            urllib.request.urlopen(request)


@pytest.mark.slow
def test_server_listens_at_the_given_address_alone(address, free_port):
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", free_port)) != 0


# ---- what is shipped ----


def test_space_requires_what_the_package_does():
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert (SPACE / "requirements.txt").read_text().split() == dependencies


def test_space_runs_the_gradio_that_is_tested():
    (version,) = re.findall(r"^gradio==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert f"sdk: gradio\nsdk_version: {version}\n" in (SPACE / "README.md").read_text()


@pytest.mark.slow
def test_space_translates_with_the_model_beside_it(model, tiny_tokenizer, free_port, tmp_path):
    gradio_client = pytest.importorskip("gradio_client")
    shutil.copytree(SPACE, tmp_path, dirs_exist_ok=True)
    model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    process = Fork(["app.py"], tmp_path, {"GRADIO_SERVER_PORT": str(free_port), "SPACE_ID": "me/space"})
    try:
        line = process.first_line()
        client = gradio_client.Client(line.removeprefix("listening at "), verbose=False)
        found = client.predict(SENTENCE, api_name="/translate")
    finally:
        process.send_signal(signal.SIGKILL)
    assert texts_of(found) == texts_of(answer(model, tiny_tokenizer, SENTENCE, N_BEST))
