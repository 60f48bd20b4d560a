#!/usr/bin/env bash
# Compares this checkout with another commit of the project, on the same machine and in the same environment.
#
#   bash scripts/compare_with.sh COMMIT [MODEL]
#
# These must be equal bit for bit: the weights after 20 updates (with one process, with two, and resumed after 10 updates),
# 1,000 translations, and the logits of the 0.1.0 checkpoint. MODEL is the folder of the model that translates; by default
# it is the model of the 20 updates. Differences in public names and in `--help` of every command are only shown.
# Results depend on the processor, the number of threads and the torch version, so the script computes both sides each time.
set -euo pipefail
commit=${1:?usage: bash scripts/compare_with.sh COMMIT [MODEL]}
trained=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
here=$PWD work=$(mktemp -d)
trap 'git worktree remove --force "$work/code" 2> /dev/null || true; rm -rf "$work"' EXIT
. scripts/environment.sh train,eval
git worktree add --quiet --detach "$work/code" "$commit"
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 COLUMNS=100

answers() { # CODE OUT: write everything that is compared into OUT
    local code=$1 out=$2
    mkdir -p "$out"
    cd "$out"
    export PYTHONPATH=$code HF_DATASETS_CACHE=$out/cache
    local train=("$code/scripts/train.py" --recipe quickstart --use-cpu --max-steps 20 --warmup-steps 5
        --vocab-size 1000 --snapshot-steps 5 --num-averaged-snapshots 2 --save-steps 10 --eval-steps 20)
    python "${train[@]}" --output-dir one
    torchrun --standalone --nproc-per-node 2 "${train[@]}" --output-dir two
    cp -r one resumed
    rm -r resumed/checkpoint-20 resumed/model.safetensors resumed/t*_results.json resumed/snapshots/*20*
    python "${train[@]}" --output-dir resumed --resume
    tar xJf "$here/tests/checkpoints/0.1.0.tar.xz"
    python - << 'PYTHON'
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import vaswani_transformer
from vaswani_transformer.data.builtin import read_builtin

with open("sentences.en", "w", encoding="utf-8") as file:
    file.writelines(f"{english}\n" for english, _ in read_builtin("test"))
tokenizer = AutoTokenizer.from_pretrained("run")
model = AutoModelForSeq2SeqLM.from_pretrained("run").eval()
with open("train.en", encoding="utf-8") as source, open("train.de", encoding="utf-8") as target:
    batch = tokenizer(source.read().splitlines(), text_target=target.read().splitlines(), padding=True, return_tensors="pt")
with torch.no_grad():
    torch.save(model(**batch).logits, "logits.pt")
PYTHON
    python -m vaswani_transformer.cli translate --model "${trained:-one}" --device cpu --input sentences.en --output sentences.de
    python - > surface.txt << 'PYTHON'
import importlib
import pkgutil
import re
import subprocess
import sys

import vaswani_transformer

for module in ["", *(f".{each.name}" for each in pkgutil.iter_modules(vaswani_transformer.__path__) if each.ispkg)]:
    names = importlib.import_module(f"vaswani_transformer{module}")
    print(f"vaswani_transformer{module}:", *sorted(getattr(names, "__all__", [])))
def show(*words):
    asked = subprocess.run([sys.executable, "-m", "vaswani_transformer.cli", *words, "--help"], capture_output=True, text=True)
    print("==", *words, asked.stdout, sep="\n")
    return asked.stdout
text = show()
for command in re.findall(r"(?m)^    ([a-z][a-z-]*)", text):
    show(command)
PYTHON
    cd "$here"
}

logged_answers() { # CODE OUT: call `answers`, and show the end of its log if it fails
    local status
    set +e # In a condition or before ||, bash would ignore the `set -e` of `answers`.
    (set -e; answers "$1" "$2") > "$2.log" 2>&1
    status=$?
    set -e
    if [ $status != 0 ]; then
        tail -30 "$2.log"
        exit 1
    fi
}

logged_answers "$work/code" "$work/old"
logged_answers "$here" "$work/new"
failed=0
for file in {one,two,resumed}/model.safetensors logits.pt sentences.de; do
    if cmp "$work/old/$file" "$work/new/$file"; then echo "equal: $file"; else failed=1; fi
done
if cmp --quiet "$work/new/one/model.safetensors" "$work/new/resumed/model.safetensors"; then
    echo "equal: the resumed run and the uninterrupted one"
else
    echo "the resumed run differs from the uninterrupted one"; failed=1
fi
diff -u "$work/old/surface.txt" "$work/new/surface.txt" || true
exit $failed
