# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Analysis: the paper's Table 3 with our parameter counts, and what a training costs, as in its Table 2.

Nothing is imported here: what needs the model loads it when it is used.
"""
