# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Put stubs in the place of CUDA libraries that torch loads and a processor never calls.

    python build_image_stubs.py SITE

For Linux, PyPI has torch only as built for CUDA. It refuses to load without the libraries that it
was linked with, 2.7 GB of them, although none of their functions is called where no GPU is. A
stub has the name, the versions and the symbols that torch asks for; each symbol says so and ends
the process. What SITE holds of NVIDIA's libraries stays: the CUDA runtime has to be real, because
torch registers its kernels there while it is loaded.

Needs readelf and gcc, and the standard library alone.
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

HEAD = r"""#include <stdio.h>
#include <stdlib.h>
static void stop(const char *name) {
  fprintf(stderr, "seatrial: %s: this image is for processors, without CUDA's libraries.\n", name);
  abort();
}
#define STUB(name) void name(void) { stop(#name); }
"""
DRIVER = "libcuda.so.1"
"""The driver comes from the node; torch asks for it only when it compiles kernels."""
_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
_FILE = re.compile(r"Version: \d+ +File: (\S+)")
_VERSION = re.compile(r"Name: (\S+) +Flags: .*Version: (\d+)")
_SYMBOL = re.compile(
    r"^ *\d+: +[0-9a-f]+ +\d+ +\w+ +GLOBAL +\w+ +UND +([\w.$]+)(?:@+\S+)?(?: \((\d+)\))?"
)


@dataclass(frozen=True, slots=True)
class Library:
    needs: frozenset[str]
    """The libraries that it is linked with."""
    asks: frozenset[tuple[str, str, str]]
    """Symbols that it wants: library and version where it says them, and name."""


def read_library(path: Path) -> Library:
    text = _run("readelf", "--wide", "--dynamic", "--dyn-syms", "--version-info", str(path))
    versions: dict[str, tuple[str, str]] = {}
    file = ""
    for line in text.splitlines():
        if match := _FILE.search(line):
            file = match[1]
        elif match := _VERSION.search(line):
            versions[match[2]] = (file, match[1])
    asks = set()
    for line in text.splitlines():
        if not (match := _SYMBOL.match(line)):
            continue
        name, version = match.groups()
        asks.add((*versions.get(version or "", ("", "")), name))
    return Library(frozenset(match[1] for match in _NEEDED.finditer(text)), frozenset(asks))


def stubs_for(libraries: list[Library], present: set[str]) -> dict[str, dict[str, set[str]]]:
    """The symbols by version of each library that is missing."""
    missing = set().union(*(library.needs for library in libraries)) - present - {DRIVER}
    stubs: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in missing}
    for library in libraries:
        for file, version, name in library.asks:
            if file in missing:
                stubs[file][version].add(name)
            elif not file:
                # Libraries without versions, such as NCCL, name their symbols after themselves.
                owners = [soname for soname in missing if _stem(soname, name)]
                if owners:
                    stubs[max(owners, key=len)][""].add(name)
    return stubs


def _stem(soname: str, symbol: str) -> bool:
    return symbol.lower().startswith(soname.removeprefix("lib").split(".")[0].lower())


def write_stub(soname: str, symbols: dict[str, set[str]], directory: Path) -> None:
    lines = [HEAD]
    for names in symbols.values():
        lines += [f"STUB({name})" for name in sorted(names)]
    script = [
        f"{version} {{ global: {'; '.join(sorted(names))}; }};"
        for version, names in symbols.items()
        if version
    ]
    with tempfile.TemporaryDirectory() as work:
        source, versions = Path(work, "stub.c"), Path(work, "versions")
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        versions.write_text("\n".join(script) + "\n", encoding="utf-8")
        # Their real types are not known here; nothing is called through these.
        words = ["-shared", "-fPIC", "-s", "-w", "-fno-builtin", f"-Wl,-soname,{soname}"]
        words += [f"-Wl,--version-script,{versions}"] if script else []
        _run("gcc", *words, "-o", str(directory / soname), str(source))


def system_libraries() -> set[str]:
    return {line.split()[0] for line in _run("ldconfig", "-p").splitlines()[1:] if line.strip()}


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


def main(site: Path) -> None:
    directory = site / "torch" / "lib"
    paths = [*directory.glob("*.so*"), *site.glob("torch/_C*.so")]
    if not paths:
        sys.exit(f"{directory}: there is no torch.")
    kept = [path for path in site.glob("nvidia/**/*.so*") if path.is_file()]
    libraries = [read_library(path) for path in (*paths, *kept)]
    present = {path.name for path in (*paths, *kept)} | system_libraries()
    stubs = stubs_for(libraries, present)
    for soname, symbols in sorted(stubs.items()):
        write_stub(soname, symbols, directory)
        print(f"stub {soname}: {sum(len(names) for names in symbols.values())} symbols")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
