#!/usr/bin/env bash
# Runs the fast tests on the oldest supported transformers, in an environment of their own (.venv-lowest).
# LOWEST_TORCH chooses torch, which is large: by default the oldest supported one.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -x .venv-lowest/bin/python ]; then
    "${PYTHON:-python3}" -m venv .venv-lowest
    .venv-lowest/bin/pip install --quiet "torch==${LOWEST_TORCH:-2.11.0}"
    .venv-lowest/bin/pip install --quiet "transformers==5.20.0" --editable ".[dev]"
fi
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
exec .venv-lowest/bin/python -m pytest -m "not slow and not heavy" "$@"
