# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A saved folder in a process where this package cannot be imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import pipeline

pytestmark = pytest.mark.slow

TEXTS = ["A dog runs.", "", "Two women read a book."]
FILES = {path.name for path in (Path(__file__).parents[1] / "vaswani_transformer").glob("*_vaswani_transformer.py")}

# Texts and options of the pipeline.
CALLS = [
    ["A dog runs to {name}.\n\n - TWO WOMEN READ 12 BOOKS. \U0001f600 Why?", {}],
    ["A dog runs. A dog.", {"split_sentences": False}],
    ["A dog runs.", {"target_prefix": "Ein"}],
    ["A dog runs.\nA book.", {"return_scores": True}],
]

PROGRAM = """
import json, pathlib, sys
sys.modules["vaswani_transformer"] = None
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
source, resaved, texts, calls = json.loads(sys.argv[1])
trust = {"trust_remote_code": True}
found = {}
for task in ("translation", "translation_en_to_de"):
    translate = pipeline(task, model=source, **trust)
    found[task] = translate(texts)
found["options"] = [translate(text, **options) for text, options in calls]
found["package of the model"] = type(translate.model).__module__.split(".")[0]
AutoConfig.from_pretrained(source, **trust)
AutoModel.from_pretrained(source, **trust)
AutoModelForSeq2SeqLM.from_pretrained(source, **trust).save_pretrained("again")
AutoTokenizer.from_pretrained(source, **trust).save_pretrained("again")
found["again"] = pipeline("translation", model="again", **trust)(texts)
found["files of again"] = sorted(path.name for path in pathlib.Path("again").glob("*.py"))
found["resaved"] = pipeline("translation", model=resaved, **trust)(texts)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(checkpoint, tmp_path_factory):
    """What a process finds where importing vaswani_transformer fails, in the folder and in one saved from it."""
    cwd = tmp_path_factory.mktemp("without_package")
    pipeline("translation", model=str(checkpoint)).save_pretrained(cwd / "resaved")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([str(checkpoint), str(cwd / "resaved"), TEXTS, CALLS])],
        capture_output=True,
        text=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HF_HOME": str(cwd / "hf_home"), "PYTHONPATH": ""},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def expected(checkpoint):
    return pipeline("translation", model=str(checkpoint))(TEXTS)


def test_saved_folder_holds_every_file_of_code(checkpoint):
    assert {path.name for path in checkpoint.glob("*.py")} == FILES


@pytest.mark.parametrize("task", ["translation", "translation_en_to_de"])
def test_pipeline_works_from_a_folder_without_the_package(task, found, expected):
    assert found[task] == expected
    assert found["package of the model"] == "transformers_modules"


def test_options_of_the_pipeline_work_without_the_package(checkpoint, found):
    translate = pipeline("translation", model=str(checkpoint))
    assert found["options"] == [translate(text, **options) for text, options in CALLS]


def test_resaving_without_the_package_loses_no_file(found, expected):
    assert found["files of again"] == sorted(FILES)
    assert found["again"] == expected


@pytest.mark.parametrize("trust", [{}, {"trust_remote_code": True}, {"trust_remote_code": False}])
def test_installed_package_works_whatever_is_said_of_remote_code(checkpoint, trust):
    translate = pipeline("translation", model=str(checkpoint), **trust)
    assert type(translate.model).__module__ == "vaswani_transformer.modeling_vaswani_transformer"


def test_resaved_by_the_installed_package_still_works_without_it(found, expected):
    assert found["resaved"] == expected
