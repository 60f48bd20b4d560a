# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What no line of the package may do, read from its syntax: evaluate data, unpickle, start a shell,
trust code.
"""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires

import pytest
from processes import HUB_FILES, ROOT

PACKAGE = ROOT / "vaswani_transformer"
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])

NEVER_CALLED = {"eval", "exec", "compile", "__import__", "input", "breakpoint"}
SAFE = {
    "weights_only": True,
    "use_safetensors": True,
    "shell": False,
    "allow_pickle": False,
    "trust_remote_code": False,
    "allow_all_kernels": False,
}


def dotted(node):
    """The name that an expression spells, such as os.path.join; "" for others."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def faults(code):
    """Calls that a file must not make. Ruff refuses the modules of pyproject.toml's banned-api."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if name in NEVER_CALLED or (name == "torch.load" and "weights_only" not in given):
            found.append(name)
        found += [key for key, safe in SAFE.items() if given.get(key, str(safe)) != str(safe)]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_evaluates_unpickles_or_trusts(path):
    assert faults(path.read_text(encoding="utf-8")) == []


FORBIDDEN = """\
eval(text)
exec(text)
__import__(name)
run(text, shell=True)
run(text, shell=flag)
torch.load(path)
torch.load(path, weights_only=False)
torch.load(path, weights_only=safe)
numpy.load(path, allow_pickle=True)
AutoTokenizer.from_pretrained(path, trust_remote_code=True)
AutoModel.from_pretrained(path, trust_remote_code=config.trust)
AutoModel.from_pretrained(path, use_safetensors=False)
""".splitlines()


@pytest.mark.parametrize("code", FORBIDDEN)
def test_what_must_not_be_is_found(code):
    assert faults(code)


def test_what_may_be_is_not_found():
    allowed = (
        "model.eval()\nre.compile(text)\ntorch.compile(model)\ntorch.load(path, "
        "weights_only=True)\nyaml.safe_load(a)"
    )
    assert faults(allowed + "\nAutoTokenizer.from_pretrained(path, trust_remote_code=False)") == []


BANNED = """\
import pickle
from pickle import loads
import os; os.system(text)
from os import popen
import subprocess
import ctypes
from yaml import load
import yaml; yaml.load(text)
import importlib; importlib.import_module(name)
from importlib import import_module
import torch; torch.hub.load(name)
""".splitlines()


def test_ruff_refuses_modules_that_start_programs_or_unpickle(tmp_path):
    for number, code in enumerate(BANNED):
        (tmp_path / f"code{number}.py").write_text(code, encoding="utf-8")
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--config",
        str(ROOT / "pyproject.toml"),
        "--select",
        "TID251",
    ]
    found = subprocess.run([*ruff, str(tmp_path)], capture_output=True, text=True).stdout
    assert all(f"code{number}.py" in found for number in range(len(BANNED)))


# ---- what travels to the Hub ----

COMPUTES = {
    *"collections concurrent contextlib dataclasses functools html itertools".split(),
    *"logging math numbers".split(),
}
COMPUTES |= {*"platform re threading types typing warnings weakref".split()}
# The only file that is read: which make the processor is, for the faster of two ways to multiply.
READS = {"cpu_kernels_vaswani_transformer.py": "Path('/proc/cpuinfo').read_text(encoding='utf-8')"}
# Triton compiles the kernel of this file for the GPU of the machine, as torch.compile does.
USES_TRITON = "triton_loss_vaswani_transformer.py"
TOUCHES_FILES = re.compile(
    r"open|(read|write)_(text|bytes)|unlink|mkdir|rmtree|rename|environ|getenv|load|save|from_file"
)


@pytest.mark.parametrize("path", HUB_FILES, ids=lambda path: path.name)
def test_code_that_travels_has_no_way_to_files_programs_or_the_network(path):
    allowed = COMPUTES | {"copy", "torch", "transformers", "tokenizers", "huggingface_hub"}
    allowed |= {"pathlib"} if path.name in READS else set()
    allowed |= {"triton"} if path.name == USES_TRITON else set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module.split(".")[0] in allowed
            if node.module.startswith("huggingface_hub"):
                assert (node.module, [alias.name for alias in node.names]) == (
                    "huggingface_hub.dataclasses",
                    ["strict"],
                )
        elif isinstance(node, ast.Call) and TOUCHES_FILES.fullmatch(
            dotted(node.func).split(".")[-1]
        ):
            is_load_from_device = path.name == USES_TRITON and dotted(node.func) == "tl.load"
            if is_load_from_device:
                continue
            assert ast.unparse(node) == READS.get(path.name), f"{path.name}:{node.lineno}"


# ---- dependencies ----

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement).group().lower().replace("_", "-")


@functools.cache
def imported_distributions(folder=PACKAGE):
    """Distributions that files of the package, or of another folder, import, by the names that are
    imported.
    """
    found, known = {}, packages_distributions()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for top in {name.split(".")[0] for name in names} - {
                *sys.stdlib_module_names,
                PACKAGE.name,
            }:
                found[top] = sorted(
                    {name.lower().replace("_", "-") for name in known.get(top, [top])}
                )
    return found


def declared():
    extras = [group for name, group in PROJECT["optional-dependencies"].items() if name != "dev"]
    return {name_of(each) for group in [PROJECT["dependencies"], *extras] for each in group}


def test_every_declared_dependency_is_used():
    folders = PACKAGE, PACKAGE.parent / "scripts"  # which draw with the extra `viz`
    used = {
        name
        for folder in folders
        for names in imported_distributions(folder).values()
        for name in names
    }
    assert declared() - used == set()


def test_every_import_is_declared_or_comes_with_transformers():
    brought = {"numpy", "pyyaml", "safetensors", "tqdm"}
    assert brought <= {name_of(each) for each in requires("transformers") if "extra ==" not in each}
    allowed = declared() | brought | {"triton"}  # torch for GPUs installs it
    assert {
        top for top, names in imported_distributions().items() if not allowed & set(names)
    } == set()
