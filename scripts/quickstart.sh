#!/usr/bin/env bash
# Trains a small English-German model on the built-in corpus (144,342 pairs of short Tatoeba sentences, see NOTICE).
# Then scores it on 1,000 test sentences, each with all its references, and translates three other sentences.
# On two CPU cores the training takes about nine minutes. Only Python packages are downloaded, if they are missing.
#
#   bash scripts/quickstart.sh [--steps N] [--output-dir DIR]
#
# To continue after an interruption, pass the folder of the interrupted run as --output-dir.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

output_dir="runs/quickstart-$(date +%Y%m%d-%H%M%S)"
options=()
while [ $# -gt 0 ]; do
    case "$1" in
        --steps) options+=(--max-steps "${2:?--steps needs a number}"); shift 2 ;;
        --output-dir) output_dir="${2:?--output-dir needs a folder}"; [[ $2 = /* ]] || output_dir=$here/$2; shift 2 ;;
        *) echo "error: unknown argument $1. Usage: bash scripts/quickstart.sh [--steps N] [--output-dir DIR]" >&2; exit 2 ;;
    esac
done

. scripts/environment.sh train,eval

echo "== Training (recipe: vaswani-transformer recipes quickstart)"
vaswani-transformer train --recipe quickstart --output-dir "$output_dir" --resume ${options[@]+"${options[@]}"}

echo "== Scoring on 1,000 sentences that are not in the training data"
vaswani-transformer evaluate --model "$output_dir"

echo "== Translating through pipeline(\"translation\")"
python - "$output_dir" << 'PYTHON'
import sys

from transformers import pipeline

import vaswani_transformer  # registers the model and restores pipeline("translation")

translate = pipeline("translation", model=sys.argv[1])
sentences = [
    "Why did you sell your old car?",
    "My sister wants to learn German.",
    "I can't find my blue umbrella.",
]
for sentence, result in zip(sentences, translate(sentences), strict=True):
    print(f"  {sentence}\n  -> {result['translation_text']}\n")
PYTHON
echo "The model lies in $output_dir, its scores in $output_dir/test_results.json."
