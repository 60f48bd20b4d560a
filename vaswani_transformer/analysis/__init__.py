# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Analysis: the paper's Table 3 with our parameter counts, what a training costs, as in its Table 2, and pictures of
attention and positions.

Nothing is imported here: what needs the model loads it when it is used.
"""
