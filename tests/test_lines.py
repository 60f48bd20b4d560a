# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import io

import pytest

from vaswani_transformer.files import decode_lines


def lines_of(content, max_bytes=100, **place):
    return list(decode_lines(io.BytesIO(content), "some.txt", max_bytes, **place))


def test_a_byte_order_mark_is_dropped_at_the_beginning_only():
    assert lines_of("\ufeffa\n\ufeffb\n".encode()) == ["a", "\ufeffb"]
    assert lines_of("\ufeffb\n".encode(), offset=5, line=2) == ["\ufeffb"]


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"good\n\nb\xe4d\n", {}, "got byte 0xe4 in line 3 at byte offset 7"),
        (b"\xef\xbb\xbfb\xe4d\n", {}, "got byte 0xe4 in line 1 at byte offset 4"),
        (b"good\nb\xe4d\n", {"offset": 10, "line": 4}, "got byte 0xe4 in line 5 at byte offset 16"),
    ],
)
def test_a_byte_that_is_not_utf8_is_named_by_line_and_offset(content, place, message):
    with pytest.raises(ValueError, match=f"`some.txt` must be UTF-8 text, {message}"):
        lines_of(content, **place)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b""])
def test_a_line_may_be_as_long_as_the_limit_and_no_longer(ends):
    assert lines_of(b"\xef\xbb\xbf" + b"a" * 100 + ends) == ["a" * 100]
    message = (
        "`some.txt` must have at most 100 bytes in a line, "
        "got more in line 2 at byte offset 2. Split it"
    )
    with pytest.raises(ValueError, match=message):
        lines_of(b"a\n" + b"a" * 101 + ends)


def test_a_stream_without_line_ends_is_not_read_as_a_whole():
    class Endless(io.RawIOBase):
        def readline(self, size=-1):
            assert 0 < size < 200
            return b"a" * size

    with pytest.raises(ValueError, match="got more in line 1"):
        next(decode_lines(Endless(), "in", 100))
