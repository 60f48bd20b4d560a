#!/usr/bin/env bash
# Makes notebooks of docs/tour.md and docs/your-own-corpus.md, and executes them.
# Blocks of python and bash become cells. Blocks of text show output, so they are left out: the cells print it themselves.
#
#   bash scripts/make_notebooks.sh [FOLDER]   # default: docs/notebooks
#
# Cells with the tag skip-execution push to the Hub. They run only if HF_ENDPOINT names another server.
set -euo pipefail
folder=$(realpath -m "${1:-$(dirname "$0")/../docs/notebooks}")
cd "$(dirname "$0")/.."
mkdir -p "$folder"
work=$(mktemp -d) # the notebooks move to $folder when both are executed
trap 'rm -rf "$work"' EXIT
export HF_DATASETS_DISABLE_PROGRESS_BARS=1 TQDM_DISABLE=1 PYTHONWARNINGS="ignore:IProgress not found"
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
unset MPLBACKEND  # the kernel's default backend shows pictures
for page in tour your-own-corpus; do
    {
        printf '%s\n' --- jupyter: '  kernelspec: {display_name: Python 3, language: python, name: python3}' --- ''
        sed -E "/^\`\`\`text$/,/^\`\`\`$/d; s|\]\(#|]($page.md#|g; s|\]\(|](../|g; s|\]\(\.\./http|](http|g" "docs/$page.md"
    } | python -m jupytext --quiet --from md --to ipynb --output "$work/$page.ipynb" -
done
python - "$work" "$folder" << 'PYTHON'
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

skipped = "" if os.environ.get("HF_ENDPOINT") else "skip-execution"
for name in ("tour", "your-own-corpus"):
    path = Path(sys.argv[1], f"{name}.ipynb")
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("jupytext", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = str(number)  # random ids would change with each run
    NotebookClient(
        notebook,
        skip_cells_with_tag=skipped,
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": sys.argv[2]}},
    ).execute()
    nbformat.write(notebook, path)
PYTHON
mv "$work"/*.ipynb "$folder"
echo "written: $folder/tour.ipynb, $folder/your-own-corpus.ipynb"
