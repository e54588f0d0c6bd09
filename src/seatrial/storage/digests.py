# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of files, written as the name of the algorithm, a colon and hexadecimal digits."""

import hashlib
from collections.abc import Iterable
from typing import Protocol

ALGORITHM = "sha256"
"""What new digests are made with; every CPU of a cluster has instructions for it."""


class Hasher(Protocol):
    """A digest that is being made."""

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        """Take more bytes."""

    def hexdigest(self) -> str:
        """The digest of all bytes so far."""


def hasher_like(digest: str) -> Hasher:
    """A new hasher of the algorithm that made a digest; ValueError when it is not known."""
    name = digest.partition(":")[0]
    if name not in ("sha256", "blake2b", "sha512"):
        raise ValueError(f"digests of {name!r} are not known")
    return hashlib.new(name, usedforsecurity=False)


def new_hasher() -> Hasher:
    """A hasher of the algorithm that new digests are made with."""
    return hashlib.new(ALGORITHM, usedforsecurity=False)


def digest_text(hasher: Hasher, algorithm: str = ALGORITHM) -> str:
    """A finished digest as it is written down."""
    return f"{algorithm}:{hasher.hexdigest()}"


def matches(hasher: Hasher, digest: str) -> bool:
    """Whether what was hashed has that digest."""
    return hasher.hexdigest() == digest.partition(":")[2]


def joined(pieces: Iterable[tuple[int, str]]) -> str:
    """The digest of a file made of pieces, from the size and the digest of each.

    So a file that was put together by the kernel, or within an object store, has a digest without
    anybody reading it, and damage is found piece by piece.
    """
    hasher = new_hasher()
    for size, digest in pieces:
        hasher.update(f"{size} {digest}\n".encode())
    return "pieces-" + digest_text(hasher)
