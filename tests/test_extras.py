# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The message about a missing package names the extra that installs it."""

import pytest

from vaswani_transformer.extras import requiring


def test_missing_package_is_named_with_the_extra_that_installs_it():
    message = r"^`no_such_package` must be installed to score, got none"
    with pytest.raises(ImportError, match=message) as error, requiring("eval", "to score"):
        import no_such_package.part  # noqa: F401
    assert "the extra `eval`: in a clone, run `pip install -e '.[eval]'`" in str(error.value)
