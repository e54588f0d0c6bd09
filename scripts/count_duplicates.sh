#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# How many lines of the code are written twice, by jscpd from npm with its own measure: runs of 5
# lines and 50 tokens or more that are equal. Prints each pair and the share; more than 3 % fail.
#
# SEATRIAL_CACHE   where jscpd is kept, if not under XDG_CACHE_HOME or ~/.cache
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jscpd=5.3.3
most=3

cache=${SEATRIAL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/seatrial}
place=$cache/jscpd-$jscpd
if ! command -v npm >/dev/null; then
    echo "count_duplicates: npm is not on the PATH. Install Node.js to measure duplicates." >&2
    exit 1
fi
if [[ ! -e $place/.complete ]]; then
    mkdir -p "$place"
    npm install --prefix "$place" --no-save --no-audit --no-fund --ignore-scripts \
        --loglevel=error "jscpd@$jscpd"
    touch "$place/.complete"
fi
exec "$place/node_modules/.bin/jscpd" --format python --min-lines 5 --min-tokens 50 \
    --threshold "$most" --no-colors --ignore '**/.git/**,**/build/**' .
