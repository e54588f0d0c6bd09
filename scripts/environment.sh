#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# Virtual environments with what a lock file holds: dev (requirements/dev.txt, without torch),
# worker (requirements/worker.txt, with Megatron; about 5 GB) and llm-foundry (about 7 GB).
# muon is a folder of packages for the PYTHONPATH of the worker, not an environment.
#
#     scripts/environment.sh path [dev|worker|llm-foundry|muon]      prints where it is or would be
#     scripts/environment.sh create [dev|worker|llm-foundry|muon]    creates it unless it is whole
#
# It lives outside the checkout, named after the lock file and the interpreter, so that
# checkouts share it and a changed lock gets a new one. Seatrial itself is not installed
# in it: the Makefile puts src/ on the path.
#
# SEATRIAL_PYTHON   the Python 3.12 to use, if not the first that is found
# SEATRIAL_CACHE    where environments are kept, if not under XDG_CACHE_HOME or ~/.cache
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints the interpreter's own path, and only if it runs and is a 3.12. A pyenv shim that is
# on the PATH fails unless its version is chosen, hence the try.
python_312() {
    "$1" -c 'import sys; sys.version_info[:2] == (3, 12) or sys.exit(1); print(sys.executable)' \
        2>/dev/null </dev/null
}

find_python() {
    local version
    if [[ -n "${SEATRIAL_PYTHON:-}" ]]; then
        python_312 "$SEATRIAL_PYTHON" && return
        echo "environment: SEATRIAL_PYTHON=$SEATRIAL_PYTHON is not a Python 3.12" >&2
        return 1
    fi
    python_312 python3.12 && return
    if command -v pyenv >/dev/null; then
        for version in $(pyenv versions --bare | grep -E '^3\.12\.[0-9]+$' | sort -t. -k3,3nr); do
            PYENV_VERSION=$version python_312 python3.12 && return
        done
    fi
    python_312 python3 && return
    echo "environment: no Python 3.12 found." \
        "Install it, or set SEATRIAL_PYTHON to the path of one." >&2
    return 1
}

lock=requirements/${2:-dev}.txt
[[ -e $lock ]] || { echo "environment: there is no $lock" >&2; exit 2; }
python=$(find_python)
cache=${SEATRIAL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/seatrial}
key=$("$python" - "$lock" <<'KEY'
import hashlib, pathlib, sys
text = pathlib.Path(sys.argv[1]).read_text() + sys.version + sys.executable
print(hashlib.sha256(text.encode()).hexdigest()[:16])
KEY
)
venv=$cache/venv-$key
[[ $lock == */muon.txt ]] && venv=$cache/muon-$key

install() {
    # A lock names all there is; resolving again refuses `fsspec[http]` beside `fsspec==...`.
    PIP_ROOT_USER_ACTION=ignore "$1" -m pip install --quiet --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement "$lock" "${@:2}"
}

create() {
    [[ -e $venv/.complete ]] && return
    mkdir -p "$cache"
    # Two checkouts may want the same environment at once; the second waits for the first.
    if command -v flock >/dev/null; then
        exec 9>"$venv.lock"
        flock 9
        [[ -e $venv/.complete ]] && return
    fi
    rm -rf "$venv"
    echo "environment: creating $venv (once per lock file)"
    if [[ $lock == */muon.txt ]]; then
        install "$python" --target "$venv"
    else
        "$python" -m venv "$venv"
        install "$venv/bin/python"
    fi
    touch "$venv/.complete"
}

case "${1:-}" in
path) echo "$venv" ;;
create) create ;;
*)
    echo "usage: scripts/environment.sh path|create [dev|worker|llm-foundry|muon]" >&2
    exit 2
    ;;
esac
