#!/usr/bin/env bash
# Runs the checks of .pre-commit-config.yaml (style, types, spelling), then the tests.
#
#   bash scripts/test.sh            all tests except the heavy ones; CI runs this
#   bash scripts/test.sh --coverage the same, and measures how many lines of the package the tests run, which must be 95 %;
#                                   takes a quarter longer
#   bash scripts/test.sh --fast     only the fast tests, neither slow nor heavy
#   bash scripts/test.sh --heavy    only the heavy tests: kills, full disks, the whole quickstart; says which it skips, and why
#   bash scripts/test.sh --lowest   the fast tests on the oldest supported versions, in .venv-lowest
#   bash scripts/test.sh --newest   the fast tests on the newest versions that pip finds, in .venv-newest
#   bash scripts/test.sh --main     the fast tests on transformers' main branch, in .venv-main
#
# Further arguments go to pytest. The last three commands run no checks.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    --fast) markers="not slow and not heavy"; shift ;;
    --heavy) markers="heavy" TEST_WORKERS=1; shift; set -- -rs "$@" ;;  # these tests measure time, and each uses all cores
    --lowest | --newest | --main) exec bash scripts/test_versions.sh "${1#--}" "${@:2}" ;;
    --coverage) markers="not heavy"; shift; set -- --cov --cov-report=term "$@" ;;
    *) markers="not heavy" ;;
esac

. scripts/environment.sh dev "accelerate codespell_lib ctranslate2 datasets evaluate gradio hypothesis jupytext matplotlib mypy nbclient pdoc playwright pre_commit pytest pytest_cov sacrebleu sacremoses sentencepiece xdist"

if [ -e .git ]; then
    PRE_COMMIT_HOME=$VIRTUAL_ENV/pre-commit pre-commit run --all-files
else
    echo "no git checkout: style, types and spelling are not checked" >&2
fi
# Start one worker more than there are cores, because tests sometimes wait. Each worker computes with one thread, which is
# fastest for tiny models.
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
unset PYTHONDONTWRITEBYTECODE  # else every worker and process compiles our files again
cores=$(python -c 'import os; print(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())')
exec python -m pytest -n "${TEST_WORKERS:-$((cores + 1))}" \
    --dist loadfile --no-loadscope-reorder -m "$markers" "$@"
