#!/usr/bin/env bash
# Runs the checks of .pre-commit-config.yaml (style, types, spelling), then everything but what is marked heavy.
#
#   bash scripts/test.sh            the whole suite (what CI runs)
#   bash scripts/test.sh --coverage the same with its coverage, which must be 95 % of the package's lines; a quarter slower
#   bash scripts/test.sh --fast     without the slow tests
#   bash scripts/test.sh --heavy    the heavy ones only: kills, full disks, the full quickstart
#   bash scripts/test.sh --lowest   the fast tests on the oldest supported versions, in .venv-lowest
#   bash scripts/test.sh --newest   the same on the newest that pip finds, in .venv-newest
#   bash scripts/test.sh --main     the same with transformers' main branch, in .venv-main
#
# Further arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    --fast) markers="not slow and not heavy"; shift ;;
    --heavy) markers="heavy" TEST_WORKERS=1; shift ;;  # they measure time and use all cores themselves
    --lowest | --newest | --main) exec bash scripts/test_versions.sh "${1#--}" "${@:2}" ;;
    --coverage) markers="not heavy"; shift; set -- --cov --cov-report=term "$@" ;;
    *) markers="not heavy" ;;
esac

. scripts/environment.sh dev "vaswani_transformer, accelerate, codespell_lib, ctranslate2, datasets, evaluate, gradio, hypothesis, jupytext, matplotlib, mypy, nbclient, pdoc, playwright, pre_commit, pytest, pytest_cov, sacrebleu, sacremoses, sentencepiece, xdist"

if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
    PRE_COMMIT_HOME=$VIRTUAL_ENV/pre-commit pre-commit run --all-files
else
    echo "no git checkout: style, types and spelling are not checked" >&2
fi
# One worker for each core; each computes with one thread, which is fastest for tiny models.
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
unset PYTHONDONTWRITEBYTECODE  # else every worker and process compiles our files again
exec python -m pytest -n "${TEST_WORKERS:-$(python -c 'import os; print(len(os.sched_getaffinity(0)))')}" \
    --dist worksteal -m "$markers" "$@"
