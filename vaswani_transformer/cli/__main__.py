# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`python -m vaswani_transformer.cli`."""

import sys

from . import main

sys.exit(main())
