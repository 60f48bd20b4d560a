# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The API reference is built without a warning, and every public name has a place and a docstring
in it.
"""

import importlib
import inspect

import processes
import pytest
from readme import ROOT

import vaswani_transformer
from vaswani_transformer import analysis, data, export, hub, inference, training

pytest.importorskip("evaluate", reason="needs the extra [eval]")

LAZY = [f"vaswani_transformer.{name}" for name in vaswani_transformer._LAZY]
NAMES = LAZY + [
    f"{package.__name__}.{name}"
    for package in (vaswani_transformer, data, export)
    for name in package.__all__
    if name != "__version__"
]
MODULES = [
    f"{package.__name__}.{name}"
    for package in (training, hub, inference, analysis)
    for name in package.__all__
] + ["vaswani_transformer.recipe"]


def resolve(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def own_parameters(value):
    """Names of what a function takes, or a class whose `__init__` is its own; *args and **kwargs do
    not count.
    """
    function = value if inspect.isfunction(value) else vars(value).get("__init__")
    parameters = [] if function is None else inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.name != "self" and each.kind not in (2, 4)]


@pytest.mark.parametrize("name", [name for name in NAMES if callable(resolve(name))])
def test_public_name_describes_its_arguments(name):
    value = resolve(name)
    text = value.__doc__ or ""
    described = "Args:" in text or "arguments are those of" in text or "`metadata" in text
    is_the_librarys = hasattr(value, "from_pretrained")  # which calls it with a config
    assert text and (described or is_the_librarys or len(own_parameters(value)) < 2)


@pytest.mark.parametrize("name", MODULES)
def test_every_function_and_class_of_a_public_module_has_a_docstring(name):
    module = importlib.import_module(name)
    own = {
        key: value
        for key, value in vars(module).items()
        if getattr(value, "__module__", None) == name
    }
    public = {key: value for key, value in own.items() if key[0] != "_" and callable(value)}
    assert public
    assert [key for key, value in public.items() if not value.__doc__] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built by the command that CONTRIBUTING names."""
    pytest.importorskip("pdoc", reason="needs the extra [dev]")
    folder = tmp_path_factory.mktemp("site")
    words = [ROOT / "scripts" / "api_reference.py", "--output-dir", folder]
    status, _, errors = processes.run(words, tmp_path_factory.mktemp("printed"))
    assert (status, errors) == (0, "")
    return folder


@pytest.mark.heavy
def test_every_public_name_and_module_has_its_place(site):
    for name in NAMES:
        module, _, attribute = name.rpartition(".")
        page = (site / f"{module.replace('.', '/')}.html").read_text(encoding="utf-8")
        assert f'<section id="{attribute}"' in page, name
    assert [
        name for name in MODULES if not (site / f"{name.replace('.', '/')}.html").is_file()
    ] == []


@pytest.mark.heavy
def test_arguments_and_errors_are_lists_of_the_page(site):
    page = (site / "vaswani_transformer" / "training" / "train.html").read_text(encoding="utf-8")
    assert "<li><strong>output_dir:</strong>" in page
    assert "<li><strong>ValueError:</strong>" in page
