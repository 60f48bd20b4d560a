# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Models whose JSON files name other places: nothing there is opened, imported or connected to."""

import json
import os
import shutil
import sys

import pytest
from safetensors.torch import load_file, save_file
from tiny import SMALLEST, make_model
from transformers import pipeline

from vaswani_transformer.inference.loading import load_for_inference, load_tokenizer

STARTED = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
PLACE = "(outside)"  # stands for the path of the other place
CODE = f"{PLACE}--evil.Evil"

# What a file says, and whether the model is refused for it; else it has no effect.
IGNORED = [
    (
        "config.json",
        {
            "auto_map": {
                "AutoConfig": CODE,
                "AutoModelForSeq2SeqLM": CODE,
                "AutoTokenizer": [CODE, CODE],
            }
        },
    ),
    ("config.json", {"auto_map": {"AutoModelForSeq2SeqLM": "../outside/evil.Evil"}}),
    ("config.json", {"auto_map": {"AutoModelForSeq2SeqLM": "stranger/repo--evil.Evil"}}),
    (
        "config.json",
        {"custom_pipelines": {"translation": {"impl": CODE, "pt": ["AutoModelForSeq2SeqLM"]}}},
    ),
    (
        "config.json",
        {"_name_or_path": PLACE, "name_or_path": PLACE, "tokenizer_class": "evil.Evil"},
    ),
    (
        "generation_config.json",
        {"custom_generate": PLACE, "trust_remote_code": True, "_name_or_path": PLACE},
    ),
    (
        "tokenizer_config.json",
        {"tokenizer_file": f"{PLACE}/tokenizer.json", "vocab_file": f"{PLACE}/tokenizer.json"},
    ),
    (
        "tokenizer_config.json",
        {"auto_map": {"AutoTokenizer": [CODE, CODE]}, "tokenizer_class": "Evil"},
    ),
    ("tokenizer_config.json", {"chat_template": "{{ ''.__class__.__mro__[1].__subclasses__() }}"}),
    ("chat_template.jinja", "{{ cycler.__init__.__globals__.os.system('true') }}"),
    ("model.safetensors.index.json", {"weight_map": {"a": "../outside/model.safetensors"}}),
]
REFUSED = [
    (
        "adapter_config.json",
        {"base_model_name_or_path": PLACE, "peft_type": "LORA"},
        "got a PEFT adapter",
    ),
    (
        "config.json",
        {"transformers_weights": "../outside/model.safetensors"},
        "must (reference a file inside|not be in a config)",
    ),
    (
        "config.json",
        {"attn_implementation": "stranger/kernels:attention"},
        "must not name a kernel of the Hub",
    ),
    (
        "config.json",
        {"_attn_implementation": "paged|kernels-community/x"},
        "must not name a kernel of the Hub",
    ),
    (
        "config.json",
        {"attn_implementation": {"": "stranger/kernels"}},
        "must not name a kernel of the Hub",
    ),
    (
        "generation_config.json",
        {"penalty_alpha": 0.6, "top_k": 4, "num_beams": 1},
        "requires `trust_remote_code=True`",
    ),
    ("generation_config.json", {"assistant_model": PLACE}, "not a valid argument"),
]


class Watch:
    """What Python does while it is on: files opened below a folder, and connections and programs
    started.
    """

    def __init__(self):
        self.folder, self.seen = None, []
        sys.addaudithook(self._note)

    def _note(self, event, args):
        if self.folder is None:
            return
        if event in STARTED:
            self.seen.append((event, args))
        if event in ("open", "import") and self.folder in str(
            args[0] if event == "open" else args[1]
        ):
            self.seen.append((event, args))


WATCH = Watch()  # hooks stay for as long as the process


@pytest.fixture
def watched(tmp_path):
    """Notes on what was done that must not be."""
    WATCH.folder, WATCH.seen = str(tmp_path / "outside"), []
    yield WATCH.seen
    WATCH.folder = None


