# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What no user means and every user meets: strategies for texts, files, JSON and command lines."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LONG_RUN = "fuzz"


def fuzz(long: int, short: int | None = None, **strategies):
    """Runs a test on `short` cases, always the same, or on `long` ones, each time others, under the
    profile "fuzz".

    Args:
        long: Cases of the long run.
        short: Cases in the suite; None is a two-hundredth of `long`.
        **strategies: By the test's arguments.
    """
    is_long = settings.get_current_profile_name() == LONG_RUN
    max_examples = long if is_long else short or long // 200
    ignored = [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ]

    def decorate(test):
        run = settings(max_examples=max_examples, deadline=None, suppress_health_check=ignored)
        return run(given(**strategies)(test))

    return decorate


# ---- texts ----

_PIECES = [
    "",
    "\r\n",
    *" \t\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\x00",  # each character is a piece
    *"\ufeff\u200b\u200d\u00ad\u2060\u00a0\u3000\ufffd\ufffe\U0010ffff",
    *"\u202e\u202a\u2066\u2069\u061c\u05d0",  # bidirectional
    *"\u0301\ufb01\u0130\u1e9e\u2581\u0120\U0001f600\U00020000",
    *"\u0627\u0644 e\u0301 \u1100\u1161 \u0e01\u0e33 Z\u0351\u0352\u0353".split(),
    *"\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea".split(),
    *"<s> </s> <pad> <unk> [CLS] <|endoftext|> ##AT##-##AT## &quot; &#124;".split(),
    "A dog",
    "Ein Hund",
    *"runs. a-b usw. 1,000.5 's \" , \\ %s {} $(x) ../".split(),
]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)

# Any str that UTF-8 can hold: pieces that are known to break things, between random ones.
texts = st.one_of(
    _TEXT,
    st.lists(st.one_of(st.sampled_from(_PIECES), _TEXT), max_size=12).map("".join),
    st.tuples(st.sampled_from(_PIECES), st.integers(1, 300)).map(lambda pair: pair[0] * pair[1]),
)
lines = texts.map(lambda text: text.replace("\n", ""))  # what one line of a file can hold
blanks = st.text(st.sampled_from(" \t\r\x0b\x0c\x85\u2028\u00a0\u3000\x1c"), max_size=5)

# ---- bytes of files ----

_INVALID = [
    b"\xff",
    b"\xc3",
    b"\xe2\x80",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf5\x80\x80\x80",
    b"\xff\xfe",
    b"\x80",
]
_LINE_ENDS = st.sampled_from([b"\n"] * 6 + [b"\r\n", b"\r", b"\n\n", b"\r\r\n"])
_GOOD_BYTES = st.one_of(
    texts.map(str.encode), st.sampled_from([b"\xef\xbb\xbf", b"a", b"\xc2\x85", b"\xe2\x80\xa8"])
)
_BYTES = st.one_of(_GOOD_BYTES, st.sampled_from(_INVALID), st.binary(max_size=8))


def _files(pieces):
    """Files of pieces with any ends of lines, the last of which may have none."""
    content = st.lists(st.tuples(pieces, _LINE_ENDS), max_size=8).map(
        lambda parts: b"".join(map(b"".join, parts))
    )
    return st.tuples(
        st.sampled_from([b"", b"", b"\xef\xbb\xbf"]), content, st.one_of(st.just(b""), pieces)
    ).map(b"".join)


good_files, any_files = _files(_GOOD_BYTES), _files(_BYTES)


# ---- JSON ----

_NUMBERS = [0, -0.0, -1, 1, 2, 3, 16, 2.5, 1e-30, 1e308, 2**31, 2**63, 10**12, 10**30, -(10**30)]
_NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
_SCALARS = st.one_of(
    st.sampled_from(
        [*_NUMBERS, *_NOT_FINITE, None, True, False, "", "16", "nan", "none", "</s>", "true"]
    ),
    st.integers(-3, 300),
    st.floats(),
    texts,
)
json_values = st.recursive(
    _SCALARS,
    lambda values: st.one_of(
        st.lists(values, max_size=3), st.dictionaries(texts, values, max_size=3)
    ),
    max_leaves=6,
)


def json_texts(names):
    """Text of a JSON object with some of these keys, any of them twice, or with others; or of
    something else.
    """
    pairs = st.lists(st.tuples(st.one_of(st.sampled_from(names), texts), json_values), max_size=5)
    objects = pairs.map(
        lambda items: "{" + ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in items) + "}"
    )
    broken = st.sampled_from(
        ["", "{", "[]", "null", "3", '"x"', "{'a': 1}", "[" * 5000, "1" * 5000, '{"a":}']
    )
    return st.one_of(objects, objects, json_values.map(json.dumps), broken)


def changes(names, values=json_values, max_size=3):
    """Some of the named fields with any values."""
    return st.dictionaries(st.sampled_from(names), values, min_size=1, max_size=max_size)
