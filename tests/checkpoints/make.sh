#!/usr/bin/env bash
# Writes tests/checkpoints/VERSION.tar.xz, which tests/test_old_checkpoints.py loads from then on: once for each
# release that changed the format of a run, and never again for an old one.
#
#   bash tests/checkpoints/make.sh 0.1.0
#
# In it: a run of 800 updates that has learned twelve pairs by heart, with its code, checkpoint and snapshot; the
# pairs; the scores it gives them; and what the training logs five updates later when it is resumed.
set -euo pipefail
archive=$(realpath "$(dirname "$0")")/$1.tar.xz
if [ -e "$archive" ]; then
    echo "error: VERSION must be new, but $archive exists." >&2
    exit 2
fi
installed=$(vaswani-transformer --version)
if [ "$installed" != "$1" ]; then
    echo "error: VERSION must be that of the installed package, $installed, got $1." >&2
    exit 2
fi
cd "$(mktemp -d)"
export OMP_NUM_THREADS=1

cat > train.en <<'T'
A dog runs in the park.
Two women read a book.
The man drinks coffee.
A child sleeps.
The cat sees a bird.
Three men play football.
The woman writes a letter.
A bird sings in the tree.
The children eat bread.
A man rides a red bicycle.
The old dog sleeps in the house.
Two girls drink water.
T
cat > train.de <<'T'
Ein Hund rennt im Park.
Zwei Frauen lesen ein Buch.
Der Mann trinkt Kaffee.
Ein Kind schläft.
Die Katze sieht einen Vogel.
Drei Männer spielen Fußball.
Die Frau schreibt einen Brief.
Ein Vogel singt im Baum.
Die Kinder essen Brot.
Ein Mann fährt ein rotes Fahrrad.
Der alte Hund schläft im Haus.
Zwei Mädchen trinken Wasser.
T
vaswani-transformer train --output-dir run --use-cpu --seed 1 --train-source train.en --train-target train.de --source-language en --target-language de \
 --vocab-size 300 --d-model 24 --d-ff 48 --num-heads 2 --d-k 8 --d-v 12 --num-encoder-layers 2 --num-decoder-layers 1 --dropout 0.05 \
 --max-source-tokens-per-batch 120 --max-target-tokens-per-batch 120 --max-steps 800 --warmup-steps 100 --snapshot-steps 800 --num-averaged-snapshots 1 \
 --save-steps 800 --logging-steps 100
vaswani-transformer score --model run --source train.en --target train.de > scores.jsonl
cp -r run before
python - <<'PY'
import dataclasses, json
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.train import train
train(dataclasses.replace(Recipe.load("run"), max_steps=805, logging_steps=5, save_steps=5), "run", resume=True, use_cpu=True)
log = json.load(open("run/trainer_state.json"))["log_history"]
json.dump(next(line for line in log if line["step"] == 805 and "loss" in line), open("line_805.json", "w"))
PY
rm -rf run; mv before run
tar cJf "$archive" run train.en train.de scores.jsonl line_805.json
