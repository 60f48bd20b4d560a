# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`vaswani-transformer train` as a script, for launchers that start a file in every process.

torchrun --nproc_per_node 8 scripts/train.py --recipe paper-base-en-de --output-dir runs/base
accelerate launch scripts/train.py --recipe paper-base-en-de --output-dir runs/base
"""

import sys

from vaswani_transformer.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
