# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A tiny English-German model whose translations are short and not blank."""

import socket

import pytest
from tiny import make_model


@pytest.fixture(scope="module")
def model():
    """Sharpened, so that its attention and its translations differ from sentence to sentence."""
    model = make_model(scale=2.5, source_language="en", target_language="de")
    model.generation_config.max_new_tokens_over_source = 2
    return model


@pytest.fixture
def port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]
