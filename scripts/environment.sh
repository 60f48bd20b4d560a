# Sourced by the other scripts: enters the project's virtual environment, making and filling it where needed.
# An environment that is active already is used as it is; `install_extras` names what this script needs.

install_extras=$1 # extras of pyproject.toml, comma-separated
probe=$2          # modules that must import

if [ -z "${VIRTUAL_ENV:-}" ]; then
    if [ ! -x .venv/bin/python ]; then
        echo "Making a virtual environment in .venv ..." >&2
        "${PYTHON:-python3}" -m venv .venv
    fi
    # shellcheck disable=SC1091
    . .venv/bin/activate
fi

if ! python -c "import sys; sys.exit(sys.version_info < (3, 11))"; then
    echo "error: Python 3.11 or newer is needed, got $(python --version). Set PYTHON to a newer one." >&2
    exit 2
fi

if ! command -v vaswani-transformer > /dev/null || ! python -c "import $probe" 2> /dev/null; then
    echo "Installing the tested versions of constraints.txt ..." >&2
    # torch first and by its exact version: the build that fits this machine is chosen once.
    python -m pip install --quiet --constraint constraints.txt "$(grep '^torch==' constraints.txt)"
    python -m pip install --quiet --constraint constraints.txt --editable ".[$install_extras]"
fi
