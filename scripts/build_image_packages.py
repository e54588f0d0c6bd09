# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Print a part of a lock file, hashes and all, for an image that needs no more of it.

    python build_image_packages.py worker.txt --without triton 'nvidia-*' --but nvidia-cuda-runtime
    python build_image_packages.py dev.txt --of hatchling
    python build_image_packages.py dev.txt --extras pyproject.toml data ray

Image builds run it inside the image, so it needs the standard library alone.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
_REQUIREMENT = re.compile(r"^[A-Za-z0-9._-]+")
_VIA = re.compile(r"^ +# +(?:via +)?([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    """Its name, as packages are compared by."""
    written: str
    """Its name, as the lock file has it."""
    version: str
    lines: tuple[str, ...]
    """Its pin and hashes."""
    wanted_by: frozenset[str]
    """The packages because of which it is there."""


def normalised(name: str) -> str:
    """A name as packages are compared by (PyPA, "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def packages(text: str) -> list[Package]:
    """The packages of a lock file as uv writes it, in its order."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _PIN.match(line):
            blocks.append([])
        if blocks and line.strip():
            blocks[-1].append(line)
    return [_package(block) for block in blocks]


def _package(block: list[str]) -> Package:
    pin = _PIN.match(block[0])
    assert pin is not None  # noqa: S101  (blocks begin with one)
    remarks = [line for line in block if line.lstrip().startswith("#")]
    found = (_VIA.match(line) for line in remarks if line.strip() != "# via")
    return Package(
        normalised(pin[1]),
        pin[1],
        pin[2],
        tuple(line for line in block if line not in remarks),
        frozenset(normalised(match[1]) for match in found if match),
    )


def without(
    lock: Iterable[Package], patterns: Iterable[str], but: Iterable[str] = ()
) -> list[Package]:
    """What is left when some packages are not wanted, but for a few of these."""
    unwanted, kept = tuple(patterns), frozenset(but)
    return [
        each
        for each in lock
        if each.name in kept or not any(fnmatchcase(each.name, one) for one in unwanted)
    ]


def closure(lock: Iterable[Package], roots: Iterable[str]) -> list[Package]:
    """Some packages with everything that they bring.

    Raises:
        KeyError: The lock file lacks one of them.
    """
    pinned = list(lock)
    chosen = {normalised(root) for root in roots}
    if missing := chosen - {each.name for each in pinned}:
        raise KeyError(", ".join(sorted(missing)))
    while True:
        more = {each.name for each in pinned if each.wanted_by & chosen} - chosen
        if not more:
            return [each for each in pinned if each.name in chosen]
        chosen |= more


def requirements(project: Path, extras: Iterable[str]) -> list[str]:
    """The names that a project asks for, by itself and in some of its extras."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    lines = [*table["dependencies"]]
    for extra in extras:
        lines += table["optional-dependencies"][extra]
    found = (_REQUIREMENT.match(line) for line in lines)
    return [match[0] for match in found if match]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print a part of a lock file.")
    parser.add_argument("lock", type=Path)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--without", nargs="+", metavar="PATTERN")
    parser.add_argument("--but", nargs="+", metavar="PACKAGE", default=[])
    choice.add_argument("--of", nargs="+", metavar="PACKAGE")
    choice.add_argument("--extras", nargs="+", metavar="PYPROJECT EXTRA")
    options = parser.parse_args(arguments)
    lock = packages(options.lock.read_text(encoding="utf-8"))
    try:
        if options.without:
            part = without(lock, options.without, options.but)
        else:
            project, *extras = options.extras or [""]
            part = closure(lock, options.of or requirements(Path(project), extras))
    except KeyError as error:
        print(f"{options.lock}: {error.args[0]} is not in it.", file=sys.stderr)
        return 2
    for package in part:
        print("\n".join(package.lines).rstrip("\\ "))
    return 0


if __name__ == "__main__":
    sys.exit(main())
