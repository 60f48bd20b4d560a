# /// script
# requires-python = ">=3.11"
# dependencies = ["vaswani-transformer[train,eval]"]
# ///
# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a model and pushes it, on a machine that has uv and nothing else, such as one of Hugging Face's jobs.

hf jobs uv run --flavor a10g-small --secrets HF_TOKEN scripts/train_uv.py me/my-model --recipe paper-base-en-de --bf16
"""

import sys

from vaswani_transformer.cli import main

if __name__ == "__main__":
    repo_id, *options = sys.argv[1:]
    folder = repo_id.rpartition("/")[2]
    sys.exit(
        main(["train", "--output-dir", folder, *options]) or main(["push", "--model", folder, "--repo-id", repo_id])
    )
