# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How much storage the checkpoints of a run need, and what it costs."""

from dataclasses import dataclass

from seatrial.catalog.storage import StorageTier

GIB = 1 << 30
TIB = 1 << 40
IN_PROGRESS = 1
"""A new checkpoint is whole before the oldest is removed."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How many checkpoints lie on the volume when it is fullest."""

    latest: int
    """The newest ones, of which older are removed."""
    permanent: int
    """Those kept for good, apart from the newest."""
    in_progress: int
    """The one that is being written."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.latest + self.permanent + self.in_progress


def kept_checkpoints(
    steps: int, every_steps: int, keep_last: int, keep_every_steps: int | None
) -> Kept:
    """How many checkpoints the retention keeps at most.

    The volume is fullest when the last checkpoint is being written: before it, the newest
    `keep_last` and every one at a multiple of `keep_every_steps` that is not among them.
    """
    saves = -(-steps // every_steps)
    before = saves - 1
    latest = min(keep_last, before)
    permanent = 0
    if keep_every_steps:
        oldest_latest = (before - latest + 1) * every_steps
        # A checkpoint exists only at multiples of every_steps.
        permanent = sum(
            step % every_steps == 0
            for step in range(keep_every_steps, min(oldest_latest, steps), keep_every_steps)
        )
    return Kept(latest, permanent, IN_PROGRESS if saves else 0)


def volume_bytes(needed: int, tier: StorageTier) -> int:
    """The smallest volume of the tier that holds so many bytes."""
    least = int((tier.min_tib or 0) * TIB)
    step = int((tier.step_tib or 0) * TIB)
    if needed <= least:
        return least
    return least + -(-(needed - least) // step) * step if step else needed


def too_large(needed: int, tier: StorageTier) -> bool:
    """Whether the tier does not come so large without asking."""
    return tier.max_tib is not None and volume_bytes(needed, tier) > tier.max_tib * TIB


def usd_per_month(capacity: int, tier: StorageTier) -> float | None:
    """The list price of so many bytes for a month; None where none is published."""
    return None if tier.price is None else capacity / GIB * tier.price.usd_per_gib_month