@pytest.fixture(scope="module")
def untouched(tiny_tokenizer, tmp_path_factory):
    """A model, and beside it, under `outside`, another."""
    folder = tmp_path_factory.mktemp("untouched") / "model"
    model = make_model(**SMALLEST)
    model.generation_config.max_new_tokens_over_source = 2
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    outside = shutil.copytree(folder, folder.parent / "outside")
    weights = load_file(outside / "model.safetensors")
    save_file(
        {name: tensor * 3 for name, tensor in weights.items()},
        outside / "model.safetensors",
        {"format": "pt"},
    )
    vocabulary = json.loads((outside / "tokenizer.json").read_text())
    ids = vocabulary["model"]["vocab"]
    ids["A"], ids["B"] = ids["B"], ids["A"]
    (outside / "tokenizer.json").write_text(json.dumps(vocabulary))
    return folder


@pytest.fixture(scope="module")
def expected(untouched):
    """What use of it gives."""
    return use(untouched)


@pytest.fixture
def folder(untouched, tmp_path):
    """A copy of it beside a copy of the other, with code that leaves a mark."""
    shutil.copytree(untouched.parent, tmp_path, dirs_exist_ok=True)
    mark = f"import os\nos.mkdir({str(tmp_path / 'mark')!r})\nclass Evil: pass\n"
    (tmp_path / "outside" / "evil.py").write_text(mark)
    return tmp_path / "model"


def put(folder, name, content):
    """Writes a text, or changes keys of a JSON file."""
    path = folder / name
    if not isinstance(content, str):
        content = json.dumps((json.loads(path.read_text()) if path.exists() else {}) | content)
    path.write_text(content.replace(PLACE, str(folder.parent / "outside")))


def use(folder):
    """Translations, by our loader and by the library's pipeline, and what the tokenizer of a
    training reads.
    """
    model, tokenizer = load_for_inference(folder, device="cpu")
    inputs = tokenizer("A dog runs.", return_tensors="pt")
    found = (
        tokenizer.batch_decode(model.generate(**inputs)),
        pipeline("translation", str(folder), device="cpu")("A dog."),
    )
    return (found, load_tokenizer(folder).get_vocab(), model.lm_head.weight.tolist())


@pytest.mark.parametrize(("name", "content"), IGNORED, ids=str)
def test_other_place_named_in_a_file_has_no_effect(name, content, folder, watched, expected):
    put(folder, name, content)
    assert use(folder) == expected
    assert watched == []
    assert not (folder.parent / "mark").exists()


@pytest.mark.parametrize(("name", "content", "reason"), REFUSED, ids=str)
def test_other_place_named_in_a_file_is_refused(name, content, reason, folder, watched):
    put(folder, name, content)
    with pytest.raises((ValueError, OSError), match=reason):
        use(folder)
    assert watched == []
    assert not (folder.parent / "mark").exists()


def test_code_of_a_teacher_never_runs_whatever_stands_in_the_input(folder, monkeypatch):
    put(
        folder,
        "config.json",
        '{"model_type": "bert", "auto_map": {"AutoModelForSeq2SeqLM": "evil.Evil"}}',
    )
    shutil.copy2(folder.parent / "outside" / "evil.py", folder)
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    with pytest.raises(ValueError, match="trust_remote_code"):
        load_for_inference(folder, languages=(None, None))
    assert not (folder.parent / "mark").exists()


def test_watch_sees_what_it_looks_for(folder, watched, expected):
    (folder.parent / "outside" / "config.json").read_text()
    os.system("true")
    sys.path.insert(0, str(folder.parent / "outside"))
    try:
        __import__("evil")
    finally:
        sys.path.pop(0)
        sys.modules.pop("evil", None)
    assert {event for event, _ in watched} >= {"open", "os.system"}
    assert (folder.parent / "mark").exists()
    assert use(folder.parent / "outside") != expected


@pytest.mark.parametrize(
    "name", ["../outside/model.safetensors", f"{PLACE}/model.safetensors", "x/../m.safetensors"]
)
def test_shard_of_another_place_is_refused(name, folder, watched):
    (folder / "model.safetensors").unlink()
    put(folder, "model.safetensors.index.json", {"weight_map": {"a": name}})
    with pytest.raises(ValueError, match="must name safetensors files of its own folder"):
        load_for_inference(folder)
    assert watched == []
