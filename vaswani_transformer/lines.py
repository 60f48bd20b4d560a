# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Lines of text, one at a time: one reader for corpora and for what is translated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

_MARK = "\ufeff".encode()  # byte order mark


def decode_lines(stream: BinaryIO, name: str, max_bytes: int, *, offset: int = 0, line: int = 1) -> Iterator[str]:
    r"""Lines of a binary stream of UTF-8 text, without their ends.

    Lines end in `\n` or `\r\n`; no other character ends a line. A byte order mark at the start is dropped.

    Args:
        stream: Read from its present position, once; no more than the longest line is held.
        name: Of the stream, for errors.
        max_bytes: Bytes of the longest line, without its end; -1 is any number.
        offset: Byte of the file at which the stream stands.
        line: Number of the line that begins there, from 1.

    Raises:
        ValueError: A line is longer or holds bytes that are not UTF-8; names stream, line and byte offset.
    """
    # As much as a line may have: byte order mark, text, both bytes of its end, and the one that is too much.
    num_read = max_bytes + 6 if max_bytes >= 0 else -1
    for number, raw in enumerate(iter(partial(stream.readline, num_read), b""), start=line):
        content = raw.removesuffix(b"\n").removesuffix(b"\r")
        begin = len(_MARK) if number == 1 and content.startswith(_MARK) else 0
        if 0 <= max_bytes < len(content) - begin:
            raise ValueError(
                f"`{name}` must have at most {max_bytes} bytes in a line, got more in line {number} at byte offset "
                f"{offset}. Split it into sentences, one a line, or remove it."
            )
        try:
            text = content[begin:].decode("utf-8")
        except UnicodeDecodeError as error:
            place = begin + error.start
            raise ValueError(
                f"`{name}` must be UTF-8 text, got byte 0x{raw[place]:02x} in line {number} at byte offset "
                f"{offset + place}. Convert it to UTF-8, for example with iconv, or remove the line."
            ) from error
        yield text
        offset += len(raw)
