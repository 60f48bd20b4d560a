#!/usr/bin/env bash
# Prepares the quickstart's model for the Hub. The script writes two folders:
#   FOLDER/NAME         for the repo USER/NAME: weights, tokenizer, code, card and scores
#   FOLDER/NAME-marian  for the repo USER/NAME-marian: the Marian export
# It uploads nothing, but prints the commands for the upload.
#
#   bash scripts/quickstart.sh --output-dir runs/my-model
#   bash scripts/model_to_try.sh runs/my-model USER/NAME FOLDER
set -euo pipefail
if [ $# != 3 ]; then
    echo "error: three arguments are needed. Usage: bash scripts/model_to_try.sh MODEL USER/NAME FOLDER" >&2
    exit 2
fi
model=$1 repo=$2 folder=$3
[[ $model = /* ]] || model=$PWD/$model
[[ $folder = /* ]] || folder=$PWD/$folder
cd "$(dirname "$0")/.."

. scripts/environment.sh train,eval

python - "$model" "$repo" "$folder" << 'PYTHON'
import sys
from pathlib import Path

from huggingface_hub import ModelCard

from vaswani_transformer.export import export_marian
from vaswani_transformer.files import writing_folder
from vaswani_transformer.hub.card import write_card
from vaswani_transformer.hub.push import addition, published_files

source, repo = Path(sys.argv[1]), sys.argv[2]
name = repo.rpartition("/")[2]
with writing_folder(sys.argv[3]) as folder:
    model, export = folder / name, folder / f"{name}-marian"
    model.mkdir()
    for path in published_files(source):
        with addition(path).as_file() as content:
            (model / path.name).write_bytes(content.read())
    write_card(model, repo)
    export_marian(model, export)
    card = ModelCard.load(export / "README.md")
    card.data["base_model"] = repo
    card.text = card.text.replace("USER/NAME", f"{repo}-marian")
    card.save(export / "README.md")
PYTHON

name=${repo##*/}
du -h "$folder/$name/model.safetensors"
echo "To upload both, log in with \`hf auth login\`, then run:"
printf '  hf upload %q %q\n' "$repo" "$folder/$name"
printf '  hf upload %q %q\n' "$repo-marian" "$folder/$name-marian"
