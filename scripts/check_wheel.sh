#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the wheel into dist/ and proves it in a throw-away environment that holds only what
# requirements/core.txt locks: all files are in it, its requirements are met, the command
# starts and validates every shipped recipe, and torch is not there to help. Then pipx installs it,
# with what the package index has.
#
# PYTHON names the interpreter of the development environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${PYTHON:?names the interpreter of the development environment}"

root=$PWD
pipx=1.18.4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing of the checkout may be importable, or the wheel is not what is tested.
unset PYTHONPATH

rm -rf dist
"$PYTHON" -m build --no-isolation --wheel --outdir dist . >"$work/build.log" 2>&1 || {
    cat "$work/build.log" >&2
    exit 1
}
wheel=$(echo dist/seatrial-*.whl)

(cd src && find seatrial -type f -not -path '*/__pycache__/*') | LC_ALL=C sort >"$work/expected"
"$PYTHON" -m zipfile --list "$wheel" | awk '$1 ~ /^seatrial\// {print $1}' |
    LC_ALL=C sort >"$work/packed"
if ! diff -u "$work/expected" "$work/packed"; then
    echo "wheel: its files (+) are not those of src/seatrial (-)" >&2
    exit 1
fi

"$PYTHON" -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --quiet --no-input --disable-pip-version-check)
"${pip[@]}" install --require-hashes --requirement requirements/core.txt
"${pip[@]}" install --no-index --no-deps "$wheel"
"${pip[@]}" check

version=$("$PYTHON" -c 'exec(open("src/seatrial/version.py").read()); print(VERSION)')
recipes=()
while IFS= read -r recipe; do
    recipes+=("$recipe")
done < <(find "$PWD/src/seatrial/recipes" -name '*.yaml' | LC_ALL=C sort)
[[ ${#recipes[@]} -gt 0 ]] || { echo "wheel: no recipes to validate" >&2; exit 1; }

cd "$work"
"$work/venv/bin/python" -c 'import importlib.util, sys; sys.exit(bool(importlib.util.find_spec("torch")))'
said=$("$work/venv/bin/seatrial" --version)
[[ $said == *"$version"* ]] || { echo "wheel: --version says $said, not $version" >&2; exit 1; }
for recipe in "${recipes[@]}"; do
    "$work/venv/bin/seatrial" validate "$recipe" >"$work/out" 2>&1 || {
        cat "$work/out" >&2
        exit 1
    }
done

# pipx has no lock file here: its version is the one that was tried.
"$PYTHON" -m venv "$work/with-pipx"
"$work/with-pipx/bin/python" -m pip --quiet --no-input --disable-pip-version-check install \
    "pipx==$pipx"
export PIPX_HOME=$work/pipx PIPX_BIN_DIR=$work/bin PIPX_MAN_DIR=$work/man
"$work/with-pipx/bin/pipx" install --quiet --python "$PYTHON" "$root/$wheel" >"$work/out" 2>&1 || {
    cat "$work/out" >&2
    exit 1
}
said=$("$work/bin/seatrial" --version)
[[ $said == *"$version"* ]] || { echo "wheel: by pipx it says $said, not $version" >&2; exit 1; }
echo "wheel: $wheel installs, also by pipx, says $said and validates ${#recipes[@]} recipes without torch"
