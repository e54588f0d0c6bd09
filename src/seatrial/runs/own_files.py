# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The files of this Seatrial, by which an attempt says what code rendered it."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from seatrial.rendering.code_digest import code_digest

PACKAGE = Path(__file__).parents[1]


def seatrial_files() -> Iterator[tuple[str, bytes]]:
    """The code and the facts of this Seatrial, by their path inside the package."""
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".toml", ".txt") and path.is_file():
            yield path.relative_to(PACKAGE).as_posix(), path.read_bytes()


@cache
def own_digest() -> str:
    """The identity of this Seatrial."""
    return code_digest(seatrial_files())
