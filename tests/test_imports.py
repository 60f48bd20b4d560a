# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""One direction of imports, and a light `import vaswani_transformer`."""

import ast
import graphlib

import pytest
from processes import HUB_FILES, ROOT

PACKAGE = ROOT / "vaswani_transformer"
# Later layers may import earlier ones, never the other way round; two in one set do not meet.
LAYERS = [
    {"model"},
    {"data"},
    {"inference", "analysis"},
    {"recipe"},
    {"hub"},
    {"training"},
    {"export"},
    {"cli"},
]
# The paper's formula of the learning rate, which needs torch alone. Recipes read it, too.
FREE = ("cores", "extras", "files", "version", "training.schedule")


def layer_of(module):
    """Index of the layer a dotted module name below the package belongs to, or None for the package
    itself.
    """
    head = module.split(".")[0]
    if not head or head in FREE or module in FREE:
        return None
    head = "model" if head.endswith("_vaswani_transformer") else head
    return next(index for index, names in enumerate(LAYERS) if head in names)


def imported_modules(path, *, for_types=True):
    """Dotted names, below the package, of everything that a file imports from the package, or does
    so when it runs.
    """
    folder, tree = path.relative_to(PACKAGE).parent.parts, ast.parse(path.read_text())
    if not for_types:
        tree.body = [
            each for each in tree.body if not ast.unparse(each).startswith("if TYPE_CHECKING:")
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (".".join((*folder[: len(folder) - node.level + 1], name)) for name in names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "vaswani_transformer"
        ):
            yield node.module.removeprefix("vaswani_transformer").strip(".")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("vaswani_transformer"):
                    yield alias.name.removeprefix("vaswani_transformer").strip(".")


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_go_in_one_direction(path):
    own = layer_of(
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).replace("__init__", "")
    )
    if own is None:
        return
    for module in imported_modules(path):
        other = layer_of(module)
        assert (
            other is None
            or other < own
            or module.split(".")[0] == path.relative_to(PACKAGE).parts[0]
            or other == own == 0
        ), f"{path.name} imports {module}"


def test_no_module_imports_itself_through_others():
    modules = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    graph = {
        name: {*imported_modules(path, for_types=False)} & {*modules} - {name}
        for name, path in modules.items()
    }
    assert sum(map(len, graph.values())) > 150
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the way round


@pytest.mark.parametrize("path", HUB_FILES, ids=lambda p: p.name)
def test_files_that_travel_import_each_other_beside_the_libraries(path):
    """The libraries: tests/test_code_safety.py."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1 and PACKAGE / f"{node.module}.py" in HUB_FILES
