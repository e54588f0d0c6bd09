# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What differs from one submission of a run to the next."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Attempt:
    """One submission of a run."""

    number: int = 1
    """Counted from 1."""
    excluded_nodes: tuple[str, ...] = ()
    """Kubernetes nodes on which an earlier attempt found a fault; no pod goes there."""
    code_digest: str = ""
    """Identity of the Seatrial that rendered it, as `sha256:` and digits; empty leaves it out."""
    submission: str = ""
    """Identity of the launch that began it, as the ledger has it; empty for manifests that no
    launch submits. Numbers begin again when a run was deleted, and files on its volume stay."""


def code_digest(files: Iterable[tuple[str, bytes]]) -> str:
    """`sha256:` and the digest of all files, by name; the order in which they come is no matter.

    A name and a content are each preceded by their length, so that nothing can move between them.
    """
    whole = sha256()
    for name, content in sorted(files):
        for part in (name.encode(), content):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return f"sha256:{whole.hexdigest()}"


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
