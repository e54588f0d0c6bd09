#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles pyproject.toml into hash-locked requirement files.
#
#     make lock                                  keep what is pinned, add what is new
#     make lock ARGS=--upgrade                   newest of everything
#     make lock ARGS='--upgrade-package ruff'    newest of one package
#
# PYTHON names an interpreter that has uv. Where packages are fetched from is a setting of
# the machine; it does not enter the files, and the last lines make sure of that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

compile() {
    "${PYTHON:?names an interpreter that has uv}" -m uv pip compile pyproject.toml \
        --universal --python-version 3.12 --generate-hashes \
        --custom-compile-command 'make lock' --quiet "$@" >/dev/null
}

mkdir -p requirements
compile --output-file requirements/core.txt "$@"
# The same versions in development as in a plain installation, and every extra but the engine.
compile --group dev --extra data --extra ray --extra cluster --extra watch --extra report --extra mlflow \
    --constraint requirements/core.txt --output-file requirements/dev.txt "$@"
# What a rehearsal's processes need: the engine, its logger, and nothing of development.
compile --extra worker --extra wandb --constraint requirements/core.txt --output-file requirements/worker.txt "$@"

# The second engine needs another torch, so that nothing but the core is shared with the first.
# It is installed by the command itself, so that the lock is part of the package; requirements/ has
# a link to it.
compile --group llm-foundry --constraint requirements/core.txt \
    --output-file src/seatrial/engines/llm_foundry/llm-foundry.txt "$@"

# What the HyperPod image adds to the worker. The base image brings torch, and pip is a constraint
# of the agent's build only.
"$PYTHON" -m uv pip compile --group pyproject.toml:hyperpod --excludes <(printf 'torch\npip\n') \
    --universal --python-version 3.12 --generate-hashes --custom-compile-command 'make lock' --quiet \
    --constraint requirements/worker.txt --output-file requirements/hyperpod.txt "$@" >/dev/null

# What the images add for Muon; the worker has all that it needs.
"$PYTHON" -m uv pip compile --group pyproject.toml:muon --no-deps --universal --python-version 3.12 \
    --generate-hashes --custom-compile-command 'make lock' --quiet \
    --output-file requirements/muon.txt "$@" >/dev/null

if grep -nE '://|^ *-|(^|[ @])/' requirements/*.txt | grep -vE '^[^:]+:[0-9]+: +--hash=sha256:|# .*-[cr] requirements/(core|worker)\.txt$|^[^:]+:[0-9]+:# '; then
    echo "lock: the lines above name an address, an option or a path; a lock file may not" >&2
    exit 1
fi
wc -l requirements/*.txt
