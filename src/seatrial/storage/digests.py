# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of files, written as the algorithm, a colon and hexadecimal digits."""

import hashlib
from collections.abc import Iterable
from typing import Protocol

ALGORITHM = "sha256"
"""Algorithm for new digests; CPUs have instructions for it."""


class Hasher(Protocol):
    """A digest in progress."""

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the digest of all bytes added so far."""


def hasher_like(digest: str) -> Hasher:
    """Return a new hasher with a digest's algorithm. Raises ValueError if it is not supported."""
    name = digest.partition(":")[0]
    if name not in ("sha256", "blake2b", "sha512"):
        raise ValueError(f"the digest algorithm {name!r} is not supported")
    return hashlib.new(name, usedforsecurity=False)


def new_hasher() -> Hasher:
    """Return a hasher with the algorithm for new digests."""
    return hashlib.new(ALGORITHM, usedforsecurity=False)


def digest_text(hasher: Hasher, algorithm: str = ALGORITHM) -> str:
    """Return a finished digest as text."""
    return f"{algorithm}:{hasher.hexdigest()}"


def matches(hasher: Hasher, digest: str) -> bool:
    """True if the hashed bytes have this digest."""
    return hasher.hexdigest() == digest.partition(":")[2]


def joined(pieces: Iterable[tuple[int, str]]) -> str:
    """Return the digest of a file that consists of pieces, from their sizes and digests.

    A file that the kernel or an object store assembled thus has a digest without being read, and
    damage can be traced to a piece.
    """
    hasher = new_hasher()
    for size, digest in pieces:
        hasher.update(f"{size} {digest}\n".encode())
    return "pieces-" + digest_text(hasher)
