# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Small files that appear whole or not at all: written beside their place, then moved there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> Path:
    """Writes a text file in UTF-8, in place of an older one only when it is complete, and returns its path."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
    return path


def write_json(path: Path, value: Any) -> Path:
    """Writes a JSON file for people to read, as `write_text` does."""
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
