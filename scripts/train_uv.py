# /// script
# requires-python = ">=3.11"
# dependencies = ["huggingface_hub>=1.31"]
# ///
# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
r"""Trains a model and pushes it, on a machine that has uv and nothing else, such as one of Hugging
Face's jobs.

    hf jobs uv run --flavor a10g-small --timeout 12h --secrets HF_TOKEN scripts/train_uv.py \
        me/my-model --package git+https://ADDRESS@REVISION --license cc-by-4.0 \
        --recipe paper-base-en-de --bf16

`--package` says where the package comes from. It is not on PyPI, and whoever registers its name
there could read HF_TOKEN.
"""

import argparse
import os
import re
import subprocess
import sys

from huggingface_hub import create_repo

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Trains a model and pushes it.", allow_abbrev=False
    )
    parser.add_argument(
        "repo_id", help="USER/NAME of the model on the Hub, where HF_TOKEN may write"
    )
    parser.add_argument(
        "--package",
        required=True,
        help=(
            "where to install vaswani-transformer from: git+https://ADDRESS@REVISION, or a "
            "wheel's path or address"
        ),
    )
    parser.add_argument(
        "--license", required=True, help="license of the model, which the push needs"
    )
    args, options = parser.parse_known_args()
    if not re.fullmatch(r"git\+\S+@[^/@\s]+|\S+\.whl", args.package):
        parser.error(
            f"--package must be git+https://ADDRESS@REVISION or a wheel, got {args.package}."
        )
    repo = create_repo(args.repo_id, exist_ok=True).repo_id  # first: without, the machine keeps all
    folder = repo.rpartition("/")[2]
    source = f"vaswani-transformer[train,eval] @ {args.package}"
    # uv sets UV
    command = [os.environ.get("UV", "uv"), "tool", "run", "--from", source, "vaswani-transformer"]
    train = [*command, "train", *options, "--output-dir", folder]  # the last --output-dir counts
    push = [
        *command,
        "push",
        "--model",
        folder,
        "--repo-id",
        args.repo_id,
        "--license",
        args.license,
    ]
    sys.exit(subprocess.call(train) or subprocess.call(push))
