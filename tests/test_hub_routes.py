# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A saved folder in a process where this package cannot be imported."""

import json
import os
import subprocess
import sys

import pytest
from tiny import make_model
from transformers import pipeline

TEXTS = ["A dog runs.", "", "Two women read a book."]
FILES = {
    "configuration_vaswani_transformer.py",
    "generation_vaswani_transformer.py",
    "loss_vaswani_transformer.py",
    "modeling_vaswani_transformer.py",
    "pipeline_vaswani_transformer.py",
    "positions_vaswani_transformer.py",
    "search_vaswani_transformer.py",
    "tokenization_vaswani_transformer.py",
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, tiny_tokenizer):
    folder = tmp_path_factory.mktemp("hub") / "model"
    make_model(scale=2.5, source_language="en", target_language="de").save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def run_without_package(program, cwd):
    """Runs `program` where importing vaswani_transformer fails; its last line of output is JSON."""
    done = subprocess.run(
        [sys.executable, "-c", 'import sys; sys.modules["vaswani_transformer"] = None\n' + program],
        capture_output=True,
        text=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HF_HOME": str(cwd / "hf_home"), "PYTHONPATH": ""},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_saved_folder_holds_every_file_of_code(checkpoint):
    assert {path.name for path in checkpoint.glob("*.py")} == FILES


def test_pipeline_works_from_a_folder_without_the_package(checkpoint, tmp_path):
    got = run_without_package(
        f"""
import json
from transformers import pipeline
for task in ("translation", "translation_en_to_de"):
    translate = pipeline(task, model={str(checkpoint)!r}, trust_remote_code=True)
    results = translate({TEXTS!r})
print(json.dumps([type(translate.model).__module__.split(".")[0], results]))
""",
        tmp_path,
    )
    assert got == ["transformers_modules", pipeline("translation", model=str(checkpoint))(TEXTS)]


def test_auto_classes_work_without_the_package_and_resaving_loses_no_file(checkpoint, tmp_path):
    got = run_without_package(
        f"""
import json, pathlib
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
source = {str(checkpoint)!r}
AutoConfig.from_pretrained(source, trust_remote_code=True)
AutoModel.from_pretrained(source, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(source, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=True)
model.save_pretrained("again")
tokenizer.save_pretrained("again")
results = pipeline("translation", model="again", trust_remote_code=True)({TEXTS!r})
print(json.dumps([sorted(p.name for p in pathlib.Path("again").glob("*.py")), results]))
""",
        tmp_path,
    )
    assert got == [sorted(FILES), pipeline("translation", model=str(checkpoint))(TEXTS)]


@pytest.mark.parametrize("trust", [{}, {"trust_remote_code": True}, {"trust_remote_code": False}])
def test_installed_package_works_whatever_is_said_of_remote_code(checkpoint, trust):
    translate = pipeline("translation", model=str(checkpoint), **trust)
    assert type(translate.model).__module__ == "vaswani_transformer.modeling_vaswani_transformer"


def test_resaved_by_the_installed_package_still_works_without_it(checkpoint, tmp_path):
    pipeline("translation", model=str(checkpoint)).save_pretrained(tmp_path / "again")
    got = run_without_package(
        """
import json
from transformers import pipeline
print(json.dumps(pipeline("translation", model="again", trust_remote_code=True)("A dog runs.")))
""",
        tmp_path,
    )
    assert got == pipeline("translation", model=str(checkpoint))("A dog runs.")
