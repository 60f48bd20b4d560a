# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The long run of these tests, `pytest tests/fuzz --hypothesis-profile fuzz`, and the number of
cases it executed.
"""

import nasty
import pytest
from hypothesis import settings
from tiny import make_model

settings.register_profile(nasty.LONG_RUN, print_blob=True)


def pytest_terminal_summary(terminalreporter):
    """Says how many cases each test executed."""
    if nasty.NUM_CASES:
        terminalreporter.section("cases executed")
        for name, number in sorted(nasty.NUM_CASES.items()):
            terminalreporter.write_line(f"{number:8,}  {name}")
        terminalreporter.write_line(f"{sum(nasty.NUM_CASES.values()):8,}  in all")


@pytest.fixture(scope="session")
def folder(tmp_path_factory, tiny_tokenizer):
    """A saved untrained model whose translations are short, for tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("model")
    model = make_model(scale=2.5)
    model.generation_config.max_new_tokens_over_source = 2
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
