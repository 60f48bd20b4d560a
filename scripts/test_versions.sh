#!/usr/bin/env bash
# Runs the fast tests on other versions than those of constraints.txt, in a separate environment.
#
#   bash scripts/test_versions.sh lowest   the lower bounds of pyproject.toml, in .venv-lowest
#   bash scripts/test_versions.sh newest   the newest versions that pip finds, in .venv-newest
#   bash scripts/test_versions.sh main     the same, but transformers from its main branch, in .venv-main
#
# Each call lets pip look for newer versions, except for the lowest ones. PYTHON sets the interpreter of a new environment.
# Further arguments go to pytest. On Linux, pip installs torch with gigabytes of CUDA libraries.
set -euo pipefail
cd "$(dirname "$0")/.."

bounds=${1:-}
case "$bounds" in
    lowest | newest | main) ;;
    *) echo "error: lowest, newest or main is needed, got '$bounds'." >&2 && exit 2 ;;
esac
environment=.venv-$bounds
if [ ! -e "$environment/bin/activate" ]; then
    "${PYTHON:-python3}" -m venv "$environment"
fi
"$environment/bin/python" - "$bounds" > "$environment/constraints.txt" << 'PROGRAM'
import re
import sys
import tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for requirement in sum(project["optional-dependencies"].values(), project["dependencies"]):
    if sys.argv[1] == "lowest" and (bound := re.match(r"([\w-]+)>=([\d.]+)", requirement)):
        print(f"{bound[1]}=={bound[2]}")
if sys.argv[1] == "main":
    print("transformers @ git+https://github.com/huggingface/transformers@main")
PROGRAM
options=(--quiet)
if [ "$bounds" != lowest ]; then
    options+=(--upgrade --upgrade-strategy eager)
fi
"$environment/bin/pip" install "${options[@]}" --constraint "$environment/constraints.txt" --editable ".[dev]"
"$environment/bin/python" -c "
import platform, tokenizers, torch, transformers
print('Python', platform.python_version(), 'torch', torch.__version__, 'transformers', transformers.__version__, 'tokenizers', tokenizers.__version__)"
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
exec "$environment/bin/python" -m pytest -n "${TEST_WORKERS:-2}" --dist loadfile -m "not slow and not heavy" "${@:2}"
