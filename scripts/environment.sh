# Activates a virtual environment with the package. The other scripts source this file.
# It uses the active environment, or else .venv, which it creates if there is none. It installs the package with the
# extras if the environment lacks the command vaswani-transformer or one of the modules.

install_extras=$1 # extras of pyproject.toml, comma-separated
# Modules that must be installed, with spaces between them. By default, those of the extras train and eval.
modules=${2:-accelerate datasets evaluate sacrebleu sacremoses}

check_version() { # PYTHON ADVICE: stop with the advice if this Python is too old
    if ! "$1" -c "import sys; sys.exit(sys.version_info < (3, 11))"; then
        echo "error: Python 3.11 or newer is needed, got $("$1" --version). $2" >&2
        exit 2
    fi
}

if [ -z "${VIRTUAL_ENV:-}" ]; then
    if [ ! -e .venv/bin/activate ]; then
        check_version "${PYTHON:-python3}" "Set PYTHON to a newer one."
        echo "Making a virtual environment in .venv ..." >&2
        "${PYTHON:-python3}" -m venv .venv
    fi
    # shellcheck disable=SC1091
    . .venv/bin/activate
fi

check_version python "Activate an environment with a newer one."

# This only looks for the modules, because importing them would take seconds.
all_are_found="import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"
# shellcheck disable=SC2086
if [ ! -x "$VIRTUAL_ENV/bin/vaswani-transformer" ] || ! python -c "$all_are_found" $modules; then
    echo "Installing the tested versions of constraints.txt ..." >&2
    # Install torch first, by its exact version. The next command then keeps this build.
    python -m pip install --quiet --constraint constraints.txt "$(grep '^torch==' constraints.txt)"
    python -m pip install --quiet --constraint constraints.txt --editable ".[$install_extras]"
fi
