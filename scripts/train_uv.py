# /// script
# requires-python = ">=3.11"
# dependencies = ["vaswani-transformer[train,eval]"]
# ///
# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
r"""Trains a model and pushes it, on a machine that has uv and nothing else, such as one of Hugging Face's jobs.

hf jobs uv run --flavor a10g-small --timeout 12h --secrets HF_TOKEN scripts/train_uv.py me/my-model \
    --recipe paper-base-en-de --bf16
"""

import argparse
import sys

from huggingface_hub import create_repo

from vaswani_transformer.cli import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains a model and pushes it.")
    parser.add_argument("repo_id", help="USER/NAME of the model on the Hub, where HF_TOKEN may write")
    args, options = parser.parse_known_args()
    repo = create_repo(args.repo_id, exist_ok=True).repo_id  # first: without, the machine keeps all
    folder = repo.rpartition("/")[2]
    train, push = ["train", "--output-dir", folder, *options], ["push", "--model", folder, "--repo-id", args.repo_id]
    sys.exit(main(train) or main(push))
