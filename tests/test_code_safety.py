# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What no line of the package may do, read from its syntax: evaluate data, unpickle, start a shell,
trust code.
"""

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "vaswani_transformer"
HUB_FILES = sorted(PACKAGE.glob("*_vaswani_transformer.py"))
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])

NEVER_CALLED = {"eval", "exec", "compile", "__import__", "input", "breakpoint"}
NEVER_IMPORTED = set(
    "pickle _pickle cPickle dill cloudpickle joblib shelve marshal runpy pty".split()
)
# Attributes of modules, as they would be written.
NEVER_USED = re.compile(
    r"os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*|startfile)|yaml\.(load|load_all|unsafe_load\w*|full_load\w*)"
    r"|torch\.(hub\.\w+|jit\.load|package\.\w+|classes\.\w+|ops\.load_library)"
    r"|subprocess\.(getoutput|getstatusoutput)"
)
# Who starts programs (git, uv, and the measuring scripts' own) or calls libraries of the system
# (malloc's limits).
ALLOWED_FOR = {
    "subprocess": {
        "vaswani_transformer/version.py",
        "scripts/gpu_report.py",
        "scripts/train_uv.py",
        *(str(p.relative_to(ROOT)) for p in ROOT.glob("scripts/benchmark_*")),
    },
    "ctypes": {"scripts/benchmark_training.py"},
}
# Modules imported by a name that is not written at an import: each from a table of its own file.
IMPORTS_BY_NAME = {"vaswani_transformer/__init__.py", "vaswani_transformer/export/__init__.py"}


def dotted(node):
    """The name that an expression spells, such as os.path.join; "" for others."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def faults(code, path="x.py"):
    """What a file does that it must not, each with its line."""
    return sorted(
        {
            f"{node.lineno}: {fault}"
            for node in ast.walk(ast.parse(code))
            for fault in _faults(node, path)
        }
    )


def _faults(node, path):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (
            name
            for name in names
            if name.split(".")[0] in NEVER_IMPORTED or NEVER_USED.fullmatch(name)
        )
        yield from (
            name for name in names if path not in ALLOWED_FOR.get(name.split(".")[0], [path])
        )
        by_name = {"import_module", "importlib.import_module"}
        yield from (n for n in names if n in by_name and path not in IMPORTS_BY_NAME)
    if isinstance(node, ast.Attribute) and NEVER_USED.fullmatch(dotted(node)):
        yield dotted(node)
    if (
        isinstance(node, ast.Attribute)
        and node.attr == "import_module"
        and path not in IMPORTS_BY_NAME
    ):
        yield dotted(node)
    if isinstance(node, ast.Call):
        yield from _faults_of_call(node)


def _faults_of_call(node):
    name, given = dotted(node.func), {keyword.arg: keyword.value for keyword in node.keywords}
    constant = {key: value.value for key, value in given.items() if isinstance(value, ast.Constant)}
    if name in NEVER_CALLED:
        yield name
    if name == "torch.load" and constant.get("weights_only") is not True:
        yield "torch.load without weights_only=True"
    for key in (
        "weights_only",
        "shell",
        "allow_pickle",
        "trust_remote_code",
        "use_safetensors",
        "allow_all_kernels",
    ):
        safe = key in ("weights_only", "use_safetensors")
        if key in given and constant.get(key) is not safe:
            yield f"{key}={ast.unparse(given[key])}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_evaluates_unpickles_or_trusts(path):
    assert faults(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))) == []


FORBIDDEN = """\
eval(text)
exec(text)
__import__(name)
import pickle
from pickle import loads
import os; os.system(text)
from os import popen
import subprocess
import ctypes
from subprocess import run
run(text, shell=True)
run(text, shell=flag)
torch.load(path)
torch.load(path, weights_only=False)
torch.load(path, weights_only=safe)
from yaml import load
yaml.load(text)
numpy.load(path, allow_pickle=True)
AutoTokenizer.from_pretrained(path, trust_remote_code=True)
AutoModel.from_pretrained(path, trust_remote_code=config.trust)
AutoModel.from_pretrained(path, use_safetensors=False)
importlib.import_module(name)
from importlib import import_module
torch.hub.load(name)
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


# ---- what travels to the Hub ----

COMPUTES = {
    *"collections concurrent contextlib dataclasses functools html itertools".split(),
    *"logging math numbers".split(),
}
COMPUTES |= {*"platform re threading types typing warnings weakref".split()}
# The only file that is read: which make the processor is, for the faster of two ways to multiply.
READS = {"cpu_kernels_vaswani_transformer.py": "Path('/proc/cpuinfo').read_text(encoding='utf-8')"}
TOUCHES_FILES = re.compile(
    r"open|(read|write)_(text|bytes)|unlink|mkdir|rmtree|rename|environ|getenv|load|save|from_file"
)


@pytest.mark.parametrize("path", HUB_FILES, ids=lambda path: path.name)
def test_code_that_travels_has_no_way_to_files_programs_or_the_network(path):
    allowed = COMPUTES | {"copy", "torch", "transformers", "tokenizers", "huggingface_hub"}
    allowed |= {"pathlib"} if path.name in READS else set()
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
    allowed = declared() | brought
    assert {
        top for top, names in imported_distributions().items() if not allowed & set(names)
    } == set()
