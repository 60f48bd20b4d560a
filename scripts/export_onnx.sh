#!/usr/bin/env bash
# Converts a Marian export to ONNX, for onnxruntime, optimum and transformers.js.
#
#   vaswani-transformer export --model runs/my-model --to marian --output-dir runs/my-model-stock
#   bash scripts/export_onnx.sh runs/my-model-stock runs/my-model-onnx
#
# The second argument is a new folder. It gets config and tokenizer, and a folder onnx/ with encoder and decoder, both in
# fp32 and in int8 (*_quantized). optimum needs an older transformers than this package, so the script installs it into
# an environment of its own, .venv-onnx. To use another environment, set ONNX_PYTHON to its interpreter.
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: bash scripts/export_onnx.sh EXPORT OUTPUT" >&2
    exit 2
fi
stock=$1 output=$2
if ! grep -qs '"model_type": "marian"' "$stock/config.json"; then
    echo "error: STOCK must be a folder of vaswani-transformer export --to marian, got $stock." >&2
    exit 2
fi
if [ -e "$output" ]; then
    echo "error: OUTPUT must be a new folder, got $output. Pass another name, or delete it first." >&2
    exit 2
fi
python=${ONNX_PYTHON:-$(dirname "$0")/../.venv-onnx/bin/python}
if [ -z "${ONNX_PYTHON:-}" ] && ! "$python" -c "import onnxruntime, optimum.exporters" 2> /dev/null; then
    "${PYTHON:-python3}" -m venv "$(dirname "$python")/.."
    constraints=$(dirname "$0")/export_onnx.constraints # pins all packages, also those that others depend on
    "$python" -m pip install --quiet --constraint "$constraints" "$(grep '^torch==' "$constraints")"
    "$python" -m pip install --quiet --constraint "$constraints" "optimum-onnx[onnxruntime]" accelerate
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m optimum.exporters.onnx --model "$stock" --task text2text-generation-with-past "$work/all"
mkdir -p "$work/new/onnx"
cp "$stock"/*.json "$work/new"
mv "$work"/all/{encoder_model,decoder_model_merged}.onnx "$work/new/onnx"
"$python" - "$work/new/onnx" << 'PYTHON'
import sys
from pathlib import Path

from onnxruntime.quantization import QuantType, quantize_dynamic

for path in sorted(Path(sys.argv[1]).iterdir()):
    target = path.with_name(f"{path.stem}_quantized.onnx")
    quantize_dynamic(path, target, weight_type=QuantType.QInt8, extra_options={"EnableSubgraph": True})
PYTHON
mkdir -p "$(dirname "$output")"
mv "$work/new" "$output"
echo "written: $output ($(du -sh "$output" | cut -f1))"
