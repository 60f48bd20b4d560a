# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text and as Markdown, and the text around them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_WIDTH = 119


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines of aligned columns, the first to the left and the others to the right.

    Args:
        rows: Cells of each row, the header among them, all of one length.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a table in Markdown, the first row as its header."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def wrap(text: str) -> str:
    """A paragraph below a table, in lines of at most 119 characters."""
    return textwrap.fill(text, _WIDTH)
