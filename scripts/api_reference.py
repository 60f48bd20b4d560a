# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds the API reference with pdoc, by default into site/: a page for each public module, from
its docstrings.

python scripts/api_reference.py [--output-dir DIR]

Public is what the packages name: of `vaswani_transformer`, `data` and `export` the names in their
`__init__`, of `training`, `hub`, `inference` and `analysis` the modules in theirs.
`recipe` has a page, too.
"""

import argparse
from pathlib import Path
from typing import Literal

import pdoc

import vaswani_transformer
from vaswani_transformer import (
    analysis,
    configuration_vaswani_transformer,
    data,
    export,
    hub,
    inference,
    recipe,
    training,
)

PACKAGES_OF_NAMES = (vaswani_transformer, data, export)
PACKAGES_OF_MODULES = (training, hub, inference, analysis)


def build(output_dir):
    """Writes the pages."""
    for package in PACKAGES_OF_NAMES:
        lazy = getattr(package, "_LAZY", {})
        # pdoc looks at what is there
        vars(package).update({name: getattr(package, name) for name in lazy})
        package.__all__ = sorted({*package.__all__, *lazy})
    # in an annotation that the base class of transformers brings
    configuration_vaswani_transformer.Literal = Literal
    pdoc.render.configure(docformat="google")
    pdoc.pdoc(
        *(each.__name__ for each in (*PACKAGES_OF_NAMES, *PACKAGES_OF_MODULES, recipe)),
        output_directory=output_dir,
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output-dir", type=Path, default=Path("site"), metavar="DIR", help="folder of the pages"
    )
    build(parser.parse_args(arguments).output_dir)


if __name__ == "__main__":
    main()
