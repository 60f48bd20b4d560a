# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
from vaswani_transformer.analysis.text_table import align_columns, markdown_table


def test_first_column_is_left_and_the_others_right():
    assert align_columns([("", "one"), ("long", "2"), ("x", "")]) == "      one\nlong    2\nx"


def test_markdown_table_has_a_header_and_escapes_bars():
    assert markdown_table([("a", "b"), ("c|d", "")]) == "| a | b |\n|---|---|\n| c\\|d |  |"
