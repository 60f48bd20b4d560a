# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The long run of these tests: `pytest tests/fuzz --hypothesis-profile fuzz`."""

import nasty
import pytest
from hypothesis import settings
from tiny import make_model

settings.register_profile(nasty.LONG_RUN, settings.get_profile("default"), print_blob=True)


@pytest.fixture(scope="session")
def folder(tmp_path_factory, tiny_tokenizer):
    """A saved untrained model whose translations are short, for tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("model")
    model = make_model(scale=2.5)
    model.generation_config.max_new_tokens_over_source = 2
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder
