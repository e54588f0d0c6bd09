# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The values that differ between submissions of a run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import sha256
from pathlib import Path


class GangScheduler(StrEnum):
    """The component that starts all pods of an attempt together."""

    KUEUE = "kueue"
    """Kueue, through a local queue of the namespace."""
    COSCHEDULING = "coscheduling"
    """The coscheduling plugin of Kubernetes' scheduler-plugins."""
    VOLCANO = "volcano"
    """The Volcano scheduler."""
    NONE = "none"
    """None: pods start one by one, as nodes become free."""


@dataclass(frozen=True, slots=True)
class GangChoice:
    """The gang scheduler of an attempt."""

    scheduler: GangScheduler
    queue: str = ""
    """Kueue's local queue; empty for other schedulers."""

    def __str__(self) -> str:
        """Return the scheduler, with Kueue's queue; empty for none."""
        if self.scheduler is GangScheduler.NONE:
            return ""
        return f"{self.scheduler}, queue {self.queue}" if self.queue else str(self.scheduler)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One submission of a run."""

    number: int = 1
    """Starts at 1."""
    excluded_nodes: tuple[str, ...] = ()
    """Kubernetes nodes on which an earlier attempt found a fault. No pod is scheduled there."""
    code_digest: str = ""
    """Identity of the Seatrial code that rendered it, as `sha256:` and digits; omitted if empty."""
    submission: str = ""
    """Identity of the launch, from the ledger; empty for manifests that no launch submits.

    It is needed because attempt numbers restart when a run is deleted, while its files stay on the
    volume."""
    gang: GangChoice | None = None
    """The gang scheduler that the cluster offers for `gang: auto`; None if none was queried."""


def code_digest(files: Iterable[tuple[str, bytes]]) -> str:
    """Return `sha256:` and the digest of all files, independent of their order.

    Each name and each content is preceded by its length, so that the boundaries are unambiguous.
    """
    whole = sha256()
    for name, content in sorted(files):
        for part in (name.encode(), content):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return f"sha256:{whole.hexdigest()}"


PACKAGE = Path(__file__).parents[1]


def seatrial_files() -> Iterator[tuple[str, bytes]]:
    """Yield the code and catalog files of this Seatrial, with their paths inside the package."""
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".toml", ".txt") and path.is_file():
            yield path.relative_to(PACKAGE).as_posix(), path.read_bytes()


@cache
def own_digest() -> str:
    return code_digest(seatrial_files())
