#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# Servers that stand in for object stores in the tests: Azurite for Azure Blob (needs npm) and
# fake-gcs-server for Google Storage (needs Go). The one for S3, moto's, is a Python package.
#
#     scripts/store_servers.sh path       prints the directory where they are or would be
#     scripts/store_servers.sh create     installs them unless they are whole
#
# They live outside the checkout, in a directory named after the versions: a changed version
# gets a new one.
#
# SEATRIAL_CACHE   where they are kept, if not under XDG_CACHE_HOME or ~/.cache
set -euo pipefail

azurite=3.37.0
fake_gcs_server=1.56.1

cache=${SEATRIAL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/seatrial}
servers=$cache/store-servers-azurite-$azurite-gcs-$fake_gcs_server

need() {
    command -v "$1" >/dev/null && return
    echo "store_servers: $1 is not on the PATH. Install $2 to test against $3." >&2
    return 1
}

create() {
    [[ -e $servers/.complete ]] && return
    need npm Node.js "Azure Blob" && need go Go "Google Storage"
    mkdir -p "$cache"
    # Two checkouts may want them at once; the second waits for the first.
    if command -v flock >/dev/null; then
        exec 9>"$servers.lock"
        flock 9
        [[ -e $servers/.complete ]] && return
    fi
    rm -rf "$servers"
    mkdir -p "$servers/azurite" "$servers/bin"
    echo "store_servers: installing into $servers (once for these versions)"
    npm install --prefix "$servers/azurite" --no-save --no-audit --no-fund --ignore-scripts \
        --loglevel=error "azurite@$azurite"
    GOBIN=$servers/bin go install "github.com/fsouza/fake-gcs-server@v$fake_gcs_server"
    touch "$servers/.complete"
}

case "${1:-}" in
path) echo "$servers" ;;
create) create ;;
*)
    echo "usage: scripts/store_servers.sh path|create" >&2
    exit 2
    ;;
esac
