#!/usr/bin/env bash
# Builds wheel and sdist into dist/, and tests them as a user gets them: only the built files, not this checkout.
#
#   [MODEL_ID=USER/NAME] bash scripts/check_release.sh [PYTHON ...]     one or more interpreters, by default python3
#
# For each interpreter, the script makes a new environment outside the checkout. There it
#   1. installs the wheel without extras, counts the packages, and times importing it and loading a model,
#   2. installs the extras, and runs the fast tests of the unpacked sdist,
#   3. runs the quickstart,
#   4. runs scripts/model_to_try.sh on the quickstart's model, for the repo MODEL_ID,
#   5. uninstalls the package, and translates with that model.
# It prints "== done" after each interpreter, and stops at the first failure. An interpreter needs 2 to 6 GB of disk space.
# The model of the last interpreter stays in runs/model-to-try.
set -euo pipefail
cd "$(dirname "$0")/.."
model_id=${MODEL_ID:-USER/quickstart-en-de}
to_try=$PWD/runs/model-to-try

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --constraint constraints.txt build twine
rm -rf dist
cp constraints.txt "$work" # pip splits PIP_CONSTRAINT at spaces, which the path of the checkout may have
PIP_CONSTRAINT=$work/constraints.txt "$work/tools/bin/python" -m build --outdir dist . > "$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
"$work/tools/bin/twine" check --strict dist/*
wheel=$(realpath dist/*.whl)
sdist=$(realpath dist/*.tar.gz)
echo "== sizes"
(cd dist && wc -c -- *)

for python in "${@:-python3}"; do
    environment=$work/environment
    rm -rf "$environment" "$work/source"
    "$python" -m venv "$environment"
    bin=$environment/bin
    mkdir "$work/source"
    tar -xzf "$sdist" -C "$work/source" --strip-components 1
    rm -r "$work/source/vaswani_transformer"
    cd "$work/source"
    unset PYTHONPATH

    echo "== $("$bin/python" --version), the wheel alone"
    "$bin/pip" install --quiet --constraint constraints.txt "$(grep '^torch==' constraints.txt)"
    "$bin/pip" install --quiet --constraint constraints.txt "$wheel"
    "$bin/pip" check
    echo "packages it needs, those of its dependencies included: $("$bin/pip" list --format freeze | grep -vcE '^(pip|setuptools|vaswani-transformer)==')"
    ln -s "$("$bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/vaswani_transformer" .
    "$bin/python" scripts/benchmark_start_up.py --runs 5

    echo "== the extras, and the fast tests of the sdist on the installed package"
    "$bin/pip" install --quiet --constraint constraints.txt "$wheel[dev]"
    OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false "$bin/python" -m pytest -q -n "${TEST_WORKERS:-2}" --dist loadfile \
        -m "not slow and not heavy"

    echo "== the quickstart"
    (export VIRTUAL_ENV=$environment PATH="$bin:$PATH" && bash scripts/quickstart.sh --output-dir "$work/model")

    echo "== the model to try"
    rm -rf "$to_try"
    (export VIRTUAL_ENV=$environment PATH="$bin:$PATH" && bash scripts/model_to_try.sh "$work/model" "$model_id" "$to_try")

    echo "== the model to try without the package"
    "$bin/pip" uninstall --quiet --yes vaswani-transformer
    (cd "$work" && HF_HOME="$work/hub" "$bin/python" - "$to_try/${model_id##*/}" << 'PYTHON'
import importlib.util
import sys

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

assert importlib.util.find_spec("vaswani_transformer") is None
sentence, folder, export = "Why did you sell your old car?", sys.argv[1], f"{sys.argv[1]}-marian"
translate = pipeline("translation", model=folder, trust_remote_code=True)
print(translate(sentence)[0]["translation_text"])
tokenizer, model = AutoTokenizer.from_pretrained(export), AutoModelForSeq2SeqLM.from_pretrained(export)
ids = model.generate(**tokenizer(sentence, return_tensors="pt"))
print(tokenizer.decode(ids[0], skip_special_tokens=True))
PYTHON
    )
    rm -rf "$work/model" "$work/hub"
    cd "$OLDPWD"
    echo "== done: $("$bin/python" --version)"
done
