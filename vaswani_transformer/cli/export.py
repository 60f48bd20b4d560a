# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command that writes a model for another engine: export."""

from __future__ import annotations

import argparse
from pathlib import Path

from .parsing import add_model

# For each engine the function that exports for it, and how the export is used in Python.
_FORMATS = {
    "ctranslate2": (
        "export_ctranslate2",
        "from vaswani_transformer.export import Translator; translate = Translator({folder!r})",
    ),
    "onnx": (
        "export_onnx",
        "from vaswani_transformer.export import VaswaniTransformerOnnxModel; "
        "model = VaswaniTransformerOnnxModel.from_pretrained({folder!r})",
    ),
}


def _describe_export(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--to", required=True, choices=_FORMATS, help="engine to export for (needs the extra export)")
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="folder to make, new or empty")
    parser.add_argument(
        "--quantization",
        metavar="TYPE",
        help="how CTranslate2 stores weights: float32, float16, bfloat16, int16, int8, int8_float32, int8_float16 or "
        "int8_bfloat16 (default: float32)",
    )


def _run_export(args: argparse.Namespace) -> None:
    if args.to == "onnx" and args.quantization is not None:
        raise ValueError(
            f"`quantization` must be left out with --to onnx, whose weights stay float32, got {args.quantization}. "
            "Drop it, or export --to ctranslate2."
        )
    from .. import export

    function, use = _FORMATS[args.to]
    options = {} if args.quantization is None else {"quantization": args.quantization}
    folder = getattr(export, function)(args.model, args.output_dir, **options)
    size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    print(f"written: {folder} ({size:.1f} MB)")
    print(f"in Python: {use.format(folder=str(folder))}")


COMMANDS = {"export": (_describe_export, _run_export, "Write a model for another engine, CTranslate2 or ONNX")}
