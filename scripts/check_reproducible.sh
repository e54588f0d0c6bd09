#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds wheel and sdist twice, from two copies of the checkout at different places, with files of
# different ages and rights, and compares them byte for byte. Then builds the wheel once more from
# the sdist: it must be the same wheel.
#
# PYTHON names the interpreter of the development environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${PYTHON:?names the interpreter of the development environment}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH

build() {
    "$PYTHON" -m build --no-isolation "$@" >"$work/build.log" 2>&1 || {
        cat "$work/build.log" >&2
        exit 1
    }
}

for copy in one a/longer/path/two; do
    mkdir -p "$work/$copy"
    git ls-files -z | tar --create --null --files-from - | tar --extract --directory "$work/$copy"
done
find "$work/one" -type f -exec touch -d '2001-01-01' {} +
find "$work/a" -type f -exec chmod g-rwx,o-rwx {} +
(umask 022 && build --wheel --sdist --outdir "$work/first" "$work/one")
(umask 077 && build --wheel --sdist --outdir "$work/second" "$work/a/longer/path/two")
mkdir "$work/unpacked"
tar --extract --directory "$work/unpacked" --strip-components 1 --file "$work"/first/*.tar.gz
build --wheel --outdir "$work/third" "$work/unpacked"

failed=0
for file in "$work"/first/*; do
    name=$(basename "$file")
    first=$(sha256sum <"$file" | cut -d' ' -f1)
    for other in "$work/second/$name" "$work/third/$name"; do
        [[ -e $other ]] || continue
        if [[ $(sha256sum <"$other" | cut -d' ' -f1) != "$first" ]]; then
            echo "reproducible: $name differs between builds" >&2
            failed=1
        fi
    done
    echo "$first  $name"
done
exit "$failed"
